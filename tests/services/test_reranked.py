"""Search and recall with a reranker: a real model server, and parts of one's own."""

import pytest
from model_server import ModelServer, Reply

from tulving import EmbedderUnavailable, InvalidInput, open_memory
from tulving.config import parse
from tulving.domain.relevance import WEAK
from tulving.errors import RerankerUnavailable
from tulving.testing import WordEmbedder

TEXTS = ["the dog barks at night", "a dog sleeps in the barn", "rain at night", "the barn burned", "nothing of it"]


class Own:
    """The longer the better; remembers what it was given."""

    def __init__(self, error=None):
        self.error, self.given = error, []

    def rerank(self, query, texts):
        self.given.append((query, list(texts)))
        if self.error:
            raise self.error
        return [float(len(text)) for text in texts]


@pytest.fixture
def opened(url, clock):
    def opened(reranker, **settings):
        config = parse({"reranker": settings} if settings else {})
        options = {"embedder": WordEmbedder(), "clock": clock, "background": False}
        return open_memory(url, config=config, reranker=reranker, **options)

    return opened


async def remember(memory, clock):
    for text in TEXTS:
        clock.advance(minutes=1)
        await memory.store_episode(text, butler="b", source="Anna")


def contents(found):
    return [hit.item.content for hit in found]


async def test_the_best_are_put_in_its_order_and_exchange_their_relevance(opened, clock):
    own = Own()
    async with opened(None) as plain:
        await remember(plain, clock)
        before = await plain.search("dog at night in the barn")
    async with opened(own) as memory:
        found = await memory.search("dog at night in the barn")
    [(query, texts)] = own.given
    assert query == "dog at night in the barn", "with its names"
    assert len(texts) == len(before) and all("Anna: " in text for text in texts), "as it is indexed"
    assert set(contents(found)) == set(contents(before))
    assert [hit.parts["reranker"] for hit in found] == sorted(map(float, map(len, texts)), reverse=True)
    assert [hit.score for hit in found] == [hit.score for hit in before]
    assert [hit.parts["relevance"] for hit in found] == [hit.parts["relevance"] for hit in before]
    assert all(hit.weak == (hit.parts["relevance"] < WEAK) for hit in found)
    assert found.warning is None


@pytest.mark.parametrize("depth", [1, 2, 4])
async def test_only_so_many_are_given_to_it(opened, clock, depth):
    own = Own()
    async with opened(None) as plain:
        await remember(plain, clock)
        before = contents(await plain.search("dog at night in the barn"))
    async with opened(own, depth=depth, url="http://127.0.0.1:9", model="m") as memory:
        found = await memory.search("dog at night in the barn")
        assert len(own.given[0][1]) == depth
        assert contents(found)[depth:] == before[depth:], "the rest stays where it was"
        assert ["reranker" in hit.parts for hit in found] == [at < depth for at in range(len(before))]
        few = await memory.search("dog at night in the barn", limit=1)
        assert len(own.given[1][1]) == depth, "also if fewer are asked for"
        assert contents(few) == contents(found)[:1]


async def test_recall_and_context_use_it_too(opened, clock):
    own = Own()
    async with opened(own) as memory:
        await remember(memory, clock)
        recalled = await memory.recall("dog at night in the barn")
        assert {"reranker", "relevance", "importance", "recency"} <= recalled[0].parts.keys()
        for hit in recalled:
            weights = {"relevance": 0.4, "importance": 0.3, "recency": 0.2, "confidence": 0.1}
            assert hit.score == pytest.approx(sum(weight * hit.parts[name] for name, weight in weights.items()))
        await memory.context("dog at night in the barn", butler="b")
        assert len(own.given) == 2


@pytest.mark.parametrize("mode", ["semantic", "keyword"])
async def test_one_lane_keeps_its_own_order(opened, clock, mode):
    own = Own()
    async with opened(own) as memory:
        await remember(memory, clock)
        await memory.search("dog", mode=mode)
        await memory.search_similar(memory._env.embedder.embed("dog"))
    assert own.given == []


async def test_a_failure_costs_the_order_and_not_the_answer(opened, clock):
    async with opened(None) as plain:
        await remember(plain, clock)
        before = await plain.search("dog at night")
    async with opened(Own(RerankerUnavailable("out of order"))) as memory:
        found = await memory.search("dog at night")
        assert contents(found) == contents(before)
        assert found.warning == "not reranked: out of order"
        assert (await memory.recall("dog at night")).warning == "not reranked: out of order"
        assert "dog" in await memory.context("dog at night", butler="b")
        memory._env.embedder.error = EmbedderUnavailable("no vectors")
        assert "no vectors" in (await memory.search("a cat at night")).warning, "the first problem is told"


async def test_a_wrong_number_of_scores_is_a_bug_and_told(opened, clock):
    own = Own()
    own.rerank = lambda query, texts: [1.0]
    async with opened(own) as memory:
        await remember(memory, clock)
        with pytest.raises(InvalidInput, match="reranker"):
            await memory.search("dog at night")


async def test_nothing_found_is_nothing_to_rerank(opened):
    own = Own()
    async with opened(own) as memory:
        found = await memory.search("dog")
    assert (found.hits, found.warning) == ([], None)


async def test_equal_scores_leave_the_order(opened, clock):
    own = Own()
    own.rerank = lambda query, texts: [0.0] * len(texts)
    async with opened(None) as plain:
        await remember(plain, clock)
        before = contents(await plain.search("dog at night in the barn"))
    async with opened(own) as memory:
        assert contents(await memory.search("dog at night in the barn")) == before


async def test_over_http(opened, clock, monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    server = ModelServer()
    try:
        async with opened(None, url=server.url, model="cross", depth=3) as memory:
            await remember(memory, clock)
            found = await memory.search("rain at night")
            assert found[0].item.content == "rain at night" and found[0].parts["reranker"] == 1.0
            assert len(server.requests[0].body["documents"]) == 3
            server.replies.append(Reply(500, b""))
            failed = await memory.search("rain at night")
            assert "not reranked" in failed.warning and "500" in failed.warning
            assert len(failed) == len(found)
    finally:
        server.over.set()
        server.stop()
