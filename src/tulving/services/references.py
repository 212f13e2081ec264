"""Counts references in the background: a recall or read is answered first and counted afterwards."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, replace
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from tulving.domain.model import Item, Kind
from tulving.storage import items

if TYPE_CHECKING:
    from tulving.services.service import Store

log = logging.getLogger("tulving")
AnyItem = TypeVar("AnyItem", bound=Item)
Place = tuple[str, Kind, UUID]
"""A memory: its tenant, its kind, its id."""

PAUSE = 0.1
"""Seconds in which references are gathered before they are written: a burst of recalls shares a commit, and readers
keep their caches, which each commit empties."""
CLOSE_TIMEOUT = 2.0
"""Seconds that closing waits for the last references to be counted."""
MOST_RECALLED = 10_000
"""So many memories are known to have been recalled."""


@dataclass(slots=True)
class Pending:
    """References that were answered but not written yet."""

    count: int
    last: datetime


class References:
    """The references to be counted and, while there are any, one task that writes them in batches.

    No caller waits for it or sees its errors: an error is logged, and those references are lost.
    """

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._pending: dict[Place, Pending] = {}
        self._shown: dict[Place, int] = {}
        self._written: set[Place] = set()
        self._recalled: OrderedDict[tuple[str, Kind, str], tuple[datetime | None, datetime]] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    def last(self, tenant_id: str, kind: Kind, id_: str, last: datetime | None) -> datetime | None:
        """When a memory was last referred to, not counting the recalls through this store object: a memory that was
        recalled once would otherwise come first ever after. `last` is what its row says."""
        before, recalled_at = self._recalled.get((tenant_id, kind, id_), (None, None))
        return before if last is None or (recalled_at is not None and last <= recalled_at) else last

    def recall(self, kind: Kind, item: AnyItem, now: datetime) -> AnyItem:
        """Count a recall of the memory; see `last`."""
        place = item.tenant_id, kind, str(item.id)
        self._recalled[place] = self.last(*place, item.last_referenced_at), now
        self._recalled.move_to_end(place)
        if len(self._recalled) > MOST_RECALLED:
            self._recalled.popitem(last=False)
        return self.count(kind, item, now)

    def count(self, kind: Kind, item: AnyItem, now: datetime) -> AnyItem:
        """The memory with one more reference, which is written soon."""
        place = item.tenant_id, kind, item.id
        waiting = self._pending.setdefault(place, Pending(0, now))
        waiting.count += 1
        waiting.last = max(waiting.last, now)
        # The row may have been read before an earlier reference was written: the shown count must never decrease.
        shown = self._shown[place] = max(item.reference_count, self._shown.get(place, 0)) + 1
        if self._task is None or self._task.done():
            self._hurry = asyncio.Event()
            # In a context of its own: it writes for many requests, and must not pass for a part of the first one.
            self._task = asyncio.create_task(self._write(), context=Context())
        return replace(item, reference_count=shown, last_referenced_at=now, accessed_at=now)

    @property
    def waiting(self) -> int:
        """How many memories have references that are not written yet."""
        return len(self._pending)

    async def settle(self) -> None:
        """Wait until all references so far are counted."""
        while self._task is not None and not self._task.done():
            self._hurry.set()
            await asyncio.wait({self._task})

    async def close(self) -> None:
        """Write the remaining references, with a short timeout; the rest is dropped."""
        if self._task is None or self._task.done():
            return
        self._hurry.set()
        await asyncio.wait({self._task}, timeout=CLOSE_TIMEOUT)
        if not self._task.done():
            log.warning("the last references were not counted: the store could not be written to in time")
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _write(self) -> None:
        while self._pending:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), PAUSE)
            batch, self._pending = self._pending, {}
            for tenant_id in sorted({place[0] for place in batch}):
                mine = {place: waiting for place, waiting in batch.items() if place[0] == tenant_id}
                try:
                    await self._store.write(tenant_id, items.touch, tenant_id, _ordered(mine))
                except Exception as error:
                    log.warning("%d references were not counted: %s", len(mine), error)
                    self._forget(mine)
            # Kept for one more batch: a row that was read before this one was written may be answered after it.
            self._forget(self._written - batch.keys())
            self._written = set(batch)

    def _forget(self, places: Iterable[Place]) -> None:
        for place in places:
            if place not in self._pending:
                self._shown.pop(place, None)


def _ordered(pending: Mapping[Place, Pending]) -> list[items.Reference]:
    """By kind, then id: two processes that count the same memories lock them in the same order."""
    return [
        (kind, id_, waiting.count, waiting.last)
        for (_, kind, id_), waiting in sorted(pending.items(), key=itemgetter(0))
    ]
