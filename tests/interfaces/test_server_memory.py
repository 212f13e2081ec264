"""The nine tools of server-memory, driven by a real client: what the original takes and answers, over this memory."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tulving.integrations.importers import Mapped, writer
from tulving.interfaces.mcp.server_memory import build_server

NAMES = (
    "create_entities create_relations add_observations delete_entities delete_observations delete_relations read_graph"
    " search_nodes open_nodes"
).split()
EMPTY = {"entities": [], "relations": []}


def entity(name: str, kind: str, *observations: str) -> dict[str, Any]:
    return {"name": name, "entityType": kind, "observations": list(observations)}


def relation(source: str, kind: str, target: str) -> dict[str, str]:
    return {"from": source, "to": target, "relationType": kind}


ANN, ACME = entity("Ann", "person", "is a vet", "likes tea"), entity("Acme", "Company")
WORKS = relation("Ann", "works_at", "Acme")


class Graph:
    """The tools as functions, whose answers are those of the structured part and the text alike."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        result = await self.client.call_tool(tool, arguments)
        [text] = result.content
        if result.is_error:
            return text.text
        answer = result.structured_content
        if "message" in answer:
            assert answer == {"success": True, "message": text.text}
            return text.text
        bare = answer if tool in ("read_graph", "search_nodes", "open_nodes") else next(iter(answer.values()))
        assert json.loads(text.text) == bare
        return bare


@pytest.fixture
async def graph(memory) -> AsyncIterator[Graph]:
    """Connected in a task of its own: a client must be closed where it was opened."""
    opened, done = asyncio.get_running_loop().create_future(), asyncio.Event()

    async def serve() -> None:
        async with serving(memory) as served:
            opened.set_result(served)
            await done.wait()

    task = asyncio.create_task(serve())
    yield await opened
    done.set()
    await task


@asynccontextmanager
async def serving(memory) -> AsyncIterator[Graph]:
    async def opened():
        return memory

    async with Client(build_server(opened)) as client:
        yield Graph(client)


async def test_schemas(graph: Graph):
    tools = {tool.name: tool for tool in (await graph.client.list_tools()).tools}
    assert [*tools] == NAMES
    takes = {name: [*tool.input_schema["properties"]] for name, tool in tools.items()}
    assert takes == {
        "create_entities": ["entities"],
        "create_relations": ["relations"],
        "add_observations": ["observations"],
        "delete_entities": ["entityNames"],
        "delete_observations": ["deletions"],
        "delete_relations": ["relations"],
        "read_graph": [],
        "search_nodes": ["query"],
        "open_nodes": ["names"],
    }
    item = tools["create_entities"].input_schema["properties"]["entities"]["items"]
    assert item["required"] == ["name", "entityType", "observations"]
    assert "additionalProperties" not in item
    assert tools["read_graph"].output_schema["required"] == ["entities", "relations"]
    destroy = {name for name, tool in tools.items() if tool.annotations.destructive_hint}
    assert destroy == {"delete_entities", "delete_observations", "delete_relations"}


async def test_entities_and_relations(graph: Graph):
    assert await graph("read_graph") == EMPTY
    assert await graph("create_entities", entities=[ANN, ACME]) == [ANN, ACME]
    assert await graph("create_entities", entities=[entity("Ann", "robot", "x"), entity("ann", "person")]) == [
        entity("ann", "person")
    ]
    ghost = relation("Ghost", "haunts", "Ann")
    assert await graph("create_relations", relations=[WORKS, ghost]) == [WORKS, ghost]
    assert await graph("create_relations", relations=[WORKS]) == []
    assert await graph("read_graph") == {"entities": [ANN, ACME, entity("ann", "person")], "relations": [WORKS, ghost]}


