"""Tulving inside a host: the host's own database and MCP server, and a real client of that server."""

import asyncio
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from folders import trust_folder
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp_types import Implementation
from postgres_server import Server
from raw_sql import run_sql

import tulving
from tulving import embedders
from tulving.domain.scope import Caller
from tulving.errors import ConfigError, StoreUnavailable
from tulving.interfaces.host_module import MemoryModule, Module
from tulving.interfaces.mcp.server import Principal, build_server
from tulving.providers.hashing import Hashing
from tulving.services.operations import OPERATIONS
from tulving.settings import MemoryModuleConfig, RetrievalConfig
from tulving.storage import migrations

CONFIG = MemoryModuleConfig(embedder="hashing")
SOURCE = str(Path(tulving.__file__).parents[1])
PAGE = Path(__file__).parents[2] / "docs" / "host-module.md"
TEA = {"subject": "Anna", "predicate": "tea", "content": "green tea"}


@dataclass
class Database:
    """What hosts of this kind hand to their modules."""

    pool: Any


@pytest.fixture
async def pool(postgres: Server) -> AsyncIterator[asyncpg.Pool]:
    """A host's pool on an empty database: one connection, never reset, so the host sees whatever is left on it."""

    async def leave_as_it_is(_: Any) -> None:
        pass

    url = await postgres.create_database()
    async with asyncpg.create_pool(url, min_size=1, max_size=1, reset=leave_as_it_is) as pool:
        yield pool
    await postgres.drop_database(url)


@pytest.fixture
async def db(engine: str, url: str) -> AsyncIterator[Any]:
    """The database of a host on either engine."""
    if engine == "sqlite":
        yield url
    else:
        async with asyncpg.create_pool(url, min_size=0) as pool:
            yield Database(pool)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory and a home without anything in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TULVING_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", SOURCE)
    return tmp_path


@asynccontextmanager
async def hosting(
    db: Any, config: Any = CONFIG, module: MemoryModule | None = None, **how: Any
) -> AsyncIterator[tuple[MemoryModule, Client]]:
    """A host that runs, and a client of it."""
    module, server = module or MemoryModule(), MCPServer("host", **how)
    await module.on_startup(config, db)
    await module.register_tools(server, config, db)
    try:
        async with Client(server) as client:
            yield module, client
    finally:
        await module.on_shutdown()


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    if tool in ("memory_get", "memory_recall", "memory_search"):
        arguments["detail"] = "full"
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return result.content[0].text


def test_the_module_says_who_it_is():
    module = MemoryModule()
    assert isinstance(module, Module)
    assert (module.name, module.dependencies, module.config_schema) == ("memory", [], MemoryModuleConfig)
    assert issubclass(tulving.MemoryModule, tulving.Module)
    with pytest.raises(TypeError):
        Module()  # pyright: ignore


def test_the_branch_label_is_that_of_the_migrations():
    folder = Path(migrations.__file__).parent / "versions"
    assert (
        f'branch_labels = ("{MemoryModule().migration_revisions()}",)' in (folder / "mem_001_baseline.py").read_text()
    )


