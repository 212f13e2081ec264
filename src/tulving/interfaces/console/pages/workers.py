"""Workers: the scheduled jobs, their runs, and running one now."""

from collections.abc import Iterator, Mapping
from typing import Any

from starlette.responses import Response

from tulving.interfaces.console.visit import Page, Visit
from tulving.interfaces.wording import JOBS
from tulving.services.jobs import JobReport

PLACE = "/console/workers"


async def show(visit: Visit) -> Response:
    """The jobs."""
    jobs = await visit.call("memory_jobs")
    return visit.render("workers.html", jobs=jobs, job_names=JOBS, result=result, due=due)


async def run(visit: Visit) -> Response:
    """Request a job to run now."""
    report = await visit.call("memory_run_job", job=visit.request.path_params["job"])
    name = report.job.replace("_", " ")
    if report.running:
        return visit.go(PLACE, f"{name.capitalize()} is being done already, by {report.running}.")
    return visit.go(PLACE, f"Asked for {name}: the next worker that looks does it.")


def due(job: JobReport, visit: Visit) -> bool:
    """Whether it is due and waits for a worker."""
    return job.next_run is not None and job.next_run <= visit.now and not job.running


def result(job: JobReport) -> Iterator[tuple[str, str]]:
    """The result of the last run, without zeros."""
    for name, value in (job.result or {}).items():
        if value:
            yield name.replace("_", " "), _text(value)


def _text(value: Any) -> str:
    match value:
        case Mapping():
            return ", ".join(f"{name} {_text(part)}" for name, part in value.items())
        case list():
            return ", ".join(map(_text, value))
    return str(value)


PAGES = [
    Page("/workers", show, right="admin"),
    Page("/workers/{job}/run", run, ("POST",), "admin"),
]