async def test_observations(graph: Graph):
    await graph("create_entities", entities=[ANN])
    added = [{"entityName": "Ann", "contents": ["likes tea", "has a dog", "ünïcödé 🐕"]}]
    answer = await graph("add_observations", observations=added)
    assert answer == [{"entityName": "Ann", "addedObservations": ["has a dog", "ünïcödé 🐕"]}]
    gone = [
        {"entityName": "Ann", "observations": ["is a vet", "never said"]},
        {"entityName": "Bob", "observations": []},
    ]
    assert await graph("delete_observations", deletions=gone) == "Observations deleted successfully"
    whole = await graph("read_graph")
    assert whole["entities"] == [entity("Ann", "person", "likes tea", "has a dog", "ünïcödé 🐕")]
    nobody = await graph("add_observations", observations=[{"entityName": "Bob", "contents": ["x"]}])
    assert nobody == "Entity with name Bob not found"


async def test_looking(graph: Graph):
    bob = entity("Bob", "person", "tall")
    await graph("create_entities", entities=[ANN, ACME, bob])
    await graph("create_relations", relations=[WORKS, relation("Bob", "knows", "Ann")])
    assert await graph("search_nodes", query="ACME") == {"entities": [ACME], "relations": [WORKS]}
    assert (await graph("search_nodes", query="Person"))["entities"] == [ANN, bob]
    assert (await graph("search_nodes", query="TALL"))["entities"] == [bob]
    assert await graph("search_nodes", query="zebra") == EMPTY
    assert await graph("open_nodes", names=["Acme", "Nobody"]) == {"entities": [ACME], "relations": [WORKS]}
    assert await graph("open_nodes", names=[]) == EMPTY


async def test_what_is_deleted_is_forgotten_and_can_be_created_again(graph: Graph, memory):
    await graph("create_entities", entities=[ANN, ACME])
    await graph("create_relations", relations=[WORKS])
    assert await graph("delete_relations", relations=[WORKS]) == "Relations deleted successfully"
    assert (await graph("read_graph"))["relations"] == []
    await graph("create_relations", relations=[WORKS])
    assert await graph("delete_entities", entityNames=["Ann", "Nobody"]) == "Entities deleted successfully"
    assert await graph("read_graph") == {"entities": [ACME], "relations": []}
    assert "likes tea" not in {hit.item.content for hit in await memory.recall("Ann likes tea")}
    forgotten = (await memory.list_memories("fact", state="retracted")).items
    assert {"is a vet", "likes tea", "person", "Ann works at Acme"} == {fact.content for fact in forgotten}
    assert [event.event_type for event in await memory.events("fact", forgotten[0].id)][-1] == "fact_forgotten"
    again = entity("Ann", "robot", "likes tea")
    assert await graph("create_entities", entities=[again]) == [again]
    assert (await graph("read_graph"))["entities"] == [ACME, again]


async def test_one_memory_for_all_tools(graph: Graph, memory):
    """What is stored here is recalled there, and a fact of another tool about an entity is an observation here."""
    await graph("create_entities", entities=[ANN])
    assert "likes tea" in {hit.item.content for hit in await memory.recall("Does Ann like tea?")}
    [ann] = await memory.resolve_entity("Ann")
    await memory.store_fact("Ann", "city", "Bath", entity_id=ann.entity_id)
    assert (await graph("open_nodes", names=["Ann"]))["entities"] == [
        entity("Ann", "person", "is a vet", "likes tea", "city: Bath")
    ]
    await graph("delete_observations", deletions=[{"entityName": "Ann", "observations": ["city: Bath"]}])
    assert (await memory.list_memories("fact", state="retracted")).items[0].content == "Bath"


async def test_an_imported_file_is_the_graph(graph: Graph, memory, tmp_path: Path):
    lines = [{"type": "entity", **ANN}, {"type": "entity", **ACME}, {"type": "relation", **WORKS}]
    (tmp_path / "memory.jsonl").write_text("\n".join(map(json.dumps, lines)))
    await writer.take(memory, "server-memory", [tmp_path / "memory.jsonl"], Mapped())
    assert await graph("read_graph") == {"entities": [ANN, ACME], "relations": [WORKS]}


