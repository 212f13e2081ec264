"""The raw work: the same statements over the plain driver, the same vectors in plain numpy."""

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy

KINDS = ("episodes", "facts", "rules")
TABLES = (*KINDS, "memory_events", "memory_links")
_VECTORS = "SELECT tenant_id, id, embedding FROM {table}"
_COUNT = "SELECT COUNT(*) FROM {table}"


class Statement(NamedTuple):
    """What was executed, with its parameters; `many`: with a list of them."""

    sql: str
    params: Any
    many: bool = False


Transactions = list[list[Statement]]
Vectors = dict[str, dict[str, tuple[list[str], numpy.ndarray]]]
"""By tenant and table: ids, and a matrix with a row for each."""


class Recorder:
    """Stands in for the writer's connection and notes every statement with its values."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw
        self.transactions: Transactions = []

    def execute(self, sql: str, params: Any = ()) -> sqlite3.Cursor:
        if sql.startswith("BEGIN"):
            self.transactions.append([])
        elif sql != "COMMIT" and not sql.startswith("PRAGMA"):
            self.transactions[-1].append(Statement(sql, params))
        return self._raw.execute(sql, params)

    def executemany(self, sql: str, rows: Any) -> sqlite3.Cursor:
        rows = list(rows)
        self.transactions[-1].append(Statement(sql, rows, many=True))
        return self._raw.executemany(sql, rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


class Plain:
    """A store's file under the standard driver, as durable as ours."""

    def __init__(self, path: Path) -> None:
        self._raw = sqlite3.connect(path, isolation_level=None, cached_statements=256)
        self._raw.execute("PRAGMA synchronous = FULL")
        self._raw.execute("PRAGMA foreign_keys = ON")
        self._raw.execute("PRAGMA secure_delete = ON")
        self._raw.execute("PRAGMA temp_store = MEMORY")

    async def replay(self, transaction: Sequence[Statement]) -> None:
        """All statements, their answers fetched, in one commit."""
        execute = self._raw.execute
        execute("BEGIN IMMEDIATE")
        for sql, params, many in transaction:
            if many:
                self._raw.executemany(sql, params)
            else:
                execute(sql, params).fetchall()
        execute("COMMIT")

    async def counts(self) -> dict[str, int]:
        """How many rows each table has, and of how many the words are indexed."""
        tables = (*TABLES, *(f"{table}_fts_docsize" for table in KINDS))
        return {table: self._raw.execute(_COUNT.format(table=table)).fetchone()[0] for table in tables}

    async def vectors(self) -> Vectors:
        """All vectors of the file."""
        return by_tenant({table: self._raw.execute(f"{_VECTORS.format(table=table)} ORDER BY num") for table in KINDS})

    async def close(self) -> None:
        self._raw.close()


class PlainPostgres:
    """A store's database under the plain driver, which prepares each statement once."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    async def replay(self, transaction: Sequence[Statement]) -> None:
        """All statements in one commit; what is the same but for its values is sent at once."""
        alike: dict[str, list[Any]] = {}
        for sql, params, many in transaction:
            alike.setdefault(sql, []).extend(params if many else [params])
        await self._raw.execute("BEGIN")
        for sql, rows in alike.items():
            if len(rows) > 1:
                await (self._raw.fetchmany if sql.startswith("SELECT") else self._raw.executemany)(sql, rows)
            elif sql.startswith("SELECT"):
                await self._raw.fetch(sql, *rows[0])
            else:
                await self._raw.execute(sql, *rows[0])
        await self._raw.execute("COMMIT")

    async def counts(self) -> dict[str, int]:
        """How many rows each table has."""
        return {table: await self._raw.fetchval(_COUNT.format(table=table)) for table in TABLES}

    async def vectors(self) -> Vectors:
        """All vectors of the database."""
        return by_tenant({table: await self._raw.fetch(_VECTORS.format(table=table)) for table in KINDS})

    async def close(self) -> None:
        await self._raw.close()


def by_tenant(tables: dict[str, Iterable[tuple[str, Any, bytes]]]) -> Vectors:
    """Rows of tenant, id and vector, as matrices."""
    found: Vectors = {}
    for table, rows in tables.items():
        ids: dict[str, list[str]] = {}
        blobs: dict[str, list[bytes]] = {}
        for tenant, id_, blob in rows:
            ids.setdefault(tenant, []).append(str(id_))
            blobs.setdefault(tenant, []).append(blob)
        for tenant in ids:
            matrix = numpy.frombuffer(b"".join(blobs[tenant]), "<f4").reshape(len(ids[tenant]), -1)
            found.setdefault(tenant, {})[table] = (ids[tenant], matrix)
    return found


def scan(matrix: numpy.ndarray, query: numpy.ndarray, count: int = 10) -> numpy.ndarray:
    """The rows most similar to a query, best first, by looking at all of them."""
    scores = numpy.vecdot(matrix, query)  # `@` runs on several threads, which wait for each other on a busy machine
    if count < len(scores):
        best = numpy.argpartition(-scores, count)[:count]  # negated: many equals at the far end are slow
        return best[numpy.argsort(-scores[best])]
    return numpy.argsort(-scores)


def exact_recall(ids: list[str], matrix: numpy.ndarray, query: Sequence[float], found: Sequence[str]) -> float:
    """The share of the ten best (by exact similarity; equals count as equal) that were found."""
    rows, wanted = matrix.astype(numpy.float64), numpy.asarray(query, numpy.float64)
    lengths = numpy.linalg.norm(rows, axis=1) * numpy.linalg.norm(wanted)
    scores = dict(zip(ids, rows @ wanted / numpy.where(lengths == 0, 1, lengths), strict=True))
    best = sorted(scores.values(), reverse=True)[:10]
    return sum(scores[id_] >= best[-1] - 2e-6 for id_ in dict.fromkeys(found)) / len(best)
