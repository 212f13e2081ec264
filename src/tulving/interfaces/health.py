"""`tulving health`: whether the memory works, on one screen, also when its store can't be opened."""

import asyncio
from typing import Any

import typer

from tulving import __version__
from tulving.config import find_project
from tulving.errors import TulvingError
from tulving.interfaces.terminal import FAILED, AsJson, Chosen, print_json
from tulving.interfaces.wire import wire
from tulving.ports import Finding
from tulving.services.health import embedder_problems


def health(context: typer.Context, as_json: AsJson = False) -> None:
    """Look whether the memory works: its store, its embedder, its jobs. The exit code is 1 if something is wrong."""
    from tulving.bootstrap import store_name

    chosen: Chosen = context.obj
    config = chosen.config()

    async def look() -> dict[str, Any]:
        async with chosen.open(may_reembed=True) as memory:
            return {**wire(await memory.health()), "pending": await memory.count_pending()}

    try:
        found = asyncio.run(look())
    except (TulvingError, OSError) as error:
        found = _unopened(chosen, str(error))
    ignored = find_project().ignored
    found = {**found, "version": __version__, "store": store_name(config.url), "ignored": wire(ignored)}
    if as_json:
        print_json(found)
    else:
        _show(found, [("ignored", str(each)) for each in ignored])
    if not found["ok"]:
        raise typer.Exit(FAILED)


def _unopened(chosen: Chosen, problem: str) -> dict[str, Any]:
    """What can be said without a store."""
    from tulving.bootstrap import choose_embedder

    embedding = embedder_problems(choose_embedder(chosen.config()))
    findings = [Finding("open", (problem,)), Finding("embedder", embedding)]
    return {
        "ok": False,
        "schema": None,
        "pending": None,
        "findings": wire(findings),
        "jobs": None,
    }


def _show(found: dict[str, Any], ignored: list[tuple[str, str]]) -> None:
    from tulving.interfaces import show

    healthy = [("healthy", "yes" if found["ok"] else "no")]
    checks = [
        (each["check"], problem) for each in found["findings"] for problem in each["problems"] or [each["note"] or "ok"]
    ]
    wrong = {problem for each in found["findings"] for problem in each["problems"]}
    places = [(name, str(found[name])) for name in ("version", "store", "schema") if found[name] is not None]
    if found["pending"]:
        places.append(("pending", f"{found['pending']} memories wait for their vectors"))
    jobs = [
        (f"job {each['job']}", f"{each['state']}, last run {each['last_run'] or 'never'}")
        for each in found["jobs"] or ()
    ]
    rows = [*healthy, *places, *ignored, *checks, *jobs]
    show.table(("", ""), rows, {text: "red" if text in wrong else "green" for _, text in checks})
