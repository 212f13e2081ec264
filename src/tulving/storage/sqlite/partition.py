"""One tenant's vectors: read from the rows or a snapshot, then updated by events."""

import json
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

from tulving.domain.model import KINDS, Kind
from tulving.settings import VectorsConfig
from tulving.storage.kinds import KIND
from tulving.storage.sqlite import hnsw
from tulving.storage.sqlite.matrix import Matrix
from tulving.storage.sqlite.vector_codes import BLOCK
from tulving.storage.sqlite.vector_snapshot import Reach, Snapshots, Unusable, write_parts

if TYPE_CHECKING:
    from tulving.storage.sqlite.connection import SqliteConnection

RELOAD_ABOVE = 5_000
"""So many events are followed, or as many as a fourth of the rows; above, reading all rows is faster."""
SMALLEST_PARTITION = 4_096
"""The size in bytes that an empty partition is counted as."""
MOST_IMPORTS = 2**31 - 1
"""The largest `user_version`; the counter then starts again at 0."""


def mark_import(raw: sqlite3.Connection) -> None:
    """Count an import, in the transaction that imports rows."""
    raw.execute(f"PRAGMA user_version = {(count_imports(raw) + 1) % MOST_IMPORTS}")


def count_imports(raw: sqlite3.Connection) -> int:
    """How many there have been."""
    return raw.execute("PRAGMA user_version").fetchone()[0]