def test_nothing_heavy_is_loaded_before_it_is_needed(folder: Path):
    program = """
import asyncio, sys
from tulving.interfaces.host_module import MemoryModule
heavy = {"alembic", "asyncpg", "mcp", "numpy", "onnxruntime", "pydantic", "sqlalchemy"}
print(sorted(heavy & set(sys.modules)))
async def main():
    module = MemoryModule()
    await module.on_startup({"embedder": "minilm"}, "memory.db")
    print(sorted({"asyncpg", "mcp", "onnxruntime", "pydantic"} & set(sys.modules)))
    await module.on_shutdown()
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]


@pytest.mark.scenario("001-113")
async def test_start_keeps_the_database_and_the_settings(db: Any):
    module = MemoryModule()
    await module.on_startup(CONFIG, db)
    assert module._db is db
    assert module._config is CONFIG
    await module.on_shutdown()


@pytest.mark.scenario("001-114")
async def test_shutdown_lets_go_of_the_database_and_the_engine(db: Any):
    async with hosting(db) as (module, client):
        await ask(client, "memory_store_fact", **TEA)
        await module.on_shutdown()
        assert module._db is module._embedding_engine is None
        assert "the memory module is not running" in await refused(client, "memory_store_fact", **TEA)
        assert "the memory module is not running" in (await ask(client, "memory_search", query="tea"))["warning"]
        await module.on_shutdown()


async def test_calls_under_way_at_the_end_are_finished_or_refused_clearly(db: Any):
    async with hosting(db) as (module, client):
        facts = [TEA | {"predicate": f"tea {number}"} for number in range(20)]
        calls = [asyncio.create_task(client.call_tool("memory_store_fact", fact)) for fact in facts]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        await module.on_shutdown()
        done = await asyncio.gather(*calls)
        assert any(not result.is_error for result in done)
        for result in done:
            assert not result.is_error or re.search("not running|closed", result.content[0].text)
        await module.on_startup(CONFIG, db)
        kept = (await ask(client, "memory_search", query="tea", limit=50))["results"]
        assert len(kept) == sum(not result.is_error for result in done)


@pytest.mark.scenario("001-115")
async def test_one_engine_is_made_when_it_is_first_needed_and_shared_by_all(
    new_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
):
    made: list[int] = []

    class Counted(Hashing):
        def __init__(self, dimension: int) -> None:
            made.append(dimension)
            super().__init__(dimension)

    monkeypatch.setattr(embedders, "_engines", {})
    monkeypatch.setattr("tulving.providers.hashing.Hashing", Counted)
    first, second = MemoryModule(), MemoryModule()
    assert first._embedding_engine is None
    assert made == []
    async with hosting(new_url(), module=first) as (_, one), hosting(new_url(), module=second) as (_, other):
        await asyncio.gather(*(ask(each, "memory_store_fact", **TEA) for each in (one, other, one, other)))
        await ask(one, "memory_recall", topic="tea")
        engine = embedders.get_embedding_engine("hashing")
        assert first._get_embedding_engine() is second._get_embedding_engine() is engine
    assert made == [256]


async def test_a_session_on_the_hosts_server(db: Any):
    async with hosting(db) as (_, client):
        old = await ask(client, "memory_store_fact", subject="Anna", predicate="color", content="green")
        fact = await ask(client, "memory_store_fact", subject="Anna", predicate="color", content="blue", tags=["x"])
        assert (fact["outcome"], fact["superseded_id"]) == ("superseded", old["id"])
        await ask(client, "memory_store_episode", content="Anna painted a wall", butler="painter", metadata={"k": [1]})
        await ask(client, "memory_store_rule", content="Ask Anna about her favourite color")
        found = await ask(client, "memory_search", query="Anna", types=["fact", "episode"], limit=5)
        assert {hit["memory_type"] for hit in found["results"]} == {"fact", "episode"}
        memory = (await ask(client, "memory_get", memory_type="fact", memory_id=fact["id"]))["memory"]
        assert (memory["content"], memory["tags"], memory["tenant_id"]) == ("blue", ["x"], "default")
        context = (await ask(client, "memory_context", trigger_prompt="Anna", butler="painter"))["context"]
        assert context.startswith("# Memory Context\n")
        assert "[Anna] [color]: blue" in context
        assert await ask(client, "memory_forget", memory_type="fact", memory_id=fact["id"]) == {"forgotten": True}


@pytest.mark.scenario("001-080", "001-081", "001-083", "001-084")
@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        MemoryModuleConfig(
            tools="all", retrieval=RetrievalConfig(default_limit=3, default_mode="keyword", context_token_budget=50)
        ),
    ],
    ids=["standard", "all"],
)
async def test_tools_are_those_of_our_own_server(config: MemoryModuleConfig):
    """Which are tested against the specification; the pool, the engine and the tenant are in neither."""
    own = build_server(config, lambda _: Principal(lambda: pytest.fail("opened")))
    hosts = MCPServer("host")
    await MemoryModule().register_tools(hosts, config)
    async with Client(own) as ours, Client(hosts) as theirs:
        expected = {tool.name: tool for tool in (await ours.list_tools()).tools}
        offered = {tool.name: tool for tool in (await theirs.list_tools()).tools}
    assert list(offered) == list(expected)
    for name, tool in offered.items():
        assert tool.title == expected[name].title
        assert tool.description == expected[name].description
        assert tool.annotations == expected[name].annotations
        shown = {
            word: {key: value for key, value in schema.items() if key != "title"}
            for word, schema in tool.input_schema["properties"].items()
        }
        assert shown == expected[name].input_schema["properties"]
        assert tool.input_schema.get("required", []) == expected[name].input_schema["required"]
        assert tool.output_schema["type"] == "object"


async def test_arguments_are_read_as_everywhere_else(db: Any):
    async with hosting(db) as (_, client):
        odd = {"title": "null", "source": '["x"]', "project": "true", "content": "[1, 2]"}
        given = {**odd, "butler": "7", "importance": "7.5", "tags": '["a"]', "type": None}
        stored = await ask(client, "memory_store_episode", **given)
        memory = (await ask(client, "memory_get", memory_type="episode", memory_id=stored["id"]))["memory"]
        assert {name: memory[name] for name in odd} == odd
        assert (memory["butler"], memory["importance"], memory["tags"]) == ("7", 7.5, ["a"])


async def test_what_a_model_must_correct_is_told_to_it(db: Any):
    async with hosting(db) as (_, client):
        assert "hybrid, keyword, semantic" in await refused(client, "memory_search", query="x", mode="magic")
        assert "limit: 'many' is not a whole number" in await refused(client, "memory_search", query="x", limit="many")
        assert "subject" in await refused(client, "memory_store_fact", predicate="tea", content="green")
        assert "memory_id" in await refused(client, "memory_confirm", memory_type="fact", memory_id="no id")


@pytest.mark.scenario("001-099", "001-100")
async def test_what_fails_open_answers_when_the_store_is_gone(pool: asyncpg.Pool):
    async with hosting(pool) as (_, client):
        await pool.close()
        block = (await ask(client, "memory_context", trigger_prompt="tea", butler="b"))["context"]
        assert block.startswith("# Memory Context\n")
        assert "not available" in block
        assert "could not be searched" in (await ask(client, "memory_recall", topic="tea"))["warning"]
        answered = await ask(client, "memory_store_episode", content="x", butler="b")
        assert (answered.keys(), answered["stored"]) == ({"stored", "warning"}, False)
        assert "memory_store_fact" in await refused(client, "memory_store_fact", **TEA)


async def test_a_failure_of_ours_is_not_told_in_full(db: Any, monkeypatch: pytest.MonkeyPatch):
    async def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret")

    async with hosting(db) as (module, client):
        monkeypatch.setattr(type(module._memory), "store_fact", fail)
        said = await refused(client, "memory_store_fact", **TEA)
        assert "failed unexpectedly (RuntimeError)" in said
        assert "secret" not in said


who: ContextVar[str] = ContextVar("who")


async def authenticate(context: Any, go_on: Any) -> Any:
    """The host's part: who the client of this request is."""
    who.set(context.session.client_params.client_info.name)
    return await go_on(context)


