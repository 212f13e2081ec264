"""`tulving export` and `tulving import`: all memories as a file of JSON lines."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from tulving.errors import InvalidInput
from tulving.interfaces.cli.health import warn_of_pending
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import report
from tulving.services.moving import Moving

AllTenants = Annotated[bool, typer.Option("--all-tenants", help="All tenants of the store, not only yours")]


def export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write; - for standard output")],
    all_tenants: AllTenants = False,
    as_json: AsJson = False,
) -> None:
    """Write everything to a file of JSON lines."""
    with _temporary() if str(file) == "-" else nullcontext(file) as path:
        counts = context.obj.run(lambda source: source.export(path), all_tenants=all_tenants, may_reembed=True)
        if path is file:
            report(counts, as_json, f"wrote {_counted(counts)} to {file}")
            return
        with path.open(encoding="utf-8") as rows:
            shutil.copyfileobj(rows, sys.stdout)


def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An export; - for standard input")],
    all_tenants: AllTenants = False,
    as_json: AsJson = False,
) -> None:
    """Read an export in, all of it or nothing. What is there already is skipped."""

    async def read(target: Moving) -> Any:
        return await target.import_(path), await target.count_pending(), target.warning

    with _temporary() if str(file) == "-" else nullcontext(file) as path:
        if path is not file:
            with path.open("w", encoding="utf-8") as rows:
                shutil.copyfileobj(sys.stdin, rows)
        elif not file.is_file():
            raise InvalidInput("file", f"there is no file {file}", "an export, or - for standard input")
        counts, pending, warning = context.obj.run(read, all_tenants=all_tenants, create="file")
    said = [
        f"{outcome} {_counted(tables)}"
        for outcome in ("added", "skipped")
        if any((tables := {table: each[outcome] for table, each in counts.items()}).values())
    ]
    report(counts, as_json, *said)
    if not as_json:
        warn_of_pending(pending, warning)


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {table}" for table, count in counts.items() if count) or "nothing"


@contextmanager
def _temporary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tulving-") as folder:
        yield Path(folder) / "export.jsonl"
