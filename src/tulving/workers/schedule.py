"""The schedule as one process sees it: when jobs are due, and running one under a lease."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from tulving.domain.schedule import Entry, next_turns, pause_after_failure
from tulving.errors import StoreBusy, TulvingError
from tulving.ports import UNOBSERVED, Clock, Observer, Store
from tulving.settings import ScheduleConfig
from tulving.storage import jobs

log = logging.getLogger("tulving")
T = TypeVar("T")

RENEWALS = 4
"""How often a lease is renewed in its time."""


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome of an attempt: a result or an error, or neither if the job was not `taken`."""

    name: str
    as_of: datetime
    taken: bool
    result: Any = None
    error: Exception | None = None
    held_until: datetime | None = None
    """When the lease of the process that is doing it ends."""


class LeaseLost(StoreBusy):
    """The lease ran out before it was renewed, and another process took the job over."""


class UncancellableWrites:
    """Another store, except that a cancelled write is first committed or rolled back."""

    def __init__(self, store: Store) -> None:
        self._store, self._write = store, store.write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, tenant_id: str | None, transaction: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        writing = asyncio.ensure_future(self._write(tenant_id, transaction, *args, **kwargs))
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait({writing})
            raise


class Schedule:
    """The `jobs` table, for one holder of leases."""

    def __init__(
        self, store: Store, clock: Clock, holder: str, config: ScheduleConfig, observer: Observer = UNOBSERVED
    ) -> None:
        self._observer = observer
        self._store = UncancellableWrites(store)
        self._clock, self._holder = clock, holder
        self._crons = config.crons()
        self._lease = timedelta(seconds=config.lease)

    def now(self) -> datetime:
        return self._clock()

    def cron(self, name: str) -> str | None:
        """When a job is done; None when it is switched off."""
        return self._crons.get(name)

    async def entries(self) -> dict[str, Entry]:
        return {entry.name: entry for entry in await self._store.read(None, jobs.entries)}

    def next_turns(self, entries: Mapping[str, Entry], names: Sequence[str]) -> list[tuple[datetime, Entry]]:
        """What to do next, and the time from which it may be taken (`domain/schedule.py`)."""
        return next_turns(entries.values(), names, self._clock(), self._lease)

    async def check_rights(self) -> None:
        """Raise if the database user does not see all tenants."""
        await self._store.read(None, lambda conn: conn.check_sees_all_tenants())

    async def enroll(self, names: Iterable[str]) -> dict[str, Entry]:
        """Give each job its next tick, unless the time that it has is still right; the entries before.

        Right are a time that has passed (a tick that was missed is made up for once), one before the next tick (a
        failed run is tried again), and the tick after the next (the next one is done: the clock was set back a little).
        """
        now, entries = self._clock(), await self.entries()
        for name in names:
            if (cron := self.cron(name)) is None:
                continue
            entry, tick = entries.get(name), tick_after(cron, now)
            due_at = entry.due_at if entry else None
            if due_at is None or (due_at > tick and due_at != tick_after(cron, tick)):
                await self._write(jobs.enroll, name, entry, tick)
        return entries

    async def request_pieces(self, job: str, keys: Iterable[str], at: datetime) -> None:
        """Have a divided job done for each of these keys."""
        await self._write(jobs.request_pieces, job, keys, at)

    async def run(self, seen: Entry, work: Callable[[datetime], Awaitable[Any]], *, on_demand: bool = False) -> Run:
        """Do a job that was seen to be due, or `on_demand` any job, unless another process is doing it.

        One that fails is tried again later. One that is cancelled is due as before.
        """
        name = seen.name
        taken, as_of, entry = await self._claim(seen, on_demand)
        if not taken:
            return Run(name, as_of, False, held_until=entry.held_until(as_of, self._lease))
        begun = time.monotonic()
        try:
            with self._observer.during("job", job=seen.job):
                result = await self._leased(name, work(as_of))
        except (asyncio.CancelledError, LeaseLost):
            await self._release(name)
            raise
        except Exception as error:
            expected = isinstance(error, TulvingError)
            level = logging.WARNING if expected else logging.ERROR
            log.log(level, "%s failed: %s", name, error, exc_info=None if expected else error)
            await self._fail(entry, as_of, error)
            return Run(name, as_of, True, error=error)
        log.info("%s: %s in %.1f s", name, _described(result), time.monotonic() - begun)
        if seen.key:
            await self._write(jobs.finish_piece, name, self._holder, as_of)
        else:
            await self._write(jobs.finish, name, self._holder, self._clock(), self._tick_after(name, as_of), result)
        return Run(name, as_of, True, result=result)

    async def _claim(self, seen: Entry, on_demand: bool) -> tuple[bool, datetime, Entry]:
        names = tuple(self._crons)
        try:
            return await self._write(jobs.claim, seen, names, self._holder, self._clock, self._lease, on_demand)
        except asyncio.CancelledError:
            await self._release(seen.name)
            raise

    async def _leased(self, name: str, work: Awaitable[T]) -> T:
        """Work for as long as the lease can be renewed."""
        task = asyncio.ensure_future(work)
        lease = self._lease.total_seconds()
        expires = time.monotonic() + lease
        try:
            while not (await asyncio.wait({task}, timeout=lease / RENEWALS))[0]:
                begun = time.monotonic()
                try:
                    kept = await self._write(jobs.renew, name, self._holder, self._clock() + self._lease)
                    expires = begun + lease
                except TulvingError as error:
                    log.warning("the lease of %s could not be renewed: %s", name, error)
                    kept = begun < expires
                if not kept:
                    raise LeaseLost(f"{name} was taken over by another process")
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    async def _fail(self, before: Entry, as_of: datetime, error: Exception) -> None:
        """Try again after a pause, or at the next tick if that comes first. A piece keeps its place in the order."""
        retry_at = self._tick_after(before.name, as_of)
        if retry_at is not None:
            retry_at = min(retry_at, as_of + pause_after_failure(before, as_of))
        due_at, blocked_until = (before.due_at, retry_at) if before.key else (retry_at, None)
        reason = f"{type(error).__name__}: {error}"[:1000]
        await self._write(jobs.fail, before.name, self._holder, self._clock(), due_at, reason, blocked_until)

    async def _release(self, name: str) -> None:
        """Never raises: an error would take the place of the cancellation that led here, and a worker would go on."""
        try:
            await self._write(jobs.release, name, self._holder)
        except TulvingError as error:
            log.warning("%s could not be released, and stays leased for a while: %s", name, error)

    async def _write(self, transaction: Callable[..., Any], *args: Any) -> Any:
        return await self._store.write(None, transaction, *args)

    def _tick_after(self, name: str, moment: datetime) -> datetime | None:
        cron = self.cron(name.partition("/")[0])
        return None if cron is None else tick_after(cron, moment)


def tick_after(cron: str, moment: datetime) -> datetime:
    """The first tick of a cron expression after a moment, in UTC; a sixth field is seconds."""
    from croniter import croniter  # takes a tenth of a second

    return croniter(cron, moment).get_next(datetime)


def _described(result: Any) -> str:
    told = {name: value for name, value in result.items() if value} if isinstance(result, Mapping) else result
    return json.dumps(told, default=str) if told else "nothing to do"
