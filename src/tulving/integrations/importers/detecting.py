"""Which program a file is from, if that is certain."""

import sqlite3
from codecs import BOM_UTF8
from collections.abc import Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from tulving.errors import InvalidInput
from tulving.integrations.importers import FORMATS, chatgpt
from tulving.integrations.importers.files import Meter, elements, is_sqlite, json_lines, members
from tulving.integrations.importers.mem0 import LISTS

_TABLES = {"mem0": {"memory_id", "new_memory", "event"}, "langgraph": {"prefix", "key", "value"}}
_FIELDS = {
    "chatgpt": {"mapping"},
    "claude": {"uuid", "chat_messages"},
    "mem0": {"id", "memory"},
    "langgraph": {"namespace", "key", "value"},
}


def detect(path: Path) -> str:
    """The format of a file or folder by its first record; refused if it is none that can be told from others."""
    if not path.exists():
        raise InvalidInput("file", f"there is no {path}", "a file, or - for standard input")
    try:
        found = _of_folder(path) if path.is_dir() else _of_table(path) if is_sqlite(path) else _of_first(path)
    except InvalidInput:
        found = None  # not the beginning of any of them; its reader says what is wrong with it
    if found is None:
        raise InvalidInput(
            "file",
            f"{path.name} is not a Tulving export, and of no other program that can be told",
            f"--from {', '.join(FORMATS)}",
        )
    return found


def _of_folder(path: Path) -> str | None:
    if any(chatgpt.FILES.fullmatch(each.name) for each in path.iterdir()):
        return _of_first(path)
    return "basic-memory" if any(path.rglob("*.md")) else None


def _of_table(path: Path) -> str | None:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as conn:
        for name, table in (("mem0", "history"), ("langgraph", "store")):
            columns = {row[1] for row in conn.execute(f"PRAGMA table_info({table})")}
            if _TABLES[name] <= columns:
                return name
    return None


def _of_first(path: Path) -> str | None:
    if path.suffix == ".md":
        return "basic-memory"
    first = _first(path)
    if not isinstance(first, Mapping):
        return None
    if first.get("type") in ("entity", "relation") and {"entityType", "relationType"} & first.keys():
        return "server-memory"
    return next((name for name, fields in _FIELDS.items() if fields <= first.keys()), None)


def _first(path: Path) -> Any:
    """The first record of a file, or of the list in it."""
    if _sign(path) == b"{":
        _, first = next(json_lines(path, Meter()))
        if isinstance(first, Mapping) and not {*LISTS} & first.keys():
            return first
    for name, file in members(path, chatgpt.FILES, Meter()):
        for _, first in islice(elements(name, file, Meter(), within=LISTS), 1):
            return first
    return None


def _sign(path: Path) -> bytes:
    """The first character of a text."""
    for _, file in members(path, chatgpt.FILES, Meter()):
        return file.read(1000).removeprefix(BOM_UTF8).lstrip()[:1]
    return b""
