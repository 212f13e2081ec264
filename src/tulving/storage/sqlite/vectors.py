"""The vector index for SQLite: an exact in-memory cache per tenant, loaded from the rows and updated by their events.

The rows are the source of truth. Before each answer the cache reads which memories have changed since the last event it
has seen, in any process, so it needs no invalidation and can be dropped at any time. Imported rows may lack events, or
have events that exist already: imports are counted in the file, and after one the rows are read again.
"""

import json
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tulving.domain.model import KINDS, Kind
from tulving.domain.ranking import SIMILARITY_DECIMALS
from tulving.errors import DamagedStore
from tulving.storage.embeddings import active_number
from tulving.storage.kinds import KIND

if TYPE_CHECKING:
    from tulving.storage.sqlite.connection import SqliteConnection

RELOAD_ABOVE = 5_000
SMALLEST_PARTITION = 4_096
"""The size in bytes that an empty partition is counted as."""
MOST_IMPORTS = 2**31 - 1
"""The largest `user_version`; the counter then starts again at 0."""


def mark_import(raw: sqlite3.Connection) -> None:
    """Count an import, in the transaction that imports rows."""
    raw.execute(f"PRAGMA user_version = {(_imports(raw) + 1) % MOST_IMPORTS}")


def _imports(raw: sqlite3.Connection) -> int:
    return raw.execute("PRAGMA user_version").fetchone()[0]


class Ranking:
    """All memories of one tenant and kind by similarity; only the requested part is sorted."""

    def __init__(self, ids: list[str], at: dict[str, int], born: Any, scores: Any) -> None:
        self._ids, self._at, self._born, self._scores = ids, at, born, scores

    def __len__(self) -> int:
        return len(self._ids)

    def of(self, ids: Iterable[str]) -> dict[str, float]:
        """The similarities of those of these memories that have a vector."""
        known = {id_: at for id_ in ids if (at := self._at.get(id_)) is not None}
        return dict(zip(known, self._scores[list(known.values())].tolist(), strict=True))

    def best(self, count: int, among: Collection[str] | None = None) -> list[tuple[str, float]]:
        """001-126: the most similar ones, best first; ties by newest, then lowest id."""
        import numpy

        ids = self._ids
        if among is not None:
            chosen = numpy.fromiter((id_ in among for id_ in ids), bool, len(ids)).nonzero()[0]
        else:
            chosen = numpy.arange(len(ids))
        surely, chosen = _greatest(self._scores, chosen, count)
        newest, chosen = _greatest(self._born, chosen, count - len(surely))
        chosen = numpy.concatenate([surely, newest, chosen])
        places = zip((-self._scores[chosen]).tolist(), (-self._born[chosen]).tolist(), chosen.tolist(), strict=True)
        best = sorted((score, age, ids[at]) for score, age, at in places)
        return [(id_, -score) for score, _, id_ in best[:count]]


def _greatest(values: Any, places: Any, count: int) -> tuple[Any, Any]:
    """The positions that are certainly among the `count` greatest, and those that tie for the last place."""
    import numpy

    if count >= len(places):
        return places, places[:0]
    # Negated: partitioning from the other end is slow when many values are equal (no similarity at all).
    negated = -values[places]
    edge = numpy.partition(negated, count - 1)[count - 1]
    return places[negated < edge], places[negated == edge]


