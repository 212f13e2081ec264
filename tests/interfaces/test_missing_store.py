"""A mistyped place never becomes an empty memory."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from postgres_server import Server
from raw_sql import run_sql

from tulving import ConfigError, open_memory

pytestmark = pytest.mark.usefixtures("path")  # the store of the environment is a file
UNKNOWN = "00000000-0000-7000-8000-000000000000"
READING = [
    ["stats"],
    ["search", "x"],
    ["recall", "x"],
    ["context", "x"],
    ["list", "fact"],
    ["show", UNKNOWN],
    ["export", "out.jsonl"],
    ["verify"],
    ["reembed"],
    ["reindex"],
    ["backup", "out.db"],
    ["token", "list"],
    ["worker", "--list"],
    ["worker", "--once", "decay_sweep"],
]
WRITING = [["store", "note", "x"], ["token", "create"]]
CHANGING = [["confirm", "fact", UNKNOWN], ["delete", "fact", UNKNOWN], ["cleanup"]]
every_command = pytest.mark.parametrize("command", READING + WRITING + CHANGING + [["migrate"]], ids=" ".join)


@every_command
@pytest.mark.parametrize("place", ["missing.db", "no/such/folder/missing.db"])
def test_a_missing_store_at_a_url_is_named_and_not_made(cli: Callable, tmp_path: Path, command: list[str], place: str):
    before = sorted(tmp_path.rglob("*"))
    ran = cli("--url", place, *command)
    assert (ran.code, ran.out) == (2, "")
    assert f"there is no memory at {tmp_path / place}" in ran.err
    assert ran.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_the_environments_url_is_named_too(cli: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("TULVING_URL", f"sqlite:///{tmp_path}/typo.db")
    ran = cli("store", "note", "x")
    assert (ran.code, "tulving init" in ran.err) == (2, True)
    assert not (tmp_path / "typo.db").exists()


@pytest.mark.parametrize("command", [["--url", "", "stats"], ["copy", "", "to.db"], ["copy", " ", "to.db"]], ids=repr)
def test_an_empty_place_is_no_place(cli: Callable, tmp_path: Path, command: list[str]):
    ran = cli(*command)
    assert (ran.code, "is empty" in ran.err) == (2, True)
    assert not (tmp_path / "to.db").exists()


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_reading_makes_nothing_in_the_persons_own_place_either(
    cli: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: list[str]
):
    monkeypatch.delenv("TULVING_URL")
    ran = cli(*command)
    assert (ran.code, "there is no memory at" in ran.err) == (2, True)
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("command", WRITING, ids=" ".join)
def test_storing_makes_the_persons_own_store(
    cli: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: list[str]
):
    monkeypatch.delenv("TULVING_URL")
    assert cli(*command).code == 0
    assert (tmp_path / "home" / "memory.db").is_file()


def test_what_is_meant_to_make_a_store_makes_it_in_a_folder_that_is_there(cli: Callable, tmp_path: Path):
    assert cli("export", "all.jsonl").code == 0
    assert cli("backup", "backup.db").code == 0
    making = [
        (["import", "all.jsonl"], "url"),
        (["demo"], "url"),
        (["restore", "backup.db"], "url"),
        (["copy", "memory.db", "TARGET"], "target"),
    ]
    for number, (command, field) in enumerate(making):
        for place, code in ((tmp_path / "none" / "new.db", 2), (tmp_path / f"new{number}.db", 0)):
            words = [str(place) if word == "TARGET" else word for word in command]
            options = [] if "TARGET" in command else ["--url", str(place)]
            ran = cli(*options, *words)
            assert ran.code == code, ran.err
            assert place.exists() is (code == 0)
            assert code == 0 or ran.err.startswith(f"error: {field}: there is no folder {tmp_path / 'none'}")
    assert not (tmp_path / "none").exists()
    assert cli("--url", "none/here/new.db", "init").code == 0
    assert (tmp_path / "none" / "here" / "new.db").is_file()


@pytest.fixture
def empty(environ: dict[str, str], postgres: Server) -> Iterator[str]:
    """A database without any of our tables."""
    url = asyncio.run(postgres.create_database())
    yield url
    asyncio.run(postgres.drop_database(url))


TABLES = "SELECT count(*) AS found FROM pg_tables WHERE schemaname = 'public'"


def test_a_database_without_a_schema_is_not_given_one_by_reading_or_storing(cli: Callable, empty: str):
    for command in (["stats"], ["store", "note", "x"], ["verify"]):
        ran = cli("--url", empty, *command)
        assert (ran.code, ran.out) == (2, "")
        assert "there is no memory at postgresql://" in ran.err
    assert run_sql(empty, TABLES) == [{"found": 0}]
    assert cli("--url", empty, "init").code == 0
    assert cli("--url", empty, "stats").code == 0


async def test_the_library_sets_up_a_database_unless_it_is_told_not_to(empty: str):
    with pytest.raises(ConfigError, match="there is no memory"):
        async with open_memory(empty, embedder="hashing", create="never"):
            pass
    async with open_memory(empty, embedder="hashing") as memory:
        assert (await memory.stats()).facts.total == 0


async def test_the_library_makes_a_file_but_no_folder(environ: dict[str, str], tmp_path: Path):
    async with open_memory("new.db"):
        assert (tmp_path / "new.db").is_file()
    for url in ("no/folder/new.db", f"sqlite:///{tmp_path}/no/folder/new.db", tmp_path / "no" / "folder" / "new.db"):
        with pytest.raises(ConfigError, match=f"url: there is no folder {tmp_path}/no/folder"):
            async with open_memory(url):
                pass
        with pytest.raises(ConfigError, match=f"url: there is no memory at {tmp_path}/no/folder/new.db"):
            async with open_memory(url, create="never"):
                pass
    assert not (tmp_path / "no").exists()
    async with open_memory("no/folder/new.db", create="folders"):
        assert (tmp_path / "no" / "folder" / "new.db").is_file()


def test_a_server_makes_the_file_it_was_configured_with_and_says_so(process: Callable, tmp_path: Path):
    call = (
        '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
        '"clientInfo":{"name":"x","version":"1"}}}\n'
        '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"memory_stats","arguments":{}}}\n'
    )
    ran = process("--url", "first.db", "mcp", stdin=call)
    assert f"There is no memory at {tmp_path / 'first.db'} yet" in ran.err
    assert (tmp_path / "first.db").is_file()
    assert "There is no memory" not in process("--url", "first.db", "mcp", stdin=call).err
    ran = process("--url", "no/folder/first.db", "mcp", stdin=call)
    assert (ran.code, ran.out) == (2, "")
    assert "there is no folder" in ran.err
    assert not (tmp_path / "no").exists()
