"""The file at its path: durable by name, the one we have open, perhaps read-only, and with a log that stays short."""

import asyncio
import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from fault_parts import Children, everything, opened, wait_for

from tulving.errors import StoreUnavailable
from tulving.services.memory import Memory
from tulving.storage.sqlite import backup as sqlite_backup
from tulving.storage.sqlite import database
from tulving.storage.sqlite import place as sqlite_place
from tulving.testing import ManualClock


@pytest.fixture
def path(new_store: Path) -> Path:
    return new_store


# -- names on the disk -----------------------------------------------------------------------------------------


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that were brought to the disk."""
    found: list[Path] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            found.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    return found


@pytest.mark.parametrize("how", ["create", "restore"])
def test_new_folders_are_on_the_disk_before_the_store_counts(
    tmp_path: Path, empty_store: Path, synced: list[Path], how: str
) -> None:
    """A name is durable when the folder it is in was synced: of each folder that was made, its parent."""
    path = tmp_path / "a" / "b" / "c" / "memory.db"
    (tmp_path / "a").mkdir()
    if how == "create":
        database.prepare(path, 1.0)
    else:
        sqlite_backup.restore(empty_store, path, 1.0, ManualClock().now)
    assert {tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"} <= set(synced)
    assert tmp_path not in synced, "its names were there before"
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


# -- another file, or none -------------------------------------------------------------------------------------


async def test_what_is_written_to_a_removed_file_is_not_acknowledged(path: Path) -> None:
    async with opened(path, background=False) as memory:
        await memory.store_rule("before")
        path.unlink()
        answers = await asyncio.gather(*(memory.store_rule(f"after {n}") for n in range(5)), return_exceptions=True)
        assert all(isinstance(answer, StoreUnavailable) and str(path) in str(answer) for answer in answers)


async def test_what_is_written_to_a_replaced_file_is_not_acknowledged(path: Path, empty_store: Path) -> None:
    async with opened(path, background=False) as memory:
        await memory.store_rule("before")
        away = path.rename(path.with_name("away.db"))
        shutil.copyfile(empty_store, path)
        with pytest.raises(StoreUnavailable, match=f"{path.name} was replaced"):
            await memory.store_rule("after")
        away.replace(path)
        await memory.store_rule("when it is back")
        assert sorted(item.content for item in (await everything(memory)).values()) == ["before", "when it is back"]


async def test_a_file_that_is_removed_during_the_commit_is_noticed(path: Path) -> None:
    async with opened(path, background=False) as memory:
        writer: sqlite3.Connection = memory._env.store._writer.raw  # pyright: ignore[reportAttributeAccessIssue]
        writer.set_trace_callback(lambda statement: path.unlink() if statement == "COMMIT" else None)
        with pytest.raises(StoreUnavailable, match=f"{path.name} was removed"):
            await memory.store_rule("into nothing")


async def test_a_store_opened_by_a_relative_path_is_found_from_elsewhere(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    async with opened(path.name, background=False) as memory:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        await memory.store_rule("greet")
        assert len(await everything(memory)) == 1
    assert list(Path.cwd().iterdir()) == []


# -- the log ---------------------------------------------------------------------------------------------------


async def write_long(memory: Memory, path: Path) -> list[int]:
    """How long the log was after each of some writes."""
    sizes: list[int] = []
    for number in range(60):
        await memory.store_rule(f"rule {number} " + "long " * 2000)
        await memory._write(lambda conn: None)  # the log is trimmed after the answer, and before the next write
        sizes.append(database.log_size(path))
    return sizes


async def test_a_log_that_has_grown_long_is_emptied(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_place, "LONG_LOG", 500_000)
    async with opened(path, background=False) as memory:
        sizes = await write_long(memory, path)
        assert max(sizes) < 1_000_000
        assert min(sizes) == 0


async def test_a_log_that_a_reader_holds_is_reported_and_seldom_tried(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, value in (
        (sqlite_place, "LONG_LOG", 200_000),
        (sqlite_place, "SHORT_PATIENCE", 0.01),
        (database, "LOG_LIMIT", 100_000),
    ):
        monkeypatch.setattr(module, name, value)
    tried: list[int] = []
    truncate = database.truncate_log

    def counted(place: Path, patience: float) -> bool:
        tried.append(database.log_size(place))
        return truncate(place, patience)

    monkeypatch.setattr(database, "truncate_log", counted)
    async with opened(path, background=False) as memory:
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM rules").fetchall()
            held = (await write_long(memory, path))[-1]
            _, log, *_ = await memory._env.store.health()
            assert held > 1_000_000
            assert log.note == f"{held} bytes"
            assert f"has {held} bytes and can't be truncated" in log.problems[0]
        assert 0 < len(tried) < 8
        assert all(later > 2 * earlier for earlier, later in pairwise(tried))
        for number in range(3):
            await memory.store_rule(f"rule {number}")
        assert database.log_size(path) < held / 5, "begun anew, and cut to its limit"
        assert not any(finding.problems for finding in await memory._env.store.health())


async def test_the_health_of_a_file_that_is_gone(path: Path) -> None:
    async with opened(path, background=False) as memory:
        file, *_ = await memory._env.store.health()
        assert f"SQLite {sqlite3.sqlite_version}, {path.stat().st_size} bytes" == file.note
        path.unlink()
        with pytest.raises(StoreUnavailable, match="was removed"):
            await memory._env.store.health()


# -- read-only -------------------------------------------------------------------------------------------------


@pytest.fixture
def read_only(empty_store: Path) -> Iterator[Path]:
    """A cleanly closed store with memories, in a folder that another user can read and no user can write to."""
    folder = Path(tempfile.mkdtemp(prefix="tulving-read-only-"))
    path = folder / "memory.db"
    shutil.copyfile(empty_store, path)

    async def fill() -> None:
        async with opened(path, background=False) as memory:
            await memory.store_fact("user", "likes", "green tea")
            await memory.store_episode("they drank tea", butler="b")

    asyncio.run(fill())
    assert [file.name for file in folder.iterdir()] == ["memory.db"]
    path.chmod(0o444)
    folder.chmod(0o555)
    yield path
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_store_on_read_only_media_is_read(
    read_only: Path, tmp_path: Path, children: Children, empty_store: Path
) -> None:
    before = read_only.read_bytes()
    (seen,) = children.run("use_read_only", tmp_path / "log", path=str(read_only))
    for mode in ("keyword", "semantic", "hybrid", "recall"):
        assert seen[mode] == ["green tea", "they drank tea"], mode
    assert seen["got"] == "green tea"
    assert seen["problems"] == []
    assert seen["note"].endswith("read-only")
    assert seen["exported"] == {"facts": 1, "episodes": 1}
    assert seen["backed up"] == ["green tea"]
    assert seen["restored"] == ["green tea"]
    for verb in ("store", "delete", "reindex"):
        assert "can only be read: its folder is read-only" in seen[verb], verb
    assert read_only.read_bytes() == before
    assert [file.name for file in read_only.parent.iterdir()] == ["memory.db"]


def test_an_old_store_on_read_only_media_says_why_it_is_not_opened(
    read_only: Path, tmp_path: Path, children: Children
) -> None:
    from test_migrations import build

    read_only.parent.chmod(0o755)
    read_only.unlink()
    build(read_only, "mem_003").chmod(0o444)
    read_only.parent.chmod(0o555)
    (line,) = children.run("use_as_nobody", tmp_path / "log", path=str(read_only))
    assert "StoreUnavailable" in line["error"]
    assert "has schema mem_003 and its folder is read-only" in line["message"]


def test_a_store_that_was_taken_for_read_only_and_changes_is_not_read_on(
    read_only: Path, tmp_path: Path, children: Children
) -> None:
    go, log = read_only.with_name("go"), tmp_path / "log"
    pid = children.start("read_until_it_changes", log, path=str(read_only), go=str(go))
    wait_for(log, 1, pid)
    read_only.chmod(0o644)
    read_only.parent.chmod(0o755)

    async def write() -> None:
        async with opened(read_only, background=False) as memory:
            await memory.store_rule("new")

    asyncio.run(write())
    go.touch()
    assert children.wait(pid) == 0, log.read_text()
    assert "was changed, though it could only be read" in log.read_text()


def test_a_read_only_store_that_was_killed_is_read_with_its_log(
    read_only: Path, tmp_path: Path, children: Children
) -> None:
    """Its log is part of it, so that it is not taken for one that can't change."""
    read_only.parent.chmod(0o755)
    read_only.chmod(0o644)
    with closing(sqlite3.connect(read_only, isolation_level=None)) as raw:
        raw.execute("UPDATE episodes SET content = 'only in the log'")
        place = read_only.with_name("killed.db")
        for suffix in ("", "-wal", "-shm"):
            shutil.copyfile(f"{read_only}{suffix}", f"{place}{suffix}")
            Path(f"{place}{suffix}").chmod(0o444)
    read_only.parent.chmod(0o555)
    lines = children.run("use_as_nobody", tmp_path / "log", path=str(place))
    assert lines[0] == {"read": ["only in the log"]}
    assert "StoreUnavailable" in lines[1]["error"]
