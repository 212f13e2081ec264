"""Requests of MCP that are no tool calls: prompts, resources and completions ask for what an operation answers."""

from collections.abc import Mapping
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from tulving.interfaces.calls import REFUSED, told
from tulving.interfaces.principal import Principal


async def ask(principal: Principal, tool: str, arguments: Mapping[str, Any]) -> Any:
    """The result of an operation. Nothing is counted as a reference that otherwise would not be, and an error is one of
    the protocol."""
    try:
        return await principal.call(tool, arguments, by_person=True)
    except Exception as error:
        code = INVALID_PARAMS if isinstance(error, REFUSED) else INTERNAL_ERROR
        raise MCPError(code, told(tool, error)) from error


def refused(problem: str) -> MCPError:
    """A request that must be corrected."""
    return MCPError(INVALID_PARAMS, problem)
