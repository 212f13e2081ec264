"""A damaged file is named as damaged and left as it is. It never passes for an empty store, nor for a sound one."""

import asyncio
import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from administration import administer
from fault_parts import NAMED, Children, digest, everything, opened, problems

from tulving.domain.model import Item, NewEpisode, NewFact, NewRule
from tulving.errors import DamagedStore, IntegrityError, StoreUnavailable
from tulving.services.memory import Memory
from tulving.storage.sqlite.database import APPLICATION_ID, HEAD
from tulving.testing import ManualClock, SequentialIds

PAGE = 8192
Shown = dict[str, tuple[Any, ...]]


@pytest.fixture
def path(new_store: Path) -> Path:
    return new_store


def shown(items: dict[Any, Item]) -> Shown:
    """What a reader would miss if it were wrong."""
    return {
        str(item.id): (type(item).__name__, item.content, tuple(item.tags), dict(item.metadata), item.created_at)
        for item in items.values()
    }


@pytest.fixture(scope="module")
def sound(empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Shown]:
    """A store of some 500 kB that was closed properly, and what is in it. To be copied. The same bytes each time,
    so that a seed always hits the same ones."""
    path = Path(shutil.copyfile(empty_store, tmp_path_factory.mktemp("sound") / "memory.db"))

    async def fill() -> Shown:
        async with opened(path, clock=ManualClock(), ids=SequentialIds()) as memory:
            details = {"where": "the harbour", "how often": [1, 2, 3]}
            words = [f"word{number} common {'filling ' * (number % 30)}" for number in range(40)]
            await memory.store_episodes(
                [NewEpisode(content=text, butler="b", tags=["tag"], metadata=details) for text in words]
            )
            await memory.store_facts(
                [NewFact(content=text, subject=f"s{at}", predicate="p") for at, text in enumerate(words)]
            )
            await memory.store_facts([NewFact(content=text, tags=["tag"], metadata=details) for text in words])
            await memory.store_rules([NewRule(content=text) for text in words])
            return shown(await everything(memory))

    contents = asyncio.run(fill())
    assert len(contents) == 160
    return path, contents


@pytest.fixture
def store(sound: tuple[Path, Shown], tmp_path: Path) -> Path:
    return Path(shutil.copyfile(sound[0], tmp_path / "memory.db"))


async def read_all(memory: Memory) -> Shown:
    """Use every way of reading; what is there. A way that finds less than it must is an error of its own."""
    items = shown(await everything(memory))
    for mode in ("keyword", "semantic", "hybrid"):
        assert len(await memory.search("common", mode=mode, limit=200)) == 160, f"{mode} search lost some"
    assert len(await memory.recall("common", limit=200)) == 160
    return items


async def use(path: Path) -> tuple[Shown | None, BaseException | None]:
    """Read and verify all of a store: what it says it holds, or the error."""
    try:
        async with opened(path, clock=ManualClock(), ids=SequentialIds(10_000)) as memory:
            contents = await read_all(memory)
            if complaints := problems(await administer(memory).verify()):
                return None, IntegrityError(str(complaints))
            return contents, None
    except Exception as error:
        return None, error


# -- the file is visibly not a store ---------------------------------------------------------------------------


