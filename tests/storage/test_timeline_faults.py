"""Whatever moment a process is killed at while it archives episodes, each is there once, with its content."""

import asyncio
import random
import shutil
import sqlite3
import time
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from administration import administer
from fault_parts import Children, everything, opened, problems, said, wait_for

from tulving.errors import StoreUnavailable
from tulving.settings import MemoryModuleConfig, TimelineConfig
from tulving.storage import timeline
from tulving.storage.sqlite import backup
from tulving.storage.sqlite.database import timeline_folder, truncate_log
from tulving.testing import ManualClock


@pytest.fixture
def path(new_store: Path) -> Path:
    return new_store


async def kill_again_and_again(path: Path, logs: Path, children: Children, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    stored: dict[str, str] = {}
    edited: dict[str, str] = {}
    deleted: set[str] = set()
    deleting: set[str] = set()
    for number in range(kills):
        log = logs / f"{number}.log"
        pid = children.start("archive_forever", log, path=str(path), name=f"k{number}")
        wait_for(log, chance.randint(1, 6), pid)
        time.sleep(chance.random() * 0.03)
        assert children.kill(pid) == -9, said(log)
        for line in said(log):
            stored |= dict(line.get("stored", ()))
            edited |= dict([line["editing"]] if "editing" in line else ())
            deleting |= {line["deleting"]} if "deleting" in line else set()
            deleted |= {line["deleted"]} if "deleted" in line else set()
        async with opened(path, background=False) as memory:
            found = {str(id_): item.content for id_, item in (await everything(memory, ["episode"])).items()}
            assert not deleted & found.keys(), "what was deleted is back"
            assert stored.keys() - deleting <= found.keys(), "an acknowledged episode is gone"
            for id_, content in found.items():
                assert content in (stored.get(id_, content), edited.get(id_)) and content, id_
            assert not problems(await administer(memory).verify())
    async with opened(path, background=False) as memory:
        await memory.rotate_timeline()
        assert not problems(await administer(memory).verify())
        named = {segment.name for segment in await memory._read(timeline.listing, "default")}
        assert {file.name for file in timeline_folder(path).iterdir()} == named, "nothing is left behind"


@pytest.mark.parametrize("seed", [1, 2])
async def test_kills_while_archiving_lose_nothing(
    path: Path, tmp_path_factory: pytest.TempPathFactory, children: Children, seed: int
) -> None:
    await kill_again_and_again(path, tmp_path_factory.mktemp("logs"), children, kills=10, seed=seed)


@pytest.mark.soak
async def test_two_hundred_kills_while_archiving_lose_nothing(
    path: Path, tmp_path_factory: pytest.TempPathFactory, children: Children
) -> None:
    await kill_again_and_again(path, tmp_path_factory.mktemp("logs"), children, kills=200, seed=3)


async def test_a_read_is_whole_though_its_segments_are_written_anew(path: Path) -> None:
    """Each time that it has begun, another process deletes an archived episode, until it is kept from that."""
    config, loop = MemoryModuleConfig(timeline=TimelineConfig(capacity=0)), asyncio.get_running_loop()
    async with opened(path, background=False, config=config) as memory, opened(path, background=False) as other:
        ids = [(await memory.store_episode(f"walk {number}", butler="b")).id for number in range(6)]
        await memory._write(lambda conn: conn.execute("UPDATE episodes SET consolidated = TRUE"))
        work = timeline_folder(path).parent
        work.write_text("not a folder")
        with pytest.raises(StoreUnavailable, match=r"can't use .*timeline"):
            await memory.rotate_timeline()
        work.unlink()
        await memory.rotate_timeline()
        deleted: list[Any] = []

        def read(conn: Any) -> list[str]:
            rows = conn.fetch_all("SELECT * FROM episodes ORDER BY id")
            with suppress(sqlite3.OperationalError), closing(sqlite3.connect(path, timeout=0)) as raw:
                raw.execute("BEGIN IMMEDIATE")
                raw.rollback()
                deleted.append(ids.pop())
                asyncio.run_coroutine_threadsafe(memory.delete("episode", deleted[-1]), loop).result(30)
            return [row["content"] for row in timeline.restored(conn, rows)]

        assert await other._read(read) == [f"walk {number}" for number in range(len(ids))]
        assert deleted, "it met a change"


async def test_a_backup_is_one_file_with_the_archive_in_it(
    path: Path, tmp_path: Path, children: Children, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """While another process archives: the copy has its segments inside, and works without the folder beside it."""
    log = tmp_path_factory.mktemp("logs") / "log"
    pid = children.start("archive_forever", log, path=str(path), name="b")
    wait_for(log, 8, pid)
    copies = [backup.backup(path, tmp_path / f"copy{number}.db", 30).path for number in range(3)]
    assert children.kill(pid) == -9
    for copy in copies:
        async with opened(copy, background=False) as memory:
            assert not problems(await administer(memory).verify())
            archived = [item for item in (await everything(memory, ["episode"])).values() if item.segment_id]
            assert archived and all(item.content for item in archived)
    assert truncate_log(path, 30)
    store = shutil.copy(path, tmp_path / "store.db")
    shutil.copytree(timeline_folder(path), timeline_folder(store))
    kept = timeline_folder(path).parent
    backup.restore(copies[-1], path, 30, ManualClock().now)
    async with opened(path, background=False, config=MemoryModuleConfig()) as memory:
        assert not problems(await administer(memory).verify())
        await memory.rotate_timeline()
        assert not problems(await administer(memory).verify())
    assert kept.exists()
    backup.restore(store, path, 30, ManualClock().now + timedelta(1))
    async with opened(path, background=False) as memory:
        assert not problems(await administer(memory).verify()), "a store that is not a backup has files beside it"
