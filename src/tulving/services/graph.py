"""Verbs on the graph that entities and the facts about them are."""

from collections.abc import Sequence
from uuid import UUID

from tulving import storage
from tulving.domain import intake
from tulving.domain.model import Entity, Fact
from tulving.domain.scope import address_of
from tulving.errors import InvalidInput
from tulving.services.taking import Offers
from tulving.storage.connection import Connection


class Graph(Offers):
    """Verbs on the graph."""

    async def graph(self, names: Sequence[str] | None = None) -> list[tuple[Entity, list[Fact]]]:
        """The entities that facts in use are about, or those of exactly these names, with these facts; the oldest
        first."""
        if names is not None:
            names = [name for name in names if name == intake.public(name)]  # no entity has another name
        return await self._read(storage.graph.read, self.caller.tenant_id, self._filter(), self._env.clock(), names)

    async def forget_facts(self, ids: Sequence[UUID]) -> None:
        """Forget facts, all or none. Those that there are not, or not for this connection, are ignored."""
        audit = self._audit(self._env.clock())

        def forget(conn: Connection) -> None:
            for id_ in sorted(set(ids)):
                fact = storage.items.locate(conn, self.caller.tenant_id, "fact", id_, self.bound)
                if fact is None:
                    continue
                if not self.bound.may_change(fact):
                    problem = f"the fact {id_} may be read by this connection but not changed"
                    raise InvalidInput("facts", problem, f"facts of the scope {self.bound.scope}")
                storage.forgotten.forget(conn, address_of(fact), audit, self.bound)

        await self._write(forget)
