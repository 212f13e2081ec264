"""Values on their way into SQLite and out of it: a column's name tells how it is read."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from tulving.storage.rows import DOCUMENTS, FLAGS, TIMES, UUIDS, Params, Row

Columns = list[tuple[str, Callable[[Any], Any] | None]]


def _document(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


_ENCODERS: dict[type, Callable[[Any], Any]] = {
    UUID: str,
    datetime: lambda moment: moment.astimezone(UTC).isoformat(timespec="microseconds"),
    dict: _document,
    list: _document,
    tuple: _document,
}


def encoded(params: Params) -> Row:
    """Parameters as the driver takes them."""
    return {name: encode(value) if (encode := _ENCODERS.get(type(value))) else value for name, value in params.items()}


def columns(names: Iterable[str]) -> Columns:
    """Columns with their readers."""
    return [(name, _decoder(name)) for name in names]


def decoded(columns: Columns, row: tuple[Any, ...]) -> Row:
    """A row as the driver gives it, in Python's values."""
    return {
        name: value if decode is None or value is None else decode(value)
        for (name, decode), value in zip(columns, row, strict=True)
    }


def _decoder(column: str) -> Callable[[Any], Any] | None:
    if column in TIMES:
        return datetime.fromisoformat
    if column in UUIDS:
        return UUID
    if column in DOCUMENTS:
        return json.loads
    return bool if column in FLAGS else None
