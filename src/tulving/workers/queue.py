"""A scheduler that shares its work out among many workers: procrastinate, a queue in the same PostgreSQL database.

procrastinate wakes us at each tick, once however many workers there are, hands the pieces of a divided job to whoever
is free, and keeps those of one key in order, by a lock: one that is tried again goes before those behind it. The jobs
table still has the last word on whether a job is due and who does it, because memories that are merely open look there
too. It is also how ticks that were missed are made up for, and why a clock that goes back does no harm.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from procrastinate import App, BaseRetryStrategy, JobContext, PsycopgConnector, RetryDecision, exceptions
from procrastinate.jobs import Job as Queued

from tulving.errors import StoreUnavailable
from tulving.services.administration import Administration
from tulving.workers.jobs import Job, Result
from tulving.workers.schedule import LeaseLost, Schedule
from tulving.workers.scheduler import TableScheduler

log = logging.getLogger("tulving")

QUEUE = "tulving"
AT_ONCE = 4
RECONNECT = 5.0
HISTORY_HOURS = 7 * 24
LONGEST_PAUSE = 3600
OVERDUE = timedelta(seconds=3)
"""After this, a tick that procrastinate should have fired by itself was missed."""

_OPEN = ("todo", "doing")

# In one statement, so that of several workers that look at once, one gives a job back, and only while it is stalled.
_RESCUE = """
WITH stalled AS (
    SELECT id FROM procrastinate_jobs AS job WHERE status = 'doing' AND (worker_id IS NULL OR EXISTS (
        SELECT 1 FROM procrastinate_workers AS worker WHERE worker.id = job.worker_id
        AND last_heartbeat < now() - make_interval(secs => %(seconds)s)))
    ORDER BY id FOR UPDATE SKIP LOCKED)
