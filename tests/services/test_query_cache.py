"""The vectors of queries are remembered, so that an embedder is not asked the same again."""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from tulving import MemoryModuleConfig, open_memory
from tulving.errors import EmbedderUnavailable
from tulving.services.embedding import LONGEST_REMEMBERED, Embedding
from tulving.testing import WordEmbedder


class Counted(WordEmbedder):
    """Notes what it is asked."""

    def __init__(self, model: str = "words") -> None:
        super().__init__(model=model)
        self.asked: list[str | None] = []

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        self.asked += texts
        return super().embed_batch(texts)


async def ask(embedding: Embedding, *lines: str) -> list[Sequence[float] | None]:
    return [(await embedding.query("mine", line))[0] for line in lines]


async def test_the_same_query_is_embedded_once():
    embedder = Counted()
    first, second, other = await ask(Embedding(embedder, 1, 10), "green tea", "green tea", "black tea")
    assert embedder.asked == ["green tea", "black tea"]
    assert first == second == tuple(WordEmbedder().embed("green tea"))
    assert other == tuple(WordEmbedder().embed("black tea"))


async def test_a_tenant_does_not_profit_from_what_another_has_asked():
    embedder = Counted()
    embedding = Embedding(embedder, 1, 10)
    assert await embedding.query("mine", "green tea") == await embedding.query("theirs", "green tea")
    assert embedder.asked == ["green tea"] * 2


async def test_the_least_recently_used_query_is_forgotten_first():
    embedder = Counted()
    await ask(Embedding(embedder, 1, 2), "a", "b", "a", "c", "a", "b")
    assert embedder.asked == ["a", "b", "c", "b"]


@pytest.mark.parametrize(("size", "line"), [(0, "a"), (10, "a" * (LONGEST_REMEMBERED + 1))])
async def test_nothing_is_remembered_without_a_cache_and_of_a_very_long_query(size: int, line: str):
    embedder = Counted()
    await ask(Embedding(embedder, 1, size), line, line)
    assert embedder.asked == [line, line]


async def test_a_failure_is_not_remembered(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.CRITICAL)
    embedder = Counted()
    embedding = Embedding(embedder, 1, 10)
    [known] = await ask(embedding, "known")
    embedder.error = EmbedderUnavailable("down")
    vector, warning = await embedding.query("mine", "new")
    assert vector is None and "down" in str(warning) and "down" in str(embedding.warning)
    assert await embedding.query("mine", "known") == (known, None), "needs no embedder"
    embedder.problem, embedder.error = "no weights", None
    assert await embedding.query("mine", "known") == (None, "no weights")
    embedder.problem = None
    assert await ask(embedding, "new") == [tuple(WordEmbedder().embed("new"))]


async def test_each_open_memory_remembers_the_vectors_of_its_own_embedder(tmp_path: Path):
    one, other = Counted("one"), Counted("other")
    for embedder in (one, other):
        async with open_memory(tmp_path / f"{embedder.model}.db", embedder=embedder, create="folders") as memory:
            await memory.search("green tea")
            await memory.recall("green tea")
        assert embedder.asked == ["green tea"]


async def test_the_setting_decides_how_many_are_remembered(tmp_path: Path):
    embedder = Counted()
    config = MemoryModuleConfig(query_cache=0)
    async with open_memory(tmp_path / "memory.db", config=config, embedder=embedder) as memory:
        await memory.search("green tea")
        await memory.search("green tea")
    assert embedder.asked == ["green tea", "green tea"]
