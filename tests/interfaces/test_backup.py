"""Backup and restore of a file: online, complete or not at all, never over another file unless forced."""

import asyncio
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from raw_sql import run_sql

from tulving import open_memory
from tulving.storage.schema import HEAD


@pytest.fixture
def store(cli, path, tmp_path):
    assert cli("store", "fact", "user", "likes", "tea").code == 0
    return path


def contents(path):
    return sorted(row["content"] for row in run_sql(str(path), "SELECT content FROM facts"))


def test_there_and_back(cli, store, tmp_path):
    copy = tmp_path / "copy.db"
    ran = cli("backup", str(copy))
    assert ran.code == 0
    assert f"schema {HEAD}" in ran.out
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    cli("store", "fact", "user", "drives", "a tram")
    ran = cli("restore", str(copy))
    assert ran.code == 0
    assert contents(store) == ["tea"]
    (kept,) = tmp_path.glob("memory.db.before-restore-*Z")
    assert str(kept) in ran.out
    assert contents(kept) == ["a tram", "tea"]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert cli("verify").code == 0
    assert cli("restore", str(kept)).code == 0
    assert contents(store) == ["a tram", "tea"], "and back again"
    assert not list(tmp_path.glob(".*part*")), "nothing is left lying about"
    with closing(sqlite3.connect(store)) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_nothing_is_overwritten_unless_forced(cli, store, tmp_path):
    copy = tmp_path / "copy.db"
    copy.write_text("precious")
    ran = cli("backup", str(copy))
    assert (ran.code, copy.read_text()) == (2, "precious")
    assert "--force" in ran.err
    copy.with_name("copy.db-wal").write_bytes(b"of another file")
    assert cli("backup", str(copy), "--force").code == 0
    assert contents(copy) == ["tea"]
    assert cli("backup", str(store), "--force").code == 2
    assert cli("backup", str(tmp_path)).code == 2
    assert cli("restore", str(store)).code == 2
    assert cli("restore", str(tmp_path / "nowhere.db")).code == 2
    assert cli("--url", str(tmp_path / "none.db"), "backup", str(tmp_path / "x.db")).code == 2
    assert cli("backup", str(tmp_path / "no" / "such" / "folder.db")).code == 2
    assert contents(store) == ["tea"]


def test_a_copy_is_consistent_while_others_write(cli, store, tmp_path):
    """Every fact is stored with its event in one transaction: a copy has both or neither."""
    stop = threading.Event()

    def write():
        async def stores():
            async with open_memory(store, embedder="hashing", background=False) as memory:
                number = 0
                while not stop.is_set():
                    await memory.store_fact("user", f"number{number}", str(number))
                    number += 1

        asyncio.run(stores())

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            copy = tmp_path / f"{number}.db"
            assert cli("backup", str(copy)).code == 0
            (facts,) = run_sql(str(copy), "SELECT COUNT(*) AS number FROM facts")
            (events,) = run_sql(str(copy), "SELECT COUNT(*) AS number FROM memory_events")
            assert facts == events
            time.sleep(0.05)
    finally:
        stop.set()
        writer.join()
    assert len(contents(tmp_path / "4.db")) > 1


def test_a_copy_is_a_store_like_the_original(cli, store, tmp_path):
    """With what is still in the log, and without the pages that a deletion has freed."""

    async def backup_while_open():
        async with open_memory(store, embedder="hashing", background=False) as memory:
            gone = await memory.store_fact("user", "reads", "word " * 20_000)
            await memory.store_fact("user", "drives", "a tram")
            await memory.delete("fact", gone.id)
            assert store.with_name("memory.db-wal").stat().st_size > 0
            return await asyncio.to_thread(cli, "backup", str(tmp_path / "copy.db"))

    assert asyncio.run(backup_while_open()).code == 0
    copy = tmp_path / "copy.db"
    assert contents(copy) == ["a tram", "tea"]
    pragmas = ("application_id", "page_size", "journal_mode", "user_version", "encoding")
    with closing(sqlite3.connect(store)) as one, closing(sqlite3.connect(copy)) as other:
        for pragma in pragmas:
            assert one.execute(f"PRAGMA {pragma}").fetchone() == other.execute(f"PRAGMA {pragma}").fetchone()
        assert other.execute("PRAGMA freelist_count").fetchone() == (0,)
        schema = "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name"
        assert one.execute(schema).fetchall() == other.execute(schema).fetchall()
    assert sorted(file.name for file in tmp_path.glob("copy.db*")) == ["copy.db"]
    assert cli("--url", str(copy), "verify").code == 0


