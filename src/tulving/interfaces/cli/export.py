"""`tulving export` and `tulving import`: all memories as a file of JSON lines, and the memories of other programs."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tulving.errors import InvalidInput
from tulving.interfaces.cli.health import warn_of_pending
from tulving.interfaces.cli.interruption import BATCHES
from tulving.interfaces.cli.options import AsJson, Chosen
from tulving.interfaces.cli.terminal import FAILED, INTERRUPTED, progress, remark, report, warn
from tulving.services.moving import Moving

if TYPE_CHECKING:
    from tulving.integrations.importers import Mapped
    from tulving.integrations.importers.writer import Report
    from tulving.services.memory import Memory

AllTenants = Annotated[bool, typer.Option("--all-tenants", help="All tenants of the store, not only yours")]
SHOWN = 10
"""How many records that were refused are shown."""
ELSEWHERE = "server-memory, mem0, chatgpt, claude, basic-memory, langgraph, jsonl, csv"


def export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write; - for standard output")],
    all_tenants: AllTenants = False,
    as_json: AsJson = False,
) -> None:
    """Write everything to a file of JSON lines."""
    with _temporary() if str(file) == "-" else nullcontext(file) as path:
        with progress("export:") as tell:
            counts = context.obj.run(
                lambda source: source.export(path, tell), all_tenants=all_tenants, may_reembed=True
            )
        if path is file:
            report(counts, as_json, f"wrote {_counted(counts)} to {file}")
            return
        with path.open(encoding="utf-8") as rows:
            shutil.copyfileobj(rows, sys.stdout)


def import_(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="An export, or files of one other program; - for standard input"),
    ],
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FORMAT", help=f"Which other program: {ELSEWHERE}; told by the file if left out"
        ),
    ] = None,
    map_: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="OURS=THEIRS", help="For jsonl and csv: which field is which, as content=text"),
    ] = None,
    kind: Annotated[
        str, typer.Option(metavar="KIND", help="For jsonl and csv: what a record is: episode, fact, rule")
    ] = "episode",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count what another program's file would add")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first bad record of another program")] = False,
    all_tenants: AllTenants = False,
    as_json: AsJson = False,
) -> None:
    """Read an export in, or the memories of another program. What is there already is skipped.

    An export of Tulving is read as a whole or not at all. The memories of another program come in batches: an import
    that was interrupted goes on when it is run again, and adds nothing twice.
    """
    with _temporary() if files == [Path("-")] else nullcontext(files[0]) as first:
        if first is not files[0]:
            with first.open("wb") as rows:
                shutil.copyfileobj(sys.stdin.buffer, rows)
            files = [first]
        format_ = from_ or _format(files)
        if format_ is not None:
            if all_tenants:
                raise InvalidInput("all-tenants", "is for an export of Tulving", "--tenant before the command")
            return _take(context, format_, files, _mapped(format_, map_, kind), dry_run, strict, as_json)
        if dry_run or strict or map_:
            raise InvalidInput("file", "is an export of Tulving, which is read as a whole", "no further options")
        _import(context, files, all_tenants, as_json)


def _import(context: typer.Context, files: Sequence[Path], all_tenants: bool, as_json: bool) -> None:
    if len(files) > 1:
        raise InvalidInput("file", "there are several, and they are exports of Tulving", "one at a time")

    async def read(target: Moving) -> Any:
        return await target.import_(files[0], tell), await target.count_pending(), target.warning

    with progress("import:") as tell:
        counts, pending, warning = context.obj.run(read, all_tenants=all_tenants, create="file")
    said = [
        f"{outcome} {_counted(tables)}"
        for outcome in ("added", "skipped")
        if any((tables := {table: each[outcome] for table, each in counts.items()}).values())
    ]
    report(counts, as_json, *(said or ["nothing was changed: the export is empty"]))
    if not as_json:
        warn_of_pending(pending, warning)


def _format(files: Sequence[Path]) -> str | None:
    """The format of the first file; None for an export of Tulving."""
    from tulving.integrations.importers.detecting import detect
    from tulving.storage import export_file

    if files[0].is_file() and export_file.is_export(files[0]):
        return None
    return detect(files[0])


def _mapped(format_: str, pairs: Sequence[str] | None, kind: str) -> "Mapped":
    from tulving.integrations.importers import Mapped, plain

    if format_ not in ("jsonl", "csv") and (pairs or kind != "episode"):
        raise InvalidInput("map" if pairs else "kind", f"{format_} needs none", "--from jsonl or csv")
    fields: dict[str, str] = {}
    for pair in pairs or ():
        ours, equals, theirs = pair.partition("=")
        if not (ours and equals and theirs):
            raise InvalidInput("map", f"{pair!r:.60} maps nothing", "OURS=THEIRS, as content=text")
        fields[ours] = theirs
    mapped = Mapped(kind, fields)
    plain.check(mapped)
    return mapped


def _take(
    context: typer.Context,
    format_: str,
    files: Sequence[Path],
    mapped: "Mapped",
    dry_run: bool,
    strict: bool,
    as_json: bool,
) -> None:
    from tulving.integrations.importers import writer

    async def read(target: "Memory") -> Any:
        done = await writer.take(target, format_, files, mapped, dry_run=dry_run, strict=strict, progress=tell)
        return done, await target.count_pending(), target.warning

    with progress(f"{'count' if dry_run else 'import'}:") as tell, _store(context.obj, dry_run) as chosen:
        try:
            done, pending, warning = chosen.run(read, create="file")
        except KeyboardInterrupt:
            if dry_run:
                raise
            remark(f"interrupted: {BATCHES}")
            raise typer.Exit(INTERRUPTED) from None
    _tell(done, dry_run, as_json)
    if not as_json and not dry_run:
        warn_of_pending(pending, warning)
    if done.refused:
        raise typer.Exit(FAILED)


@contextmanager
def _store(chosen: Chosen, dry_run: bool) -> Iterator[Chosen]:
    """The store to import into. To count what would be added, none has to be made: an empty one is used instead."""
    from tulving.location import is_postgres, new_file

    url = chosen.config().url
    if not dry_run or is_postgres(url) or new_file(url) is None:
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="tulving-") as folder:
        yield Chosen(str(Path(folder) / "memory.db"), chosen.tenant, "hashing")


def _tell(done: "Report", dry_run: bool, as_json: bool) -> None:
    from tulving.interfaces.wording import counted

    verb = "would add" if dry_run else "added"
    known = f"; {_counted(done.known)} known already" if done.known else ""
    left_out = [f"left out {count} {reason}" for reason, count in done.left_out.items()]
    answer = {
        "format": done.format,
        "dry_run": dry_run,
        "added": dict(done.added),
        "known": dict(done.known),
        "left_out": dict(done.left_out),
        "refused": done.refused,
        "secrets": done.secrets.total(),
        "problems": [{"place": each.place, "problem": each.problem} for each in done.named],
    }
    report(answer, as_json, f"{done.format}: {verb} {_counted(done.added)}{known}", *left_out)
    for what, count in {} if as_json else done.secrets.items():
        warn(f"{what} in {counted(count, 'record')}")
    if done.refused and not as_json:
        for each in done.named[:SHOWN]:
            warn(f"{each.place}: {each.problem}")
        more = "" if done.refused <= SHOWN else f", of which the first {SHOWN} are shown"
        warn(f"refused {counted(done.refused, 'record')}{more}")


def _counted(counts: "dict[str, int]") -> str:
    return ", ".join(_rows(table, count) for table, count in counts.items() if count) or "nothing"


def _rows(table: str, count: int) -> str:
    """Rows of a table, as people call them: 1 fact, 2 entities, 3 events."""
    name = table.removeprefix("memory_").replace("_", " ")
    return f"{count} {name if count > 1 else name.replace('ies', 'ys').removesuffix('s')}"


@contextmanager
def _temporary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tulving-") as folder:
        yield Path(folder) / "export.jsonl"
