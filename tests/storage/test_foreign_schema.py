"""A file whose schema is not what our migrations make is refused, and what is wrong with it is named."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from administration import administer
from fault_parts import digest, opened, problems
from test_migrations import build

from tulving.errors import DamagedStore
from tulving.storage.schema import HEAD, migration
from tulving.storage.sqlite import backup as sqlite_backup
from tulving.storage.sqlite import database
from tulving.testing import ManualClock

SPY = "INSERT INTO jobs (name, last_error) VALUES (new.id, new.content)"
FOREIGN = {
    "a trigger": (f"CREATE TRIGGER spy AFTER INSERT ON facts BEGIN {SPY}; END", "trigger spy is foreign"),
    "a trigger without an end": (
        "CREATE TRIGGER endless BEFORE INSERT ON facts BEGIN SELECT count(*) FROM (WITH RECURSIVE n(i) AS"
        " (VALUES (1) UNION ALL SELECT i FROM n) SELECT i FROM n); END",
        "trigger endless is foreign",
    ),
    "a view": ("CREATE VIEW all_facts AS SELECT * FROM facts", "view all_facts is foreign"),
    "a view for a table": (
        "ALTER TABLE memory_links RENAME TO links; CREATE VIEW memory_links AS SELECT * FROM links",
        "view memory_links is foreign",
    ),
    "a table": ("CREATE TABLE loot (content TEXT)", "table loot is foreign"),
    "a virtual table": ("CREATE VIRTUAL TABLE loot USING fts5 (content)", "table loot is foreign"),
    "an index": ("CREATE INDEX odd ON facts (abs(num))", "index odd is foreign"),
    "another trigger of our name": (
        f"DROP TRIGGER facts_unlink; CREATE TRIGGER facts_unlink BEFORE INSERT ON facts BEGIN {SPY}; END",
        "trigger facts_unlink was changed",
    ),
    "no trigger": ("DROP TRIGGER memory_events_no_update", "trigger memory_events_no_update is missing"),
    "no table": ("DROP TABLE jobs", "table jobs is missing"),
    "another table of our name": (
        "DROP TABLE jobs; CREATE TABLE jobs (name TEXT, last_error TEXT)",
        "table jobs was changed",
    ),
}


@pytest.fixture
def path(new_store: Path) -> Path:
    return new_store


def change(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(script)


@pytest.mark.parametrize("what", FOREIGN)
async def test_a_file_with_a_foreign_schema_is_not_opened(path: Path, what: str) -> None:
    script, named = FOREIGN[what]
    change(path, script)
    before = digest(path)
    with pytest.raises(DamagedStore, match=named):
        async with opened(path):
            pass
    assert digest(path) == before


@pytest.mark.parametrize("there", [True, False])
def test_a_file_with_a_foreign_schema_is_not_restored(
    path: Path, tmp_path: Path, empty_store: Path, there: bool
) -> None:
    script, named = FOREIGN["a trigger"]
    backup = Path(shutil.copyfile(empty_store, tmp_path / "backup.db"))
    change(backup, script)
    place = path if there else tmp_path / "new.db"
    before = digest(place)
    with pytest.raises(DamagedStore, match=named):
        sqlite_backup.restore(backup, place, 1.0, ManualClock().now)
    assert digest(place) == before
    assert not list(tmp_path.glob("*before-restore*"))


async def test_an_old_file_with_a_foreign_trigger_is_not_migrated(tmp_path: Path) -> None:
    path = build(tmp_path / "memory.db", "mem_003")
    change(path, "CREATE TRIGGER spy AFTER UPDATE ON memory_events BEGIN SELECT 1; END")
    before = digest(path)
    with pytest.raises(DamagedStore, match="trigger spy is foreign"):
        async with opened(path):
            pass
    assert digest(path) == before
    assert not list(tmp_path.glob("*before-*"))


async def test_verify_names_what_came_in_while_the_file_was_open(path: Path) -> None:
    async with opened(path) as memory:
        assert problems(await administer(memory).verify()) == []
        change(path, "CREATE VIEW all_facts AS SELECT * FROM facts")
        assert problems(await administer(memory).verify()) == ["schema: view all_facts is foreign"]


async def test_statistics_are_not_foreign(path: Path) -> None:
    async with opened(path) as memory:
        await memory.store_rule("greet")
    change(path, "ANALYZE")
    async with opened(path) as memory:
        assert problems(await administer(memory).verify()) == []


def test_the_digest_is_that_of_the_newest_schema(empty_store: Path) -> None:
    with closing(sqlite3.connect(empty_store)) as raw:
        found = database._digest(database._schema(raw))
    assert found == migration(HEAD).DIGEST, f'the schema has changed: write DIGEST = "{found}" into {HEAD}'


def test_a_file_of_ours_is_known_without_running_the_migrations(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database.prepare(path, 1)
    monkeypatch.delattr(database, "_upgrade")
    database.prepare(path, 1)


async def test_readers_do_not_trust_the_schema(path: Path) -> None:
    async with opened(path) as memory:
        read = await memory._read(lambda conn: conn.tuples("PRAGMA trusted_schema", {}))
        checked = await memory._read(lambda conn: conn.tuples("PRAGMA cell_size_check", {}))
    assert (read, checked) == ([(0,)], [(1,)])