def test_a_damaged_store_is_not_backed_up(cli, store, tmp_path):
    cli("store", "fact", "user", "reads", "word " * 20_000)
    copy = tmp_path / "copy.db"
    copy.write_text("the last good copy")
    data = bytearray(store.read_bytes())
    for place in range(len(data) // 16384 * 8192, len(data), 8192):
        data[place : place + 100] = b"\xff" * 100
    store.write_bytes(data)
    assert cli("backup", str(copy), "--force").code == 1
    assert copy.read_text() == "the last good copy"
    assert not list(tmp_path.glob(".*part*"))


def test_a_killed_backup_leaves_what_was_there(store, tmp_path):
    """It is killed when the copy is complete, but not yet on the disk."""
    copy = tmp_path / "copy.db"
    copy.write_text("the last good copy")
    killed = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, signal\nfrom tulving.interfaces.cli import main\n"
            "os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)\nmain()",
            "backup",
            str(copy),
            "--force",
        ],
        env=os.environ,
    )
    assert killed.returncode == -signal.SIGKILL
    assert copy.read_text() == "the last good copy"
    assert contents(store) == ["tea"]


def test_a_log_without_its_store_is_set_aside(cli, store, tmp_path):
    """SQLite would take it for the log of what is restored."""
    copy = tmp_path / "copy.db"
    cli("backup", str(copy))
    store.unlink()
    store.with_name("memory.db-wal").write_bytes(b"of a store that was lost")
    assert cli("restore", str(copy)).code == 0
    assert contents(store) == ["tea"]
    (kept,) = tmp_path.glob("*before-restore*-wal")
    assert kept.read_bytes() == b"of a store that was lost"


@pytest.mark.parametrize("open_", ["read", "write"])
def test_a_store_that_is_open_elsewhere_is_not_replaced(cli, store, tmp_path, open_, monkeypatch):
    monkeypatch.setattr("tulving.storage.sqlite.backup._PATIENCE", 0.2)
    copy = tmp_path / "copy.db"
    cli("backup", str(copy))
    cli("store", "fact", "user", "drives", "a tram")
    do = "store_fact('a', 'b', 'c')" if open_ == "write" else "search('tea')"
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import asyncio, sys\nfrom tulving import open_memory\nasync def main():\n"
            "    async with open_memory(sys.argv[1], embedder='hashing', background=False) as memory:\n"
            f"        await memory.{do}\n        print('open', flush=True)\n"
            "        await asyncio.to_thread(sys.stdin.readline)\n"
            "asyncio.run(main())",
            str(store),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    assert child.stdout.readline() == "open\n"
    before = contents(store)
    ran = cli("restore", str(copy))
    assert ran.code == 1
    assert "another process has" in ran.err
    assert contents(store) == before
    assert not list(tmp_path.glob("*before-restore*"))
    child.communicate("\n", timeout=20)
    assert cli("restore", str(copy)).code == 0
    assert contents(store) == ["tea"]