def overwrite(start: int, content: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with path.open("rb+") as file:
            file.seek(start)
            file.write(content)

    return damage


def cut(size: int | None) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, path.stat().st_size // 2 if size is None else size)


def foreign(path: Path) -> None:
    path.unlink()
    raw = sqlite3.connect(path)
    raw.execute("CREATE TABLE episodes (id, content)")
    raw.execute("INSERT INTO episodes VALUES (1, 'of another program')")
    raw.commit()
    raw.close()


def foreign_with_our_revision(path: Path) -> None:
    path.unlink()
    raw = sqlite3.connect(path)
    raw.execute("CREATE TABLE alembic_version (version_num)")
    raw.execute("INSERT INTO alembic_version VALUES (?)", (HEAD,))
    raw.commit()
    raw.close()


def without_schema(path: Path) -> None:
    path.unlink()
    raw = sqlite3.connect(path)
    raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    raw.execute("CREATE TABLE something (id)")
    raw.close()


RANDOM = random.Random(7)
UNUSABLE: dict[str, Callable[[Path], None]] = {
    "cut to nothing": cut(0),
    "cut to 15 bytes": cut(15),
    "cut to 100 bytes": cut(100),
    "cut to one page": cut(PAGE),
    "cut to two pages": cut(2 * PAGE),
    "cut to half": cut(None),
    "cut by one page": lambda path: os.truncate(path, path.stat().st_size - PAGE),
    "first page zeroed": overwrite(0, bytes(PAGE)),
    "first page random": overwrite(0, RANDOM.randbytes(PAGE)),
    "first page random but for the magic": overwrite(16, RANDOM.randbytes(PAGE - 16)),
    "schema zeroed": overwrite(100, bytes(PAGE - 100)),
    "a text file": lambda path: path.write_text("Dear diary,\n" * 1000) and None,
    "one letter": lambda path: path.write_text("x") and None,
    "a database of another program": foreign,
    "a database of another program with our revision": foreign_with_our_revision,
    "our mark without our schema": without_schema,
}


@pytest.mark.parametrize("damage", UNUSABLE)
async def test_what_is_no_healthy_store_is_refused_and_left_untouched(
    store: Path, sound: tuple[Path, Shown], damage: str
) -> None:
    UNUSABLE[damage](store)
    before = digest(store)
    contents, error = await use(store)
    assert contents is None, "damage went unnoticed" if contents != sound[1] else "it was not damaged"
    assert isinstance(error, DamagedStore), repr(error)
    assert str(error)
    assert digest(store) == before
    assert {file.name for file in store.parent.iterdir()} <= {store.name, f"{store.name}-wal", f"{store.name}-shm"}


async def test_a_log_without_its_database_is_not_taken_for_a_new_store(path: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept-wal"
    log = path.with_name(path.name + "-wal")
    async with opened(path) as memory:
        await memory.store_episode("only in the log", butler="b")
        shutil.copyfile(log, kept)
    path.unlink()
    shutil.copyfile(kept, log)
    with pytest.raises(DamagedStore, match="wal"):
        async with opened(path):
            pass
    assert not path.exists()
    assert digest(log) == digest(kept)


async def test_a_directory_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "memory.db").mkdir()
    with pytest.raises(NAMED):
        async with opened(tmp_path / "memory.db"):
            pass
    assert [file.name for file in tmp_path.iterdir()] == ["memory.db"]
    assert not list((tmp_path / "memory.db").iterdir())


async def test_a_file_where_its_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(NAMED):
        async with opened(tmp_path / "folder" / "memory.db"):
            pass


async def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(NAMED):
        async with opened(tmp_path / ("x" * 300)):
            pass


async def test_a_link_that_leads_nowhere_is_not_an_empty_store(tmp_path: Path) -> None:
    """A store on a disk that is not mounted must not become a new one here."""
    (tmp_path / "memory.db").symlink_to(tmp_path / "not mounted" / "memory.db")
    with pytest.raises(NAMED):
        async with opened(tmp_path / "memory.db"):
            pass


async def test_another_programs_database_keeps_its_log(store: Path) -> None:
    """Not even what that program left to recover is touched."""
    store.unlink()
    log = store.with_name(store.name + "-wal")
    raw = sqlite3.connect(store, isolation_level=None)
    raw.execute("PRAGMA journal_mode = WAL")
    raw.execute("CREATE TABLE things (id)")
    copies = {file: file.read_bytes() for file in (store, log)}
    raw.close()
    for file, content in copies.items():
        file.write_bytes(content)
    with pytest.raises(DamagedStore):
        async with opened(store):
            pass
    assert {file: file.read_bytes() for file in copies} == copies


# -- the file looks well but parts of it are not ---------------------------------------------------------------


async def test_a_sound_store_is_not_changed_by_opening_it(store: Path, sound: tuple[Path, Shown]) -> None:
    before = digest(store)
    async with opened(store):
        pass
    assert digest(store) == before
    assert (await use(store)) == (sound[1], None)


@pytest.mark.parametrize("seed", range(20))
async def test_random_bytes_in_the_middle(store: Path, sound: tuple[Path, Shown], seed: int) -> None:
    """Named, by reading or by verifying, or harmless; and never written over by opening it."""
    chance = random.Random(seed)
    start = chance.randrange(PAGE, store.stat().st_size - 600)
    overwrite(start, chance.randbytes(chance.choice([1, 16, 500])))(store)
    await assert_right_or_named(store, sound[1])


@pytest.mark.parametrize("filling", [b"\x00", b"\xff"])
@pytest.mark.parametrize("seed", range(10))
async def test_a_page_that_was_lost(store: Path, sound: tuple[Path, Shown], seed: int, filling: bytes) -> None:
    page = random.Random(seed).randrange(1, store.stat().st_size // PAGE)
    overwrite(page * PAGE, filling * PAGE)(store)
    await assert_right_or_named(store, sound[1])


@pytest.mark.parametrize("bytes_", [1, 100, PAGE - 1])
async def test_a_last_page_that_was_cut(store: Path, sound: tuple[Path, Shown], bytes_: int) -> None:
    os.truncate(store, store.stat().st_size - bytes_)
    await assert_right_or_named(store, sound[1])


async def assert_right_or_named(store: Path, expected: Shown) -> None:
    before = digest(store)
    try:
        async with opened(store):
            pass
    except NAMED:
        pass
    assert digest(store) == before
    contents, error = await use(store)
    if error is None:
        assert contents == expected, "wrong or missing data went unnoticed"
    else:
        assert isinstance(error, NAMED), repr(error)


@pytest.mark.parametrize("column", ["content", "search_text", "metadata", "tags", "created_at", "id", "content_hash"])
async def test_a_value_that_was_changed_on_the_disk_is_named(
    store: Path, sound: tuple[Path, Shown], column: str
) -> None:
    """Damage that SQLite can't see, since a page has no checksum: the row is well formed but says something else."""
    raw = sqlite3.connect(store, isolation_level=None)
    raw.execute("PRAGMA foreign_keys = OFF")
    raw.execute("PRAGMA ignore_check_constraints = ON")
    for (trigger,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        raw.execute(f"DROP TRIGGER {trigger}")
    value = {"metadata": '{"where": ', "tags": "[1", "created_at": "2026-13-41", "id": "x" * 36}.get(column, "other")
    raw.execute(f"UPDATE episodes SET {column} = ? WHERE num = 7", (value,))
    raw.close()
    await assert_right_or_named(store, sound[1])


@pytest.mark.parametrize(
    "vector", [b"", b"\x00\x00\x80\x3f", b"x" * 2047, b"\x00\x00\xc0\x7f" * 512], ids=["none", "short", "cut", "nan"]
)
async def test_a_damaged_vector_is_named(store: Path, vector: bytes) -> None:
    raw = sqlite3.connect(store)
    raw.execute("UPDATE episodes SET embedding = ? WHERE num = 7", (vector,))
    raw.commit()
    raw.close()
    _, error = await use(store)
    assert isinstance(error, IntegrityError), repr(error)


async def test_verify_names_the_damage_instead_of_failing(store: Path) -> None:
    """It is what a person runs to learn what is wrong."""
    raw = sqlite3.connect(store)
    (root,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'ix_facts_created'").fetchone()
    raw.close()
    overwrite((root - 1) * PAGE, b"\xff" * PAGE)(store)
    async with opened(store) as memory:
        verification = await administer(memory).verify()
    assert not verification.ok
    assert problems(verification)


# -- once damage is seen, nothing is written -------------------------------------------------------------------


@pytest.fixture
def broken(store: Path) -> Path:
    """Opens well, but all facts are lost."""
    raw = sqlite3.connect(store)
    (root,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'facts'").fetchone()
    raw.close()
    overwrite((root - 1) * PAGE, b"\xff" * PAGE)(store)
    return store


READS: dict[str, Callable[[Memory, str], Any]] = {
    "list": lambda memory, id_: memory.list_memories("fact"),
    "keyword": lambda memory, id_: memory.search("common", types=["fact"], mode="keyword", min_confidence=0),
    "semantic": lambda memory, id_: memory.search("common", types=["fact"], mode="semantic"),
    "recall": lambda memory, id_: memory.recall("common"),
    "get": lambda memory, id_: memory.get("fact", id_),
    "forget": lambda memory, id_: memory.forget("fact", id_),
}


def spoil_values(path: Path) -> None:
    """Well formed for SQLite, but no times."""
    raw = sqlite3.connect(path)
    raw.execute("UPDATE facts SET created_at = 'once upon a time'")
    raw.commit()
    raw.close()


@pytest.fixture(params=["pages", "values"])
def damaged(request: pytest.FixtureRequest, store: Path) -> Path:
    """Opens well, but no fact can be read: either SQLite says so, or the values do."""
    if request.param == "values":
        spoil_values(store)
        return store
    return request.getfixturevalue("broken")


@pytest.mark.parametrize("reading", READS)
async def test_after_damage_was_met_nothing_is_written(damaged: Path, sound: tuple[Path, Shown], reading: str) -> None:
    before = digest(damaged)
    fact = next(id_ for id_, (kind, *_) in sound[1].items() if kind == "Fact")
    async with opened(damaged) as memory:
        with pytest.raises(DamagedStore):
            await READS[reading](memory, fact)
        for write in (
            lambda: memory.store_episode("one more", butler="b"),
            lambda: memory.store_rule("one more"),
            lambda: memory.forget("episode", "00000000-0000-0000-0000-000000000001"),
        ):
            with pytest.raises(DamagedStore):
                await write()
    assert digest(damaged) == before


@pytest.mark.parametrize("verb", ["confirm", "forget"])
async def test_damage_met_by_one_of_several_writes_stops_them_all(
    damaged: Path, sound: tuple[Path, Shown], verb: str
) -> None:
    """They share a commit, and nothing is committed to a store that is known to be damaged."""
    before = digest(damaged)
    fact = next(id_ for id_, (kind, *_) in sound[1].items() if kind == "Fact")
    waiting = Event()
    async with opened(damaged) as memory:
        first = asyncio.ensure_future(memory._write(lambda conn: waiting.wait(10)))
        await asyncio.sleep(0.05)  # the writer is busy, so what comes now is done together
        others = asyncio.gather(
            memory.store_episode("one more", butler="b"),
            getattr(memory, verb)("fact", fact),
            memory.store_rule("one more"),
            return_exceptions=True,
        )
        await asyncio.sleep(0.05)
        waiting.set()
        await first
        assert [type(answer) for answer in await others] == [DamagedStore] * 3
        with pytest.raises(DamagedStore):
            await memory.store_rule("one more")
    assert digest(damaged) == before


# -- permissions -----------------------------------------------------------------------------------------------


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that another user can reach, unlike pytest's."""
    folder = Path(tempfile.mkdtemp(prefix="tulving-faults-"))
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


async def make_readable(empty_store: Path, folder: Path) -> Path:
    path = Path(shutil.copyfile(empty_store, folder / "memory.db"))
    async with opened(path) as memory:
        await memory.store_episode("there before", butler="b")
    return path


@pytest.mark.parametrize(
    ("file_mode", "folder_mode"),
    [(0o000, 0o755), (0o000, 0o777), (0o444, 0o555), (0o444, 0o777), (0o666, 0o555), (0o666, 0o000)],
)
async def test_without_the_right_to_it_there_is_a_named_error_or_the_data(
    empty_store: Path, public_folder: Path, tmp_path: Path, children: Children, file_mode: int, folder_mode: int
) -> None:
    path = await make_readable(empty_store, public_folder)
    before = digest(path)
    path.chmod(file_mode)
    public_folder.chmod(folder_mode)
    lines = await asyncio.to_thread(children.run, "use_as_nobody", tmp_path / "log", path=str(path))
    public_folder.chmod(0o777)
    path.chmod(0o666)
    if "read" in lines[0]:
        assert lines[0] == {"read": ["there before"]}
        del lines[0]
    (last,) = lines
    if last != {"written": True}:
        assert "StoreUnavailable" in last["error"], last
        assert digest(path) == before
    if not file_mode:
        assert "error" in last
    async with opened(path) as memory:
        contents = {item.content for item in (await everything(memory)).values()}
    assert contents == {"there before"} | ({"one more"} if last == {"written": True} else set())


async def test_where_nothing_may_be_created_there_is_a_named_error(
    public_folder: Path, tmp_path: Path, children: Children
) -> None:
    public_folder.chmod(0o555)
    path = public_folder / "below" / "memory.db"
    (line,) = await asyncio.to_thread(children.run, "use_as_nobody", tmp_path / "log", path=str(path))
    assert "StoreUnavailable" in line["error"], line
    assert StoreUnavailable is NAMED[1]
    assert not list(public_folder.iterdir())
