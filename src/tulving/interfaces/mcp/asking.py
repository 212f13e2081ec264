"""Operations that MCP prompts, resources and completions call."""

from collections.abc import Mapping
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from tulving.interfaces.calls import REFUSED, told
from tulving.interfaces.principal import Principal


async def ask(principal: Principal, tool: str, arguments: Mapping[str, Any]) -> Any:
    """The result of an operation, without counting references. Errors are raised as errors of the protocol."""
    try:
        return await principal.call(tool, arguments, by_person=True)
    except Exception as error:
        code = INVALID_PARAMS if isinstance(error, REFUSED) else INTERNAL_ERROR
        raise MCPError(code, told(tool, error)) from error


def refused(problem: str) -> MCPError:
    """The error for a request that the client must correct."""
    return MCPError(INVALID_PARAMS, problem)