@pytest.mark.parametrize("harm", ["header", "middle", "cut"])
def test_a_damaged_backup_is_refused(cli, store, tmp_path, harm):
    cli("store", "fact", "user", "reads", "word " * 20_000)
    copy = tmp_path / "copy.db"
    cli("backup", str(copy))
    data = bytearray(copy.read_bytes())
    if harm == "header":
        data[:16] = b"not a database.."
    elif harm == "middle":
        for place in range(len(data) // 16384 * 8192, len(data), 8192):
            data[place : place + 100] = b"\xff" * 100
    else:
        del data[len(data) // 2 :]
    copy.write_bytes(data)
    before = contents(store)
    ran = cli("restore", str(copy))
    assert ran.code == 1, ran
    assert contents(store) == before
    assert not list(tmp_path.glob("*before-restore*"))


def test_a_backup_of_something_else_or_of_a_newer_version_is_refused(cli, store, tmp_path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as raw:
        raw.execute("CREATE TABLE facts (content TEXT)")
    assert "not a Tulving store" in cli("restore", str(tmp_path / "other.db")).err
    newer = tmp_path / "newer.db"
    cli("backup", str(newer))
    run_sql(str(newer), "UPDATE alembic_version SET version_num = 'mem_999'")
    assert "newer version" in cli("restore", str(newer)).err
    assert contents(store) == ["tea"]


def test_a_lost_or_damaged_store_is_restored(cli, store, tmp_path):
    copy = tmp_path / "copy.db"
    cli("backup", str(copy))
    store.write_bytes(b"garbage " * 1000)
    assert cli("restore", str(copy)).code == 0
    assert contents(store) == ["tea"]
    (kept,) = tmp_path.glob("*before-restore*Z")
    assert kept.read_bytes().startswith(b"garbage")
    for file in tmp_path.glob("memory.db*"):
        file.unlink()
    ran = cli("restore", str(copy), "--json")
    assert '"replaced": null' in ran.out
    assert contents(store) == ["tea"]


def test_a_corrupt_store_is_set_aside(cli, store, tmp_path):
    copy = tmp_path / "copy.db"
    cli("backup", str(copy))
    data = bytearray(store.read_bytes())
    for place in range(8192, len(data), 8192):
        data[place : place + 2000] = b"\xff" * 2000
    store.write_bytes(data)
    assert cli("restore", str(copy)).code == 0
    assert contents(store) == ["tea"]
    assert len(list(tmp_path.glob("*before-restore*Z"))) == 1
    assert cli("verify").code == 0


@pytest.mark.soak
def test_a_backup_or_restore_that_is_killed_leaves_a_whole_store(process, cli, store, tmp_path):
    for number in range(3):
        cli("store", "fact", "user", f"number{number}", "word " * 20_000)
    copy = tmp_path / "copy.db"
    cli("backup", str(copy))
    cli("store", "fact", "user", "drives", "a tram")
    before, after = contents(store), contents(copy)
    for delay in range(20):
        child = subprocess.Popen([sys.executable, "-m", "tulving", "restore", str(copy)], env=os.environ)
        time.sleep(0.2 + delay * 0.02)
        child.kill()
        child.wait()
        assert contents(store) in (before, after)
        assert cli("verify").code == 0
        shutil.copy(next(iter(tmp_path.glob("*before-restore*")), store), tmp_path / "x.db")


def test_postgresql_has_its_own_tools(cli, path, tmp_path):
    there = "postgresql://nobody@127.0.0.1:1/none"
    ran = cli("--url", there, "backup", str(tmp_path / "x"))
    assert (ran.code, "pg_dump" in ran.err) == (2, True)
    ran = cli("--url", there, "restore", str(tmp_path / "x"))
    assert (ran.code, "pg_restore" in ran.err) == (2, True)
    assert not Path(tmp_path / "x").exists()


def test_a_backup_tells_how_far_it_is_and_can_be_interrupted(
    cli: Callable, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from tulving.bootstrap import backup_store
    from tulving.config import load_config

    for number in range(4):
        cli("store", "rule", f"likes tea {number}")
    run_sql(str(path), "UPDATE rules SET metadata = '{\"x\": \"' || printf('%.*c', 2000000, 'x') || '\"}'")
    monkeypatch.setattr("tulving.storage.sqlite.database.STEPS_BETWEEN_LOOKS", 10)
    seen: list[tuple[int, int]] = []
    backup_store(load_config(), tmp_path / "whole.db", progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen) and len({total for _, total in seen}) == 1
    assert seen[-1][0] > seen[-1][1] / 2

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backup_store(load_config(), tmp_path / "none.db", progress=interrupt)
    assert sorted(each.name for each in tmp_path.glob("*none*")) == []
