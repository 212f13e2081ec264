"""The screen of `tulving top`: the figures of a service as tables that fit the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tulving.interfaces.cli.terminal import printable, size
from tulving.interfaces.wording import span

WIDE, ROOMY = 80, 70
"""Terminal widths from which tables are side by side, and from which operations have all columns."""
FIXED_LINES = 12
"""Lines besides the rows of tables, if jobs and tenants are side by side."""
LEAST_ROWS = 4
MOST_TENANTS = 8
AWAY_LINES = 3
SLOW, VERY_SLOW = 0.25, 1.0
"""Durations from which on they are highlighted, in seconds."""


def screen(told: Mapping[str, Any], width: int, height: int | None) -> RenderableType:
    """All figures; with a limited `height`, as many rows of each table as fit."""
    beside = width >= WIDE
    operations, tenants = told["operations"], told["tenants"]
    jobs = sorted(told["jobs"], key=lambda row: not row["failing"])
    most = (len(operations), len(jobs), min(len(tenants), MOST_TENANTS))
    if height is not None:
        most = _fitting(height - FIXED_LINES - (0 if beside else 2), *most, beside)
    lower = _jobs(jobs, told["at"], most[1]), _tenants(tenants, most[2])
    return Group(
        _head(told, is_live=height is not None),
        Text(),
        _operations(operations, most[0], width),
        Text(),
        _work(told),
        Text(),
        _beside(*lower) if beside else Group(lower[0], Text(), lower[1]),
    )


def _fitting(room: int, operations: int, jobs: int, tenants: int, beside: bool) -> tuple[int, int, int]:
    """How many rows of each table fit into so many lines. Operations leave room for the others, down to their least."""
    operations = min(operations, max(LEAST_ROWS, room - (max(jobs, tenants) if beside else jobs + tenants)))
    left = room - operations
    if beside:
        return operations, left, min(tenants, left)
    tenants = min(tenants, max(left // 2, left - jobs))
    return operations, left - tenants, tenants


def away(problem: str, shown: RenderableType) -> RenderableType:
    """The last figures of a service that is unreachable now."""
    lines = Text(printable(problem), "bold red"), Text("The figures below are the last ones.", "bold red")
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines, Text(), shown)


def _head(told: Mapping[str, Any], is_live: bool) -> RenderableType:
    process, requests = told["process"], told["requests"]
    health = printable(told["health"])
    fine = health.split(":")[0].strip().lower() in ("ok", "ready", "warming") and told["store_up"]
    first = Text.assemble(
        ("Tulving ", "bold"),
        (f"{printable(told['version'])}  ", "bold"),
        printable(told["service"]),
        "  ",
        (health or "?", "bold green" if fine else "bold red"),
        f"  {printable(told['engine'])}",
    )
    up = f"up {span(told['at'] - process['started_at'])}  " if process["started_at"] else ""
    second = Text.assemble(
        up,
        f"memory {size(int(process['memory_bytes']))}  processor {process['processor']:.0%}  "
        f"files {process['open_files']:.0f}",
        ("  q quits" if is_live else "", "dim"),
    )
    errors = requests["errors"]
    third = Text.assemble(
        ("requests ", "dim"),
        f"{requests['rate']:.1f}/s  ",
        (f"errors {errors:.1f}/s", "bold red" if errors else "dim"),
        f"  in flight {requests['in_flight']:.0f}  waiting {requests['waiting']:.0f}"
        f"  event streams {requests['event_streams']:.0f}",
    )
    for line in (first, second, third):
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(first, second, third)


def _operations(rows: Sequence[Mapping[str, Any]], most: int, width: int) -> RenderableType:
    if not rows:
        return Text("No operation has been called yet.", style="dim")
    numbers = ("calls/s", "p50", "p99", "failed", "calls", "refused")[: 6 if width >= ROOMY else 4]
    table = _table("operation", numbers)
    for row in _shown(rows, most):
        style = "" if row["recent"] else "dim"
        cells = (
            Text(f"{row['rate']:.1f}" if row["rate"] else "-", style),
            _duration(row["p50"], style),
            _duration(row["p99"], style),
            Text(f"{row['failed']:,.0f}" if row["failed"] else "-", "bold red" if row["failed"] else "dim"),
            Text(f"{row['calls']:,.0f}", style),
            Text(f"{row['refused']:,.0f}" if row["refused"] else "-", "yellow" if row["refused"] else "dim"),
        )
        name = row["operation"].removeprefix("memory_").replace("_", " ")
        table.add_row(Text(printable(name), style), *cells[: len(numbers)])
    return _ended(table, rows)


def _work(told: Mapping[str, Any]) -> RenderableType:
    writes, embedding, model = told["writes"], told["embedding"], told["model"]
    shared = f" of {writes['writes_per_commit']:.1f} writes" if writes["writes_per_commit"] else ""
    lines = {
        "writes": (
            f"{writes['waiting']:.0f} wait  p99 {duration(writes['p99'])}  {writes['commits']:.1f} commits/s{shared}"
            f"  {writes['references']:.0f} references wait"
        ),
        "embedder": f"{embedding['texts']:.1f} texts/s  p99 {duration(embedding['p99'])}"
        f"  {embedding['pending']:.0f} memories wait for vectors",
        "search": "  ".join(
            [
                *(
                    f"{printable(cache)} cache {share:.0%}"
                    for cache, share in told["caches"].items()
                    if share is not None
                ),
                f"min_relevance emptied {embedding['floor_misses']:,.0f}",
            ]
        ),
        "model": f"{model['calls']:,.0f} calls  {model['failed']:,.0f} failed  "
        f"{model['input_tokens']:,.0f} tokens in  {model['output_tokens']:,.0f} out",
    }
    grid = Table.grid(padding=(0, 2))
    for name, said in lines.items():
        grid.add_row(Text(name, "dim"), Text(said, overflow="ellipsis", no_wrap=True))
    return grid


def _jobs(rows: Sequence[Mapping[str, Any]], at: float, most: int) -> RenderableType:
    if not rows:
        return Text("No job has run yet.", style="dim")
    table = _table("job", ("last success", "took", "runs"))
    for row in _shown(rows, most):
        since = "-" if row["last_success"] is None else f"{span(at - row['last_success'])} ago"
        table.add_row(
            Text(printable(row["job"].replace("_", " ")), "bold red" if row["failing"] else ""),
            Text("fails" if row["failing"] else since, "bold red" if row["failing"] else ""),
            Text(duration(row["mean_seconds"])),
            Text(f"{row['runs_here']:.0f}"),
        )
    return _ended(table, rows)


def _tenants(rows: Sequence[Mapping[str, Any]], most: int) -> RenderableType:
    if not rows:
        return Text("No tenant has called yet.", style="dim")
    table = _table("tenant", ("calls/s", "calls"))
    for row in _shown(rows, most):
        table.add_row(
            Text(printable(row["tenant"]), overflow="ellipsis", no_wrap=True),
            Text(f"{row['rate']:.1f}" if row["rate"] else "-"),
            Text(f"{row['calls']:,.0f}"),
        )
    return _ended(table, rows)


def _shown(rows: Sequence[Mapping[str, Any]], most: int) -> Sequence[Mapping[str, Any]]:
    """The first rows. If not all fit, the last line says how many are left out."""
    return rows if len(rows) <= most else rows[: max(most - 1, 1)]


def _ended(table: Table, rows: Sequence[Mapping[str, Any]]) -> Table:
    if left_out := len(rows) - table.row_count:
        table.add_row(Text(f"and {left_out} more", "dim"))
    return table


def _table(first: str, numbers: Sequence[str]) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(first, no_wrap=True, overflow="ellipsis", min_width=12)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _beside(*parts: RenderableType) -> Table:
    grid = Table.grid(padding=(0, 4))
    for _ in parts:
        grid.add_column()
    grid.add_row(*parts)
    return grid


def _duration(seconds: float | None, style: str) -> Text:
    mark = "bold red" if (seconds or 0) >= VERY_SLOW else "yellow" if (seconds or 0) >= SLOW else ""
    return Text(duration(seconds), mark or style)


def duration(seconds: float | None) -> str:
    """A duration in a readable unit."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else span(seconds)
