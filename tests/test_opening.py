"""A memory is awaited or a block; what is neither says so."""

import asyncio
import subprocess
import sys

import pytest

from tulving import Memory, MemoryClosed, open_administration, open_memory, open_memory_sync
from tulving.testing import WordEmbedder


@pytest.fixture
def options(url: str) -> dict:
    return {"url": url, "embedder": WordEmbedder(), "background": False}


async def test_a_memory_is_awaited_and_closed(options):
    memory = await open_memory(**options)
    assert isinstance(memory, Memory)
    assert repr(memory) == "<Memory of tenant 'default'>"
    stored = await memory.store_fact("Anna", "color", "green")
    anna = memory.bind(user_id="anna")
    await asyncio.gather(memory.close(), anna.close())
    await memory.close()
    for closed in (memory, anna):
        for verb in (closed.stats(), closed.recall("color"), closed.store_rule("x")):
            with pytest.raises(MemoryClosed, match="this memory was closed"):
                await verb
    async with open_memory(**options) as memory:
        assert (await memory.get("fact", stored.id)).content == "green"
    with pytest.raises(RuntimeError):
        await memory.stats()


async def test_a_block_may_close_it_earlier(options):
    async with open_memory(**options) as memory:
        await memory.close()


async def test_the_administration_is_opened_alike(options):
    administration = await open_administration(**options)
    assert (await administration.verify()).ok
    await administration.close()
    async with open_administration(**options) as administration:
        assert administration.config.url is None


async def test_what_is_not_open_says_how_to_open_it(tmp_path):
    opening = open_memory(tmp_path / "memory.db")
    both = (
        r"not open yet: write `memory = await open_memory\(\.\.\.\)`.*or `async with open_memory\(\.\.\.\) as memory:`"
    )
    with pytest.raises(AttributeError, match=f"{both}; it has no 'store_fact'"):
        await opening.store_fact("Anna", "color", "green")
    with pytest.raises(AttributeError, match="open_administration"):
        await open_administration().verify()
    with pytest.raises(TypeError, match="open_memory_sync"), opening:
        pass
    with pytest.raises(TypeError, match=r"open_memory\(\) got an unexpected keyword argument 'tennant'"):
        open_memory(tennant="acme")
    assert not [*tmp_path.iterdir()]


async def test_each_opening_is_for_one_memory(options):
    opening = open_memory(**options)
    async with opening:
        with pytest.raises(RuntimeError, match="call open_memory again"):
            await opening


async def test_a_memory_that_cannot_be_opened_leaves_nothing_open(options, monkeypatch):
    from tulving import bootstrap

    closed = []

    async def fail(*args):
        raise ZeroDivisionError

    class Watched(bootstrap.References):
        async def close(self):
            closed.append(self)
            await super().close()

    monkeypatch.setattr(bootstrap, "adopt", fail)
    monkeypatch.setattr(bootstrap, "References", Watched)
    with pytest.raises(ZeroDivisionError):
        await open_memory(**options)
    assert len(closed) == 1


def test_a_program_that_forgets_to_close_ends_and_loses_nothing(path):
    program = """
import asyncio, sys
from tulving import open_memory
from tulving.testing import WordEmbedder

async def main():
    memory = await open_memory(sys.argv[1], embedder=WordEmbedder())
    await memory.store_fact("Anna", "color", "green")
    await memory.recall("color")

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=60)
    with open_memory_sync(path, embedder=WordEmbedder()) as memory:
        assert memory.recall("color")[0].content == "green"
