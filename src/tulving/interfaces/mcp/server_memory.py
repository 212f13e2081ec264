"""`tulving mcp --as server-memory`: a server with the nine tools of @modelcontextprotocol/server-memory.

Names, schemas and answers are the same, so that a host and its prompts need no change.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.server import Server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations

from tulving.errors import InvalidInput
from tulving.interfaces.calls import Opened, cancelled_once, told
from tulving.interfaces.mcp.greeting import SERVER, read_lines
from tulving.interfaces.mcp.server import converse
from tulving.interfaces.mcp.server_memory_graph import (
    Json,
    add_observations,
    create_entities,
    create_relations,
    delete_entities,
    delete_observations,
    delete_relations,
    open_nodes,
    read_graph,
    search_nodes,
)
from tulving.interfaces.mcp.tools import failure
from tulving.services.operations import Effect
from tulving.settings import MemoryModuleConfig

if TYPE_CHECKING:
    from tulving.services.memory import Memory


def serve(config: MemoryModuleConfig) -> None:
    """Serve the nine tools over standard input and output until the client disconnects."""
    asyncio.run(_serve(config))


async def _serve(config: MemoryModuleConfig) -> None:
    lines = read_lines()
    await converse(config, await lines.get(), lines, is_greeted=False, build=build_server)


def build_server(memory: "Opened[Memory]") -> Server:
    """A server of the nine tools."""
    tools = [each.tool for each in TOOLS.values()]

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        return await cancelled_once(_call(memory, params.name, params.arguments or {}))

    schemas = {tool.name: tool.input_schema for tool in tools}
    return Server(**SERVER, on_list_tools=list_tools, on_call_tool=call_tool, get_tool_input_schema=schemas.get)


async def _call(memory: "Opened[Memory]", name: str, arguments: Mapping[str, Any]) -> CallToolResult:
    found = TOOLS.get(name)
    if found is None:
        return failure(f"there is no tool {name!r:.80}; there are {', '.join(TOOLS)}")
    try:
        given = {each: _checked(each, schema, arguments.get(each)) for each, schema in found.takes.items()}
        answer = await found.run(await memory(), **given)
    except Exception as error:
        return failure(told(name, error))
    shown = answer[found.shows] if found.shows else answer
    text = shown if isinstance(shown, str) else json.dumps(shown, indent=2, ensure_ascii=False)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=answer)


def _checked(name: str, schema: Json, value: Any) -> Any:
    """A value as the schema says: texts, lists of them, and objects of both. Null is no value of any of them."""
    kind = {"string": str, "array": list, "object": dict}[schema["type"]]
    if not isinstance(value, kind):
        problem = "is missing" if value is None else f"is a {type(value).__name__}"
        raise InvalidInput(name, problem, f"a JSON {schema['type']}")
    if isinstance(value, list):
        return [_checked(f"{name}[{place}]", schema["items"], each) for place, each in enumerate(value)]
    if isinstance(value, dict):
        return {
            each: _checked(f"{name}.{each}", inner, value.get(each)) for each, inner in schema["properties"].items()
        }
    return value


@dataclass(frozen=True, slots=True)
class GraphTool:
    """A tool: what it takes, what it answers, and which part of the answer the text shows, if not all."""

    run: Callable[..., Awaitable[Json]]
    effect: Effect
    description: str
    takes: Json
    gives: Json
    shows: str | None = None

    @property
    def tool(self) -> Tool:
        name = self.run.__name__
        title = name.replace("_", " ").title()
        return Tool(
            name=name,
            title=title,
            description=self.description,
            input_schema=_DRAFT | _open(_record(**self.takes)),
            output_schema=_DRAFT | _record(**self.gives),
            annotations=ToolAnnotations(
                read_only_hint=self.effect == "read",
                destructive_hint=self.effect == "destroy",
                idempotent_hint=self.effect != "write",
                open_world_hint=False,
            ),
        )


def _open(schema: Json) -> Json:
    """A schema that takes further fields, which are ignored: only answers are exact."""
    inner = {name: _open(part) if isinstance(part, dict) else part for name, part in schema.items()}
    return {name: part for name, part in inner.items() if name != "additionalProperties" and part != []}


def _text(description: str) -> Json:
    return {"type": "string", "description": description}


def _list(items: Json, description: str | None = None) -> Json:
    return {"type": "array", "items": items, **({} if description is None else {"description": description})}


def _record(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


_DRAFT = {"$schema": "http://json-schema.org/draft-07/schema#"}
_STRING = {"type": "string"}
_ENTITY = _record(
    name=_text("Its name"),
    entityType=_text("Its type, such as person"),
    observations=_list(_STRING, "What is known of it"),
)
_RELATION = _record(
    **{
        "from": _text("The entity that it is about"),
        "to": _text("The entity at its other end"),
        "relationType": _text("What relates them"),
    }
)
_ADDITION = _record(
    entityName=_text("The entity that was observed"),
    contents=_list(_STRING, "What was observed"),
)
_ADDED = _record(entityName=_STRING, addedObservations=_list(_STRING))
_DELETION = _record(
    entityName=_text("The entity that has them"),
    observations=_list(_STRING, "What is to be deleted, word for word"),
)
_DONE = {"success": {"type": "boolean"}, "message": _STRING}
_ENTITIES, _RELATIONS = {"entities": _list(_ENTITY)}, {"relations": _list(_RELATION)}
_GRAPH = {**_ENTITIES, **_RELATIONS}

TOOLS: Mapping[str, GraphTool] = {
    tool.run.__name__: tool
    for tool in (
        GraphTool(
            create_entities, "write", "Create new entities in the knowledge graph", _ENTITIES, _ENTITIES, "entities"
        ),
        GraphTool(
            create_relations,
            "write",
            "Create new relations between entities in the knowledge graph. Write them in the active voice",
            _RELATIONS,
            _RELATIONS,
            "relations",
        ),
        GraphTool(
            add_observations,
            "write",
            "Add new observations to entities that exist in the knowledge graph",
            {"observations": _list(_ADDITION)},
            {"results": _list(_ADDED)},
            "results",
        ),
        GraphTool(
            delete_entities,
            "destroy",
            "Delete entities and their relations from the knowledge graph",
            {"entityNames": _list(_STRING, "Their names")},
            _DONE,
            "message",
        ),
        GraphTool(
            delete_observations,
            "destroy",
            "Delete observations of entities in the knowledge graph",
            {"deletions": _list(_DELETION)},
            _DONE,
            "message",
        ),
        GraphTool(
            delete_relations,
            "destroy",
            "Delete relations from the knowledge graph",
            {"relations": _list(_RELATION, "Which ones")},
            _DONE,
            "message",
        ),
        GraphTool(read_graph, "read", "Read the whole knowledge graph", {}, _GRAPH),
        GraphTool(
            search_nodes,
            "read",
            "Search for nodes in the knowledge graph",
            {"query": _text("What to find in the names, types and observations of entities")},
            _GRAPH,
        ),
        GraphTool(
            open_nodes,
            "read",
            "Open nodes of the knowledge graph by their names",
            {"names": _list(_STRING, "Their names")},
            _GRAPH,
        ),
    )
}
