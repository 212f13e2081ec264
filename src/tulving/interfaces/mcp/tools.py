"""The operations as MCP tools: how each is described, and what a call returns."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations

from tulving.interfaces import answers, schemas
from tulving.interfaces.calls import Opened, invoke, told
from tulving.interfaces.instructions import described
from tulving.services.operations import Operation
from tulving.settings import MemoryModuleConfig

if TYPE_CHECKING:
    from tulving.services.memory import Memory


def tool(operation: Operation, config: MemoryModuleConfig) -> Tool:
    """An operation as a tool."""
    shown = described(operation, config)
    title = operation.tool.removeprefix("memory_").replace("_", " ").capitalize()
    return Tool(
        name=operation.tool,
        title=title,
        description=shown.description,
        input_schema={**shown.schema},
        output_schema=schemas.schema(operation),
        annotations=ToolAnnotations(
            title=title,
            read_only_hint=operation.effect == "read",
            destructive_hint=operation.effect == "destroy",
            idempotent_hint=operation.idempotent,
            open_world_hint=False,
        ),
    )


async def run(
    memory: "Opened[Memory]", operation: Operation, arguments: Mapping[str, Any], **offers: Any
) -> CallToolResult:
    """The result of a tool call. An error is a result too, for the model to read and correct."""
    try:
        given, form = answers.accepted(operation, arguments)
        value = answers.answer(operation, await invoke(memory, operation, given, offers=offers), form)
    except Exception as error:
        return failure(told(operation.tool, error))
    text = answers.text(operation, value, form)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=value)


def failure(message: str) -> CallToolResult:
    """The result of a call that could not be carried out."""
    return CallToolResult(content=[TextContent(type="text", text=message)], is_error=True)
