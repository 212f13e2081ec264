"""Files of every earlier schema are migrated with all they hold, even through kills and races."""

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from administration import administer
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from fault_parts import NAMED, Children, digest, everything, opened, problems, said
from sqlalchemy import create_engine

from tulving.domain.model import KINDS
from tulving.domain.text import content_hash
from tulving.errors import SchemaTooNew, StoreUnavailable
from tulving.storage import migrations, moving
from tulving.storage.kinds import KIND, MEMORY_TABLES
from tulving.storage.migrations import upgrade_sqlite
from tulving.storage.migrations.statements import statements
from tulving.storage.schema import HEAD, REVISIONS
from tulving.storage.sqlite import database
from tulving.storage.sqlite.connection import SqliteConnection
from tulving.storage.sqlite.vectors import VectorCache
from tulving.testing import ManualClock

OLD = REVISIONS[:-1]
NOW = "2026-01-01T00:00:00.000000+00:00"
EPISODE, FACT, NOTE, RULE = (f"00000000-0000-7000-8000-00000000000{number}" for number in range(1, 5))


@pytest.fixture
def path(new_store: Path) -> Path:
    return new_store


def build(path: Path, revision: str) -> Path:
    """A file as an earlier Tulving would have left it, with one memory of each kind and a link."""
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute(f"PRAGMA application_id = {database.APPLICATION_ID}")
    raw.execute("PRAGMA journal_mode = WAL")
    with raw:
        raw.execute("BEGIN")
        upgrade_sqlite(raw, REVISIONS[: REVISIONS.index(revision) + 1])

    def insert(table: str, **row: Any) -> None:
        marks = ", ".join("?" * len(row))
        raw.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))

    shared = {"tenant_id": "default", "created_at": NOW, "updated_at": NOW, "tags": '["old"]'}
    for table, id_, text, own in (
        ("episodes", EPISODE, "an old episode", {"butler": "b", "title": "Title"}),
        ("facts", FACT, "an old fact", {"subject": "s", "predicate": "p", "source_episode_id": EPISODE}),
        ("facts", NOTE, "an old note", {"subject": "user", "predicate": "knowledge", "keyed": 0, "ref": "fact_0000"}),
        ("rules", RULE, "an old rule", {"metadata": '{"deep":{"number":1}}'}),
    ):
        confirmed = {} if table == "episodes" else {"last_confirmed_at": NOW}
        search_text = SqliteConnection(raw, VectorCache(1)).index_text("default", text)
        words = {"content": text, "search_text": search_text, "content_hash": content_hash(text)}
        insert(table, id=id_, **words, **shared, **own, **confirmed)
    ends = {"source_type": "fact", "source_id": FACT, "target_type": "episode", "target_id": EPISODE}
    insert("memory_links", tenant_id="default", **ends, relation="derived_from", created_at=NOW)
    raw.close()
    assert version(path) == revision
    return path


def version(path: Path) -> str:
    raw = sqlite3.connect(path)
    try:
        return raw.execute("SELECT version_num FROM alembic_version").fetchone()[0]
    finally:
        raw.close()


def schema(path: Path) -> list[tuple[str, ...]]:
    """All tables, indexes and triggers. What FTS5 keeps for itself is its own affair."""
    raw = sqlite3.connect(path)
    rows = raw.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").fetchall()
    raw.close()
    return rows


