"""`tulving health`: whether the memory works, on one screen, also when its store can't be opened."""

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from tulving import __version__
from tulving.config import MemoryModuleConfig, find_project
from tulving.errors import TulvingError
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import FAILED, moment, print_json, table
from tulving.interfaces.wire import wire
from tulving.ports import Finding
from tulving.services.health import Health, embedder_problems

if TYPE_CHECKING:
    from tulving.services.memory import Memory


def health(context: typer.Context, as_json: AsJson = False) -> None:
    """Check whether the memory works: its store, its embedder, its jobs. The exit code is 1 if something is wrong."""
    from tulving.bootstrap import store_name

    config = context.obj.config()
    try:
        found = context.obj.administer(_check)
    except (TulvingError, OSError) as error:
        found = _unopened(config, str(error))
    ignored, store = find_project().ignored, store_name(config.url)
    if as_json:
        about = {"schema": found.schema or None, "version": __version__, "store": store, "ignored": wire(ignored)}
        print_json({**wire(found), **about})
    else:
        _show(found, store, [("ignored", str(each)) for each in ignored])
    if not found.ok:
        raise typer.Exit(FAILED)


async def _check(memory: "Memory") -> Health:
    return replace(await memory.health(), pending=await memory.count_pending())


def _unopened(config: MemoryModuleConfig, problem: str) -> Health:
    """What can be said without a store."""
    from tulving.bootstrap import choose_embedder

    findings = [Finding("open", (problem,)), Finding("embedder", embedder_problems(choose_embedder(config)))]
    return Health(False, "", None, findings, None)


def _show(found: Health, store: str, ignored: list[tuple[str, str]]) -> None:
    rows = [("healthy", "yes" if found.ok else "no"), ("version", __version__), ("store", store)]
    if found.schema:
        rows.append(("schema", found.schema))
    if found.pending:
        rows.append(("pending", f"{found.pending} memories wait for their vectors"))
    rows += ignored
    styles = {}
    for each in found.findings:
        for told in each.problems or (each.told or "ok",):
            rows.append((each.check, told))
            styles[told] = "red" if each.problems else "green"
    for job in found.jobs or ():
        rows.append((f"job {job.job}", f"{job.state}, last run {moment(job.last_run) if job.last_run else 'never'}"))
    table(rows, styles=styles)
