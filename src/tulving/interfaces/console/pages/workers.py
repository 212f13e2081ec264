"""Workers: the scheduled jobs, their runs, and running one now."""

from starlette.responses import Response

from tulving.interfaces.console.visit import Page, Visit
from tulving.interfaces.wording import JOBS
from tulving.services.jobs import JobReport

PATH = "/console/workers"


async def show(visit: Visit) -> Response:
    """The jobs."""
    jobs = await visit.call("memory_jobs")
    is_waiting = any(job.running or due(job, visit) for job in jobs)
    return visit.render("workers.html", jobs=jobs, is_waiting=is_waiting, job_names=JOBS, due=due)


async def run(visit: Visit) -> Response:
    """Request a job to run now."""
    report = await visit.call("memory_run_job", job=visit.request.path_params["job"])
    name = report.job.replace("_", " ")
    if report.running:
        return visit.go(PATH, f"{name.capitalize()} is running, on {report.running}.")
    return visit.go(PATH, f"Requested {name}; the next worker runs it.")


def due(job: JobReport, visit: Visit) -> bool:
    """Whether it is due and waits for a worker."""
    return job.next_run is not None and job.next_run <= visit.now and not job.running


PAGES = [
    Page("/workers", show, right="admin"),
    Page("/workers/{job}/run", run, ("POST",), "admin"),
]
