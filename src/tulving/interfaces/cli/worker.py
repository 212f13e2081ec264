"""The command that runs the scheduled jobs."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from tulving.errors import InvalidInput, StoreBusy
from tulving.interfaces.cli import interruption
from tulving.interfaces.cli.options import AsJson, LogFormat, logging_as
from tulving.interfaces.cli.terminal import FAILED, INTERRUPTED, lines, print_json, remark, table, warn
from tulving.interfaces.wire import wire
from tulving.ports import UNOBSERVED
from tulving.services.learning import NO_MODEL

if TYPE_CHECKING:
    from tulving.services.administration import Administration
    from tulving.services.jobs import JobReport
    from tulving.workers.scheduler import Scheduler

log = logging.getLogger("tulving")
T = TypeVar("T")


def worker(
    context: typer.Context,
    once: Annotated[str | None, typer.Option(metavar="JOB", help="Do this job now, then end")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --once: only show what it would do")] = False,
    list_: Annotated[bool, typer.Option("--list", help="Show the jobs: when they run and ran, what failed")] = False,
    as_json: AsJson = False,
    log_format: LogFormat = None,
) -> None:
    """Run the scheduled jobs until stopped: consolidation, decay, the cleanup of episodes, index maintenance."""
    if list_ and once is not None:
        raise InvalidInput("worker", "can't do both", "--once JOB or --list")
    if dry_run and once is None:
        raise InvalidInput("dry_run", "needs a job", "--once JOB --dry-run")
    from tulving.location import is_postgres, new_file, store_name

    config = logging_as(context.obj.config(), log_format)
    if not is_postgres(config.url):
        new_file(config.url, "never")
    if list_:
        _show_jobs(context.obj.administer(_planned), as_json)
    elif dry_run and once is not None:
        _show_result(asyncio.run(_with_scheduler(config, lambda scheduler: scheduler.rehearse(once))), as_json)
    elif once is not None:
        if once == "consolidation" and not config.llm.chosen:
            warn(NO_MODEL)
        _show_result(asyncio.run(_stoppable(_with_scheduler(config, lambda scheduler: _do(scheduler, once)))), as_json)
    else:
        if log.level > logging.INFO:
            log.setLevel(logging.INFO)
        asyncio.run(_stoppable(_with_scheduler(config, lambda scheduler: _serve(scheduler, store_name(config.url)))))


async def _with_scheduler(config: Any, use: "Callable[[Scheduler], Awaitable[T]]") -> T:
    from tulving.bootstrap import open_scheduler
    from tulving.interfaces.traces import configured

    traces = configured()
    try:
        async with open_scheduler(config, observer=traces or UNOBSERVED) as scheduler:
            return await use(scheduler)
    finally:
        if traces is not None:
            traces.close()


async def _serve(scheduler: "Scheduler", store: str) -> None:
    names = [f"{name} ({cron})" for name in scheduler.jobs if (cron := scheduler.schedule.cron(name))]
    log.info("working on %s: %s", store, ", ".join(names) or "all jobs are switched off")
    await scheduler.run()


async def _do(scheduler: "Scheduler", name: str) -> Mapping[str, Any]:
    run, pieces = await scheduler.once(name)
    if not run.taken:
        until = f", until {run.held_until:%H:%M:%S} at least" if run.held_until else ""
        raise StoreBusy(f"{name} is being done by another process{until}")
    for each in (run, *pieces):
        if each.error is not None:
            raise each.error
    return {**run.result, **{piece.name.partition("/")[2]: piece.result for piece in pieces}}


async def _planned(store: "Administration") -> "list[JobReport]":
    """The jobs. One that no worker has planned yet is due at the next tick of its schedule."""
    from tulving.bootstrap import utc_now
    from tulving.workers.schedule import tick_after

    now = utc_now()
    return [
        replace(job, next_run=tick_after(job.cron, now)) if job.cron and job.next_run is None else job
        for job in await store.list_jobs()
    ]


def _show_jobs(jobs: "Sequence[JobReport]", as_json: bool) -> None:
    if as_json:
        print_json({"jobs": wire(jobs)})
        return
    headers = ("job", "cron (UTC)", "last run", "next run", "state")
    rows = [(job.job, job.cron or "off", _time(job.last_run), _time(job.next_run), _state(job)) for job in jobs]
    table(rows, headers, {"off": "dim", "never": "dim", "ok": "green"})


def _state(job: "JobReport") -> str:
    more = {"running": f" at {job.running}", "failed": f": {job.last_error}"}
    return job.state + more.get(job.state, "")


def _time(moment: datetime | None) -> str:
    return "never" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def _show_result(result: Mapping[str, Any] | None, as_json: bool) -> None:
    if result is None:
        remark(f"interrupted: {interruption.BATCHES}")
        raise typer.Exit(INTERRUPTED)
    taught = {name: value for name, value in result.items() if isinstance(value, Mapping) and "runs" in value}
    if as_json:
        print_json(wire(dict(result)))
    else:
        table([(name.replace("_", " "), _cell(value)) for name, value in result.items() if name not in taught])
    if taught:
        _show_lessons(taught, as_json)


def _show_lessons(taught: Mapping[str, Mapping[str, Any]], as_json: bool) -> None:
    """What was learned in each shard; a shard in which nothing could be is a failure."""
    from tulving.interfaces.cli import lessons

    for name, result in () if as_json else taught.items():
        lines([(0, (f"\n{name}", "bold")), *((2 + indent, *parts) for indent, *parts in lessons.consolidated(result))])
        if result["warning"]:
            warn(result["warning"])
    if any(result["errors"] and lessons.failed(result) for result in taught.values()):
        raise typer.Exit(FAILED)


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name.replace('_', ' ')} {_cell(part)}" for name, part in value.items())
    return ", ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)


async def _stoppable(work: Coroutine[Any, Any, Any]) -> Any:
    """Work until it is done or a signal arrives; then writes in progress are finished and leases are released. A second
    signal ends the process at once."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

    def stop(number: signal.Signals) -> None:
        log.info("told to stop (%s)", number.name)
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        return None
