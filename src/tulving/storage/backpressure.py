"""Backpressure: a limit to how many writes of a process wait for its store."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tulving.domain.events import Audit, AuditOf
from tulving.domain.throttling import Latency, allowed, is_slow
from tulving.errors import StoreBusy, TulvingError
from tulving.ports import Finding, Store
from tulving.storage import timelines
from tulving.storage.connection import Connection

log = logging.getLogger("tulving")

SLOW = "writes take too long"
_HINT = "`tulving health` says how long; see whether the disk or another process is busy"


@dataclass(eq=False, slots=True)
class _Waiter:
    """A caller that waits for a place."""

    called: asyncio.Future[None]
    has_place: bool = False


class BoundedWrites:
    """Another store, except that a limited number of writes wait for it at once (000-011).

    Further callers wait for a place, first come, first served. One whose patience ends is told that the store is busy;
    its write has not begun. While writes take longer than the target, fewer may wait, and the timeline of the tenant
    whose write passed it has a warning (000-021). Everything else is the store's own. As the stores themselves, it may
    be used from several event loops.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float],
        audit_of: AuditOf,
        *,
        max_waiting: int,
        patience: float,
        latency_target: float,
    ) -> None:
        self._store, self._clock, self._audit_of = store, clock, audit_of
        self._most, self._patience, self._target = max_waiting, patience, latency_target
        self._allowed = max_waiting
        self._inside = 0
        self._queue: deque[_Waiter] = deque()
        self._latency, self._slow, self._adjusted_at = Latency(), False, clock()
        self._lock = threading.Lock()
        self._warned: set[str] = set()
        self._telling: set[asyncio.Task[None]] = set()

    async def begin(self) -> None:
        """Take over the warnings of a process that did not live to see fast writes again: the first fast ones end
        them."""
        self._warned = set(await self._store.read(None, _warned_tenants))
        self._slow = bool(self._warned)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, tenant_id: str | None, transaction: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if waiter := self._enter():
            await self._wait(waiter)
        begun, cancelled = self._clock(), False
        try:
            return await self._store.write(tenant_id, transaction, *args, **kwargs)
        except asyncio.CancelledError:
            cancelled = True
            raise
        finally:
            turned = self._leave(begun, cancelled)
            if turned is not None:
                self._announce(tenant_id, turned)

    @property
    def queue(self) -> dict[str, int]:
        """The writes in the queue, its limit, and the callers that wait for a slot in it."""
        with self._lock:
            return {"inside": self._inside, "allowed": self._allowed, "outside": len(self._queue)}

    async def health(self) -> list[Finding]:
        """The findings of the store, and how writing goes in this process."""
        with self._lock:
            latency = self._latency.median(self._clock())
            slow = is_slow(latency, self._target, self._slow)
            inside, outside, limit = self._inside, len(self._queue), self._allowed
        note = f"{latency * 1000:.0f} ms each, {inside + outside} waiting"
        problem = (
            f"writes take {latency:.1f} s each, and should take {self._target:g} s at most: {limit} of"
            f" {self._most} may wait for the store, and {outside} callers wait for a place"
        )
        return [*await self._store.health(), Finding("write latency", (problem,) if slow else (), note)]

    async def close(self) -> None:
        here = asyncio.get_running_loop()
        if telling := [task for task in self._telling if task.get_loop() is here]:
            await asyncio.wait(telling)
        await self._store.close()

    def _enter(self) -> _Waiter | None:
        """Take a place, or (a waiter) the last one in the queue."""
        with self._lock:
            if self._inside < self._allowed:  # so nobody waits: free places are given away at once
                self._inside += 1
                return None
            waiter = _Waiter(asyncio.get_running_loop().create_future())
            self._queue.append(waiter)
            return waiter

    async def _wait(self, waiter: _Waiter) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await waiter.called
        except BaseException as error:
            inside, outside = self._give_up(waiter)
            if not isinstance(error, TimeoutError):
                raise
            raise StoreBusy(
                f"{inside} writes wait for the store, {outside} callers wait for a place, and none became free in"
                f" {self._patience:g} s. Nothing was written: try again later, or write less at a time"
            ) from None

    def _leave(self, begun: float, cancelled: bool) -> bool | None:
        """Whether writes have become slow, or (False) fast again; None if neither."""
        turned = None
        with self._lock:
            now = self._clock()
            # A caller that gave up early says nothing about how long its write would have taken.
            if not cancelled or now - begun > self._target:
                self._latency.add(now, now - begun)
                if self._slow or self._allowed < self._most or now - begun >= self._target / 2:
                    turned = self._adjust(begun, now)
            self._inside -= 1
            self._call()
        return turned

    def _adjust(self, begun: float, now: float) -> bool | None:
        """Change the limit, and wait for a write that began under the new one before it is changed again."""
        latency = self._latency.median(now)
        was_slow, self._slow = self._slow, is_slow(latency, self._target, self._slow)
        if begun >= self._adjusted_at:
            limit = allowed(self._allowed, self._inside, latency, self._target, self._most)
            if limit != self._allowed:
                self._allowed, self._adjusted_at = limit, now
        return None if self._slow == was_slow else self._slow

    def _announce(self, tenant_id: str | None, slow: bool) -> None:
        """Tell the operator, and the tenants, in the background: no write waits for it."""
        log.warning(SLOW + "; fewer may wait" if slow else "writes are fast enough again")
        if slow:
            told = set() if tenant_id is None else {tenant_id}
            self._warned |= told
        else:
            told, self._warned = self._warned, set()
        for each in sorted(told):
            task = asyncio.get_running_loop().create_task(self._tell(each, slow))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _tell(self, tenant_id: str, slow: bool) -> None:
        try:
            await self._store.write(tenant_id, _note, self._audit_of(tenant_id), slow)
        except TulvingError as error:
            log.warning("the timeline of %s could not be told: %s", tenant_id, error)

    def _give_up(self, waiter: _Waiter) -> tuple[int, int]:
        """How many wait inside and outside, without this one. A place that it was just given goes to the next."""
        with self._lock:
            if waiter.has_place:
                self._inside -= 1
                self._call()
            else:
                self._queue.remove(waiter)
            return self._inside, len(self._queue)

    def _call(self) -> None:
        """Give the free places to those who have waited longest."""
        while self._queue and self._inside < self._allowed:
            waiter = self._queue.popleft()
            try:
                waiter.called.get_loop().call_soon_threadsafe(_wake, waiter.called)
            except RuntimeError:  # the loop was closed, so there is no caller left
                continue
            waiter.has_place = True
            self._inside += 1


def _wake(called: asyncio.Future[None]) -> None:
    if not called.done():
        called.set_result(None)


def _note(conn: Connection, audit: Audit, slow: bool) -> None:
    """A warning about something else stays: it is not ours to end."""
    found = timelines.find(conn, audit.caller.tenant_id)
    warning = found["warning"] if found else None
    if slow and warning is None:
        timelines.warn(conn, audit, SLOW, "warning", _HINT)
    elif not slow and warning == SLOW:
        timelines.recover(conn, audit)


def _warned_tenants(conn: Connection) -> list[str]:
    rows = conn.fetch_all("SELECT tenant_id FROM timelines WHERE warning = :warning", {"warning": SLOW})
    return [row["tenant_id"] for row in rows]
