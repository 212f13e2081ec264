"""On whose behalf a request is made, and what it may ask for."""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from tulving.domain.access import RIGHTS
from tulving.errors import InvalidInput, NotFound
from tulving.interfaces.calls import Opened, cancelled_once, invoke, told
from tulving.services.operations import OPERATIONS, Operation

if TYPE_CHECKING:
    from tulving.services.memory import Memory


@dataclass(frozen=True, slots=True)
class Principal:
    """On whose behalf a request is made: how to get their memory, the effects that they may have on it, and who they
    are among those that the server knows."""

    memory: "Opened[Memory]"
    rights: Collection[str] = RIGHTS
    who: Hashable = None

    def may(self, operation: Operation) -> bool:
        """Whether they have the right to call an operation."""
        return operation.effect in self.rights

    def lacks(self, operation: Operation) -> str:
        """Why they may not call it."""
        has = ", ".join(self.rights)
        return f"{operation.tool} needs the right to {operation.effect}, and this access token has only {has}"

    async def ask(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """The result of an operation, for a request that is no tool call. Nothing is counted as a reference that
        otherwise would not be, and an error is one of the protocol."""
        operation = OPERATIONS[tool]
        if not self.may(operation):
            raise refused(self.lacks(operation))
        try:
            return await cancelled_once(invoke(self.memory, operation, arguments, by_person=True))
        except Exception as error:
            code = INVALID_PARAMS if isinstance(error, InvalidInput | NotFound) else INTERNAL_ERROR
            raise MCPError(code, told(tool, error)) from error


def refused(problem: str) -> MCPError:
    """A request that must be corrected."""
    return MCPError(INVALID_PARAMS, problem)
