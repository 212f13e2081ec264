"""The reranker behind an HTTP endpoint, against a real server, and how the services use one."""

import asyncio
from collections.abc import Callable, Sequence
from threading import current_thread, main_thread
from typing import Any

import pytest
from model_server import DROP, HANG, ModelServer, Reply

from tulving import open_memory
from tulving.bootstrap import choose_reranker
from tulving.config import parse
from tulving.errors import ConfigError, InvalidInput, RerankerUnavailable
from tulving.ports import Reranker
from tulving.services.reranking import Reranking
from tulving.settings import MemoryModuleConfig
from tulving.testing import WordEmbedder

TEXTS = ["a dog barks", "where does a dog sleep", "rain"]
QUERY = "where does a dog sleep"
SCORES = [0.4, 1.0, 0.0]

Make = Callable[..., Reranker]


@pytest.fixture
def make(server: ModelServer) -> Make:
    def make(**settings: Any) -> Reranker:
        reranker = choose_reranker(parse({"reranker": {"url": server.url, "model": "cross", **settings}}))
        assert reranker is not None
        return reranker

    return make


def results(*scores: Any) -> Reply:
    return Reply(200, {"results": [{"index": n, "relevance_score": score} for n, score in enumerate(scores)]})


def test_there_is_none_by_default() -> None:
    assert choose_reranker(MemoryModuleConfig()) is None


def test_cohere_and_those_like_it(server: ModelServer, make: Make) -> None:
    assert make().rerank(QUERY, TEXTS) == SCORES
    [request] = server.requests
    assert request.path == "/rerank"
    assert request.body == {"model": "cross", "query": QUERY, "documents": TEXTS, "top_n": 3}


def test_tei(server: ModelServer, make: Make) -> None:
    server.tei = True
    assert make(dialect="tei", model="").rerank(QUERY, TEXTS) == SCORES
    assert server.requests[0].body == {"query": QUERY, "texts": TEXTS, "truncate": True}


@pytest.mark.parametrize("path", ["", "/", "/v2", "/v1/rerank"])
def test_the_address(server: ModelServer, make: Make, path: str) -> None:
    make(url=server.url + path).rerank(QUERY, TEXTS)
    assert server.requests[0].path == path.removesuffix("/rerank").rstrip("/") + "/rerank"


def test_a_long_text_is_cut(server: ModelServer, make: Make) -> None:
    make(max_characters=5).rerank(QUERY, TEXTS)
    assert server.requests[0].body["documents"] == ["a dog", "where", "rain"]


def test_no_texts_need_no_request(server: ModelServer, make: Make) -> None:
    assert make().rerank(QUERY, []) == []
    assert server.requests == []


def test_the_key(server: ModelServer, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK_KEY", "secret")
    make(key_variable="RANK_KEY").rerank(QUERY, TEXTS)
    assert server.requests[0].headers["authorization"] == "Bearer secret"
    monkeypatch.delenv("RANK_KEY")
    with pytest.raises(RerankerUnavailable, match=r"reranker.key_variable names RANK_KEY"):
        make(key_variable="RANK_KEY").rerank(QUERY, TEXTS)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(500, b""), "answered 500"),
        (Reply(413, {"error": "too long"}), "answered 413: too long"),
        (DROP, "can't be reached"),
        (HANG, "did not answer"),
        (Reply(200, b"{"), "not JSON"),
        (Reply(200, {"results": []}), "each of 3 texts"),
        (Reply(200, {"data": [1, 2, 3]}), "`index` and `relevance_score`"),
        (Reply(200, [{"index": 0, "relevance_score": 1}]), "`index` and `score`"),
        (results(1, 2), "each of 3 texts"),
        (results(1, "high", 2), "wrong answer"),
        (results(1, None, 2), "wrong answer"),
        (results(1, float("nan"), 2), "finite"),
    ],
)
def test_a_failure_is_told_and_not_retried(server: ModelServer, make: Make, reply: Reply | str, said: str) -> None:
    server.replies.append(reply)
    with pytest.raises(RerankerUnavailable, match=said):
        make(timeout=0.3 if reply == HANG else 30).rerank(QUERY, TEXTS)
    assert len(server.requests) == 1


def test_what_must_be_set(make: Make) -> None:
    with pytest.raises(ConfigError, match=r"reranker\.model: is not set"):
        make(model="")


async def test_the_service_runs_it_beside_the_loop(server: ModelServer, make: Make) -> None:
    reranking = Reranking(make(), 30)
    assert await reranking.rerank(QUERY, TEXTS) == (SCORES, None)
    server.stop()
    scores, warning = await Reranking(make(), 30).rerank(QUERY, TEXTS)
    assert scores is None
    assert warning is not None
    assert "not reranked: http://127.0.0.1" in warning
    server.start()


class Own:
    """A reranker of the user's: the longer the better."""

    def __init__(self) -> None:
        self.threads: list[object] = []

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        self.threads.append(current_thread())
        return [float(len(text)) for text in texts if text != "lost"]


async def test_a_reranker_that_loses_a_text_is_a_bug() -> None:
    own = Own()
    assert await Reranking(own, 30).rerank(QUERY, ["a", "bb"]) == ([1.0, 2.0], None)
    assert main_thread() not in own.threads
    with pytest.raises(InvalidInput, match="reranker"):
        await Reranking(own, 30).rerank(QUERY, ["a", "lost"])


async def test_a_memory_has_the_configured_one_or_ones_own(server: ModelServer, path: Any) -> None:
    config = parse({"reranker": {"url": server.url, "model": "cross", "depth": 7}})
    options = {"embedder": WordEmbedder(), "background": False}
    async with open_memory(path, **options) as memory:
        assert memory._env.reranker is None
    async with open_memory(path, config=config, **options) as memory:
        reranking = memory._env.reranker
        assert reranking is not None
        assert (reranking.depth, await reranking.rerank(QUERY, TEXTS)) == (7, (SCORES, None))
        assert "reranker" in {finding.check for finding in (await memory.health()).findings}
        server.stop()
        await asyncio.sleep(0)
        found = {finding.check: finding.problems for finding in (await memory.health()).findings}
        assert "can't be reached" in found["reranker"][0]
        server.start()
    async with open_memory(path, config=config, reranker=Own(), **options) as memory:
        reranking = memory._env.reranker
        assert reranking is not None
        assert await reranking.rerank(QUERY, ["bb", "a"]) == ([2.0, 1.0], None)
