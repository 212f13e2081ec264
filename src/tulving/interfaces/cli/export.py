"""`tulving export` and `tulving import`: all memories as a file of JSON lines."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tulving.errors import InvalidInput
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import report
from tulving.interfaces.cli.verify import warn_of_pending

if TYPE_CHECKING:
    from tulving.services.memory import Memory

AllTenants = Annotated[bool, typer.Option("--all-tenants", help="All tenants of the store, not only yours")]


def export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write; - for standard output")],
    all_tenants: AllTenants = False,
    as_json: AsJson = False,
) -> None:
    """Write everything to a file of JSON lines."""

    def write(path: Path) -> dict[str, int]:
        return context.obj.administer(lambda memory: memory.export(path, all_tenants=all_tenants))

    if str(file) == "-":
        with _temporary() as path:
            write(path)
            with path.open(encoding="utf-8") as rows:
                shutil.copyfileobj(rows, sys.stdout)
    else:
        counts = write(file)
        report(counts, as_json, f"wrote {_counted(counts)} to {file}")


def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An export; - for standard input")],
    all_tenants: AllTenants = False,
    as_json: AsJson = False,
) -> None:
    """Read an export in, all of it or nothing. What is there already is skipped."""

    async def read(memory: "Memory") -> Any:
        return await memory.import_(path, all_tenants=all_tenants), await memory.count_pending(), memory.warning

    if str(file) != "-" and not file.is_file():
        raise InvalidInput("file", f"there is no file {file}", "an export, or - for standard input")
    with _temporary() as path:
        if str(file) == "-":
            with path.open("w", encoding="utf-8") as rows:
                shutil.copyfileobj(sys.stdin, rows)
        else:
            path = file
        counts, pending, warning = context.obj.run(read, create="file")
    by_outcome = {
        outcome: {table: outcomes[outcome] for table, outcomes in counts.items()} for outcome in ("added", "skipped")
    }
    report(counts, as_json, *(f"{name} {_counted(each)}" for name, each in by_outcome.items() if any(each.values())))
    if not as_json:
        warn_of_pending(pending, warning)


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {table}" for table, count in counts.items() if count) or "nothing"


@contextmanager
def _temporary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tulving-") as folder:
        yield Path(folder) / "export.jsonl"
