"""SQL past the memory, on either engine: to see what it has written, or to do what it never would."""

import asyncio
import json
import sqlite3
from array import array
from collections.abc import Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import asyncpg

from tulving.location import is_postgres
from tulving.storage.postgres import values as postgres_values
from tulving.storage.sqlite import values as sqlite_values

T = TypeVar("T")


def run_sql(url: str, statement: str, *parameters: Any) -> list[dict[str, Any]]:
    """Parameters are `?`. Values are Python's, on both engines the same."""
    if is_postgres(url):
        return in_thread(_fetch(url, [statement], parameters))[0]
    raw = sqlite3.connect(url, isolation_level=None, timeout=30)
    try:
        given = sqlite_values.encoded({str(at): value for at, value in enumerate(parameters)})
        cursor = raw.execute(statement, tuple(given.values()))
        names = [name for name, *_ in cursor.description or ()]
        if statement.startswith(("EXPLAIN", "PRAGMA")):  # their columns are not ours
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        columns = sqlite_values.columns(names)
        return [sqlite_values.decoded(columns, row) for row in cursor.fetchall()]
    finally:
        raw.close()


def rows_of(url: str, tables: Iterable[str]) -> list[tuple[str, dict[str, Any]]]:
    """All rows, each with the name of its table."""
    names = list(tables)
    statements = [f"SELECT * FROM {name}" for name in names]
    if is_postgres(url):  # through one connection: it takes longer than a statement
        found = in_thread(_fetch(url, statements, ()))
    else:
        found = [run_sql(url, statement) for statement in statements]
    return [(name, row) for name, rows in zip(names, found, strict=True) for row in rows]


async def _fetch(url: str, statements: list[str], parameters: tuple[Any, ...]) -> list[list[dict[str, Any]]]:
    raw = await asyncpg.connect(url)
    try:
        return [
            [_with_bytes(postgres_values.decoded(row)) for row in await raw.fetch(_numbered(statement), *parameters)]
            for statement in statements
        ]
    finally:
        await raw.close()


def _numbered(statement: str) -> str:
    head, *rest = statement.split("?")
    return head + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))


def _with_bytes(row: dict[str, Any]) -> dict[str, Any]:
    """A vector that was selected as it is comes as text."""
    if isinstance(text := row.get("embedding"), str):
        row["embedding"] = array("f", json.loads(text)).tobytes()
    return row


def in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    """A coroutine's result, whether or not a loop runs here."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()
