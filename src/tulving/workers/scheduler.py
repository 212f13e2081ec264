"""The scheduler: it does what is due, and waits until something is.

Any number of processes may run one, on either engine: workers, and every open memory in its background.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from datetime import datetime

from tulving.domain.schedule import Entry
from tulving.errors import InvalidInput, StoreUnavailable
from tulving.services.administration import Administration
from tulving.workers.jobs import Job, Result
from tulving.workers.schedule import Run, Schedule

log = logging.getLogger("tulving")

AT_ONCE = 4
"""How many pieces of divided jobs a process does at a time."""
BATCH = 100
"""How many pieces are done before jobs that have become due have their turn."""
LONGEST_SLEEP = 5.0
"""In seconds: how soon a worker notices pieces that other processes have requested."""
SHORTEST_SLEEP = 0.05


class Scheduler:
    """Does the jobs that are switched on one after the other, and the pieces of divided ones several at a time."""

    def __init__(self, schedule: Schedule, memory: Administration, jobs: Mapping[str, Job]) -> None:
        self.schedule, self.jobs = schedule, jobs
        self._memory = memory
        self._names = [name for name in jobs if schedule.cron(name) is not None]

    async def run(self) -> None:
        """Until cancelled. A store that can't be reached is tried again."""
        await self.schedule.check_rights()
        while True:
            pause = LONGEST_SLEEP
            try:
                await self.look()
                pause = await self.pause(LONGEST_SLEEP)
            except StoreUnavailable as error:
                log.warning("the jobs wait: %s", error)
            await asyncio.sleep(pause)

    async def look(self) -> list[Run]:
        """Do what is due and not being done elsewhere, at most one batch of pieces; what was done."""
        entries = await self.schedule.enroll(self._names)
        runs = [await self._do(entry) for entry in self._due(entries) if not entry.key]
        if runs:
            entries = await self.schedule.entries()
        runs += await self._do_pieces([entry for entry in self._due(entries) if entry.key][:BATCH])
        return [run for run in runs if run.taken]

    async def pause(self, longest: float) -> float:
        """How many seconds there is nothing to do."""
        turns = self.schedule.next_turns(await self.schedule.entries(), self._names)
        now = self.schedule.now()
        wait = min(((free_at - now).total_seconds() for free_at, _ in turns), default=longest)
        return min(max(wait, SHORTEST_SLEEP), longest)

    async def once(self, name: str) -> tuple[Run, list[Run]]:
        """Do a job now, whenever it is due: the outcome, and that of its pieces."""
        self._check_known(name)
        run = await self._do(Entry(name), on_demand=True)
        pieces = [
            entry
            for entry in (await self.schedule.entries()).values()
            if run.taken and entry.job == name and entry.key and entry.due_at and entry.due_at <= run.as_of
        ]
        return run, await self._do_pieces(pieces, on_demand=True)

    async def rehearse(self, name: str) -> Result:
        """What a job would do now."""
        job, now = self._check_known(name), self.schedule.now()
        if job.keys is not None:
            return {"shards": list(await job.keys(self._memory, now))}
        return await job.run(self._memory, now, dry_run=True)

    def _check_known(self, name: str) -> Job:
        if name not in self.jobs:
            raise InvalidInput("job", f"there is no job {name!r:.60}", ", ".join(self.jobs))
        return self.jobs[name]

    def _due(self, entries: Mapping[str, Entry]) -> list[Entry]:
        now = self.schedule.now()
        return [entry for free_at, entry in self.schedule.next_turns(entries, self._names) if free_at <= now]

    async def _do_pieces(self, pieces: Iterable[Entry], on_demand: bool = False) -> list[Run]:
        waiting, runs = iter(pieces), []

        async def do_in_order() -> None:
            for entry in waiting:
                runs.append(await self._do(entry, on_demand))

        # Not a TaskGroup: cancelled after a task has failed, it raises the error only, and a worker would go on.
        tasks = [asyncio.ensure_future(do_in_order()) for _ in range(AT_ONCE)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        return runs

    async def _do(self, entry: Entry, on_demand: bool = False) -> Run:
        job = self.jobs[entry.job]

        async def work(as_of: datetime) -> Result:
            if entry.key or job.keys is None:
                return await job.run(self._memory, as_of, entry.key)
            keys = await job.keys(self._memory, as_of)
            await self.schedule.request_pieces(job.name, keys, as_of)
            return {"shards": len(keys)}

        return await self.schedule.run(entry, work, on_demand=on_demand)
