"""Everything at once: events, edits, deletions, archive, eviction, bridge, bus, graphs and snapshots, in two processes
of which one is killed again and again."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from fault_parts import DIMENSION, Children, opened, said, wait_for
from soak_parts import CONFIG, Life, Listener, assert_tidy, assert_whole

from tulving.storage.sqlite.database import work_folder
from tulving.testing import WordEmbedder

KILLS = 10
SECONDS = 6.0
"""At most, between two kills."""


@pytest.mark.soak
async def test_everything_at_once(
    url: str, engine: str, tmp_path_factory: pytest.TempPathFactory, children: Children
) -> None:
    logs, chance, lines = tmp_path_factory.mktemp("logs"), random.Random(7), list[Any]()
    async with opened(url, config=CONFIG, embedder=WordEmbedder(DIMENSION)) as memory:
        life, listener = Life(memory, lines.append, "parent"), Listener()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(life.live())
            tasks.create_task(listener.listen(memory, lambda: life.stopping))
            for number in range(KILLS):
                log = logs / f"{number}.log"
                pid = children.start("live", log, path=url, name=f"child{number}")
                await asyncio.to_thread(wait_for, log, 10, pid)
                await asyncio.sleep(chance.random() * SECONDS)
                assert children.kill(pid) == -9, said(log)[-1]["traceback"]
                lines += said(log)
            life.stopping = True
    async with opened(url, config=CONFIG, embedder=WordEmbedder(DIMENSION), background=False) as memory:
        await memory.rotate_timeline()
        await memory._env.store.reindex(only_outgrown=True)
        await memory.run_bridge()
        ended = asyncio.get_running_loop().time() + 2
        await listener.listen(memory, lambda: asyncio.get_running_loop().time() > ended)
        await listener.assert_complete(memory)
        counts = await assert_whole(memory, lines)
        assert all(counts[name] for name in ("stored", "archived", "bridged")), counts
        assert bool(counts["evicted"]) is (engine == "sqlite"), counts
        if engine == "sqlite":
            await assert_tidy(memory, work_folder(Path(url)))