class Matrix:
    """Unit vectors of one tenant and kind, with room to grow; a removed row is replaced by the last one."""

    def __init__(self, dimension: int) -> None:
        import numpy

        self.ids: list[str] = []
        self._at: dict[str, int] = {}
        self._rows = numpy.empty((0, dimension), numpy.float32)
        self._born = numpy.empty(0)

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self._born.nbytes

    def load(self, ids: list[str], born: list[str], blobs: list[bytes]) -> None:
        """Load all rows: ids, creation times, vectors."""
        import numpy

        self.ids = ids
        self._born = numpy.array([*map(_seconds, born)], float)
        self._at = {id_: at for at, id_ in enumerate(ids)}
        self._rows = self._unit(blobs)

    def put(self, id_: str, born: str, blob: bytes) -> None:
        import numpy

        row, seconds = self._unit([blob])[0], _seconds(born)
        at = self._at.get(id_)
        if at is None:
            at = len(self.ids)
            if at == len(self._rows):
                grown = numpy.empty((max(64, at * 3 // 2), self._rows.shape[1]), numpy.float32)
                grown[:at] = self._rows[:at]
                self._rows = grown
                self._born = numpy.resize(self._born, len(grown))
            self.ids.append(id_)
            self._at[id_] = at
        self._rows[at], self._born[at] = row, seconds

    def drop(self, id_: str) -> None:
        at = self._at.pop(id_, None)
        if at is None:
            return
        last = self.ids.pop()
        if last != id_:
            self.ids[at] = last
            self._at[last] = at
            self._rows[at], self._born[at] = self._rows[len(self.ids)], self._born[len(self.ids)]

    def content(self) -> dict[str, bytes]:
        return {id_: self._rows[at].tobytes() for id_, at in self._at.items()}

    def rank(self, query: Any) -> Ranking:
        import numpy

        # Not `@`: BLAS uses a thread per core, and they wait for each other on a busy machine.
        known = len(self.ids)
        similarities = numpy.vecdot(self._rows[:known], query).astype(float)
        # Adding zero turns -0.0 into 0.0.
        rounded = similarities.round(SIMILARITY_DECIMALS) + 0.0
        return Ranking(list(self.ids), dict(self._at), self._born[:known].copy(), rounded)

    def _unit(self, blobs: list[bytes]) -> Any:
        import numpy

        dimension = self._rows.shape[1]
        if any(len(blob) != 4 * dimension for blob in blobs):
            raise DamagedStore(f"a stored vector does not have {dimension} dimensions; `tulving verify` names it")
        rows = numpy.frombuffer(b"".join(blobs), "<f4").reshape(len(blobs), dimension)
        if not numpy.isfinite(rows).all():
            raise DamagedStore("a stored vector contains NaN or infinity; `tulving verify` names it")
        lengths = numpy.linalg.norm(rows.astype(numpy.float64), axis=1, keepdims=True)
        return (rows / numpy.where(lengths == 0, 1, lengths)).astype(numpy.float32)


def _seconds(moment: str) -> float:
    try:
        return datetime.fromisoformat(moment).timestamp()
    except (ValueError, TypeError) as error:
        raise DamagedStore(f"the database file is damaged: a stored time can't be read ({error})") from error


class Partition:
    """One tenant's vectors, as of the last event seen."""

    def __init__(self, tenant_id: str) -> None:
        self.tenant_id = tenant_id
        self.lock = threading.Lock()
        self.version: int | None = None
        self.imports = -1
        self.seen = -1
        self.matrices: dict[Kind, Matrix] = {}
        self.counted = 0

    @property
    def nbytes(self) -> int:
        """Its size; an empty partition counts too."""
        return SMALLEST_PARTITION + sum(matrix.nbytes for matrix in self.matrices.values())

    def catch_up(self, conn: "SqliteConnection", version: int, dimension: int) -> bool:
        """Apply what has changed since the last event seen; returns whether anything has."""
        (last,) = conn.raw.execute(
            "SELECT COALESCE(MAX(seq), 0) FROM memory_events WHERE tenant_id = ?", (self.tenant_id,)
        ).fetchone()
        imports = _imports(conn.raw)
        fresh = self.version == version and self.imports == imports
        if fresh and last <= self.seen:
            return False
        if fresh and last - self.seen <= RELOAD_ABOVE:
            self._follow(conn)
        else:
            self._load(conn, dimension)
        self.version, self.imports, self.seen = version, imports, last
        return True

    def _load(self, conn: "SqliteConnection", dimension: int) -> None:
        self.matrices = {kind: Matrix(dimension) for kind in KINDS}
        for kind in KINDS:
            rows = conn.raw.execute(
                f"SELECT id, created_at, embedding FROM {KIND[kind].table} AS m"
                f" WHERE tenant_id = ? AND {KIND[kind].in_use} AND embedding IS NOT NULL ORDER BY id",
                (self.tenant_id,),
            ).fetchall()
            self.matrices[kind].load(*([row[at] for row in rows] for at in range(3)))

    def _follow(self, conn: "SqliteConnection") -> None:
        changed: dict[Kind, list[str]] = {kind: [] for kind in KINDS}
        for kind, id_ in conn.raw.execute(
            "SELECT DISTINCT entity_type, entity_id FROM memory_events WHERE tenant_id = ? AND seq > ?",
            (self.tenant_id, self.seen),
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
                    self.matrices[kind].put(*live[id_])
                else:
                    self.matrices[kind].drop(id_)


class VectorCache:
    """The cached partitions; the least recently used are dropped when they exceed the budget."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._used = 0
        self._partitions: OrderedDict[str, Partition] = OrderedDict()
        self._lock = threading.Lock()

    def rank(
        self,
        conn: "SqliteConnection",
        tenant_id: str,
        kinds: Sequence[Kind],
        vector: Sequence[float],
        version: int | None,
    ) -> dict[Kind, Ranking]:
        """All live memories of a tenant by cosine similarity; empty for a zero vector."""
        import numpy

        number = active_number(conn, version, len(vector))
        query = numpy.asarray(vector, numpy.float32)
        length = numpy.linalg.norm(query)
        if not length:
            return {}
        partition = self._partition(tenant_id)
        with partition.lock:
            changed = partition.catch_up(conn, number, len(vector))
            rankings: dict[Kind, Ranking] = {}
            for kind in kinds:
                rankings[kind] = partition.matrices[kind].rank(query / length)
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
                    partition.catch_up(conn, version, dimension)
                    fresh = Partition(tenant_id)
                    fresh.catch_up(conn, version, dimension)
                    if partition.matrices[kind].content() != fresh.matrices[kind].content():
                        problems.append(f"the cached {kind} vectors of {tenant_id} differ from its rows")
                self._weigh(partition)
        return problems

    def _partition(self, tenant_id: str) -> Partition:
        with self._lock:
            partition = self._partitions.get(tenant_id)
            if partition is None:
                partition = self._partitions[tenant_id] = Partition(tenant_id)
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
