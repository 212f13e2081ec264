"""The principal of a request: on whose behalf it is made, and what it may do."""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tulving.domain.access import RIGHTS
from tulving.errors import Forbidden
from tulving.interfaces.calls import Opened, cancelled_once, invoke
from tulving.services.operations import OPERATIONS, Operation

if TYPE_CHECKING:
    from tulving.services.administration import Administration
    from tulving.services.memory import Memory


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated caller of a request.

    `memory` opens the caller's memory, and `administration` the whole store, for callers with the right `admin`.
    `rights` are the effects that the caller may have, `who` tells callers apart, and `name` is for display.
    `credential` identifies the token without revealing it, and is what its limits are counted by:
    `requests_per_minute`, and `largest_body` in bytes.
    """

    memory: "Opened[Memory]"
    rights: Collection[str] = RIGHTS
    who: Hashable = None
    name: str = ""
    administration: "Opened[Administration] | None" = None
    credential: str = ""
    requests_per_minute: int | None = None
    largest_body: int = 4 * 1024 * 1024

    def may(self, operation: Operation) -> bool:
        """Whether the caller has the right to an operation."""
        return operation.effect in self.rights and (operation.effect != "admin" or self.administration is not None)

    def lacks(self, operation: Operation) -> str:
        """Why the caller has no right to it."""
        has = ", ".join(self.rights)
        return f"{operation.tool} needs the right to {operation.effect}, and this access token has only {has}"

    def check(self, operation: Operation) -> None:
        """Raise `Forbidden` unless the caller has the right to it."""
        if not self.may(operation):
            raise Forbidden(self.lacks(operation))

    async def call(self, tool: str, arguments: Mapping[str, Any], *, by_person: bool = False, **offers: Any) -> Any:
        """Call an operation by the name of its tool, with the arguments of its method. A call `by_person`, who looks at
        the result, counts no references."""
        return await self.carry_out(OPERATIONS[tool], arguments, by_person=by_person, offers=offers)

    async def carry_out(self, operation: Operation, arguments: Mapping[str, Any], **how: Any) -> Any:
        """Check the right to an operation and invoke it; `how` is passed to `invoke`."""
        self.check(operation)
        store: Any = self.administration if operation.effect == "admin" else self.memory
        return await cancelled_once(invoke(store, operation, arguments, **how))