async def test_each_user_has_a_graph(memory):
    for user, drink in (("ann", "tea"), ("bob", "coffee")):
        async with serving(memory.bind(user_id=user)) as graph:
            await graph("create_entities", entities=[entity("Me", "person", drink)])
    async with serving(memory.bind(user_id="ann")) as graph:
        assert (await graph("read_graph"))["entities"] == [entity("Me", "person", "tea")]
        await graph("delete_entities", entityNames=["Me"])
        assert await graph("read_graph") == EMPTY
    async with serving(memory.bind(user_id="bob")) as graph:
        assert (await graph("read_graph"))["entities"] == [entity("Me", "person", "coffee")]


async def test_a_global_fact_is_not_forgotten_from_a_scope(memory):
    async with serving(memory) as graph:
        await graph("create_entities", entities=[ANN])
    async with serving(memory.bind(scope="chef")) as graph:
        assert "may be read by this connection but not changed" in await graph("delete_entities", entityNames=["Ann"])
        assert (await graph("read_graph"))["entities"] == [ANN]


@pytest.mark.parametrize(
    ("tool", "arguments", "problem"),
    [
        ("create_entities", {}, "entities: is missing"),
        ("create_entities", {"entities": [{"name": "x"}]}, "entities[0].entityType: is missing"),
        ("create_entities", {"entities": [entity("x", "y", "z"), entity("", "y")]}, "subject"),
        ("create_entities", {"entities": [entity("x", "y", "")]}, "content: is empty"),
        ("create_entities", {"entities": [entity("a\x00b", "y")]}, "U+0000"),
        ("open_nodes", {"names": "Ann"}, "names: is a str"),
        ("search_nodes", {"query": None}, "query: is missing"),
        ("forget_everything", {}, "there is no tool"),
    ],
)
async def test_what_is_refused_changes_nothing(memory, path, tool: str, arguments: dict[str, Any], problem: str):
    async with serving(memory) as graph:
        assert problem in await graph(tool, **arguments)
        assert await graph("read_graph") == EMPTY
    assert (await memory.list_memories("fact")).items == []


async def test_lone_surrogates_and_private_text(memory, path):
    async with serving(memory) as graph:
        await graph("create_entities", entities=[entity("Ann", "person", "<private>secret</private>public")])
        assert (await graph("read_graph"))["entities"] == [entity("Ann", "person", "public")]


async def test_secrets_are_redacted(memory, path, caplog):
    said = "my password is hunter2"
    async with serving(memory) as graph:
        await graph("create_entities", entities=[entity("Ann", "person", said)])
        await graph("add_observations", observations=[{"entityName": "Ann", "contents": [said.replace("2", "3")]}])
        redacted = "my password is [redacted: password]"
        assert (await graph("read_graph"))["entities"] == [entity("Ann", "person", redacted)]
        assert "content (password)" in caplog.text and "hunter" not in caplog.text
        await graph("delete_observations", deletions=[{"entityName": "Ann", "observations": [redacted]}])
        assert (await graph("read_graph"))["entities"] == [entity("Ann", "person")]
    assert "hunter" not in repr((await memory.list_memories("fact", state="any")).items)


async def test_over_standard_input_and_output(environ: dict[str, str], path: Path):
    arguments = ["-m", "tulving", "mcp", "--as", "server-memory"]
    async with Client(StdioServerParameters(command=sys.executable, args=arguments, env=environ)) as client:
        assert await Graph(client)("create_entities", entities=[ANN]) == [ANN]
        assert (await Graph(client)("read_graph"))["entities"] == [ANN]


@pytest.mark.parametrize("options", [["--as", "other"], ["--as", "server-memory", "--http", "127.0.0.1:0"]])
def test_how_it_can_not_be_served(cli, path: Path, options: list[str]):
    ran = cli("mcp", *options)
    assert ran.code == 2 and ran.err.startswith("error: as: ")
