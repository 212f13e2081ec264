"""Verbs about conflicts between notes: how they were settled, and what a person does about it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from tulving import storage
from tulving.domain import intake
from tulving.domain.events import Audit
from tulving.domain.model import SETTLEMENT_STATUSES, Fact, MemoryId, Settlement
from tulving.errors import NotFound
from tulving.services.facts import Facts
from tulving.services.operations import operation
from tulving.storage.connection import Connection

MOST_CONFLICTS = 1000

Change = Callable[[Connection, Settlement, Audit], Settlement]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictReport:
    """A conflict with both sides as they are today, and what was merged of them."""

    settlement: Settlement
    candidate: Fact
    existing: Fact
    merged: Fact | None = None


class Conflicts(Facts):
    """Verbs about conflicts between notes."""

    @operation("memory_conflicts", effect="read", answer="conflicts", standard=False)
    async def conflicts(
        self,
        status: Annotated[str | None, f"Only those that are {', '.join(SETTLEMENT_STATUSES)}"] = None,
        limit: Annotated[int, "How many at most, the newest first"] = 20,
    ) -> list[ConflictReport]:
        """List the conflicts between notes: both sides, which one won or what was merged of them, and why."""
        if status is not None:
            intake.one_of("status", status, SETTLEMENT_STATUSES)
        limit = intake.whole("limit", limit, 1, MOST_CONFLICTS)
        found = await self._read(storage.settlements.listing, self.caller.tenant_id, self.bound, limit, status)
        return [
            ConflictReport(settlement=settlement, candidate=candidate, existing=existing, merged=merged)
            for settlement, candidate, existing, merged in found
        ]

    @operation("memory_revert_conflict", effect="write", standard=False)
    async def revert_conflict(
        self, conflict_id: Annotated[MemoryId, "The conflict, as memory_conflicts lists it"]
    ) -> Settlement:
        """Put both sides of a settled conflict back into use, and retract what was merged of them."""
        return await self._settled(conflict_id, storage.settlements.revert)

    async def accept_conflict(self, conflict_id: MemoryId) -> Settlement:
        """Settle a conflict that was held, as it was proposed."""
        settled = await self._settled(conflict_id, storage.settlements.accept)
        await self._embed([settled.merged_id] if settled.merged_id else [])
        return settled

    async def dismiss_conflict(self, conflict_id: MemoryId) -> Settlement:
        """Leave both sides of a conflict that was held in use."""
        return await self._settled(conflict_id, storage.settlements.dismiss)

    async def _settled(self, conflict_id: MemoryId, change: Change) -> Settlement:
        id_, audit = intake.memory_id("conflict_id", conflict_id), self._audit(self._env.clock())

        def decide(conn: Connection) -> Settlement:
            found = storage.settlements.get(conn, self.caller.tenant_id, id_, self.bound, to_change=True)
            if found is None or self.bound.scope not in (None, found.scope):  # a global note belongs to others too
                raise NotFound(f"there is no conflict {id_}" + ("" if found is None else " that you may change"))
            return change(conn, found, audit)

        return await self._write(decide)
