"""Commands for the person who runs the memory: verify, export, import, re-embed, settings."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from tulving.config import NOT_SETTINGS, MemoryModuleConfig, data_directory, find_project, load_config
from tulving.errors import InvalidInput
from tulving.interfaces.terminal import FAILED, AsJson, print_json, warn
from tulving.interfaces.wire import wire
from tulving.services.health import embedder_problems

AllTenants = Annotated[bool, typer.Option("--all-tenants", help="All tenants of the store, not only yours")]


def verify(context: typer.Context, as_json: AsJson = False) -> None:
    """Check the database, its keyword index and its vectors against the memories, and the embedder's weights."""

    async def check() -> Any:
        async with context.obj.administer(may_reembed=True) as store:
            return await store.verify(), store.warning

    verification, warning = asyncio.run(check())
    if as_json:
        print_json({"ok": verification.ok, **wire(verification)})
    else:
        from tulving.interfaces import show

        rows = [(finding.check, problem) for finding in verification.findings for problem in finding.problems or ["ok"]]
        styles = {problem: "green" if problem == "ok" else "red" for _, problem in rows}
        show.table(("check", "result"), rows, styles)
        if verification.pending:
            warn(f"{verification.pending} memories wait for their vectors. {warning or 'Run `tulving reembed`.'}")
    if not verification.ok:
        raise typer.Exit(FAILED)


def export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write; - for standard output")],
    all_tenants: AllTenants = False,
    as_json: AsJson = False,
) -> None:
    """Write everything to a file of JSON lines."""

    async def write(path: Path) -> Any:
        opener = context.obj.administer if all_tenants else context.obj.open
        async with opener(may_reembed=True) as source:
            return await source.export(path)

    if str(file) == "-":
        with _temporary() as path:
            asyncio.run(write(path))
            with path.open(encoding="utf-8") as lines:
                shutil.copyfileobj(lines, sys.stdout)
        return
    counts = asyncio.run(write(file))
    if as_json:
        print_json(counts)
    else:
        typer.echo(f"wrote {_counted(counts)} to {file}")


def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An export; - for standard input")],
    all_tenants: AllTenants = False,
    as_json: AsJson = False,
) -> None:
    """Read an export in, all of it or nothing. What is there already is skipped."""

    async def read(path: Path) -> Any:
        opener = context.obj.administer if all_tenants else context.obj.open
        async with opener(create="file") as target:
            return await target.import_(path), await target.count_pending(), target.warning

    if str(file) == "-":
        with _temporary() as path:
            with path.open("w", encoding="utf-8") as lines:
                shutil.copyfileobj(sys.stdin, lines)
            counts, pending, warning = asyncio.run(read(path))
    elif not file.is_file():
        raise InvalidInput("file", f"there is no file {file}", "an export, or - for standard input")
    else:
        counts, pending, warning = asyncio.run(read(file))
    if as_json:
        print_json(counts)
        return
    for outcome, tables in _by_outcome(counts).items():
        if any(tables.values()):
            typer.echo(f"{outcome} {_counted(tables)}")
    if pending:
        warn(f"{pending} memories wait for their vectors. {warning or 'Run `tulving reembed`.'}")


def reembed(
    context: typer.Context,
    force: Annotated[bool, typer.Option("--force", help="Also vectors that this embedder made before")] = False,
    as_json: AsJson = False,
) -> None:
    """Give every memory a vector of the configured embedder; needed when another one is chosen."""
    from tulving.interfaces import show

    async def convert() -> int:
        async with context.obj.administer(may_reembed=True) as store:
            with show.progress("embedding") as progress:
                return await store.reembed(progress, force=force)

    done = asyncio.run(convert())
    if as_json:
        print_json({"embedded": done})
    else:
        typer.echo(f"embedded {done} memories" if done else "every memory has its vector already")


def config(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the settings in effect, and where each comes from."""
    from tulving.bootstrap import choose_embedder, is_postgres, store_name

    effective, project = context.obj.config(), find_project()
    found, homes = project.settings_file, {name: os.environ[name] for name in NOT_SETTINGS if name in os.environ}
    layers = (
        ("option", effective),
        ("environment", load_config()),
        (str(found), load_config(environ=homes)),
        ("default", MemoryModuleConfig()),
    )
    shown = _flat(effective)
    if is_postgres(effective.url):
        shown["url"] = store_name(effective.url)  # without its password
    settings = [{"setting": name, "value": value, "source": _source(name, layers)} for name, value in shown.items()]
    places = {
        "settings_file": None if found is None else str(found),
        "store": store_name(effective.url),
        "data_directory": str(data_directory()),
        "embedder": "; ".join(embedder_problems(choose_embedder(effective))) or "ready",
    }
    if as_json:
        ignored = [
            {"path": str(each.path), "settings": each.settings, "reason": each.reason} for each in project.ignored
        ]
        print_json({**places, "ignored": ignored, "settings": settings})
        return
    from tulving.interfaces import show

    ignored = [("ignored", f"{each}: {each.reason}") for each in project.ignored]
    show.table(("", ""), [*((name.replace("_", " "), value or "none") for name, value in places.items()), *ignored])
    typer.echo()
    rows = [(row["setting"], _shown(row["value"]), row["source"]) for row in settings]
    show.table(("setting", "value", "from"), rows, {"default": "dim"})


def _flat(record: Any, prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        flat |= _flat(value, f"{field.name}.") if is_dataclass(value) else {prefix + field.name: value}
    return flat


def _source(name: str, layers: tuple[tuple[str, MemoryModuleConfig], ...]) -> str:
    """The layer below which the value would be another one."""
    for (source, here), (_, below) in pairwise(layers):
        if _flat(here)[name] != _flat(below)[name]:
            return source
    return layers[-1][0]


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {part:g}" for name, part in value.items())
    return "none" if value is None else str(value)


def _by_outcome(counts: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    turned: dict[str, dict[str, int]] = {}
    for table, outcomes in counts.items():
        for outcome, count in outcomes.items():
            turned.setdefault(outcome, {})[table] = count
    return turned


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {table}" for table, count in counts.items() if count) or "nothing"


@contextmanager
def _temporary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tulving-") as folder:
        yield Path(folder) / "export.jsonl"
