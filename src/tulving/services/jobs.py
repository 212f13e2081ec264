"""Verbs on the scheduled jobs of a store, for its administrators."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

from tulving import storage
from tulving.domain import intake
from tulving.domain.records import Record
from tulving.domain.schedule import Entry
from tulving.errors import InvalidInput
from tulving.services.operations import operation
from tulving.services.service import Service


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JobReport(Record):
    """A scheduled job: its schedule (`cron`, in UTC; None if it is switched off), its last run and its next one.
    `state` is running, ok, failed, interrupted (its process ended before the run did) or waiting (it never ran),
    `running` the process that runs it, and `pieces` the number of parts that wait, if it is divided."""

    job: str
    state: str
    cron: str | None
    last_run: datetime | None = None
    last_finished: datetime | None = None
    next_run: datetime | None = None
    running: str | None = None
    lease_until: datetime | None = None
    last_error: str | None = None
    result: Mapping[str, Any] | None = None
    pieces: int = 0


class Jobs(Service):
    """Verbs for operators; part of an `Administration`."""

    @operation("memory_jobs", http="GET /v1/jobs", effect="admin", answer="jobs", standard=False)
    async def list_jobs(self) -> list[JobReport]:
        """List the scheduled jobs: when each ran last and runs next, what it did, and what failed."""
        now, schedule = self._env.clock(), self._env.config.schedule
        lease = timedelta(seconds=schedule.lease)
        entries = await self._read(storage.jobs.seen_by_all)
        pieces = [entry.job for entry in entries if entry.key]
        known = {entry.name: entry for entry in entries}
        return [
            _report(known.get(name, Entry(name)), now, lease, cron, pieces.count(name))
            for name, cron in schedule.crons().items()
        ]

    @operation("memory_run_job", http="POST /v1/jobs/{job}/run", effect="admin", idempotent=True, standard=False)
    async def run_job(self, job: Annotated[str, "Which job, as memory_jobs lists it"]) -> JobReport:
        """Schedule a job to run now, on the next free worker. A job that is running already is left alone."""
        crons = self._env.config.schedule.crons()
        name = intake.one_of("job", job, tuple(crons))
        if crons[name] is None:
            raise InvalidInput("job", f"{name} is switched off", "a job that the settings (schedule) switch on")
        now = self._env.clock()
        event = self._audit(now).event("job_requested", "job", None, job=name)
        await self._write(storage.jobs.request, name, now, event)
        self._env.job_requested.set()
        return next(each for each in await self.list_jobs() if each.job == name)

    async def wait_for_jobs(self, longest: float) -> None:
        """Wait until a job is requested in this process, at most so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(longest):
                await self._env.job_requested.wait()
        self._env.job_requested.clear()


def _report(entry: Entry, now: datetime, lease: timedelta, cron: str | None, pieces: int) -> JobReport:
    held_until = entry.held_until(now, lease)
    return JobReport(
        job=entry.name,
        state=entry.state(now, lease),
        cron=cron,
        last_run=entry.last_started_at,
        last_finished=entry.last_finished_at,
        next_run=entry.due_at if cron else None,
        running=entry.holder if held_until else None,
        lease_until=held_until,
        last_error=entry.last_error,
        result=entry.result,
        pieces=pieces,
    )