class Partition:
    """One tenant's vectors, as of the last event seen."""

    def __init__(self, tenant_id: str, limits: VectorsConfig, snapshots: Snapshots) -> None:
        self.tenant_id = tenant_id
        self.lock = threading.Lock()
        self.version: int | None = None
        self.imports = -1
        self.seen, self.event = -1, ""
        self.matrices: dict[Kind, Matrix] = {}
        self.counted = 0
        self._limits, self._snapshots = limits, snapshots

    @property
    def nbytes(self) -> int:
        """Its size; an empty partition counts too."""
        return SMALLEST_PARTITION + sum(matrix.nbytes for matrix in self.matrices.values())

    def catch_up(self, conn: "SqliteConnection", version: int, dimension: int) -> bool:
        """Apply what has changed since the last event seen; returns whether anything has."""
        last, event = last_event(conn, self.tenant_id)
        imports = count_imports(conn.raw)
        fresh = self.version == version and self.imports == imports
        if fresh and last <= self.seen:
            return False
        rows = sum(len(matrix.ids) for matrix in self.matrices.values())
        if fresh and not self._far_behind(conn, self.seen, last, rows):
            self._follow(conn, self.seen, self.matrices)
        else:
            now = Reach(self.tenant_id, "fact", embedder_of(conn, version), imports, last, event, rows)
            kept = self.version is None and hnsw.available()
            known = self.matrices if self.version == version else {}
            self.matrices = {
                kind: (kept and self._restored(conn, replace(now, kind=kind), dimension))
                or self._read(conn, kind, known.get(kind) or Matrix(dimension))
                for kind in KINDS
            }
        self.version, self.imports, self.seen, self.event = version, imports, last, event
        return True

    def grow(self) -> bool:
        """Give large kinds a graph; whether rows are to be linked."""
        return hnsw.available() and any([matrix.resize(self._limits) for matrix in self.matrices.values()])

    def link(self) -> bool:
        """One step of building graphs; whether more are to be done."""
        with self.lock:
            return any(matrix.link() for matrix in self.matrices.values())

    def save(self, conn: "SqliteConnection", worth: float) -> None:
        """Write snapshots of kinds of which one row in `worth` has changed, and remove those of kinds without a graph.

        Searches wait while a file is written, not until it is on the disk.
        """
        for kind, matrix in self.matrices.items():
            if matrix.graph is None:
                self._snapshots.remove(self.tenant_id, kind)
            elif matrix.changes and matrix.changes * worth >= len(matrix.ids):
                self._snapshots.write(self.tenant_id, kind, lambda file, kind=kind: self._copy(conn, kind, file))

    def _copy(self, conn: "SqliteConnection", kind: Kind, file: BinaryIO) -> None:
        with self.lock:
            matrix, embedder = self.matrices[kind], embedder_of(conn, self.version)
            reach = Reach(self.tenant_id, kind, embedder, self.imports, self.seen, self.event, len(matrix.ids))
            write_parts(file, reach, matrix.parts())
            matrix.changes = 0

    def _far_behind(self, conn: "SqliteConnection", seen: int, last: int, rows: int) -> bool:
        most = max(RELOAD_ABOVE, rows // 4)
        if last - seen <= most:
            return False
        (events,) = conn.raw.execute(
            "SELECT COUNT(*) FROM (SELECT 1 FROM memory_events WHERE tenant_id = ? AND seq > ? LIMIT ?)",
            (self.tenant_id, seen, most + 1),
        ).fetchone()
        return events > most

    def _restored(self, conn: "SqliteConnection", now: Reach, dimension: int) -> Matrix | None:
        """A kind from its snapshot, with what has changed since."""

        def fits(then: Reach) -> None:
            if (then.embedder, then.imports) != (now.embedder, now.imports):
                raise Unusable("since then memories were imported or embedded again")
            if not then.event or _event_at(conn, self.tenant_id, then.seq) != then.event:
                raise Unusable("the file was replaced by another one")
            if self._far_behind(conn, then.seq, now.seq, then.rows):
                raise Unusable("too much has changed since then")

        if (found := self._snapshots.read(self.tenant_id, now.kind, fits)) is None:
            return None
        then, parts = found
        matrix = Matrix(dimension)
        try:
            matrix.restore(parts, self._limits.ef)
        except (RuntimeError, ValueError) as error:  # of usearch: another version may have written it
            self._snapshots.ignore(now.kind, error)
            return None
        self._follow(conn, then.seq, {now.kind: matrix})
        return matrix

    def _read(self, conn: "SqliteConnection", kind: Kind, matrix: Matrix) -> Matrix:
        rows = conn.raw.execute(
            f"SELECT id, embedding FROM {KIND[kind].table} AS m"
            f" WHERE tenant_id = ? AND {KIND[kind].in_use} AND embedding IS NOT NULL ORDER BY id",
            (self.tenant_id,),
        )
        matrix.load(iter(lambda: rows.fetchmany(BLOCK), []))
        return matrix

    def _follow(self, conn: "SqliteConnection", seen: int, matrices: Mapping[Kind, Matrix]) -> None:
        changed: dict[Kind, list[str]] = {kind: [] for kind in matrices}
        for kind, id_ in conn.raw.execute(
            "SELECT DISTINCT entity_type, entity_id FROM memory_events WHERE tenant_id = ? AND seq > ?",
            (self.tenant_id, seen),
        ):
            if kind in changed:
                changed[kind].append(id_)
        for kind, ids in changed.items():
            if not ids:
                continue
            live = dict(
                conn.raw.execute(
                    f"SELECT id, embedding FROM {KIND[kind].table} AS m WHERE tenant_id = ?"
                    f" AND {KIND[kind].in_use} AND embedding IS NOT NULL AND id IN (SELECT value FROM json_each(?))",
                    (self.tenant_id, json.dumps(ids)),
                )
            )
            for id_ in ids:
                if id_ in live:
                    matrices[kind].put(id_, live[id_])
                else:
                    matrices[kind].drop(id_)


def last_event(conn: "SqliteConnection", tenant_id: str) -> tuple[int, str]:
    """The number and the id of a tenant's last event; 0 if there is none."""
    last = "SELECT seq, id FROM memory_events WHERE tenant_id = ? ORDER BY seq DESC LIMIT 1"
    return conn.raw.execute(last, (tenant_id,)).fetchone() or (0, "")


def _event_at(conn: "SqliteConnection", tenant_id: str, seq: int) -> str | None:
    row = conn.raw.execute("SELECT id FROM memory_events WHERE tenant_id = ? AND seq = ?", (tenant_id, seq)).fetchone()
    return row[0] if row else None


def embedder_of(conn: "SqliteConnection", number: int | None) -> list[Any]:
    """What tells the vectors of one embedding of the store from those of another."""
    known = "SELECT number, model, version, dimension, created_at FROM embedding_versions WHERE number = ?"
    return [*(conn.raw.execute(known, (number,)).fetchone() or ())]
