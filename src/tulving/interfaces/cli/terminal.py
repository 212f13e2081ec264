"""How a command speaks to a person and listens: coloured and fitted to a terminal, plain lines where it is piped."""

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from tulving.errors import InvalidInput

FAILED, REFUSED, NOTHING, INTERRUPTED = 1, 2, 3, 130
"""Exit codes."""
NARROWEST, ROOMY = 24, 60
"""The least number of columns that a terminal is taken to have, and from how many on indentations are as they are."""
LONG_WORD = 20
_GAP = re.compile(r"\s*(?:- |\S(?:\S| (?! ))*  +)")
"""The bullet of a list, or what comes before two spaces or more."""
KIND_STYLES = {"episode": "yellow", "fact": "green", "rule": "magenta"}

Part = str | tuple[str, str]
"""A text, or a text and its style."""
Line = tuple[int, *tuple[Part, ...]]
"""How many columns a line is indented, and its parts."""
Rows = Sequence[Sequence[str]]
Progress = Callable[..., None]
"""Told how much is done, of how much, and optionally of what."""

_for_programs = False


def read_text(file: str | None) -> str:
    """What a person or model said, from a file or from standard input."""
    piped = file in (None, "-")
    if piped and sys.stdin.isatty():
        raise InvalidInput("file", "is missing", "a file, or text on standard input")
    text = sys.stdin.read() if piped else Path(str(file)).read_text(encoding="utf-8")
    if not text.strip():
        raise InvalidInput("file", f"{'standard input' if piped else file} is empty", "what a person or model said")
    return text


def speak_json(wanted: bool) -> None:
    """Whether errors and warnings are for programs: one JSON document on each line of standard error."""
    global _for_programs
    _for_programs = wanted


def complain(error: Exception) -> None:
    """Say on one line what is wrong."""
    details = {name: getattr(error, name, None) for name in ("field", "problem", "allowed")}
    _say("error", error, "red", {"type": type(error).__name__, **details, "message": str(error)})


def warn(message: object) -> None:
    """Say on one line what the person should know."""
    _say("warning", message, "yellow", {"message": str(message)})


def _say(what: str, message: object, colour: str, document: Mapping[str, Any]) -> None:
    if _for_programs:
        typer.echo(json.dumps({what: document}), err=True)
        return
    line = f"{what}: {printable(' '.join(str(message).split()))}"
    if sys.stderr.isatty():
        line = _wrapped(line)
        if "NO_COLOR" not in os.environ:
            line = typer.style(f"{what}:", fg=colour, bold=True) + line.removeprefix(f"{what}:")
    typer.echo(line, err=True)


def remark(message: str) -> None:
    """Say something beside the answer, on standard error."""
    typer.echo(_wrapped(message) if sys.stderr.isatty() else message, err=True)


