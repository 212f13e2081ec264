"""An eviction that is killed has evicted whole batches, and nothing else."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from administration import administer
from fault_parts import Children, everything, opened, problems, said, wait_for
from raw_sql import run_sql

from tulving.domain.model import NewEpisode

MANY = 240


async def kill_again_and_again(path: Path, logs: Path, children: Children, kills: int) -> None:
    words = "the harbour was quiet and the boats lay still under a grey sky " * 4
    async with opened(path, background=False) as memory:
        offers = [NewEpisode(content=f"event{number} {words}", butler="b") for number in range(MANY)]
        episodes = [stored.id for stored in await memory.store_episodes(offers)]
        fact = await memory.store_fact("Anna", "drinks", "tea")
    for number in range(kills):
        with closing(sqlite3.connect(path)) as raw:
            limit = raw.execute("PRAGMA page_count").fetchone()[0] * raw.execute("PRAGMA page_size").fetchone()[0]
        log = logs / f"{number}.log"
        pid = children.start("evict", log, path=str(path), limit=limit * 9 // 10)
        wait_for(log, 1 + number % 3, pid)
        time.sleep(number % 5 / 500)
        assert children.kill(pid) == -9, said(log)
        async with opened(path, background=False) as memory:
            left = await everything(memory)
            assert problems(await administer(memory).verify()) == []
        assert fact.id in left
        gone = {id_ for id_ in episodes if id_ not in left}
        deleted = run_sql(str(path), "SELECT entity_id FROM memory_events WHERE event_type = 'episode_deleted'")
        assert gone == {row["entity_id"] for row in deleted}
        assert gone == set(episodes[: len(gone)]), "the least recently used ones"
        assert len(gone) % 4 == 0, "whole batches"
    assert 0 < len(gone) < MANY


async def test_an_eviction_that_is_killed(path: Path, tmp_path_factory: pytest.TempPathFactory, children: Children):
    await kill_again_and_again(path, tmp_path_factory.mktemp("logs"), children, kills=4)


@pytest.mark.soak
async def test_an_eviction_that_is_killed_twenty_times(
    path: Path, tmp_path_factory: pytest.TempPathFactory, children: Children
):
    await kill_again_and_again(path, tmp_path_factory.mktemp("logs"), children, kills=20)
