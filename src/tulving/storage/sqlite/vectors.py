"""The vector index for SQLite: an in-memory cache per tenant, loaded from the rows and updated by their events.

The rows are the source of truth. Before each answer the cache reads which memories have changed since the last event it
has seen, in any process, so it needs no invalidation and can be dropped at any time. Imported rows may lack events, or
have events that exist already: imports are counted in the file, and after one the rows are read again.

Many memories of a kind get a graph (`hnsw.py`). A thread fills it in the background, and snapshots keep it.
"""

import json
import logging
import math
import queue
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

from tulving.domain.model import KINDS, Kind
from tulving.ports import Finding
from tulving.settings import VectorsConfig
from tulving.storage.embeddings import active_number, active_version
from tulving.storage.kinds import KIND
from tulving.storage.sqlite import hnsw
from tulving.storage.sqlite.matrix import Matrix, Nearest, Ranked
from tulving.storage.sqlite.vector_snapshot import Reach, Snapshots, Unusable, write_parts

if TYPE_CHECKING:
    from tulving.storage.sqlite.connection import SqliteConnection

log = logging.getLogger("tulving")

RELOAD_ABOVE = 5_000
"""So many events are followed, or as many as a fourth of the rows; above, reading all rows is faster."""
SMALLEST_PARTITION = 4_096
"""The size in bytes that an empty partition is counted as."""
MOST_IMPORTS = 2**31 - 1
"""The largest `user_version`; the counter then starts again at 0."""
BREATH = 0.0002
"""Seconds between two steps of building a graph, in which a waiting search gets its turn."""
WORTH_KEEPING = 100
"""When a store is closed, an index is kept if one of so many rows has changed: fewer are followed as fast by events."""


def mark_import(raw: sqlite3.Connection) -> None:
    """Count an import, in the transaction that imports rows."""
    raw.execute(f"PRAGMA user_version = {(_imports(raw) + 1) % MOST_IMPORTS}")


def _imports(raw: sqlite3.Connection) -> int:
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
        last, event = _last_event(conn, self.tenant_id)
        imports = _imports(conn.raw)
        fresh = self.version == version and self.imports == imports
        if fresh and last <= self.seen:
            return False
        rows = sum(len(matrix.ids) for matrix in self.matrices.values())
        if fresh and not self._far_behind(conn, self.seen, last, rows):
            self._follow(conn, self.seen, self.matrices)
        else:
            now = Reach(self.tenant_id, "fact", _embedder(conn, version), imports, last, event, rows)
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
            matrix, embedder = self.matrices[kind], _embedder(conn, self.version)
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
            f"SELECT id, created_at, embedding FROM {KIND[kind].table} AS m"
            f" WHERE tenant_id = ? AND {KIND[kind].in_use} AND embedding IS NOT NULL ORDER BY id",
            (self.tenant_id,),
        ).fetchall()
        matrix.load(*([row[at] for row in rows] for at in range(3)))
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
            live = {
                row[0]: row
                for row in conn.raw.execute(
                    f"SELECT id, created_at, embedding FROM {KIND[kind].table} AS m WHERE tenant_id = ?"
                    f" AND {KIND[kind].in_use} AND embedding IS NOT NULL AND id IN (SELECT value FROM json_each(?))",
                    (self.tenant_id, json.dumps(ids)),
                )
            }
            for id_ in ids:
                if id_ in live:
                    matrices[kind].put(*live[id_])
                else:
                    matrices[kind].drop(id_)


def _last_event(conn: "SqliteConnection", tenant_id: str) -> tuple[int, str]:
    last = "SELECT seq, id FROM memory_events WHERE tenant_id = ? ORDER BY seq DESC LIMIT 1"
    return conn.raw.execute(last, (tenant_id,)).fetchone() or (0, "")


def _event_at(conn: "SqliteConnection", tenant_id: str, seq: int) -> str | None:
    row = conn.raw.execute("SELECT id FROM memory_events WHERE tenant_id = ? AND seq = ?", (tenant_id, seq)).fetchone()
    return row[0] if row else None


def _embedder(conn: "SqliteConnection", number: int | None) -> list[Any]:
    """What tells the vectors of one embedding of the store from those of another."""
    known = "SELECT number, model, version, dimension, created_at FROM embedding_versions WHERE number = ?"
    return [*(conn.raw.execute(known, (number,)).fetchone() or ())]


