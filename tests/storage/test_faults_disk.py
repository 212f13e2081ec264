"""A disk without room: a clear error, nothing lost that was acknowledged, and all is well when there is room again."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from administration import administer
from fault_disk import NOT_POSSIBLE
from fault_parts import SOURCE, everything, opened, problems

from tulving.domain.model import NewEpisode
from tulving.errors import DiskFull
from tulving.services.memory import Memory
from tulving.storage.schema import HEAD


@pytest.fixture
def path(new_store: Path) -> Path:
    return new_store


def on_a_small_disk(what: str, folder: Path, megabytes: int, *args: str) -> dict[str, Any]:
    """Let `fault_disk.py` run where it may mount a private file system."""
    disk = folder / "disk"
    disk.mkdir()
    script = [sys.executable, str(Path(__file__).with_name("fault_disk.py")), what, str(disk), str(megabytes), *args]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TULVING_")}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(SOURCE), str(Path(__file__).parents[1]), environment.get("PYTHONPATH", "")]
    )
    unshare = shutil.which("unshare")
    if unshare is None or shutil.which("mount") is None:
        pytest.skip("no unshare or mount here; the limit on pages below stands in for a small disk")
    options = ["-m"] if os.getuid() == 0 else ["-Urm"]
    if subprocess.run([unshare, *options, "true"], capture_output=True).returncode:
        pytest.skip("no right to a mount namespace; the limit on pages below stands in for a small disk")
    done = subprocess.run([unshare, *options, *script], capture_output=True, text=True, env=environment, timeout=100)
    if done.returncode == NOT_POSSIBLE:
        pytest.skip("no right to mount; the limit on pages below stands in for a small disk")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    seen = on_a_small_disk("write_until_full", tmp_path, 12)
    assert seen["acknowledged"] > 10
    assert "DiskFull" in seen["error"]["error"]
    assert "disk is full" in seen["error"]["message"]
    assert "DiskFull" in seen["batch"]["error"]
    assert seen["together"] and all("DiskFull" in answer["error"] for answer in seen["together"])
    fine = {"lost": [], "more": 0, "found": {"keyword": 5, "semantic": 5}, "recalled": 10}
    assert seen["with room"] == "stored"
    for moment in ("while full", "in the same memory", "opened again"):
        assert seen[moment] | {"found": None, "recalled": None} == fine | {"found": None, "recalled": None}, moment
        assert seen[moment]["found"]["keyword"] >= 1 and seen[moment]["found"]["semantic"] == 5, moment
        assert seen[moment]["recalled"] >= 1, moment
    assert seen["problems"] == []
    assert seen["files"] == ["memory.db"]


def test_on_a_full_disk_a_memory_can_still_be_read_by_its_id(tmp_path: Path) -> None:
    """Counting the reference needs room, reading does not: as with recall, what was read is still the answer."""
    assert on_a_small_disk("write_until_full", tmp_path, 12)["get"] == [True, True, True]


def test_a_store_that_finds_no_room_is_not_created(tmp_path: Path) -> None:
    seen = on_a_small_disk("create_without_room", tmp_path, 6)
    for answer in seen["answers"][:4]:
        assert "StoreUnavailable" in answer["error"], answer
    assert seen["left"] == ["ballast"]
    assert seen["with room"] == "opened"


def test_a_store_on_a_full_disk_opens_or_says_why_not(tmp_path: Path) -> None:
    seen = on_a_small_disk("open_without_room", tmp_path, 6)
    assert seen["with room"]["lost"] == []
    assert seen["full"].get("lost") == [] or "StoreUnavailable" in seen["full"]["error"]


def test_a_migration_that_finds_no_room_leaves_the_old_file(tmp_path: Path) -> None:
    from test_migrations import build

    old = build(tmp_path / "old.db", "mem_002")
    seen = on_a_small_disk("migrate_without_room", tmp_path, 6, str(old))
    for answer in seen["answers"][:2]:
        assert "StoreUnavailable" in answer["error"], answer
    assert seen["version"] in ("mem_002", HEAD), "as it was or done, nothing between"
    assert seen["with room"] == "opened"


def test_a_store_on_a_read_only_disk_is_read(tmp_path: Path) -> None:
    seen = on_a_small_disk("read_from_a_read_only_disk", tmp_path, 6)
    assert seen["read"] == {"lost": [], "more": 0, "found": {"keyword": 1, "semantic": 1}, "recalled": 1}
    assert "can only be read: its folder is read-only" in seen["refused"]["message"]
    assert seen["files"] == ["memory.db"]


# -- without a small disk: SQLite may not have more pages ------------------------------------------------------


def limit_pages(memory: Memory, more: int | None) -> None:
    raw: sqlite3.Connection = memory._env.store._writer.raw  # pyright: ignore[reportAttributeAccessIssue]
    pages = raw.execute("PRAGMA page_count").fetchone()[0]
    raw.execute(f"PRAGMA max_page_count = {4_294_967_294 if more is None else pages + more}")


async def test_no_more_pages_is_a_full_disk(path: Path) -> None:
    async with opened(path) as memory:
        first = await memory.store_episode("first", butler="b")
        limit_pages(memory, 20)
        acknowledged = {first.id}
        with pytest.raises(DiskFull, match="disk is full"):
            for number in range(1000):
                text = f"memory{number} " + "filling " * 2000
                acknowledged.add((await memory.store_episode(text, butler="b")).id)
        assert len(acknowledged) > 1
        assert set(await everything(memory)) == acknowledged
        with pytest.raises(DiskFull):
            await memory.store_episodes([NewEpisode(content="x" * 10_000, butler="b") for _ in range(20)])
        assert set(await everything(memory)) == acknowledged
        assert [hit.item.id for hit in await memory.search("first", mode="keyword")] == [first.id]
        limit_pages(memory, None)
        acknowledged.add((await memory.store_episode("there is room again", butler="b")).id)
    async with opened(path) as memory:
        assert set(await everything(memory)) == acknowledged
        assert not problems(await administer(memory).verify())


async def test_of_writes_that_share_a_commit_each_gets_the_truth_when_room_runs_out(path: Path) -> None:
    """Every acknowledged write is there; every one that raised DiskFull is not."""
    import asyncio

    async with opened(path) as memory:
        await memory.store_episode("first", butler="b")
        limit_pages(memory, 30)
        answers = await asyncio.gather(
            *(memory.store_episode(f"memory{number} " + "x" * 4000, butler="b") for number in range(60)),
            return_exceptions=True,
        )
        refused = [answer for answer in answers if isinstance(answer, BaseException)]
        assert refused and all(isinstance(answer, DiskFull) for answer in refused)
        limit_pages(memory, None)
        kept = {answer.id for answer in answers if not isinstance(answer, BaseException)}
        items = await everything(memory)
        assert kept == {id_ for id_, item in items.items() if item.content != "first"}
        assert not problems(await administer(memory).verify())