def rows(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    raw = sqlite3.connect(path)
    tables = (*MEMORY_TABLES, "memory_links")
    found = {table: raw.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall() for table in tables}
    raw.close()
    return found


async def assert_upgraded(path: Path, empty_store: Path) -> None:
    """At the newest schema, with all that `build` put in, and in use."""
    async with opened(path, clock=ManualClock(), background=False) as memory:
        items = {str(id_): item for id_, item in (await everything(memory)).items()}
        assert {id_: items[id_].content for id_ in (EPISODE, FACT, NOTE, RULE)} == {
            EPISODE: "an old episode",
            FACT: "an old fact",
            NOTE: "an old note",
            RULE: "an old rule",
        }
        assert all(list(items[id_].tags) == ["old"] for id_ in (EPISODE, FACT, NOTE, RULE))
        assert items[RULE].metadata == {"deep": {"number": 1}}
        assert str(items[FACT].source_episode_id) == EPISODE
        note = await memory.get("fact", "fact_0000")
        assert note is not None and str(note.id) == NOTE
        (link,) = await memory.get_links("fact", FACT)
        assert (str(link.target_id), link.relation) == (EPISODE, "derived_from")
        await memory.embed_pending()
        for mode in ("keyword", "semantic", "hybrid"):
            found = await memory.search("old", mode=mode, limit=10)
            assert {str(hit.item.id) for hit in found} >= {EPISODE, FACT, NOTE, RULE}, mode
        assert (await memory.store_fact("s", "p", "a new fact")).outcome in ("superseded", "confirmed")
        assert not problems(await administer(memory).verify())
    assert version(path) == HEAD
    assert schema(path) == schema(empty_store)


def the_copy(path: Path, revision: str) -> Path:
    (copy,) = path.parent.glob(f"{path.name}.before-*")
    assert copy.name == f"{path.name}.before-{HEAD}-from-{revision}"
    return copy


# -- from nothing, and from each earlier schema ----------------------------------------------------------------


@pytest.mark.scenario("002-001")
async def test_a_new_file_has_the_newest_schema(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with opened(path) as memory:
        assert not await everything(memory)
        assert not problems(await administer(memory).verify())
    assert version(path) == HEAD
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert raw.execute("PRAGMA application_id").fetchone() == (database.APPLICATION_ID,)
    raw.close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_file_is_made_and_upgraded_without_alembic(tmp_path: Path) -> None:
    """Importing it takes ten times as long as making a store."""
    build(tmp_path / "old.db", OLD[0])
    script = (
        "import pathlib, sys; from tulving.storage.sqlite import database;"
        " [database.prepare(pathlib.Path(path), 1) for path in sys.argv[1:]];"
        " sys.exit('alembic' in sys.modules or 'sqlalchemy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "new.db"), str(tmp_path / "old.db")])
    assert done.returncode == 0
    assert version(tmp_path / "new.db") == version(tmp_path / "old.db") == HEAD


def test_alembic_makes_the_same_of_the_revisions(tmp_path: Path) -> None:
    """As in a host that runs the branch with an environment of its own."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    scripts = ScriptDirectory.from_config(config)
    path = tmp_path / "memory.db"
    with create_engine(f"sqlite:///{path}").begin() as connection:
        environment = EnvironmentContext(config, scripts, fn=lambda now, _: scripts._upgrade_revs("memory@head", now))
        with environment:
            environment.configure(connection=connection)
            environment.run_migrations()
        connection.exec_driver_sql(f"PRAGMA application_id = {database.APPLICATION_ID}")
    database.prepare(path, 1.0)
    assert version(path) == HEAD


@pytest.mark.scenario("002-001")
@pytest.mark.parametrize("revision", OLD)
async def test_an_old_file_is_upgraded_with_its_data(tmp_path: Path, empty_store: Path, revision: str) -> None:
    path = build(tmp_path / "memory.db", revision)
    before = rows(path)
    await assert_upgraded(path, empty_store)
    copy = the_copy(path, revision)
    raw = sqlite3.connect(copy)
    assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    raw.close()
    assert version(copy) == revision
    assert rows(copy) == before
    assert copy.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("revision", OLD)
async def test_the_copy_is_the_way_back(tmp_path: Path, empty_store: Path, revision: str) -> None:
    path = build(tmp_path / "memory.db", revision)
    async with opened(path):
        pass
    back = Path(shutil.copyfile(the_copy(path, revision), tmp_path / "back.db"))
    await assert_upgraded(back, empty_store)


async def test_what_was_only_in_the_log_is_upgraded_too(tmp_path: Path, empty_store: Path) -> None:
    """An old file whose last process was killed: part of the data is not in the file itself yet."""
    built = build(tmp_path / "built.db", "mem_002")
    raw = sqlite3.connect(built, isolation_level=None)
    raw.execute("UPDATE episodes SET importance = 9")
    path = tmp_path / "memory.db"
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{built}{suffix}", f"{path}{suffix}")
    raw.close()
    assert Path(f"{path}-wal").stat().st_size
    await assert_upgraded(path, empty_store)
    for place in (path, the_copy(path, "mem_002")):
        raw = sqlite3.connect(place)
        assert raw.execute("SELECT importance FROM episodes").fetchall() == [(9.0,)]
        raw.close()


# -- interrupted -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 1, 2, 3, 7, 12, 16])
async def test_killed_in_a_migration_the_file_is_as_before(
    tmp_path: Path, empty_store: Path, children: Children, after: int
) -> None:
    path = build(tmp_path / "memory.db", "mem_001")
    before = rows(path), schema(path)
    log = tmp_path / "log"
    assert children.wait(children.start("migrate_and_die", log, path=str(path), after=after)) == -9, said(log)
    assert version(path) == "mem_001"
    assert (rows(path), schema(path)) == before
    await assert_upgraded(path, empty_store)


async def test_killed_while_the_copy_is_made(tmp_path: Path, empty_store: Path, children: Children) -> None:
    path = build(tmp_path / "memory.db", "mem_001")
    log = tmp_path / "log"
    assert children.wait(children.start("copy_and_die", log, path=str(path))) == -9, said(log)
    assert version(path) == "mem_001"
    assert not list(tmp_path.glob("*.before-*[0-9]"))
    assert list(tmp_path.glob("*.part")), "the unfinished copy"
    await assert_upgraded(path, empty_store)
    assert version(the_copy(path, "mem_001")) == "mem_001"
    assert not list(tmp_path.glob("*.part"))


async def test_a_migration_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = build(tmp_path / "memory.db", "mem_001")
    before = rows(path), schema(path)

    def failing(*args: Any) -> Iterator[str]:
        yield from statements(*args)
        yield "CREATE TABLE facts (id)"

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "statements", failing)
        with pytest.raises(NAMED):
            async with opened(path):
                pass
    assert version(path) == "mem_001"
    assert (rows(path), schema(path)) == before
    await assert_upgraded(path, empty_store)


async def test_without_its_copy_nothing_is_migrated(tmp_path: Path) -> None:
    path = build(tmp_path / "memory.db", "mem_002")
    before = rows(path), schema(path)
    in_the_way = tmp_path / f"{path.name}.before-{HEAD}-from-mem_002"
    in_the_way.mkdir()
    with pytest.raises(StoreUnavailable):
        async with opened(path):
            pass
    assert sorted(file.name for file in tmp_path.iterdir()) == [path.name, in_the_way.name]
    assert version(path) == "mem_002"
    assert (rows(path), schema(path)) == before


async def test_processes_that_migrate_one_file_at_once(tmp_path: Path, empty_store: Path, children: Children) -> None:
    path = build(tmp_path / "memory.db", "mem_001")
    before = rows(path)
    go = tmp_path / "go"
    logs = [tmp_path / f"child-{number}.log" for number in range(4)]
    pids = [
        children.start("open_and_store", log, path=str(path), name=f"child{number}", go=str(go))
        for number, log in enumerate(logs)
    ]
    await asyncio.sleep(0.1)
    go.touch()
    codes = [await asyncio.to_thread(children.wait, pid) for pid in pids]
    assert codes == [0] * 4, [said(log) for log in logs]
    copy = the_copy(path, "mem_001")
    assert version(copy) == "mem_001"
    assert rows(copy) == before
    async with opened(path) as memory:
        ids = {str(id_) for id_ in await everything(memory)}
        assert ids == {EPISODE, FACT, NOTE, RULE, *(line["id"] for log in logs for line in said(log))}
    await assert_upgraded(path, empty_store)


async def test_a_process_waits_for_the_one_that_migrates(
    tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second must not begin while the first is at it, even if the first is slow."""
    path = build(tmp_path / "memory.db", "mem_001")
    copy, running, most = database.copy, [], []

    def slow(*args: Any, **options: Any) -> None:
        running.append(1)
        most.append(len(running))
        time.sleep(0.2)
        copy(*args, **options)
        running.pop()

    monkeypatch.setattr(database, "copy", slow)

    async def one() -> None:
        async with opened(path):
            pass

    await asyncio.gather(one(), one(), one())
    assert max(most) == 1
    assert version(the_copy(path, "mem_001")) == "mem_001"
    await assert_upgraded(path, empty_store)


# -- an unknown one -----------------------------------------------------------------------------------------------


def make_newer(path: Path, revision: str = "mem_999") -> None:
    raw = sqlite3.connect(path)
    raw.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    raw.commit()
    raw.close()


@pytest.mark.parametrize("revision", ["mem_999", "mem_013"])
async def test_a_file_of_an_unknown_version_is_refused_and_not_changed(path: Path, revision: str) -> None:
    """A newer one, or one from before the first release."""
    async with opened(path) as memory:
        await memory.store_episode("from the future", butler="b")
    make_newer(path, revision)
    before = digest(path)
    for _ in range(2):
        with pytest.raises(SchemaTooNew, match=f"{revision}.*newer version, or by one from before the first release"):
            async with opened(path):
                pass
    assert digest(path) == before
    assert {file.name for file in path.parent.iterdir()} <= {path.name, f"{path.name}-wal", f"{path.name}-shm"}


async def test_the_log_of_a_newer_version_is_not_touched_either(path: Path, tmp_path: Path) -> None:
    """Left by a newer process that was killed: it is not ours to recover."""
    place = tmp_path / "place" / "memory.db"
    place.parent.mkdir()
    make_newer(path)
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("CREATE TABLE from_the_future (id)")
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{path}{suffix}", f"{place}{suffix}")
    raw.close()
    log = Path(f"{place}-wal")
    before = digest(place), digest(log)
    assert log.stat().st_size
    with pytest.raises(SchemaTooNew):
        async with opened(place):
            pass
    assert (digest(place), digest(log)) == before


# -- columns ---------------------------------------------------------------------------------------------------

INDEX_COLUMNS = {"search_text", "embedding", "embedding_version"}
ROW_NUMBERS = {"num", "seq"}


def columns(path: Path, table: str) -> set[str]:
    raw = sqlite3.connect(path)
    found = {row[1] for row in raw.execute(f"PRAGMA table_xinfo({table})")}
    raw.close()
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_each_table_has_the_columns_of_its_kind(empty_store: Path, kind: Any) -> None:
    assert columns(empty_store, KIND[kind].table) - ROW_NUMBERS == {*KIND[kind].columns} | INDEX_COLUMNS


@pytest.mark.parametrize("table", moving.MOVED)
def test_an_export_has_every_column(empty_store: Path, table: str) -> None:
    """Except for the row numbers, the search text, which is derived again from the rest, and the place of archived
    content, which an export holds."""
    assert columns(empty_store, table) - ROW_NUMBERS - {"search_text", "segment_id"} == {*moving.MOVED[table].columns}


def test_an_export_has_every_table(empty_store: Path) -> None:
    raw = sqlite3.connect(empty_store)
    tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    raw.close()
    indexes = {name for name in tables if "_fts" in name}
    of_the_store = {
        "access_tokens",
        "requests",
        "jobs",
        "alembic_version",
        "embedding_versions",
        "next_embeddings",
        "forgotten_values",
        "tool_text_counts",
        "timelines",
        "timeline_segments",
        "event_cursors",
        "sqlite_sequence",
        "stale_words",
        "tenant_keys",
    }
    assert tables - indexes - of_the_store == set(moving.MOVED)
