"""The schedule as one process sees it: what is due, and a turn at doing it that nobody else has meanwhile."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from tulving.config import ScheduleConfig
from tulving.errors import StoreBusy, TulvingError
from tulving.ports import Clock, Store
from tulving.storage import jobs
from tulving.storage.jobs import Entry
from tulving.workers.cron import tick_after

log = logging.getLogger("tulving")
T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(hours=1)
"""After failures, as long as no tick comes first."""

RENEWALS = 4
"""How often a lease is renewed in its time."""


@dataclass(frozen=True, slots=True)
class Run:
    """What became of a turn: a result, an error, or nothing, because it was not due or another one has it."""

    name: str
    as_of: datetime
    taken: bool
    result: Any = None
    error: Exception | None = None
    due_at: datetime | None = None
    held_until: datetime | None = None
    """Until when another one has it."""
    retry_at: datetime | None = None
    """When it is tried again, if before the next tick."""


class LeaseLost(StoreBusy):
    """We were away for so long that another process took the job over."""


class Schedule:
    """The jobs table, for one holder."""

    def __init__(self, store: Store, clock: Clock, holder: str, config: ScheduleConfig) -> None:
        self._store, self._clock, self._holder = store, clock, holder
        self._crons = config.crons()
        self._lease = timedelta(seconds=config.lease)

    @property
    def lease(self) -> float:
        """In seconds."""
        return self._lease.total_seconds()

    def now(self) -> datetime:
        return self._clock()

    def cron(self, name: str) -> str | None:
        """When a job is done; None when it is switched off."""
        return self._crons.get(name)

    async def entries(self) -> dict[str, Entry]:
        """All that is scheduled, or was."""
        return {entry.name: entry for entry in await self._store.read(None, jobs.entries)}

    async def settle(self, names: Iterable[str]) -> None:
        """See to it that each job has a time that its expression and the clock of today can explain.

        A time that has passed stays: the tick was missed and is made up for, once. So does one before the next tick,
        which is a second try, and the tick after the next: the clock was set back a little, the tick before is done.
        """
        now, entries = self._clock(), await self.entries()
        for name in names:
            if (cron := self._crons.get(name)) is None:
                continue
            entry = entries.get(name)
            tick = tick_after(cron, now)
            due_at = entry.due_at if entry else None
            if due_at is None or (due_at > tick and due_at != tick_after(cron, tick)):
                await self._store.write(None, jobs.enroll, name, entry, tick)

    async def run(
        self,
        name: str,
        work: Callable[[datetime], Awaitable[Any]],
        *,
        asked: bool = False,
        not_before: datetime | None = None,
    ) -> Run:
        """Do a job if it is due, or if somebody asked for it, and if nobody else is doing it.

        `not_before` is a time that must have come, whatever our own clock says. A job that fails is tried again.
        """
        as_of = max(self._clock(), not_before) if not_before else self._clock()
        taken, entry = await self._claim(name, as_of, asked)
        if not taken:
            held = entry.lease_until if entry.held(as_of, self._lease) and entry.holder != self._holder else None
            return Run(name, as_of, False, due_at=entry.due_at, held_until=held)
        begun = time.monotonic()
        try:
            result = await self._leased(name, work(as_of))
        except (asyncio.CancelledError, LeaseLost):
            await self._write(jobs.release, name, self._holder)
            raise
        except Exception as error:
            log.log(_level(error), "%s failed: %s", name, error, exc_info=None if _expected(error) else error)
            retry_at = self._second_try(entry, as_of)
            due_at = retry_at or self._next(name, as_of)
            said = f"{type(error).__name__}: {error}"[:1000]
            await self._write(jobs.fail, name, self._holder, self._clock(), due_at, said)
            return Run(name, as_of, True, error=error, due_at=due_at, retry_at=retry_at)
        log.info("%s: %s in %.1f s", name, _told(result), time.monotonic() - begun)
        if entry.key:
            await self._write(jobs.finish_piece, name, self._holder, as_of)
            return Run(name, as_of, True, result=result)
        due_at = self._next(name, as_of)
        await self._write(jobs.finish, name, self._holder, self._clock(), due_at, result)
        return Run(name, as_of, True, result=result, due_at=due_at)

    async def ask(self, name: str, key: str, at: datetime) -> None:
        """Ask for a piece of a job that is divided."""
        await self._write(jobs.ask, f"{name}/{key}", at)

    async def _claim(self, name: str, as_of: datetime, asked: bool) -> tuple[bool, Entry]:
        """One who is told to stop just when the job becomes ours must not leave it held."""
        claiming = asyncio.ensure_future(
            self._store.write(None, jobs.claim, name, self._holder, as_of, self._lease, asked)
        )
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            await asyncio.wait({claiming})
            if not claiming.cancelled() and claiming.exception() is None and claiming.result()[0]:
                await self._write(jobs.release, name, self._holder)
            raise

    async def _leased(self, name: str, work: Awaitable[T]) -> T:
        """Work as long as the lease is ours."""
        task = asyncio.ensure_future(work)
        expires = time.monotonic() + self.lease
        try:
            while not (await asyncio.wait({task}, timeout=self.lease / RENEWALS))[0]:
                begun = time.monotonic()
                try:
                    kept = await self._write(jobs.renew, name, self._holder, self._clock() + self._lease)
                    expires = begun + self.lease
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

    async def _write(self, transaction: Callable[..., Any], *args: Any) -> Any:
        """Brought to an end even if we are told to stop meanwhile: a lease that is not given back blocks the others."""
        writing = asyncio.ensure_future(self._store.write(None, transaction, *args))
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait({writing})
            raise

    def _next(self, name: str, as_of: datetime) -> datetime | None:
        cron = self._crons.get(name.partition("/")[0])
        return None if cron is None else tick_after(cron, as_of)

    def _second_try(self, entry: Entry, as_of: datetime) -> datetime | None:
        """Twice as long after a failure as that was after the one before it; None if the next tick comes first."""
        pause = FIRST_PAUSE
        if entry.last_error is not None and entry.last_started_at is not None:
            pause = min(max(pause, 2 * (as_of - entry.last_started_at)), LONGEST_PAUSE)
        tick = self._next(entry.name, as_of)
        return as_of + pause if tick is not None and as_of + pause < tick else None


def _told(result: Any) -> str:
    told = {name: value for name, value in result.items() if value} if isinstance(result, Mapping) else result
    return json.dumps(told, default=str) if told else "nothing to do"


def _expected(error: Exception) -> bool:
    return isinstance(error, TulvingError)


def _level(error: Exception) -> int:
    return logging.WARNING if _expected(error) else logging.ERROR
