"""A vector of content that was edited concurrently must not be stored for the new content."""

import pytest
from administration import administer

from tulving import open_memory
from tulving.settings import MemoryModuleConfig, ScheduleConfig
from tulving.testing import CLOSE, SequentialIds, WordEmbedder


@pytest.fixture
def config() -> MemoryModuleConfig:
    return MemoryModuleConfig(schedule=ScheduleConfig(background=False))


async def test_an_edit_while_re_embedding_computes(memory, url, clock, config, monkeypatch):
    id_ = (await memory.store_rule("tea at noon")).id
    another = WordEmbedder(32, model="other")
    async with open_memory(
        url, config=config, embedder=another, clock=clock, ids=SequentialIds(10**9), may_reembed=True, background=False
    ) as second:
        really = second._env.embedding.index

        async def index(*args):
            made = await really(*args)
            if (await memory.get("rule", id_)).content == "tea at noon":
                await memory.edit("rule", id_, content="coffee at dawn")
            return made

        monkeypatch.setattr(second._env.embedding, "index", index)
        await administer(second).reembed()
        found = await second.search_similar(another.embed("coffee at dawn"))
        assert (found[0].item.content, found[0].parts["similarity"]) == (
            "coffee at dawn",
            pytest.approx(1.0, abs=CLOSE),
        )
        assert (await administer(second).verify()).ok


async def test_an_edit_while_a_missing_vector_is_made(memory, embedder, monkeypatch):
    embedder.problem = "no weights"
    id_ = (await memory.store_rule("tea at noon")).id
    embedder.problem = None
    really = memory._env.embedding.index

    async def index(items, *rest):
        made = await really(items, *rest)
        if (await memory.get("rule", id_)).content == "tea at noon":
            monkeypatch.setattr(memory._env.embedding, "index", really)
            embedder.problem = "gone again"
            await memory.edit("rule", id_, content="coffee at dawn")
            embedder.problem = None
        return made

    monkeypatch.setattr(memory._env.embedding, "index", index)
    await memory.embed_pending()
    found = await memory.search_similar(embedder.embed("coffee at dawn"))
    assert found[0].parts["similarity"] == pytest.approx(1.0, abs=CLOSE)