def known_caller() -> Caller:
    if who.get() == "stranger":
        raise PermissionError("not signed in")
    return Caller(who.get(), actor=f"{who.get()} through the host")


@pytest.mark.scenario("001-116", "001-117")
async def test_the_host_names_the_tenant_and_no_tenant_sees_another(db: Any):
    server, module = MCPServer("host", middleware=[authenticate]), MemoryModule(caller=known_caller)
    await module.register_tools(server, CONFIG)
    await module.on_startup(CONFIG, db)

    def client(name: str) -> Client:
        return Client(server, client_info=Implementation(name=name, version="1"))

    async with client("anna") as anna, client("ben") as ben, client("stranger") as stranger:
        theirs = {}
        for _ in range(3):
            hers, his = await asyncio.gather(
                ask(anna, "memory_store_fact", **TEA, tenant_id="ben"),
                ask(ben, "memory_store_fact", **TEA | {"content": "black tea"}),
            )
            theirs = {"anna": hers["id"], "ben": his["id"]}
        for name, each, other in (("anna", anna, "ben"), ("ben", ben, "anna")):
            for tool, words in (("memory_recall", {"topic": "tea"}), ("memory_search", {"query": "tea"})):
                found = await ask(each, tool, **words, tenant_id=other)
                assert [(hit["tenant_id"], hit["id"]) for hit in found["results"]] == [(name, theirs[name])]
            got = await ask(each, "memory_get", memory_type="fact", memory_id=theirs[other], tenant_id=other)
            assert got == {"memory": None}
        for tool, words in (("memory_store_fact", TEA), ("memory_recall", {"topic": "tea"})):
            assert "signed in" not in await refused(stranger, tool, **words)
    await module.on_shutdown()


