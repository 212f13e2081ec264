"""The MCP server, driven by a real client: as a process over stdio, and within this process where that is enough."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from mcp import Client
from raw_sql import run_sql

from tulving import open_memory
from tulving.interfaces.calls import open_lazily
from tulving.interfaces.mcp.server import Principal, build_server
from tulving.services.operations import OPERATIONS
from tulving.settings import MemoryModuleConfig, RetrievalConfig
from tulving.testing import WordEmbedder

STANDARD = {
    "memory_store_episode",
    "memory_store_fact",
    "memory_store_rule",
    "memory_search",
    "memory_recall",
    "memory_get",
    "memory_confirm",
    "memory_forget",
    "memory_context",
    "memory_mark_helpful",
    "memory_mark_harmful",
    "memory_run_consolidation",
    "memory_run_episode_cleanup",
    "memory_stats",
    "entity_create",
    "entity_get",
    "entity_update",
    "entity_resolve",
    "entity_merge",
}
REQUIRED = object()


@pytest.fixture
def config(path: Path) -> MemoryModuleConfig:
    return MemoryModuleConfig(url=str(path), embedder="hashing")


@asynccontextmanager
async def serving(config: MemoryModuleConfig, mode: str = "auto") -> AsyncIterator[Client]:
    """A client of a server in this process, whose embedder is deterministic."""
    opener = open_lazily(lambda: open_memory(config=config, embedder=WordEmbedder()))
    async with opener as memory, Client(build_server(config, lambda _: Principal(memory)), mode=mode) as client:
        yield client


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured answer of a tool; its text names the same memories, and no vector is in it."""
    result = await client.call_tool(tool, arguments)
    [block] = result.content
    assert not result.is_error, block.text
    value = result.structured_content
    if isinstance(value.get("context"), str):
        assert block.text == value["context"]
    elif arguments.get("detail") == "full":
        assert json.loads(block.text) == value
    else:
        assert all(hit["id"] in block.text for hit in value.get("results", ()))
        assert value.get("warning", "") in block.text
    assert "embedding" not in block.text
    return value


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return result.content[0].text


def offered(tool: Any) -> dict[str, Any]:
    """A tool's parameters with their defaults."""
    schema = tool.input_schema
    return {
        name: REQUIRED if name in schema["required"] else inner.get("default")
        for name, inner in schema["properties"].items()
    }


@pytest.mark.usefixtures("path")  # whatever the engine
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_session_over_stdio(connect, mode: str):
    async with connect(mode) as client:
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        assert "memory_context" in client.instructions
        assert "keyword only" not in client.instructions
        assert {tool.name for tool in (await client.list_tools()).tools} == STANDARD

        old = await ask(client, "memory_store_fact", subject="Anna", predicate="color", content="green")
        fact = await ask(client, "memory_store_fact", subject="Anna", predicate="color", content="blue")
        assert (old["outcome"], fact["outcome"]) == ("stored", "superseded")
        assert fact["superseded_id"] == old["id"] == str(UUID(old["id"]))
        rule = await ask(client, "memory_store_rule", content="Ask Anna about her favourite color")
        episode = await ask(client, "memory_store_episode", content="Anna painted a wall", butler="painter")
        assert episode["expires_at"].endswith("+00:00")

        found = await ask(client, "memory_recall", topic="color of Anna")
        assert {hit["id"] for hit in found["results"]} == {fact["id"], rule["id"], episode["id"]}
        assert found["results"][0]["score"] > 0
        known = await ask(client, "memory_recall", topic="color of Anna", types=["fact", "rule"])
        assert {hit["id"] for hit in known["results"]} == {fact["id"], rule["id"]}
        everything = await ask(client, "memory_search", query="Anna", types=["episode"])
        assert [hit["id"] for hit in everything["results"]] == [episode["id"]]

        memory = (await ask(client, "memory_get", memory_type="fact", memory_id=fact["id"], detail="full"))["memory"]
        assert (memory["content"], memory["state"], memory["reference_count"]) == ("blue", "active", 3)
        assert isinstance(memory["created_at"], str)
        assert await ask(client, "memory_confirm", memory_type="rule", memory_id=rule["id"]) == {"confirmed": True}
        block = (await ask(client, "memory_context", trigger_prompt="Anna", butler="painter"))["context"]
        assert block.startswith("# Memory Context\n")
        assert "[Anna] [color]: blue" in block
        assert await ask(client, "memory_forget", memory_type="fact", memory_id=fact["id"]) == {"forgotten": True}
        assert "blue" not in (await ask(client, "memory_context", trigger_prompt="Anna", butler="painter"))["context"]


