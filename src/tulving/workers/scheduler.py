"""A scheduler that lives on the jobs table alone: it looks what is due, does it, and sleeps until something is.

Any number of processes may do so. It serves SQLite, the background of every open memory, and a job asked for by hand.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from tulving.errors import InvalidInput, StoreUnavailable
from tulving.services.administration import Administration
from tulving.storage.jobs import Entry
from tulving.workers.cron import tick_after
from tulving.workers.jobs import Job, Result
from tulving.workers.schedule import Run, Schedule

log = logging.getLogger("tulving")

LONGEST_SLEEP = 30.0
SHORTEST_SLEEP = 0.05


class TableScheduler:
    """Does the jobs that are switched on, one after the other."""

    def __init__(
        self, schedule: Schedule, memory: Administration, jobs: Mapping[str, Job], longest_sleep: float = LONGEST_SLEEP
    ) -> None:
        self.schedule, self.jobs = schedule, jobs
        self._memory, self._longest_sleep = memory, longest_sleep
        self._names = [name for name in jobs if schedule.cron(name) is not None]

    async def run(self) -> None:
        """Until cancelled. A store that can't be reached now is tried again."""
        while True:
            pause = self._longest_sleep
            try:
                await self.look()
                pause = await self.pause()
            except StoreUnavailable as error:
                log.warning("the jobs wait: %s", error)
            await asyncio.sleep(pause)

    async def look(self) -> list[Run]:
        """Do everything that is due and that nobody else does; what was done."""
        now = self.schedule.now()
        await self.schedule.settle(self._names)
        runs = [await self._do(name) for name in await self._due(now)]
        while pieces := await self._due(self.schedule.now(), pieces=True):
            done = [await self._do(name) for name in pieces]
            runs += done
            if not any(run.taken for run in done):
                break
        return [run for run in runs if run.taken]

    async def wanted(self) -> bool:
        """Whether anything is due, or has no time yet."""
        now, entries = self.schedule.now(), await self.schedule.entries()
        mine = [entry for entry in entries.values() if self._concerns(entry)]
        missing = set(self._names) - {entry.name for entry in mine if entry.due_at is not None}
        return bool(missing) or any(entry.due_at is not None and entry.due_at <= now for entry in mine)

    async def pause(self) -> float:
        """For how many seconds there is nothing to do."""
        now, times = self.schedule.now(), []
        for entry in (await self.schedule.entries()).values():
            if self._concerns(entry) and entry.due_at is not None:
                times.append(max(entry.due_at, entry.lease_until) if entry.lease_until else entry.due_at)
        wait = min(((each - now).total_seconds() for each in times), default=self._longest_sleep)
        return min(max(wait, SHORTEST_SLEEP), self._longest_sleep)

    async def plan(self) -> dict[str, Entry]:
        """Every job, with the time when it is due next if it is switched on."""
        entries, now = await self.schedule.entries(), self.schedule.now()
        plan = {}
        for name in self.jobs:
            entry, cron = entries.get(name) or Entry(name), self.schedule.cron(name)
            due_at = entry.due_at or (tick_after(cron, now) if cron else None)
            held = entry.held(now, timedelta(seconds=self.schedule.lease))
            plan[name] = replace(entry, due_at=due_at if cron else None, holder=entry.holder if held else None)
        return plan

    async def once(self, name: str) -> tuple[Run, list[Run]]:
        """Do a job now, whenever it is due: what became of it, and of its pieces."""
        self._known(name)
        run = await self._do(name, asked=True)
        pieces = await self._due(run.as_of, pieces=True, of=name)
        return run, [await self._do(piece, asked=True) for piece in pieces]

    async def rehearse(self, name: str) -> Result:
        """What a job would do now."""
        return await self._known(name).rehearse(self._memory, self.schedule.now())

    def _known(self, name: str) -> Job:
        if name not in self.jobs:
            raise InvalidInput("job", f"there is no job {name!r:.60}", ", ".join(self.jobs))
        return self.jobs[name]

    async def _due(self, now: datetime, pieces: bool = False, of: str | None = None) -> list[str]:
        """In the order in which they became due; of those at the same time, in the order of the jobs."""
        due = [
            entry
            for entry in (await self.schedule.entries()).values()
            if (entry.name.startswith(f"{of}/") if of else self._concerns(entry))
            and bool(entry.key) == pieces
            and entry.due_at is not None
            and entry.due_at <= now
        ]
        order = list(self.jobs)
        due.sort(key=lambda entry: (entry.due_at, order.index(entry.name.partition("/")[0]), entry.name))
        return [entry.name for entry in due]

    def _concerns(self, entry: Entry) -> bool:
        return entry.name.partition("/")[0] in self._names

    async def _do(self, name: str, asked: bool = False) -> Run:
        job, _, key = name.partition("/")

        async def work(as_of: datetime) -> Result:
            if key:
                return await self.jobs[job].run(self._memory, as_of, key)
            return await self._perform(self.jobs[job], as_of)

        return await self.schedule.run(name, work, asked=asked)

    async def _perform(self, job: Job, as_of: datetime) -> Result:
        """A job as a whole. One that is divided asks for its pieces, which are done after it."""
        if job.keys is None:
            return await job.run(self._memory, as_of, "")
        keys = await job.keys(self._memory, as_of)
        for key in keys:
            await self.schedule.ask(job.name, key, as_of)
        return {"shards": len(keys)}