async def test_a_caller_that_is_none_is_refused(db: Any):
    async with hosting(db, module=MemoryModule(caller=lambda: None)) as (_, client):  # pyright: ignore
        await refused(client, "memory_recall", topic="tea")
        await refused(client, "memory_store_fact", **TEA)


EXTENSIONS = "SELECT name, installed_version IS NOT NULL AS here FROM pg_available_extensions"


@pytest.mark.scenario("004-016")
async def test_start_on_an_empty_database_of_a_butler_makes_all_tables(postgres: Server):
    url = await postgres.create_database(f"butler_health_{os.getpid()}")
    async with asyncpg.create_pool(url, min_size=0) as pool:
        await pool.execute("CREATE TABLE alembic_version (version_num varchar(32)); CREATE TABLE meals (id int)")
        async with hosting(Database(pool)):
            tables = {row["tablename"] for row in await pool.fetch("SELECT tablename FROM pg_tables")}
            extensions = {row["name"]: row["here"] for row in await pool.fetch(EXTENSIONS)}
            assert {"episodes", "facts", "rules", "memory_links", "memory_events", "entities", "meals"} <= tables
            assert extensions["vector"]
            assert extensions.get("uuid-ossp", True)  # not every server offers it, and nothing of ours needs it
            assert await pool.fetchval("SELECT version_num FROM alembic_version_memory") is not None
            assert await pool.fetch("SELECT * FROM alembic_version") == []
    await postgres.drop_database(url)


async def test_hosts_may_start_at_once_on_one_database(postgres: Server):
    url = await postgres.create_database()
    modules = [MemoryModule() for _ in range(4)]
    async with asyncpg.create_pool(url, min_size=0) as one, asyncpg.create_pool(url, min_size=0) as other:
        pairs = zip(modules, (one, other, one, other), strict=True)
        await asyncio.gather(*(each.on_startup(CONFIG, pool) for each, pool in pairs))
        assert await one.fetchval("SELECT count(*) FROM embedding_versions") == 1
        for each in modules:
            await each.on_shutdown()
    await postgres.drop_database(url)


async def test_the_hosts_pool_stays_as_it_was(pool: asyncpg.Pool):
    async def look() -> tuple[Any, ...]:
        async with pool.acquire() as raw:
            # The settings of extensions appear when their libraries load.
            settings = await raw.fetch("SELECT name, setting FROM pg_settings WHERE name NOT LIKE '%.%'")
            return (
                {row["name"]: row["setting"] for row in settings},
                await raw.fetchval("""SELECT '{"a": 1}'::jsonb"""),
                await raw.fetchval("SELECT ARRAY[1.5]::real[]"),
                await raw.fetchval("SELECT current_setting('tulving.tenant_id', true)") or "",
                await raw.fetchval(
                    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
                ),
                await raw.fetchval("SELECT count(*) FROM pg_class WHERE relpersistence = 't'"),
                raw.is_in_transaction(),
                raw.get_server_pid(),
            )

    before = await look()
    assert before[1:6] == ('{"a": 1}', [1.5], "", 0, 0)
    async with hosting(pool) as (_, client):
        await ask(client, "memory_store_fact", **TEA)
        await asyncio.gather(*(ask(client, "memory_recall", topic="tea") for _ in range(5)))
        await refused(client, "memory_search", query="x", mode="magic")
        await refused(client, "memory_store_fact", **TEA, entity_id="00000000-0000-0000-0000-000000000001")
        assert await look() == before
    assert await look() == before
    assert not pool.is_closing()


async def _json_as_values(raw: Any) -> None:
    await raw.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")


