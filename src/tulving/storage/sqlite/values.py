"""Conversion of values for SQLite: a value is decoded by the name of its column."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any
from uuid import UUID

from tulving.errors import DamagedStore
from tulving.storage.rows import ARRAYS, DOCUMENTS, FLAGS, TIMES, UUIDS, Params, Row

Columns = list[tuple[str, Callable[[Any], Any] | None]]

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
_PARAMETER = re.compile(r":(\w+)")
_EMPTY: dict[type, str] = {dict: "{}", list: "[]", tuple: "[]"}


def _document(value: Any) -> str:
    return (not value and _EMPTY.get(type(value))) or _json(value)


@lru_cache(64)  # the times of a new memory are mostly the same
def _time(moment: datetime) -> str:
    return (moment if moment.tzinfo is UTC else moment.astimezone(UTC)).isoformat(timespec="microseconds")


_ENCODERS: dict[type, Callable[[Any], Any]] = {
    UUID: str,
    datetime: _time,
    dict: _document,
    list: _document,
    tuple: _document,
}
_PLAIN = frozenset({str, int, float, bytes, bool, type(None)})


def encoded(params: Params) -> Row:
    """Parameters in the driver's types."""
    return {name: value if type(value) in _PLAIN else _encode(value) for name, value in params.items()}


def encoded_values(names: Iterable[str], params: Params) -> list[Any]:
    """Some parameters in the driver's types."""
    return [value if type(value := params[name]) in _PLAIN else _encode(value) for name in names]


def _encode(value: Any) -> Any:
    encoder = _ENCODERS.get(type(value))
    if encoder is None:
        encoder = next((_ENCODERS[base] for base in _ENCODERS if isinstance(value, base)), None)
    return value if encoder is None else encoder(value)


@cache
def insertion(table: str, columns: tuple[str, ...], count: int) -> tuple[str, Callable[[Sequence[Any]], list[Any]]]:
    """The statement that inserts `count` rows of these columns, and what makes its parameters of such a row."""
    encoders = [(at, encode) for at, name in enumerate(columns) if (encode := _encoder(name))]

    def encoded_row(row: Sequence[Any]) -> list[Any]:
        values = list(row)
        for at, encode in encoders:
            if (value := values[at]) is not None:
                values[at] = encode(value)
        return values

    one = f"({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([one] * count)}", encoded_row


@cache
def for_each(sql: str, count: int) -> tuple[str, tuple[str, ...]]:
    """A SELECT from one table, made to answer `count` sets of parameters at once: the statement, and the names of the
    values that it wants from each set."""
    names = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
    asked, one = ", ".join(f"asked_{name}" for name in names), f"({', '.join('?' * len(names))})"
    select = _PARAMETER.sub(r"asked_\1", sql).replace(" FROM ", " FROM asked CROSS JOIN ", 1)
    return f"WITH asked ({asked}) AS (VALUES {', '.join([one] * count)}) {select}", names


def _encoder(column: str) -> Callable[[Any], Any] | None:
    if column in TIMES:
        return _time
    if column in UUIDS:
        return str
    return _document if column in DOCUMENTS or column in ARRAYS else None


def _parsed(document: str) -> Any:
    """Mostly it is empty."""
    return [] if document == "[]" else {} if document == "{}" else json.loads(document)


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
        return _parsed
    return bool if column in FLAGS else None
