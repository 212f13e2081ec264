"""On whose behalf a request is made, and what it may ask for."""

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
    """On whose behalf a request is made: how to get their memory, the effects that they may have on it, who they are
    among those that the server knows, and what people call them. `administration` is for those with the right to it.
    What they show to be admitted has limits, by a name that does not tell it: how many requests in a minute, and how
    many bytes in the body of one."""

    memory: "Opened[Memory]"
    rights: Collection[str] = RIGHTS
    who: Hashable = None
    name: str = ""
    administration: "Opened[Administration] | None" = None
    credential: str = ""
    requests_per_minute: int | None = None
    largest_body: int = 4 * 1024 * 1024

    def may(self, operation: Operation) -> bool:
        """Whether they have the right to call an operation."""
        return operation.effect in self.rights and (operation.effect != "admin" or self.administration is not None)

    def lacks(self, operation: Operation) -> str:
        """Why they may not call it."""
        has = ", ".join(self.rights)
        return f"{operation.tool} needs the right to {operation.effect}, and this access token has only {has}"

    def check(self, operation: Operation) -> None:
        """Raise `Forbidden` if they may not call it."""
        if not self.may(operation):
            raise Forbidden(self.lacks(operation))

    async def call(self, tool: str, arguments: Mapping[str, Any], *, by_person: bool = False, **offers: Any) -> Any:
        """The result of an operation, whose arguments are as its method takes them. `by_person` counts nothing as a
        reference that otherwise would not be."""
        return await self.carry_out(OPERATIONS[tool], arguments, by_person=by_person, offers=offers)

    async def carry_out(self, operation: Operation, arguments: Mapping[str, Any], **how: Any) -> Any:
        """The same for an operation itself; `how` is as for `invoke`."""
        self.check(operation)
        store: Any = self.administration if operation.effect == "admin" else self.memory
        return await cancelled_once(invoke(store, operation, arguments, **how))