@pytest.mark.parametrize(
    "how",
    [
        {"init": _json_as_values},
        {"statement_cache_size": 0},
        {"server_settings": {"search_path": "butler, public"}},
        {"server_settings": {"timezone": "Asia/Tokyo", "default_transaction_isolation": "serializable"}},
    ],
    ids=["codec", "no statements kept", "schema", "settings"],
)
async def test_a_host_may_have_set_up_its_pool_otherwise(how: dict[str, Any], postgres: Server):
    url = await postgres.create_database()
    raw = await asyncpg.connect(url)
    await raw.execute("CREATE SCHEMA butler")
    await raw.close()
    async with asyncpg.create_pool(url, min_size=0, max_size=2, **how) as pool, hosting(pool) as (_, client):
        stored = await ask(client, "memory_store_fact", **TEA, metadata={"k": [1]}, tags=["x"])
        [hit] = (await ask(client, "memory_recall", topic="tea"))["results"]
        memory = (await ask(client, "memory_get", memory_type="fact", memory_id=stored["id"]))["memory"]
        for each in (hit, memory):
            assert (each["metadata"], each["tags"], each["created_at"][-6:]) == ({"k": [1]}, ["x"], "+00:00")
        schema = "butler" if "search_path" in how.get("server_settings", {}) else "public"
        assert await pool.fetchval("SELECT schemaname FROM pg_tables WHERE tablename = 'facts'") == schema
    await postgres.drop_database(url)


async def test_a_host_may_close_its_pool_before_it_ends_the_module(pool: asyncpg.Pool):
    module = MemoryModule()
    await module.on_startup(CONFIG, pool)
    await pool.close()
    await module.on_shutdown()


async def test_to_start_again_is_to_start_anew(new_url: Callable[[], str]):
    first, second = new_url(), new_url()
    async with hosting(first) as (module, client):
        await ask(client, "memory_store_fact", **TEA)
        opened = module._memory
        await module.on_startup(MemoryModuleConfig(embedder="hashing", tenant="other"), second)
        assert (await ask(client, "memory_search", query="tea"))["results"] == []
        with pytest.raises(StoreUnavailable):
            await opened.recall("tea")
        stored = await ask(client, "memory_store_fact", **TEA)
        memory = (await ask(client, "memory_get", memory_type="fact", memory_id=stored["id"]))["memory"]
        assert memory["tenant_id"] == "other"
        await module.on_shutdown()
        await module.on_startup(CONFIG, first)
        assert len((await ask(client, "memory_search", query="tea"))["results"]) == 1


async def test_starts_and_ends_at_once_leave_nothing_behind(db: Any):
    module = MemoryModule()
    await asyncio.gather(*(module.on_startup(CONFIG, db) for _ in range(3)), module.on_shutdown())
    assert module._memory is module._db is None
    await module.on_startup(CONFIG, db)
    assert (await module._memory.search("tea")).hits == []
    await module.on_shutdown()


async def test_a_start_that_fails_leaves_the_module_ended(tmp_path: Path):
    module = MemoryModule()
    with pytest.raises(StoreUnavailable):
        await module.on_startup(CONFIG, f"postgresql://nobody@/none?host={tmp_path}")
    assert module._db is module._embedding_engine is module._memory is None
    await module.on_startup(CONFIG, tmp_path / "memory.db")
    assert (await module._memory.search("tea")).hits == []
    await module.on_shutdown()


@pytest.mark.parametrize(
    ("config", "db", "field"),
    [
        (CONFIG, None, "db"),
        (CONFIG, Database(None), "db"),
        (CONFIG, object(), "url"),
        (CONFIG, "mysql://host/db", "url"),
        ({"embedder": "hashing", "colour": "red"}, "memory.db", "colour"),
        ("embedder = hashing", "memory.db", "config"),
    ],
)
async def test_a_mistake_of_the_host_is_named(config: Any, db: Any, field: str, folder: Path):
    with pytest.raises(ConfigError) as refusal:
        await MemoryModule().on_startup(config, db)
    assert refusal.value.field == field
    assert not list(folder.iterdir())