SELECT id, procrastinate_retry_job_v2(id, NULL, NULL, NULL, NULL) FROM stalled"""


class Later(Exception):
    """Not done, and to be tried again."""

    def __init__(self, at: datetime) -> None:
        super().__init__(f"to be tried again at {at}")
        self.at = at


class Retrying(BaseRetryStrategy):
    """When a queued job is tried again. While it waits, those behind it with the same lock wait too."""

    def get_retry_decision(self, *, exception: BaseException, job: Queued) -> RetryDecision | None:
        if isinstance(exception, Later):
            return RetryDecision(retry_at=exception.at)
        if isinstance(exception, asyncio.CancelledError | LeaseLost):  # we are told to stop: let another one do it
            return RetryDecision(retry_in={"seconds": 0})
        return RetryDecision(retry_in={"seconds": min(5 * 2**job.attempts, LONGEST_PAUSE)})


class QueueScheduler(TableScheduler):
    """One worker of many."""

    def __init__(
        self, schedule: Schedule, memory: Administration, jobs: Mapping[str, Job], url: str, schema: str
    ) -> None:
        super().__init__(schedule, memory, jobs)
        self._url, self._schema = url, schema
        self._app: App | None = None

    async def run(self) -> None:
        """Until cancelled. When the database goes away, until it is back."""
        while True:
            try:
                await self.schedule.settle(self._names)
                await self._serve()
                _end_if_told()
                log.warning("the queue's worker has ended by itself; starting another one")
            except (StoreUnavailable, exceptions.ConnectorException, psycopg.Error) as error:
                _end_if_told()
                log.warning("the jobs wait: %s", error.__cause__ or error)
            await asyncio.sleep(RECONNECT)

    async def _serve(self) -> None:
        self._app = app = self._new_app()
        lease = self.schedule.lease
        async with app.open_async():
            helper = asyncio.create_task(self._care(app))
            try:
                await app.run_worker_async(
                    queues=[QUEUE],
                    concurrency=AT_ONCE,
                    install_signal_handlers=False,
                    delete_jobs="successful",
                    shutdown_graceful_timeout=0,  # what is being written is, and the rest is another one's
                    update_heartbeat_interval=lease / 6,
                    stalled_worker_timeout=lease / 2,
                    fetch_job_polling_interval=min(5.0, lease / 2),
                )
            finally:
                helper.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await helper

    def _new_app(self) -> App:
        connector = PsycopgConnector(
            **connection(self._url, self._schema),
            min_size=1,
            max_size=AT_ONCE,
            timeout=RECONNECT,
        )
        app = App(connector=connector)
        for job in self.jobs.values():
            self._add(app, job)
        return app

    def _add(self, app: App, job: Job) -> None:
        async def tick(context: JobContext, timestamp: int) -> None:
            due_at = datetime.fromtimestamp(timestamp, UTC)
            await self._take(context, job.name, lambda as_of: self._perform(job, as_of), due_at)

        async def shard(context: JobContext, key: str, due_at: str) -> None:
            work = lambda as_of: job.run(self._memory, as_of, key)  # noqa: E731
            await self._take(context, f"{job.name}/{key}", work, datetime.fromisoformat(due_at), asked=True)

        made = app.task(name=_tick(job), queue=QUEUE, lock=_lock(job), retry=Retrying(), pass_context=True)(tick)
        if (cron := self.schedule.cron(job.name)) is not None:
            app.periodic(cron=cron)(made)
        app.task(name=_shard(job), queue=QUEUE, retry=Retrying(), pass_context=True)(shard)

    async def _take(
        self, context: JobContext, name: str, work: Callable[..., Any], due_at: datetime, asked: bool = False
    ) -> None:
        """The queue's clock said it is time, so it is, if ours is slow."""
        not_before = max(due_at, context.job.scheduled_at or due_at)
        run = await self.schedule.run(name, work, asked=asked, not_before=not_before)
        if run.held_until is not None:
            raise Later(run.held_until)
        if run.retry_at is not None:
            raise Later(run.retry_at) from run.error

    async def _perform(self, job: Job, as_of: datetime) -> Result:
        if job.keys is None or self._app is None:
            return await super()._perform(job, as_of)
        keys = await job.keys(self._memory, as_of)
        if keys:
            await self._app.job_manager.batch_defer_jobs_async([_queued(job, key, as_of) for key in keys])
        return {"shards": len(keys)}

    async def _care(self, app: App) -> None:
        """Give back what dead workers held, and forget what failed long ago."""
        tidied = -math.inf
        while True:
            try:
                stalled = await app.connector.execute_query_all_async(_RESCUE, seconds=self.schedule.lease / 2)
                if stalled:
                    log.warning("%d jobs of workers that are gone were given back", len(stalled))
                await self.schedule.settle(self._names)
                await self._remind(app)
                if time.monotonic() - tidied > LONGEST_PAUSE:
                    await app.job_manager.delete_old_jobs(
                        HISTORY_HOURS, QUEUE, include_failed=True, include_cancelled=True, include_aborted=True
                    )
                    tidied = time.monotonic()
            except (StoreUnavailable, exceptions.ConnectorException, psycopg.Error) as error:
                log.warning("the queue could not be looked after: %s", error.__cause__ or error)
            await asyncio.sleep(self.schedule.lease / 4)

    async def _remind(self, app: App) -> None:
        """Queue what the jobs table says is due and the queue knows nothing of: ticks from when no worker ran, and
        what others who had the memory open have begun and left."""
        overdue = await self._overdue()
        if not overdue:
            return
        known = {_about(each) for each in await app.job_manager.list_jobs_async(queue=QUEUE) if each.status in _OPEN}
        missing = [_queued(self.jobs[name], key, due_at) for name, key, due_at in overdue]
        missing = [each for each in missing if _about(each) not in known]
        if missing:
            await app.job_manager.batch_defer_jobs_async(missing)

    async def _overdue(self) -> list[tuple[str, str, datetime]]:
        now = self.schedule.now()
        return [
            (entry.name.partition("/")[0], entry.key, entry.due_at)
            for entry in (await self.schedule.entries()).values()
            if self._concerns(entry)
            and entry.due_at is not None
            and entry.due_at <= now - OVERDUE
            and not entry.held(now, timedelta(seconds=self.schedule.lease))
        ]


def _end_if_told() -> None:
    """An error on the way out takes the place of the cancellation that led there."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _tick(job: Job) -> str:
    return f"tulving:{job.name}"


def _shard(job: Job) -> str:
    return f"tulving:{job.name}:shard"


def _lock(job: Job) -> str:
    """No key is like that: they all have a colon."""
    return f"tulving/{job.name}"


def _queued(job: Job, key: str, due_at: datetime) -> Queued:
    """A piece of a job, or with an empty key the job itself."""
    about: dict[str, Any] = {"timestamp": int(due_at.timestamp())}
    if key:
        about = {"key": key, "due_at": due_at.isoformat()}
    return Queued(
        queue=QUEUE,
        lock=key or _lock(job),
        queueing_lock=None,
        task_name=_shard(job) if key else _tick(job),
        task_kwargs=about,
    )


def _about(queued: Queued) -> tuple[str, Any]:
    return queued.task_name, queued.task_kwargs.get("key")


def connection(url: str, schema: str) -> dict[str, Any]:
    """A URL as asyncpg takes it, in libpq's words. asyncpg takes parameters that it does not know for the server's."""
    known = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    settings = {name: value for name, value in given.items() if name not in known}
    settings |= {"search_path": '"' + schema.replace('"', '""') + '"', "timezone": "UTC"}
    options = [given.pop("options", ""), *(f"-c {name}={_escaped(value)}" for name, value in settings.items())]
    query = urlencode({name: value for name, value in given.items() if name in known})
    return {
        "conninfo": urlunsplit(parts._replace(query=query)),
        "kwargs": {
            "options": " ".join(filter(None, options)),
            "application_name": "tulving-worker",
            "prepare_threshold": None,
        },
    }


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
