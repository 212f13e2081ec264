"""The raw work: the same statements over plain sqlite3, the same vectors in plain numpy."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy

from tulving import Memory

Statement = tuple[str, Any]
Vectors = dict[str, dict[str, tuple[list[str], numpy.ndarray]]]
"""By tenant and table: ids, and a matrix with a row for each."""


class Recorder:
    """Stands in for the writer's connection and notes every statement with its values."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw
        self.transactions: list[list[Statement]] = []

    def execute(self, sql: str, params: Any = ()) -> sqlite3.Cursor:
        if sql.startswith("BEGIN"):
            self.transactions.append([])
        elif sql != "COMMIT":
            self.transactions[-1].append((sql, params))
        return self._raw.execute(sql, params)

    def executemany(self, sql: str, rows: Any) -> sqlite3.Cursor:
        rows = list(rows)
        self.transactions[-1] += [(sql, row) for row in rows]
        return self._raw.executemany(sql, rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def record(memory: Memory) -> list[list[Statement]]:
    """From now on, the statements of each transaction that this memory writes."""
    writer = memory._env.store._writer  # pyright: ignore[reportAttributeAccessIssue]
    writer.raw = Recorder(writer.raw)
    return writer.raw.transactions


class Plain:
    """A store's file under the standard driver, as durable as ours."""

    def __init__(self, path: Path) -> None:
        self._raw = sqlite3.connect(path, isolation_level=None, cached_statements=256)
        self._raw.execute("PRAGMA synchronous = FULL")
        self._raw.execute("PRAGMA foreign_keys = ON")
        self._raw.execute("PRAGMA secure_delete = ON")
        self._raw.execute("PRAGMA temp_store = MEMORY")

    def replay(self, transaction: Sequence[Statement]) -> None:
        """All statements, their answers fetched, in one commit."""
        execute = self._raw.execute
        execute("BEGIN IMMEDIATE")
        for sql, params in transaction:
            execute(sql, params).fetchall()
        execute("COMMIT")

    def vectors(self) -> Vectors:
        """All vectors of the file."""
        found: Vectors = {}
        for table in ("episodes", "facts", "rules"):
            ids: dict[str, list[str]] = {}
            blobs: dict[str, list[bytes]] = {}
            for tenant, id_, blob in self._raw.execute(f"SELECT tenant_id, id, embedding FROM {table} ORDER BY num"):
                ids.setdefault(tenant, []).append(id_)
                blobs.setdefault(tenant, []).append(blob)
            for tenant in ids:
                matrix = numpy.frombuffer(b"".join(blobs[tenant]), "<f4").reshape(len(ids[tenant]), -1)
                found.setdefault(tenant, {})[table] = (ids[tenant], matrix)
        return found

    def close(self) -> None:
        self._raw.close()


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