async def test_settings_may_be_a_table_or_found(folder: Path):
    (folder / "butler.toml").write_text('[modules.memory]\nembedder = "hashing"\nurl = "found.db"\ntenant = "found"\n')
    trust_folder(folder)
    table = {"embedder": "hashing", "tenant": "table", "retrieval": {"default_limit": 3}}
    for config, db, tenant, limit in ((None, None, "found", 10), (table, "table.db", "table", 3)):
        async with hosting(db, config) as (module, client):
            assert isinstance(module._config, MemoryModuleConfig)
            stored = await ask(client, "memory_store_fact", **TEA)
            memory = (await ask(client, "memory_get", memory_type="fact", memory_id=stored["id"]))["memory"]
            assert memory["tenant_id"] == tenant
            [search] = [tool for tool in (await client.list_tools()).tools if tool.name == "memory_search"]
            assert search.input_schema["properties"]["limit"]["default"] == limit
        assert (folder / f"{tenant}.db").exists()


@dataclass
class PlainServer:
    """A server that knows no more than the decorator, as others than the official one may."""

    tools: dict[str, Any] = field(default_factory=dict)

    def tool(self, name: str | None = None) -> Callable[[Any], Any]:
        def register(function: Any) -> Any:
            self.tools[name or function.__name__] = function
            return function

        return register


@dataclass
class Wrapper:
    """A host's own wrapping of a server, which hands on whatever it is given."""

    server: Any

    def tool(self, *args: Any, **kwargs: Any) -> Any:
        return self.server.tool(*args, **kwargs)


async def test_tools_are_functions_that_any_server_can_read(db: Any):
    server, module = PlainServer(), MemoryModule()
    await module.register_tools(server, CONFIG)
    await module.on_startup(CONFIG, db)
    assert set(server.tools) == {name for name, each in OPERATIONS.items() if each.standard}
    for name, function in server.tools.items():
        assert inspect.iscoroutinefunction(function)
        assert (function.__name__, function.__doc__ is not None) == (name, True)
        taken = inspect.signature(function).parameters
        hidden = {"self", "pool", "db", "embedding_engine"} | (set() if name.startswith("entity_") else {"tenant_id"})
        assert not hidden & set(taken), "an entity tool takes its own tenant by name, as specified"
        assert set(inspect.get_annotations(function)) == {*taken, "return"}
    search = inspect.signature(server.tools["memory_search"]).parameters
    assert (search["query"].default, search["limit"].default) == (inspect.Parameter.empty, 10)
    stored = await server.tools["memory_store_fact"]("Anna", "tea", content="green tea")
    assert stored["outcome"] == "stored"
    assert len((await server.tools["memory_recall"]("tea"))["results"]) == 1
    with pytest.raises(Exception, match="hybrid, keyword, semantic"):
        await server.tools["memory_search"]("tea", mode="magic")
    await module.on_shutdown()


async def test_a_host_may_wrap_its_server():
    server = MCPServer("host")
    await MemoryModule().register_tools(Wrapper(server), CONFIG)
    assert all(tool.annotations and tool.title for tool in await server.list_tools())


async def test_a_host_with_a_base_class_of_its_own_takes_both(db: Any):
    class HostModule:
        def tool_metadata(self) -> dict[str, Any]:
            return {}

    class HostMemory(MemoryModule, HostModule):
        pass

    async with hosting(db, module=HostMemory()) as (module, client):
        assert module.tool_metadata() == {}
        await ask(client, "memory_store_fact", **TEA)


async def test_the_example_of_the_documentation_runs(postgres: Server, folder: Path):
    text = PAGE.read_text()
    [example] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    promised = re.search(r"It prints `(.*)`", text)
    url = await postgres.create_database()
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", example],
        env=os.environ | {"DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.strip()) == (0, promised and promised[1]), done.stderr
    await postgres.drop_database(url)


@pytest.mark.scenario("001-021")
async def test_what_a_model_reads_is_counted_at_the_latest_when_the_host_ends(db: Any, url: str) -> None:
    tools: dict[str, Callable[..., Any]] = {}

    class Collecting:
        def tool(self, name: str) -> Callable[..., Any]:
            return lambda function: tools.setdefault(name, function)

    module = MemoryModule()
    await module.on_startup(CONFIG, db)
    await module.register_tools(Collecting())
    fact = (await tools["memory_store_fact"](**TEA))["id"]
    for expected in (1, 2):
        answer = await tools["memory_get"](memory_type="fact", memory_id=fact, detail="full")
        assert answer["memory"]["reference_count"] == expected
    await module.on_shutdown()
    assert run_sql(url, "SELECT reference_count FROM facts") == [{"reference_count": 2}]
