"""The vector index for SQLite: an in-memory cache per tenant, loaded from the rows and updated by their events.

The rows are the source of truth. Before each answer the cache reads which memories have changed since the last event it
has seen, in any process, so it needs no invalidation and can be dropped at any time. Imported rows may lack events, or
have events that exist already: imports are counted in the file, and after one the rows are read again.

Many memories of a kind get a graph (`hnsw.py`). A thread fills it in the background, and snapshots keep it.
"""

import logging
import math
import queue
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tulving.domain.model import KINDS, Kind
from tulving.extras import hint
from tulving.ports import UNOBSERVED, Finding, Observer
from tulving.settings import VectorsConfig
from tulving.storage.embeddings import active_number, active_version
from tulving.storage.kinds import KIND
from tulving.storage.sqlite import hnsw
from tulving.storage.sqlite.matrix import Compared, Nearest, Ranked, Reader
from tulving.storage.sqlite.partition import Partition, count_imports, embedder_of, last_event
from tulving.storage.sqlite.vector_snapshot import Snapshots

if TYPE_CHECKING:
    from tulving.storage.sqlite.connection import SqliteConnection

log = logging.getLogger("tulving")

BREATH = 0.0002
"""Seconds between two steps of building a graph, in which a waiting search gets its turn."""
WORTH_KEEPING = 100
"""When a store is closed, an index is kept if one of so many rows has changed: fewer are followed as fast by events."""


class VectorCache:
    """The cached partitions; the least recently used are dropped when they exceed the budget."""

    def __init__(
        self,
        budget: int,
        limits: VectorsConfig | None = None,
        snapshots: Snapshots | None = None,
        observer: Observer = UNOBSERVED,
    ) -> None:
        self._budget, self._observer = budget, observer
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
        readers: Mapping[Kind, Reader],
        vector: Sequence[float],
        version: int | None,
    ) -> dict[Kind, Ranked]:
        """All live memories of a tenant, of the kinds with a reader, by cosine similarity; empty for a zero vector."""
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
            for kind, read in readers.items():
                matrix, compared = partition.matrices[kind], Compared(query / length, read)
                graph = matrix.searchable
                rankings[kind] = Nearest(matrix, partition.lock, compared) if graph else matrix.rank(compared)
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
        embedder, imports = embedder_of(conn, active["number"] if active else None), count_imports(conn.raw)
        old = {
            reach.tenant_id
            for reach in self._snapshots.reaches()
            if (reach.embedder, reach.imports, (reach.seq, reach.event))
            != (embedder, imports, last_event(conn, reach.tenant_id))
        }
        large = {each.tenant_id for each in self._cached() if any(matrix.graph for matrix in each.matrices.values())}
        for partition in self._load(conn, old | large):
            partition.save(conn, worth=math.inf)

    def close(self) -> None:
        """Stop building."""
        with self._lock:
            self._closing.set()
        if self._builder is not None:
            self._to_build.put(None)
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
            notes.append(f"searches of many are faster with a graph: `{hint('hnsw')}`")
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
                if self._closing.is_set():  # nobody would build it, and who waits for it would wait for ever
                    return changed
                if self._builder is None:
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
            self._observer.note("lookup", cache="vectors", result="miss" if partition is None else "hit")
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
    """About how many vectors each tenant has of each kind, counted in indexes only: that of an archived episode lies in
    the archive."""
    count = "SELECT tenant_id, COUNT(*) FROM {} GROUP BY tenant_id"
    counts: dict[tuple[str, Kind], int] = {}
    for kind in KINDS:
        counts |= {(tenant_id, kind): rows for tenant_id, rows in conn.raw.execute(count.format(KIND[kind].table))}
    for tenant_id, rows in conn.raw.execute(count.format("episodes WHERE segment_id IS NOT NULL")):
        counts[tenant_id, "episode"] -= rows
    return counts
