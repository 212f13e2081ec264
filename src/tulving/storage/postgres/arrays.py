"""Inserts of many rows at once: the server unnests an array for each column. To execute a statement for each row takes
it half as long again, even if all are sent together."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from tulving.storage.postgres.values import Form
from tulving.storage.rows import DOCUMENTS, TYPES

New = tuple[str, tuple[str, ...], Sequence[Sequence[Any]]]
"""New rows: their table, its columns, and their values."""

_TYPE = {UUID: "uuid", datetime: "timestamptz", bool: "boolean", int: "bigint", float: "double precision"}


def insertion(form: Form, *new: New) -> tuple[str, list[Any]]:
    """The statement that inserts rows into one table or two, and its parameters."""
    args: list[Any] = []
    for _, columns, rows in new:
        if len(rows) == 1:
            args += map(form.encode, columns, rows[0])
        else:
            for name, values in zip(columns, zip(*rows, strict=True), strict=True):
                encoded = name in form.encoders
                args.append([form.encode(name, value) for value in values] if encoded else values)
    return _insertion(form, *((table, columns, len(rows) > 1) for table, columns, rows in new)), args


@lru_cache(256)
def _insertion(form: Form, *new: tuple[str, tuple[str, ...], bool]) -> str:
    statements: list[str] = []
    number = 0
    for table, columns, many in new:
        numbers = range(number + 1, number + 1 + len(columns))
        number += len(columns)
        if many:
            values = f"SELECT * FROM unnest({', '.join(map(_array, columns, numbers))})"
        else:
            values = f"VALUES ({', '.join(f'${n}{form.cast(name)}' for name, n in zip(columns, numbers, strict=True))})"
        statements.append(f"INSERT INTO {table} ({', '.join(columns)}) {values}")
    *first, last = statements
    return f"WITH first AS ({first[0]}) {last}" if first else last


def _array(name: str, number: int) -> str:
    """The parameter for a column."""
    if name in DOCUMENTS:
        return f"${number}::text[]::jsonb[]"
    return f"${number}::{'vector' if name == 'embedding' else _TYPE.get(TYPES.get(name), 'text')}[]"
