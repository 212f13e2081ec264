"""The screen of `tulving top`: the figures of a service as tables that fit the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tulving.interfaces.cli.terminal import printable, size
from tulving.interfaces.wording import span

WIDE, ROOMY = 96, 70
"""Terminal widths from which tables are side by side, and from which operations have all columns."""
FIXED_LINES = 18
"""Lines on a wide terminal besides the rows of operations, jobs and tenants."""
LEAST_ROWS = 3
SLOW, VERY_SLOW = 0.25, 1.0
"""Durations from which on they are highlighted, in seconds."""


def screen(told: Mapping[str, Any], width: int, height: int | None) -> RenderableType:
    """All figures; with a limited `height`, as many of the busiest operations as fit."""
    beside = width >= WIDE
    jobs, tenants = _jobs(told["jobs"], told["at"]), _tenants(told["tenants"])
    lower = _beside(jobs, tenants) if beside else Group(jobs, Text(), tenants)
    taken = FIXED_LINES + (0 if beside else len(told["tenants"]) + 6)
    rows = None if height is None else max(LEAST_ROWS, height - taken - max(len(told["jobs"]), 1))
    return Group(
        _head(told),
        Text(),
        _operations(told["operations"], rows, width),
        Text(),
        _work(told),
        Text(),
        lower,
        *([] if height is None else [Text(), Text("q quits", style="dim")]),
    )


def away(problem: str, shown: RenderableType) -> RenderableType:
    """The last figures of a service that is unreachable now."""
    return Group(Text(f"{printable(problem)}; the figures below are the last ones", style="bold red"), Text(), shown)


def _head(told: Mapping[str, Any]) -> RenderableType:
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
    )
    errors = requests["errors"]
    third = Text.assemble(
        ("requests ", "dim"),
        f"{requests['rate']:.1f}/s  ",
        (f"errors {errors:.1f}/s", "bold red" if errors else "dim"),
        f"  in flight {requests['in_flight']:.0f}  event streams {requests['event_streams']:.0f}",
    )
    for line in (first, second, third):
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(first, second, third)


def _operations(rows: Sequence[Mapping[str, Any]], most: int | None, width: int) -> RenderableType:
    if not rows:
        return Text("No operation has been called yet.", style="dim")
    numbers = ("calls/s", "p50", "p99", "failed", "calls", "refused")[: 6 if width >= ROOMY else 4]
    table = _table("operation", numbers)
    shown = rows if most is None else rows[:most]
    for row in shown:
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
    if len(shown) < len(rows):
        table.add_row(Text(f"and {len(rows) - len(shown)} more", "dim"))
    return table


def _work(told: Mapping[str, Any]) -> RenderableType:
    writes, embedding, model = told["writes"], told["embedding"], told["model"]
    shared = f"  {writes['writes_per_commit']:.1f} writes a commit" if writes["writes_per_commit"] else ""
    lines = {
        "writes": (
            f"{writes['waiting']:.0f} wait  p99 {duration(writes['p99'])}  {writes['commits']:.1f} commits/s{shared}"
            f"  {writes['references']:.0f} references wait"
        ),
        "embedder": f"{embedding['texts']:.1f} texts/s  p99 {duration(embedding['p99'])}"
        f"  {embedding['pending']:.0f} memories wait for vectors",
        "finding": "  ".join(
            [
                *(
                    f"{printable(cache)} cache {share:.0%}"
                    for cache, share in told["caches"].items()
                    if share is not None
                ),
                f"{embedding['floor_misses']:.0f} searches left with nothing by min_relevance",
            ]
        ),
        "model": f"{model['calls']:,.0f} calls  {model['failed']:,.0f} failed  "
        f"{model['input_tokens']:,.0f} tokens in  {model['output_tokens']:,.0f} out",
    }
    grid = Table.grid(padding=(0, 2))
    for name, said in lines.items():
        grid.add_row(Text(name, "dim"), Text(said, overflow="ellipsis", no_wrap=True))
    return grid


def _jobs(rows: Sequence[Mapping[str, Any]], at: float) -> RenderableType:
    if not rows:
        return Text("No job has run yet.", style="dim")
    table = _table("job", ("last success", "took", "runs here"))
    for row in rows:
        since = "-" if row["last_success"] is None else f"{span(at - row['last_success'])} ago"
        table.add_row(
            Text(printable(row["job"].replace("_", " ")), "bold red" if row["failing"] else ""),
            Text("fails" if row["failing"] else since, "bold red" if row["failing"] else ""),
            Text(duration(row["mean_seconds"])),
            Text(f"{row['runs_here']:.0f}"),
        )
    return table


def _tenants(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    if not rows:
        return Text("No tenant has called yet.", style="dim")
    table = _table("tenant", ("calls/s", "calls"))
    for row in rows[:8]:
        table.add_row(
            Text(printable(row["tenant"]), overflow="ellipsis", no_wrap=True),
            Text(f"{row['rate']:.1f}" if row["rate"] else "-"),
            Text(f"{row['calls']:,.0f}"),
        )
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
