"""`tulving health`: whether the memory works, on one screen, also when its store can't be opened. `tulving verify`:
whether everything in the store agrees with everything else."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import typer

from tulving import __version__
from tulving.config import find_project
from tulving.errors import TulvingError
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import FAILED, moment, print_json, progress, table, warn
from tulving.interfaces.wire import wire
from tulving.ports import Finding
from tulving.services.administration import Administration
from tulving.services.health import Health, embedder_problems, readiness_of
from tulving.settings import MemoryModuleConfig

_STATES = {"ready": "green", "warming": "yellow", "degraded": "red"}


def health(context: typer.Context, as_json: AsJson = False) -> None:
    """Check whether the memory works: its store, its embedder, its jobs. The exit code is 1 if something is wrong; an
    index that is warming is not."""
    from tulving.location import store_name

    config = context.obj.config()
    try:
        found = context.obj.run(lambda memory: memory.health(), may_reembed=True)
        found = replace(found, pending=context.obj.administer(lambda store: store.count_pending()))
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


def _unopened(config: MemoryModuleConfig, problem: str) -> Health:
    """What can be said without a store."""
    from tulving.embedders import choose_embedder

    findings = [Finding("open", (problem,)), Finding("embedder", embedder_problems(choose_embedder(config)))]
    return Health(False, "", None, findings, None, None, "degraded", readiness_of(findings).reasons)


def _show(found: Health, store: str, ignored: list[tuple[str, str]]) -> None:
    rows = [("state", found.state), ("version", __version__), ("store", store)]
    if found.schema:
        rows.append(("schema", found.schema))
    if found.pending:
        rows.append(("pending", f"{found.pending} memories wait for their vectors"))
    if used := [f"{name} {each['texts']:,}" for name, each in (found.tool_text or {}).items() if each["texts"]]:
        rows.append(("tool calls in text", ", ".join(used)))
    jobs = [
        (f"job {job.job}", f"{job.state}, last run {moment(job.last_run) if job.last_run else 'never'}")
        for job in found.jobs or ()
    ]
    checks, styles = _checks(found.findings)
    table([*rows, *ignored, *checks, *jobs], styles={**styles, **_STATES})


def _checks(findings: Sequence[Finding]) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Each check with its problems, what is warming, or its note, and the colours of these texts."""
    rows = [(each.check, text) for each in findings for text in each.problems or (each.warming or each.note or "ok",)]
    styles = {text: "green" for _, text in rows} | {each.warming: "yellow" for each in findings}
    return rows, styles | {problem: "red" for each in findings for problem in each.problems}


def verify(context: typer.Context, as_json: AsJson = False) -> None:
    """Check the database, its keyword index and its vectors against the memories, and the embedder's weights."""

    async def check(store: Administration) -> Any:
        with progress("verify:") as tell:
            return await store.verify(tell), store.warning

    verification, warning = context.obj.administer(check)
    if as_json:
        print_json({"ok": verification.ok, **wire(verification)})
    else:
        rows, styles = _checks(verification.findings)
        table(rows, ("check", "result"), styles)
        warn_of_pending(verification.pending, warning)
    if not verification.ok:
        raise typer.Exit(FAILED)


def warn_of_pending(pending: int, reason: str | None) -> None:
    """Say how many memories have no vector yet, and why or what to do."""
    if pending:
        warn(f"{pending} memories wait for their vectors. {reason or 'Run `tulving reembed`.'}")
