"""The same job written by hand: one SQLite file of rows, vectors in memory, FTS5 with a prefix for each tenant, RRF.

As durable as ours, but without keys, audit events, scopes, validity, filters, or other processes that write.
"""

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy

from bench.baseline import scan
from bench.corpus import FUNCTION_WORDS
from tulving.ports import Embedder

LANE, FOUND, RRF = 20, 10, 60
_SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS memories (num INTEGER PRIMARY KEY, id TEXT NOT NULL, tenant TEXT NOT NULL,
    kind TEXT NOT NULL, content TEXT NOT NULL, importance REAL NOT NULL, created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL, vector BLOB NOT NULL, UNIQUE (tenant, id));
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (
    text, content = '', tokenize = 'porter unicode61 remove_diacritics 2');
"""
_INSERT = "INSERT INTO memories VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INDEX = "INSERT INTO words (rowid, text) VALUES (?, ?)"
_COLUMNS = ("num", "id", "kind", "content", "importance", "created_at")


class ByHand:
    """Rows, words and vectors of some tenants, in a file with no other writer."""

    def __init__(self, path: str | Path, embedder: Embedder) -> None:
        self._raw = sqlite3.connect(path, isolation_level=None)
        self._raw.execute("PRAGMA synchronous = FULL")
        self._raw.executescript(_SCHEMA)
        self._embedder = embedder
        self._left_out: frozenset[str] = frozenset()
        (last,) = self._raw.execute("SELECT MAX(num) FROM memories").fetchone()
        self._next = (last or 0) + 1
        self._vectors: dict[str, tuple[list[int], numpy.ndarray]] = {}
        self._new: dict[str, list[tuple[int, bytes]]] = {}

    def add(self, tenant: str, kind: str, texts: Sequence[str]) -> None:
        """Store memories in one commit."""
        now, prefix = datetime.now(UTC).isoformat(), _prefix(tenant)
        vectors = numpy.asarray(self._embedder.embed_batch(texts), "<f4")
        numbers = range(self._next, self._next + len(texts))
        blobs = [vector.tobytes() for vector in vectors]
        rows = [
            (number, str(uuid4()), tenant, kind, text, 5.0, now, now, blob)
            for number, text, blob in zip(numbers, texts, blobs, strict=True)
        ]
        words = [
            (number, prefix + f" {prefix}".join(text.split())) for number, text in zip(numbers, texts, strict=True)
        ]
        self._raw.execute("BEGIN IMMEDIATE")
        self._raw.executemany(_INSERT, rows)
        self._raw.executemany(_INDEX, words)
        self._raw.execute("COMMIT")
        self._next += len(texts)
        self._new.setdefault(tenant, []).extend(zip(numbers, blobs, strict=True))

    def search(self, tenant: str, query: str, mode: str = "hybrid") -> list[dict[str, Any]]:
        """The ten best: of the vectors, or of the vectors and the words together."""
        numbers, matrix = self._matrix(tenant)
        [vector] = self._embedder.embed_batch([query])
        nearest = scan(matrix, numpy.asarray(vector, "<f4"), LANE if mode == "hybrid" else FOUND)
        lanes = [[numbers[at] for at in nearest]]
        if mode == "hybrid":
            lanes.append(self._matching(tenant, query))
        scores: dict[int, float] = {}
        for lane in lanes:
            for rank, number in enumerate(lane, RRF + 1):
                scores[number] = scores.get(number, 0.0) + 1 / rank
        return self._rows(sorted(scores, key=lambda number: -scores[number])[:FOUND], scores)

    def tune(self) -> None:
        """Merge the segments of the keyword index into one, and leave stop words out of queries from now on."""
        self._raw.execute("INSERT INTO words (words) VALUES ('optimize')")
        self._left_out = frozenset(FUNCTION_WORDS)

    def count(self) -> tuple[int, int]:
        """How many rows there are, and of how many the words are known."""
        (rows,) = self._raw.execute("SELECT COUNT(*) FROM memories").fetchone()
        (indexed,) = self._raw.execute("SELECT COUNT(*) FROM words_docsize").fetchone()
        return rows, indexed

    def close(self) -> None:
        self._raw.close()

    def _matrix(self, tenant: str) -> tuple[list[int], numpy.ndarray]:
        """A tenant's vectors: from the file at first, later with what was stored since."""
        if tenant not in self._vectors:
            found = self._raw.execute("SELECT num, vector FROM memories WHERE tenant = ?", (tenant,)).fetchall()
            self._vectors[tenant] = [], numpy.empty((0, self._embedder.dimension), "<f4")
        else:
            found = self._new.get(tenant, [])
        if found:
            numbers, matrix = self._vectors[tenant]
            rows = numpy.frombuffer(b"".join(blob for _, blob in found), "<f4").reshape(len(found), -1)
            self._vectors[tenant] = numbers + [number for number, _ in found], numpy.concatenate([matrix, rows])
        self._new.pop(tenant, None)
        return self._vectors[tenant]

    def _matching(self, tenant: str, query: str) -> list[int]:
        words, prefix = dict.fromkeys(query.lower().split()), _prefix(tenant)
        either = " OR ".join(f'"{prefix}{word}"' for word in words if word not in self._left_out)
        statement = f"SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT {LANE}"
        return [number for (number,) in self._raw.execute(statement, (either,))]

    def _rows(self, numbers: Sequence[int], scores: dict[int, float]) -> list[dict[str, Any]]:
        statement = f"SELECT {', '.join(_COLUMNS)} FROM memories WHERE num IN ({', '.join('?' * len(numbers))})"
        found = {row[0]: row for row in self._raw.execute(statement, numbers)}
        return [dict(zip(_COLUMNS, found[number], strict=True), score=scores[number]) for number in numbers]


def _prefix(tenant: str) -> str:
    return "".join(letter for letter in tenant if letter.isalnum())
