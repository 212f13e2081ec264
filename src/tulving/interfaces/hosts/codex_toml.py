"""A server's tables in Codex's `config.toml`, edited as text: the standard library reads TOML but can't write it, and
what is written again would lose its comments."""

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from tulving.errors import InvalidInput

_HEADER = re.compile(r"[ \t]*\[")


def read(text: str) -> dict[str, Any]:
    """The values of a file."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput("TOML", str(error), "valid TOML; nothing was changed") from None


def put(text: str, table: str, name: str, entry: Mapping[str, Any]) -> str:
    """The text with `[table.name]` and `[table.name.env]` as given. Of other tables below it those stay that the entry
    has."""
    expected = read(text)
    within = expected.setdefault(table, {})
    if within.get(name) == entry:
        return text
    within[name] = dict(entry)
    newline = "\r\n" if "\r\n" in text else "\n"
    written = newline.join(_lines(f"{table}.{name}", entry))
    lines = text.splitlines(keepends=True)
    ours = [at for at, line in enumerate(lines) if _is_ours(line, table, name, entry)]
    if ours:
        for at in reversed(ours[1:]):
            del lines[at : _end(lines, at)]
        lines[ours[0] : _end(lines, ours[0])] = [written + newline]
        after = "".join(lines)
    else:
        gap = newline * (0 if not text else 1 if text.endswith("\n") else 2)
        after = f"{text}{gap}{written}{newline}"
    # The values have the last word: a table in another form, such as an inline one, can't be edited this way.
    try:
        same = read(after) == expected
    except InvalidInput:
        same = False
    if not same:
        problem = "is written in a form that can't be edited here"
        raise InvalidInput(f"{table}.{name}", problem, f"a table [{table}.{name}]: change it by hand")
    return after


def _lines(header: str, entry: Mapping[str, Any]) -> list[str]:
    env = entry.get("env")
    below = ["", *_lines(f"{header}.env", env)] if env else []
    return [
        f"[{header}]",
        *(f"{_key(key)} = {_value(value)}" for key, value in entry.items() if not isinstance(value, Mapping)),
        *below,
    ]


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


def _value(value: Any) -> str:
    """A text, number, flag, or list of them: JSON writes them as TOML does."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _is_ours(line: str, table: str, name: str, entry: Mapping[str, Any]) -> bool:
    """Whether a line begins a table that is replaced or gone."""
    dot, first, second = r"\s*\.\s*", *(rf"[\"']?{re.escape(part)}[\"']?" for part in (table, name))
    header = re.match(rf"[ \t]*\[\s*{first}{dot}{second}(?:{dot}[\"']?([\w-]+)[\"']?)?\s*[].]", line)
    return header is not None and (header[1] in (None, "env") or header[1] not in entry)


def _end(lines: list[str], at: int) -> int:
    """Behind the last line of a table: blank lines and comments before the next header belong to that one."""
    end = next((after for after in range(at + 1, len(lines)) if _HEADER.match(lines[after])), len(lines))
    while end > at + 1 and end < len(lines) and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return end
