"""Conversion of values for SQLite: a value is decoded by the name of its column."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache
from typing import Any
from uuid import UUID

from tulving.errors import DamagedStore
from tulving.storage.rows import ARRAYS, DOCUMENTS, FLAGS, TIMES, UUIDS, Params, Row

Columns = list[tuple[str, Callable[[Any], Any] | None]]


_document = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


_ENCODERS: dict[type, Callable[[Any], Any]] = {
    UUID: str,
    datetime: lambda moment: moment.astimezone(UTC).isoformat(timespec="microseconds"),
    dict: _document,
    list: _document,
    tuple: _document,
}


_PLAIN = frozenset({str, int, float, bytes, bool, type(None)})


def encoded(params: Params) -> Row:
    """Parameters in the driver's types."""
    return {name: value if type(value) in _PLAIN else _encode(value) for name, value in params.items()}


def _encode(value: Any) -> Any:
    encoder = _ENCODERS.get(type(value))
    if encoder is None:
        encoder = next((_ENCODERS[base] for base in _ENCODERS if isinstance(value, base)), None)
    return value if encoder is None else encoder(value)


def columns(names: Iterable[str]) -> Columns:
    """Columns with their decoders."""
    return [(name, _decoder(name)) for name in names]


def decoded(columns: Columns, row: tuple[Any, ...]) -> Row:
    """A driver row as Python values."""
    try:
        return {
            name: value if decode is None or value is None else decode(value)
            for (name, decode), value in zip(columns, row, strict=True)
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise DamagedStore(f"the database file is damaged: a stored value can't be read ({error})") from error


@cache
def _decoder(column: str) -> Callable[[Any], Any] | None:
    if column in TIMES:
        return datetime.fromisoformat
    if column in UUIDS:
        return UUID
    if column in DOCUMENTS or column in ARRAYS:
        return json.loads
    return bool if column in FLAGS else None
