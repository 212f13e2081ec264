"""Verbs on the tenants of a store, for its administrators."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from tulving import storage
from tulving.domain import cursors, intake
from tulving.domain.model import Kind, Page
from tulving.domain.records import Record
from tulving.services.operations import operation
from tulving.services.service import PAGE_SIZES, PageCursor, Service


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Tenant(Record):
    """A tenant: how many memories of each kind it has, in any state, how many valid access tokens, and the
    time of its last change."""

    tenant_id: str
    memories: dict[Kind, int] = field(default_factory=dict)
    tokens: int = 0
    last_change: datetime | None = None


class Tenants(Service):
    """Verbs for operators; part of an `Administration`."""

    @operation("memory_tenants", http="GET /v1/tenants", effect="admin", answer="tenants", standard=False)
    async def list_tenants(
        self,
        limit: Annotated[int, "How many at most", PAGE_SIZES] = 100,
        cursor: PageCursor = None,
    ) -> Page[Tenant]:
        """List the tenants by name, with the number of their memories and tokens and the time of the last change."""
        limit = intake.whole("limit", limit, *PAGE_SIZES)
        place = cursors.read(cursor, str)
        found = await self._read(storage.tenants.listing, str(place[0]) if place else "", limit + 1, self._env.clock())
        tenants, next_cursor = cursors.page(found, limit, lambda each: (each["tenant_id"],))
        return Page(items=[Tenant(**each) for each in tenants], next_cursor=next_cursor)
