"""How a command speaks to a person and listens: coloured and fitted to a terminal, plain lines where it is piped."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from tulving.errors import InvalidInput

FAILED, REFUSED, NOTHING, INTERRUPTED = 1, 2, 3, 130
"""Exit codes."""
KIND_STYLES = {"episode": "yellow", "fact": "green", "rule": "magenta"}

Part = str | tuple[str, str]
"""A text, or a text and its style."""
Line = tuple[int, *tuple[Part, ...]]
"""How many columns a line is indented, and its parts."""
Rows = Sequence[Sequence[str]]
Progress = Callable[..., None]
"""Told how much is done, of how much, and optionally of what."""


def read_text(file: str | None) -> str:
    """What a person or model said, from a file or from standard input."""
    piped = file in (None, "-")
    if piped and sys.stdin.isatty():
        raise InvalidInput("file", "is missing", "a file, or text on standard input")
    text = sys.stdin.read() if piped else Path(str(file)).read_text(encoding="utf-8")
    if not text.strip():
        raise InvalidInput("file", f"{'standard input' if piped else file} is empty", "what a person or model said")
    return text


def complain(error: object) -> None:
    """Say on one line what is wrong."""
    _say("error: ", error, "red")


def warn(message: object) -> None:
    """Say on one line what the person should know."""
    _say("warning: ", message, "yellow")


def _say(label: str, message: object, colour: str) -> None:
    plain = "NO_COLOR" in os.environ or not sys.stderr.isatty()
    line = printable(" ".join(str(message).split()))
    typer.echo((label if plain else typer.style(label, fg=colour, bold=True)) + line, err=True)


def print_json(value: Any) -> None:
    """Print one document, for programs."""
    readable = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    typer.echo(json.dumps(value, ensure_ascii=not readable, indent=2))


def report(value: Any, as_json: bool, *said: str) -> None:
    """Print an answer as JSON, or what is said to a person instead."""
    if as_json:
        print_json(value)
    else:
        for line in said:
            typer.echo(printable(line))


def block(text: str) -> None:
    """Print a text as it is; on a terminal, without what would control the terminal."""
    print(printable(text) if _is_terminal() else text, end="" if text.endswith("\n") else "\n")


def lines(content: Iterable[Line]) -> None:
    """Print lines, wrapped within their indentation on a terminal."""
    styled = ((indent, [_styled(part) for part in parts]) for indent, *parts in content)
    if not _is_terminal():
        for indent, parts in styled:
            print(" " * indent + "".join(text for text, _ in parts))
        return
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False)
    for indent, parts in styled:
        console.print(Padding(Text.assemble(*parts), (0, 0, 0, indent), expand=False))


def table(rows: Rows, headers: Sequence[str] = (), styles: Mapping[str, str] | None = None, empty: str = "") -> None:
    """Print a table, or what is said when it is `empty`. A cell that is a key of `styles` gets that style; headers are
    for a terminal only."""
    if not rows:
        typer.echo(empty)
        return
    if not _is_terminal():
        rows = [[printable(cell) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), show_header=bool(headers))
    for place, header in enumerate(headers or [""] * len(rows[0])):
        grid.add_column(header, no_wrap=place == 0, overflow="fold")
    for row in rows:
        grid.add_row(*(Text(printable(cell), style=(styles or {}).get(cell, "")) for cell in row))
    Console(highlight=False).print(grid)


@contextmanager
def progress(label: str) -> Iterator[Progress]:
    """A bar on the terminal while something is done, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    bar = None

    def tell(done: int, total: int, what: str = "") -> None:
        nonlocal bar
        bar = bar or _bar(label)
        bar.update(bar.task_ids[0], completed=done, total=total, description=f"{label} {what}".rstrip())
        bar.start()

    try:
        yield tell
    finally:
        if bar is not None:
            bar.stop()


def _bar(label: str) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(label, total=None)
    return bar


def moment(time: datetime) -> str:
    """A time to the minute."""
    return f"{time:%Y-%m-%d %H:%M} UTC"


def printable(text: str) -> str:
    """Text without the control characters by which a memory could take over a terminal."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(sign if sign in "\n\t" or not _controls(sign) else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _controls(sign: str) -> bool:
    return sign < " " or "\x7f" <= sign <= "\x9f" or "\u2028" <= sign <= "\u202e" or "\u2066" <= sign <= "\u2069"


def _styled(part: Part) -> tuple[str, str]:
    text, style = (part, "") if isinstance(part, str) else part
    return printable(text), style


def _is_terminal() -> bool:
    return sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))