async def test_a_fact_that_is_stored_again_takes_over_only_what_is_given(config: MemoryModuleConfig):
    async with serving(config) as client:
        fact = {"subject": "Anna", "predicate": "color", "content": "green"}
        stored = await ask(client, "memory_store_fact", **fact, importance=9, tags=["home"], confidence=0.7)
        again = await ask(client, "memory_store_fact", **fact, permanence="stable", importance=None)
        assert (again["id"], again["outcome"]) == (stored["id"], "confirmed")
        memory = (await ask(client, "memory_get", memory_type="fact", memory_id=stored["id"], detail="full"))["memory"]
        assert (memory["importance"], memory["tags"], memory["confidence"]) == (9.0, ["home"], 0.7)
        assert (memory["permanence"], memory["decay_rate"]) == ("stable", 0.002)


@pytest.mark.scenario("001-080", "001-081", "001-082", "001-083", "001-084", "001-086")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_tools_have_the_specified_parameters_and_defaults(config: MemoryModuleConfig, mode: str):
    specified = {
        "memory_store_episode": {"content": REQUIRED, "butler": None, "session_id": None, "importance": 5.0},
        "memory_store_fact": {
            "subject": REQUIRED,
            "predicate": REQUIRED,
            "content": REQUIRED,
            "importance": 5.0,
            "permanence": "standard",
            "scope": "global",
            "tags": None,
        },
        "memory_store_rule": {"content": REQUIRED, "scope": "global", "tags": None},
        "memory_search": {
            "query": REQUIRED,
            "types": None,
            "scope": None,
            "mode": "hybrid",
            "limit": 10,
            "min_confidence": 0.2,
        },
        "memory_recall": {"topic": REQUIRED, "scope": None, "limit": 10},
        "memory_get": {"memory_type": REQUIRED, "memory_id": REQUIRED},
        "memory_confirm": {"memory_type": REQUIRED, "memory_id": REQUIRED},
        "memory_forget": {"memory_type": REQUIRED, "memory_id": REQUIRED},
        "memory_context": {"trigger_prompt": REQUIRED, "butler": None, "token_budget": 3000},
        "memory_mark_helpful": {"rule_id": REQUIRED},
        "memory_mark_harmful": {"rule_id": REQUIRED, "reason": None},
        "memory_run_consolidation": {"butler": None, "dry_run": False},
        "memory_run_episode_cleanup": {"max_entries": 10000},
        "memory_stats": {"scope": None},
    }
    async with serving(config, mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == STANDARD
    assert len(STANDARD) == 19
    assert set(specified) == {name for name in STANDARD if name.startswith("memory_")}
    for name, parameters in specified.items():
        assert parameters.items() <= offered(tools[name]).items(), name


async def test_schemas_are_those_of_json(config: MemoryModuleConfig):
    async with serving(config) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    search = tools["memory_search"].input_schema["properties"]
    assert search["types"]["items"] == {"type": "string", "enum": ["episode", "fact", "rule"]}
    assert search["mode"]["enum"] == ["hybrid", "semantic", "keyword"]
    assert (search["since"]["type"], search["since"]["format"]) == ("string", "date-time")
    assert tools["memory_get"].input_schema["properties"]["memory_id"]["type"] == "string"
    for tool in tools.values():
        assert "self" not in tool.input_schema["properties"]
        assert "tenant_id" not in tool.input_schema["properties"] or tool.name.startswith("entity_")
        assert all(inner["description"] for inner in tool.input_schema["properties"].values()), tool.name
        assert tool.description and tool.title
        assert tool.output_schema["type"] == "object"


async def test_hints_tell_what_a_tool_may_do(config: MemoryModuleConfig):
    async with serving(config) as client:
        hints = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
    reading = {name for name, hint in hints.items() if hint.read_only_hint}
    assert reading == {
        "memory_search",
        "memory_recall",
        "memory_get",
        "memory_context",
        "memory_stats",
        "entity_get",
        "entity_resolve",
    }
    assert {name for name, hint in hints.items() if hint.destructive_hint} == {
        "memory_forget",
        "memory_run_episode_cleanup",
        "entity_merge",
    }
    assert {name for name, hint in hints.items() if hint.idempotent_hint} == {
        "memory_confirm",
        "memory_forget",
        "memory_run_episode_cleanup",
        "entity_update",
    }
    assert not any(hint.open_world_hint for hint in hints.values())


async def test_the_full_tool_set_is_opt_in_and_configured_defaults_are_used(path: Path):
    retrieval = RetrievalConfig(default_limit=1, default_mode="keyword", context_token_budget=50)
    config = MemoryModuleConfig(url=str(path), tools="all", retrieval=retrieval)
    async with serving(config) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {name for name, each in OPERATIONS.items() if each.for_models}
        assert offered(tools["memory_search"])["limit"] == 1
        assert offered(tools["memory_search"])["mode"] == "keyword"
        assert offered(tools["memory_context"])["token_budget"] == 50
        for word in ("one", "two"):
            await ask(client, "memory_store_note", content=f"note {word}")
        found = await ask(client, "memory_search", query="note")
        assert (len(found["results"]), found["mode"]) == (1, "keyword")
        page = await ask(client, "memory_list", memory_type="fact", limit=1)
        assert len(page["items"]) == 1
        assert page["next_cursor"]


@pytest.mark.scenario("000-027")
async def test_a_model_sees_and_reverts_conflicts_over_stdio(connect):
    tea, no_tea = "The user drinks green tea in the morning", "The user does not drink green tea in the morning"
    async with connect(TULVING_TOOLS="all") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        promised = tools["memory_store_note"].output_schema
        assert promised["properties"]["conflict"]["properties"]["reason"] == {"type": "string"}
        assert "conflict" not in promised["required"]
        assert tools["memory_conflicts"].annotations.read_only_hint is True
        assert not any("merge_rule" in name or name.startswith("memory_accept") for name in tools)

        old = await ask(client, "memory_store_note", content=tea, occurred_at="2026-01-01T00:00:00Z")
        assert "conflict" not in old
        new = await ask(client, "memory_store_note", content=no_tea, occurred_at="2026-01-01T12:00:00Z")
        assert (new["outcome"], new["superseded_id"]) == ("superseded", old["id"])
        conflict = new["conflict"]
        assert (conflict["reason"], conflict["confidence"], conflict["rule"]) == ("newer by 12 hours", 0.5, "default")
        [report] = (await ask(client, "memory_conflicts"))["conflicts"]
        assert report["settlement"] == conflict
        assert (report["candidate"]["content"], report["existing"]["state"]) == (no_tea, "superseded")
        assert report["merged"] is None
        assert (await ask(client, "memory_conflicts", status="held", limit=1))["conflicts"] == []
        reverted = await ask(client, "memory_revert_conflict", conflict_id=conflict["id"])
        assert (reverted["id"], reverted["status"]) == (conflict["id"], "reverted")
        for tool, arguments, problem in (
            ("memory_conflicts", {"status": "open"}, "status: 'open' is not known"),
            ("memory_conflicts", {"status": 5}, "status"),
            ("memory_conflicts", {"limit": 0}, "limit"),
            ("memory_conflicts", {"limit": "many"}, "limit"),
            ("memory_revert_conflict", {}, "conflict_id"),
            ("memory_revert_conflict", {"conflict_id": "x\x00"}, "conflict_id"),
            ("memory_revert_conflict", {"conflict_id": str(UUID(int=9))}, "there is no conflict"),
            ("memory_revert_conflict", {"conflict_id": conflict["id"]}, "it is reverted"),
            ("memory_accept_conflict", {"conflict_id": conflict["id"]}, "memory_accept_conflict"),
        ):
            assert problem in await refused(client, tool, **arguments), (tool, arguments)
    async with connect(TULVING_TOOLS="all", TULVING_USER_ID="anna") as client:
        assert (await ask(client, "memory_conflicts"))["conflicts"] == []


async def test_bad_input_is_an_answer_that_names_the_field_and_what_is_allowed(config: MemoryModuleConfig):
    async with serving(config) as client:
        assert "hybrid, keyword, semantic" in await refused(client, "memory_search", query="x", mode="magic")
        message = await refused(client, "memory_store_episode", content="x", butler="me", importance=11)
        assert message == "importance: is 11; allowed: a number from 0 to 10"
        assert "query: is missing" in await refused(client, "memory_search")
        assert "limit" in await refused(client, "memory_search", query="x", limt=3)
        assert "episode, fact, rule" in await refused(client, "memory_get", memory_type="dream", memory_id="x")
        assert "a UUID" in await refused(client, "memory_get", memory_type="fact", memory_id="x")
        assert "fact, rule" in await refused(
            client, "memory_confirm", memory_type="episode", memory_id=str(UUID(int=1))
        )
        assert "memory_recall" in await refused(client, "memory_dream")
        assert "tenant_id" in await refused(client, "memory_recall", topic="x", tenant_id="other")


async def test_hosts_that_send_everything_as_text_are_understood(config: MemoryModuleConfig):
    async with serving(config) as client:
        stored = await ask(
            client,
            "memory_store_episode",
            content="[1, 2]",
            butler="me",
            importance="7",
            tags='["a"]',
            metadata='{"k": 1}',
            session_id=None,
        )
        memory = (await ask(client, "memory_get", memory_type="episode", memory_id=stored["id"]))["memory"]
    assert memory["content"] == "[1, 2]"
    assert (memory["importance"], memory["tags"], memory["metadata"]) == (7.0, ["a"], {"k": 1})


async def test_an_unexpected_error_is_logged_and_told_in_short(
    config: MemoryModuleConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def broken(*arguments: Any, **named: Any) -> None:
        raise ZeroDivisionError("the secret of the house")

    monkeypatch.setattr("tulving.services.memory.Memory.confirm", broken)
    async with serving(config) as client:
        message = await refused(client, "memory_confirm", memory_type="fact", memory_id=str(UUID(int=1)))
    assert "ZeroDivisionError" in message
    assert "secret" not in message
    assert "the secret of the house" in caplog.text


async def test_another_tenants_memory_does_not_exist(config: MemoryModuleConfig, path: Path):
    async with open_memory(path, tenant="other", config=config, embedder=WordEmbedder()) as other:
        theirs = str((await other.store_fact("Anna", "color", "green")).id)
    async with serving(config) as client:
        assert await ask(client, "memory_get", memory_type="fact", memory_id=theirs) == {"memory": None}
        assert await ask(client, "memory_confirm", memory_type="fact", memory_id=theirs) == {"confirmed": False}
        assert await ask(client, "memory_forget", memory_type="fact", memory_id=theirs) == {"forgotten": False}
        assert (await ask(client, "memory_recall", topic="Anna color green"))["results"] == []


async def test_a_damaged_store_is_named_and_never_fails_open(config: MemoryModuleConfig, path: Path):
    path.write_bytes(os.urandom(20_000))
    before = path.read_bytes()
    async with serving(config) as client:
        for tool, arguments in (
            ("memory_context", {"trigger_prompt": "x", "butler": "me"}),
            ("memory_store_episode", {"content": "x", "butler": "me"}),
            ("memory_recall", {"topic": "x"}),
        ):
            assert str(path) in await refused(client, tool, **arguments)
    assert path.read_bytes() == before


async def test_without_weights_the_instructions_say_so(path: Path, environ: dict[str, str]):
    config = MemoryModuleConfig(url=str(path), embedder="minilm")
    async with (
        open_lazily(lambda: open_memory(config=config)) as memory,
        Client(build_server(config, lambda _: Principal(memory))) as client,
    ):
        assert "keyword only" in client.instructions
        assert "tulving init" in client.instructions
        stored = await ask(client, "memory_store_fact", subject="Anna", predicate="color", content="green")
        assert "tulving init" in stored["warning"]
        found = await ask(client, "memory_recall", topic="color")
        assert (found["mode"], len(found["results"])) == ("keyword", 1)


@pytest.mark.usefixtures("path")  # whatever the engine
def test_nothing_heavy_is_loaded_for_a_list_of_tools(environ: dict[str, str]):
    script = """
        import asyncio, sys
        from mcp import Client
        from tulving.bootstrap import open_memory
        from tulving.config import load_config
        from tulving.interfaces.calls import open_lazily
        from tulving.interfaces.mcp.server import Principal, build_server

        async def main():
            config = load_config(embedder="minilm")
            async with open_lazily(lambda: open_memory(config=config)) as memory:
                async with Client(build_server(config, lambda _: Principal(memory))) as client:
                    assert (await client.list_tools()).tools

        asyncio.run(main())
        print([name for name in ("numpy", "onnxruntime", "sqlalchemy", "alembic", "sqlite3") if name in sys.modules])
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60)
    assert ran.stdout.strip() == "[]", ran.stderr


@pytest.mark.parametrize("tools", ["standard", "all"])
async def test_how_to_learn_is_told_where_the_tool_for_it_is_offered(path: Path, tools: str):
    async with serving(MemoryModuleConfig(url=str(path), tools=tools)) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert ("memory_learn_prompt" in client.instructions) == ("memory_learn_prompt" in names) == (tools == "all")


@pytest.mark.usefixtures("path")  # whatever the engine
def test_a_client_is_greeted_before_the_services_are_loaded(environ: dict[str, str]):
    script = """
        import asyncio, sys
        from mcp import Client
        from tulving.config import load_config
        from tulving.interfaces.mcp.server import Principal, build_server

        def late():
            return [name for name in ("tulving.bootstrap", "tulving.services.memory") if name in sys.modules]

        async def main():
            server = build_server(load_config(embedder="minilm"), lambda _: Principal(lambda: None))
            async with Client(server) as client:
                print(bool(client.instructions), late())
                print(bool((await client.list_tools()).tools), late())

        asyncio.run(main())
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60)
    assert ran.stdout.splitlines() == ["True []", "True ['tulving.services.memory']"], ran.stderr


def message(number: int | None, method: str, **params: Any) -> str:
    values: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(values if number is None else values | {"id": number}) + "\n"


def opening(version: str = "2025-06-18") -> str:
    client = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return message(1, "initialize", **client) + message(None, "notifications/initialized")


def store(number: int) -> str:
    arguments = {"content": f"episode {number}", "butler": "me"}
    return message(number, "tools/call", name="memory_store_episode", arguments=arguments)


def told(errors: str) -> list[str]:
    """What was said there, besides the advice to update an old pgvector."""
    return [line for line in errors.splitlines() if "WARNING tulving: pgvector" not in line]


def test_what_was_asked_before_the_end_of_input_is_still_done_and_answered(process, url: str):
    requests = [opening(), *map(store, range(2, 12)), message(12, "no/such/method")]
    ran = process("mcp", stdin="".join(requests))
    assert (ran.code, told(ran.err)) == (0, [])
    answers = {answer["id"]: answer for answer in map(json.loads, ran.out.splitlines())}
    assert set(answers) == set(range(1, 13))
    assert all(answers[number]["result"]["structuredContent"]["outcome"] == "stored" for number in range(2, 12))
    assert run_sql(url, "SELECT count(*) AS n FROM episodes") == [{"n": 10}]


@pytest.mark.usefixtures("path")  # whatever the engine
def test_a_cancelled_request_does_not_keep_the_server(process):
    cancelled = message(None, "notifications/cancelled", requestId=2)
    assert process("mcp", stdin=opening() + store(2) + cancelled).code == 0


@pytest.mark.usefixtures("path")  # whatever the engine
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_as_the_end_of_input_does(environ: dict[str, str], url: str, number: int):
    with subprocess.Popen(
        [sys.executable, "-m", "tulving", "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin and server.stdout and server.stderr
        server.stdin.write(opening() + store(2))
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(2)]
        assert [answer["id"] for answer in answers] == [1, 2]
        server.send_signal(number)
        assert server.wait(20) == 0
        assert (server.stdout.read(), told(server.stderr.read())) == ("", [])
    assert run_sql(url, "SELECT count(*) AS n FROM episodes") == [{"n": 1}]


def test_what_was_acknowledged_survives_a_kill(environ: dict[str, str], url: str):
    with subprocess.Popen(
        [sys.executable, "-m", "tulving", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin and server.stdout
        server.stdin.write(opening() + "".join(map(store, range(2, 22))))
        server.stdin.flush()
        answered = {json.loads(server.stdout.readline())["id"] for _ in range(11)} - {1}
        server.kill()
    kept = {int(row["content"].split()[1]) for row in run_sql(url, "SELECT content FROM episodes")}
    assert answered <= kept


@pytest.mark.usefixtures("path")  # whatever the engine
def test_the_tool_set_may_be_chosen_for_one_server(process):
    ran = process("mcp", "--tools", "minimal", stdin=opening() + message(2, "tools/list"), TULVING_TOOLS="all")
    greeted, listed = map(json.loads, ran.out.splitlines())
    assert "memory_learn_prompt" not in greeted["result"]["instructions"]
    assert len(listed["result"]["tools"]) == 5
    ran = process("mcp", "--tools", "few")
    assert (ran.code, ran.out) == (2, "") and "allowed: minimal, standard, all" in ran.err


@pytest.mark.usefixtures("path")  # whatever the engine
def test_a_wrong_setting_is_said_at_once(process):
    ran = process("mcp", TULVING_TOOLS="none of them")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: tools: has a value that is not allowed; allowed: minimal, standard, all\n"
