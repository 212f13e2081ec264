"""The operations as MCP tools: which are offered, how each is described, and what a call returns."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations

from tulving.errors import InvalidInput, NotFound, TulvingError
from tulving.interfaces import wire
from tulving.interfaces.calls import Opened, call
from tulving.interfaces.parameters import accept, describe, parameters
from tulving.services.memory import Memory
from tulving.services.operations import OPERATIONS, Operation
from tulving.settings import MemoryModuleConfig

log = logging.getLogger("tulving")


def offered(config: MemoryModuleConfig) -> dict[str, Operation]:
    """The operations that the settings choose, by the names of their tools."""
    return {name: each for name, each in OPERATIONS.items() if each.standard or config.tools == "all"}


def tool(operation: Operation, config: MemoryModuleConfig) -> Tool:
    """An operation as a tool."""
    taken = parameters(operation, config)
    title = operation.tool.removeprefix("memory_").replace("_", " ").capitalize()
    return Tool(
        name=operation.tool,
        title=title,
        description=describe(operation),
        input_schema={
            "type": "object",
            "properties": {parameter.name: parameter.schema for parameter in taken},
            "required": [parameter.name for parameter in taken if parameter.required],
            "additionalProperties": False,
        },
        output_schema=wire.schema(operation),
        annotations=ToolAnnotations(
            title=title,
            read_only_hint=operation.effect == "read",
            destructive_hint=operation.effect == "destroy",
            idempotent_hint=operation.idempotent,
            open_world_hint=False,
        ),
    )


async def run(
    memory: Opened[Memory], operation: Operation, arguments: Mapping[str, Any], **offers: Any
) -> CallToolResult:
    """The result of a tool call. An error is a result too, for the model to read and correct."""
    try:
        value = await call(memory, operation, accept(operation, arguments), **offers)
    except TulvingError as error:
        if not isinstance(error, InvalidInput | NotFound):
            log.error("%s: %s", operation.tool, error)
        return failure(str(error))
    except Exception as error:
        log.exception("%s failed unexpectedly", operation.tool)
        return failure(f"{operation.tool} failed unexpectedly ({type(error).__name__}); its log says more")
    bare = value.get(operation.answer) if operation.answer else None
    text = bare if isinstance(bare, str) else json.dumps(value, ensure_ascii=False)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=value)


def failure(message: str) -> CallToolResult:
    """The result of a call that could not be carried out."""
    return CallToolResult(content=[TextContent(type="text", text=message)], is_error=True)