def _wrapped(line: str) -> str:
    """A line of a message, wrapped at words. A word that is too long stays whole, for it may be copied."""
    indent = line[: len(line) - len(line.lstrip())]
    wrapped = textwrap.wrap(line, columns(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(wrapped) or line


def columns() -> int:
    """How wide the terminal is."""
    return max(NARROWEST, shutil.get_terminal_size().columns)


def print_json(value: Any) -> None:
    """Print one document, for programs."""
    readable = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    typer.echo(json.dumps(value, ensure_ascii=not readable, indent=2))


def report(value: Any, as_json: bool, *said: str) -> None:
    """Print an answer as JSON, or what is said to a person instead. An indented line is to be copied: not wrapped."""
    if as_json:
        print_json(value)
    else:
        for line in (line for text in said for line in text.split("\n")):
            wraps = is_terminal() and not line.startswith("  ")
            typer.echo(_wrapped(printable(line)) if wraps else printable(line))


def block(text: str) -> None:
    """Print a text as it is; on a terminal, wrapped at words and without what would control the terminal."""
    if is_terminal():
        lines((0, line) for line in text.removesuffix("\n").split("\n"))
    else:
        print(text, end="" if text.endswith("\n") else "\n")


def more(next_cursor: str | None) -> Iterator[Line]:
    """How to see the next page of a listing, if there is one."""
    if next_cursor:
        yield 0, (f"more: --cursor {next_cursor}", "dim")


def lines(content: Iterable[Line]) -> None:
    """Print lines. On a terminal they are wrapped at words, within their indentation; on a narrow one they are indented
    less."""
    styled = ((indent, [_styled(part) for part in parts]) for indent, *parts in content)
    if not is_terminal():
        for indent, parts in styled:
            print(" " * indent + "".join(text for text, _ in parts))
        return
    from rich.text import Text

    console = _console()
    for indent, parts in styled:
        for line in Text.assemble(*parts).split("\n", allow_blank=True) or [Text()]:
            for piece in _pieces(console, line, indent if console.width >= ROOMY else min(indent, 2)):
                console.print(piece, soft_wrap=True)


def _pieces(console: Any, line: Any, indent: int) -> "Iterator[Any]":
    """A line as pieces that fit the terminal. They begin below each other after the first gap of a line, such as that
    between a name and its value, unless a word needs the room."""
    from rich.cells import cell_len
    from rich.text import Text

    gap = _GAP.match(line.plain)
    longest = max(map(cell_len, line.plain.split()), default=0)
    hang = cell_len(gap[0]) if gap else 0
    if hang > console.width // 2 or indent + hang + longest > console.width:
        hang = 0
    indent = max(0, min(indent, console.width - longest))
    head, rest = line.divide([len(gap[0])]) if gap and hang else (Text(), line)
    for place, piece in enumerate(rest.wrap(console, console.width - indent - hang) or [Text()]):
        piece.rstrip()
        yield Text(" " * indent) + (head if place == 0 else Text(" " * hang)) + piece


def table(rows: Rows, headers: Sequence[str] = (), styles: Mapping[str, str] | None = None, empty: str = "") -> None:
    """Print a table, or what is said when it is `empty`. A cell that is a key of `styles` gets that style. On a
    terminal that is too narrow for its columns, each row is printed as a list."""
    if not rows:
        typer.echo(empty)
        return
    rows = [[printable(cell) for cell in row] for row in rows]
    if not is_terminal():
        rows = [headers, *rows] if headers else rows
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    from rich.table import Table
    from rich.text import Text

    console, styles = _console(), styles or {}
    if _least_width([headers, *rows] if headers else rows) > console.width:
        lines(_as_lists(rows, headers, styles))
        return
    grid = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False, show_header=bool(headers))
    for place, header in enumerate(headers or [""] * len(rows[0])):
        grid.add_column(header, no_wrap=place == 0, overflow="fold")
    for row in rows:
        grid.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in row))
    console.print(grid)


def _least_width(rows: Rows) -> int:
    """What the columns need at least: the first is never wrapped, and no other breaks a word of usual length."""
    first, *others = zip(*rows, strict=True)
    words = (min(LONG_WORD, max(len(word) for cell in column for word in (cell.split() or [""]))) for column in others)
    return max(map(len, first)) + sum(2 + word for word in words)


def _as_lists(rows: Rows, headers: Sequence[str], styles: Mapping[str, str]) -> Iterator[Line]:
    """Each row under its first cell; short ones on one line."""
    width = max(map(len, headers[1:]), default=-2) + 2
    for first, *others in rows:
        if len(others) < 3:
            yield 0, (first, "bold"), "  ", " · ".join(filter(None, others))
            continue
        yield 0, (first, "bold")
        for header, cell in zip(headers[1:] or [""] * len(others), others, strict=True):
            if cell:
                yield 2, (header.ljust(width), "dim"), (cell, styles.get(cell, ""))


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


def size(count: int) -> str:
    """A number of bytes."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


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


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False, width=columns())


def is_terminal() -> bool:
    """Whether a person sees what is printed."""
    return sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))
