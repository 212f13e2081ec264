"""The verb that reads the audit trail."""

from datetime import datetime
from typing import Annotated

from tulving import storage
from tulving.domain import intake
from tulving.domain.events import Sought, Trail
from tulving.domain.model import MemoryId
from tulving.errors import InvalidInput
from tulving.services.operations import operation
from tulving.services.service import PAGE_SIZES, PageCursor, Service


class Auditing(Service):
    """Who has changed what, and when."""

    @operation("memory_audit", http="GET /v1/audit", effect="read", command="audit", standard=False)
    async def audit(
        self,
        event_type: Annotated[str | None, "Only this kind, or all that begin with it: fact_created, fact"] = None,
        actor: Annotated[str | None, "Only what this actor did"] = None,
        item: Annotated[MemoryId | None, "Only what happened to this memory, entity, run or token"] = None,
        run_id: Annotated[MemoryId | None, "Only what this run of a model did"] = None,
        since: Annotated[datetime | None, "Not earlier than this"] = None,
        until: Annotated[datetime | None, "Earlier than this"] = None,
        limit: Annotated[int, "How many at most", PAGE_SIZES] = 50,
        cursor: PageCursor = None,
    ) -> Trail:
        """List what was changed, the newest change first: what happened to which memory, by whom, and in which run.

        A page may have fewer events than the limit, or none, before the end of the trail: continue with next_cursor.
        """
        sought = Sought(
            event_type=intake.optional_name("event_type", event_type),
            actor=None if actor is None else intake.identifier("actor", actor, most=200),
            entity_id=intake.optional_id("item", item),
            run_id=intake.optional_id("run_id", run_id),
            since=intake.moment("since", since),
            until=intake.moment("until", until),
            before=None if cursor is None else _place(cursor),
        )
        limit = intake.whole("limit", limit, *PAGE_SIZES)
        found, end = await self._read(storage.audit.search, self.caller.tenant_id, self.bound, sought, limit)
        if end is None:
            return Trail(events=found)
        return Trail(events=found, next_cursor=str(end["seq"]), reaches=end["occurred_at"])


def _place(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise InvalidInput("cursor", "is not valid", "the next_cursor of the previous page")
    return int(cursor)
