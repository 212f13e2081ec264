"""Verbs on the graph that entities and the facts about them are."""

from collections.abc import Sequence

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

    async def forget_facts(self, facts: Sequence[Fact]) -> None:
        """Forget facts that were read by this connection, all or none."""
        for fact in facts:
            if not (self.bound.covers(fact) and self.bound.may_change(fact)):
                problem = f"the fact {fact.id} may be read by this connection but not changed"
                raise InvalidInput("facts", problem, f"facts of the scope {self.bound.scope}")
        audit = self._audit(self._env.clock())

        def forget(conn: Connection) -> None:
            for fact in sorted(facts, key=lambda each: each.id):
                storage.forgotten.forget(conn, address_of(fact), audit, self.bound, False)

        await self._write(forget)