class VectorCache:
    """The cached partitions; the least recently used are dropped when they exceed the budget."""

    def __init__(self, budget: int, limits: VectorsConfig | None = None, snapshots: Snapshots | None = None) -> None:
        self._budget = budget
        self._limits, self._snapshots = limits or VectorsConfig(), snapshots or Snapshots(None)
        self._used = 0
        self._partitions: OrderedDict[str, Partition] = OrderedDict()
        self._lock = threading.Lock()
        self._builder: threading.Thread | None = None
        self._to_build: queue.Queue[Partition | None] = queue.Queue()
        self._closing = threading.Event()

    def rank(
        self,
        conn: "SqliteConnection",
        tenant_id: str,
        kinds: Sequence[Kind],
        vector: Sequence[float],
        version: int | None,
    ) -> dict[Kind, Ranked]:
        """All live memories of a tenant by cosine similarity; empty for a zero vector."""
        import numpy

        number = active_number(conn, version, len(vector))
        query = numpy.asarray(vector, numpy.float32)
        length = numpy.linalg.norm(query)
        if not length:
            return {}
        partition = self._partition(tenant_id)
        with partition.lock:
            changed = self._catch_up(partition, conn, number, len(vector))
            rankings: dict[Kind, Ranked] = {}
            for kind in kinds:
                matrix, unit = partition.matrices[kind], query / length
                rankings[kind] = Nearest(matrix, partition.lock, unit) if matrix.searchable else matrix.rank(unit)
        if changed:
            self._weigh(partition)
        return rankings

    def mismatches(self, conn: "SqliteConnection", version: int, dimension: int) -> list[str]:
        """Where the cache and the rows disagree, for each tenant that has rows."""
        problems = []
        for kind in KINDS:
            for (tenant_id,) in conn.raw.execute(f"SELECT DISTINCT tenant_id FROM {KIND[kind].table}").fetchall():
                partition = self._partition(tenant_id)
                with partition.lock:
                    self._catch_up(partition, conn, version, dimension)
                    fresh = Partition(tenant_id, self._limits, Snapshots(None))
                    fresh.catch_up(conn, version, dimension)
                    matrix = partition.matrices[kind]
                    if matrix.content() != fresh.matrices[kind].content():
                        problems.append(f"the cached {kind} vectors of {tenant_id} differ from its rows")
                    if matrix.misplaced():
                        problems.append(f"the graph of the {kind} vectors of {tenant_id} differs from them")
                self._weigh(partition)
        return problems

    def load(self, conn: "SqliteConnection") -> None:
        """Load the tenants that are large enough for a graph, before they are searched."""
        large = {tenant_id for (tenant_id, _), rows in _counts(conn).items() if rows > self._limits.exact_rows}
        self._load(conn, large)

    def wait(self) -> None:
        """Return when all graphs of what is loaded are complete."""
        self._to_build.join()

    def keep(self, conn: "SqliteConnection") -> None:
        """Write the snapshots anew of what has changed, so that they don't hold what was deleted; remove those of
        tenants and kinds that have become small."""
        active = active_version(conn)
        embedder, imports = _embedder(conn, active["number"] if active else None), _imports(conn.raw)
        old = {
            reach.tenant_id
            for reach in self._snapshots.reaches()
            if (reach.embedder, reach.imports, (reach.seq, reach.event))
            != (embedder, imports, _last_event(conn, reach.tenant_id))
        }
        large = {each.tenant_id for each in self._cached() if any(matrix.graph for matrix in each.matrices.values())}
        for partition in self._load(conn, old | large):
            partition.save(conn, worth=math.inf)

    def close(self) -> None:
        """Stop building."""
        self._closing.set()
        self._to_build.put(None)
        if self._builder is not None:
            self._builder.join()

    def keep_worthwhile(self, conn: "SqliteConnection") -> None:
        """Write the snapshots of what has changed much, as it is."""
        for partition in self._cached():
            partition.save(conn, WORTH_KEEPING)

    def clear(self) -> None:
        """Forget everything, to read the rows again."""
        with self._lock:
            self._partitions.clear()
            self._used = 0
        self._snapshots.clear()

    def finding(self, conn: "SqliteConnection") -> Finding:
        """How many vectors there are, and how far the graphs are."""
        counts = _counts(conn)
        total, large = sum(counts.values()), [rows for rows in counts.values() if rows > self._limits.exact_rows]
        full = f"there are {total:,} vectors, more than `vectors.capacity` ({self._limits.capacity:,}):"
        full += " archive or delete old memories, move tenants to PostgreSQL, or raise the setting"
        linked, rows = self.progress()
        way = f", {linked:,} of them in a graph" if rows else ", compared one by one"
        if large and not rows and hnsw.available():
            way = "; the graph is loaded at the first search"
        notes = [f"{total:,} vectors{way}"]
        if large and not hnsw.available():
            notes.append("searches of many are faster with a graph: `pip install 'tulving[hnsw]'`")
        if self._snapshots.problem:
            notes.append(self._snapshots.problem)
        warming = f"the graph is being built: {linked:,} of {rows:,} vectors; the others are compared one by one"
        return Finding(
            "vector index",
            (full,) if total > self._limits.capacity else (),
            "; ".join(notes),
            warming if linked < rows else "",
        )

    def progress(self) -> tuple[int, int]:
        """How many vectors are in graphs, and how many belong there."""
        graphs = [matrix for each in self._cached() for matrix in each.matrices.values() if matrix.graph]
        return sum(matrix.linked for matrix in graphs), sum(len(matrix.ids) for matrix in graphs)

    def _catch_up(self, partition: Partition, conn: "SqliteConnection", version: int, dimension: int) -> bool:
        changed = partition.catch_up(conn, version, dimension)
        if changed and partition.grow():
            with self._lock:
                if self._builder is None and not self._closing.is_set():
                    self._builder = threading.Thread(target=self._build, name="tulving-graph", daemon=True)
                    self._builder.start()
            self._to_build.put(partition)
        return changed

    def _build(self) -> None:
        while (partition := self._to_build.get()) is not None:
            try:
                while (
                    not self._closing.wait(BREATH)
                    and self._partitions.get(partition.tenant_id) is partition
                    and partition.link()
                ):
                    pass
                self._weigh(partition)
            except Exception:
                log.exception("a graph could not be built; its vectors are compared one by one")
            self._to_build.task_done()
        self._to_build.task_done()

    def _load(self, conn: "SqliteConnection", tenants: set[str]) -> list[Partition]:
        loaded: list[Partition] = []
        if (active := active_version(conn)) is None:
            return loaded
        for tenant_id in sorted(tenants):
            partition = self._partition(tenant_id)
            with partition.lock:
                self._catch_up(partition, conn, active["number"], active["dimension"])
            self._weigh(partition)
            loaded.append(partition)
        return loaded

    def _cached(self) -> list[Partition]:
        with self._lock:
            return list(self._partitions.values())

    def _partition(self, tenant_id: str) -> Partition:
        with self._lock:
            partition = self._partitions.get(tenant_id)
            if partition is None:
                partition = self._partitions[tenant_id] = Partition(tenant_id, self._limits, self._snapshots)
                self._count(partition)
            self._partitions.move_to_end(tenant_id)
            return partition

    def _weigh(self, current: Partition) -> None:
        """Count a changed partition, and drop the least recently used others while the budget is exceeded."""
        with self._lock:
            if self._partitions.get(current.tenant_id) is not current:
                return  # dropped while it was in use
            self._count(current)
            self._partitions.move_to_end(current.tenant_id)
            while self._used > self._budget and len(self._partitions) > 1:
                _, dropped = self._partitions.popitem(last=False)
                self._used -= dropped.counted

    def _count(self, partition: Partition) -> None:
        size = partition.nbytes
        self._used += size - partition.counted
        partition.counted = size


def _counts(conn: "SqliteConnection") -> dict[tuple[str, Kind], int]:
    """About how many vectors each tenant has of each kind, counted in indexes only."""
    counts: dict[tuple[str, Kind], int] = {}
    for kind in KINDS:
        for sign, where in ((1, "TRUE"), (-1, f"NOT ({KIND[kind].at_hand})")):
            grouped = f"SELECT tenant_id, COUNT(*) FROM {KIND[kind].table} AS m WHERE {where} GROUP BY tenant_id"
            for tenant_id, rows in conn.raw.execute(grouped):
                counts[tenant_id, kind] = counts.get((tenant_id, kind), 0) + sign * rows
    return counts
