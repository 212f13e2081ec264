"""The vectors of one tenant and kind in memory, compared one by one or, if they are many, through a graph."""

import json
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from tulving.domain.ranking import SIMILARITY_DECIMALS
from tulving.errors import DamagedStore
from tulving.storage.sqlite.hnsw import Graph

if TYPE_CHECKING:
    from tulving.settings import VectorsConfig

LINKED_AT_ONCE = 8
"""How many vectors are added to a graph while searches wait: about 5 ms."""
DEAD_SHARE = 4
"""A graph is built anew once this part of its places is of removed vectors."""


class Ranked(Protocol):
    """The memories of one tenant and kind by similarity to a query."""

    def __len__(self) -> int: ...

    def of(self, ids: Iterable[str]) -> dict[str, float]: ...

    def best(self, count: int, among: Collection[str] | None = None) -> list[tuple[str, float]]: ...


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

    def lowest(self, count: int) -> float:
        """The lowest similarity of the first `count`."""
        return float(self._scores[:count].min(initial=1.0))

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


class Nearest:
    """The same as a `Ranking`, looked up in the graph when it is asked for. The matrix may have changed by then: what
    is found is compared with the rows anyway."""

    def __init__(self, matrix: "Matrix", lock: Lock, query: Any) -> None:
        self._matrix, self._lock, self._query = matrix, lock, query
        self._exact: Ranking | None = None

    def __len__(self) -> int:
        return len(self._matrix.ids)

    def of(self, ids: Iterable[str]) -> dict[str, float]:
        ids = list(ids)
        with self._lock:
            return self._matrix.rank(self._query, self._matrix.places(ids)).of(ids)

    def best(self, count: int, among: Collection[str] | None = None) -> list[tuple[str, float]]:
        """A filter is applied before, not after: what passes it is compared exactly."""
        with self._lock:
            if among is not None:
                return self._matrix.rank(self._query, self._matrix.places(among)).best(count)
            ranking = self._exact if self._exact is not None else self._matrix.near(self._query, count)
            if ranking is None:
                ranking = self._exact = self._matrix.rank(self._query)
        return ranking.best(count)


class Matrix:
    """Unit vectors of one tenant and kind, with room to grow; a removed row is replaced by the last one.

    A large one has a graph, which another thread fills bit by bit (`link`). A row that is not linked yet is compared
    exactly in each search, so the graph need not be complete, and a change costs a search nothing.
    """

    def __init__(self, dimension: int) -> None:
        import numpy

        self.ids: list[str] = []
        self.graph: Graph | None = None
        self.changes = 0
        """Of rows and links, since the last snapshot."""
        self._at: dict[str, int] = {}
        self._rows = numpy.empty((0, dimension), numpy.float32)
        self._born = numpy.empty(0)
        self._linked = numpy.empty(0, bool)

    @property
    def nbytes(self) -> int:
        graph = self.graph.nbytes if self.graph else 0
        return self._rows.nbytes + self._born.nbytes + self._linked.nbytes + graph

    @property
    def linked(self) -> int:
        """How many rows the graph finds, or need not find because they are zero."""
        return int(self._linked[: len(self.ids)].sum())

    def load(self, ids: list[str], born: list[str], blobs: list[bytes]) -> None:
        """Load all rows: ids, creation times, vectors. A graph is kept, with what has not changed."""
        import numpy

        if self.graph is not None:
            for id_ in self._at.keys() - set(ids):
                self.drop(id_)
            for row in zip(ids, born, blobs, strict=True):
                self.put(*row)
            return
        self.ids = ids
        self._born = numpy.array([*map(_seconds, born)], float)
        self._at = {id_: at for at, id_ in enumerate(ids)}
        self._rows = self._unit(blobs)
        self._linked = numpy.zeros(len(ids), bool)

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
                self._linked = numpy.resize(self._linked, len(grown))
            self.ids.append(id_)
            self._at[id_] = at
        elif self._linked[at]:
            if (self._rows[at] == row).all():
                self._born[at] = seconds
                return
            self._unlink(at)
        self._rows[at], self._born[at], self._linked[at] = row, seconds, False
        self.changes += 1

    def drop(self, id_: str) -> None:
        at = self._at.pop(id_, None)
        if at is None:
            return
        self._unlink(at)
        self.changes += 1
        last = self.ids.pop()
        if last != id_:
            old = len(self.ids)
            self.ids[at] = last
            self._at[last] = at
            self._rows[at], self._born[at] = self._rows[old], self._born[old]
            self._linked[at] = self._linked[old]
            if self.graph and self._linked[old]:
                self.graph.move(old, at)

    def content(self) -> dict[str, bytes]:
        return {id_: self._rows[at].tobytes() for id_, at in self._at.items()}

    def rank(self, query: Any, places: Any = slice(None)) -> Ranking:
        """All memories, or those at these places, each compared with the query."""
        import numpy

        known = len(self.ids)
        whole = isinstance(places, slice)
        # Not `@`: BLAS uses a thread per core, and they wait for each other on a busy machine.
        similarities = numpy.vecdot(self._rows[:known][places], query).astype(float)
        # Adding zero turns -0.0 into 0.0.
        rounded = similarities.round(SIMILARITY_DECIMALS) + 0.0
        ids = list(self.ids) if whole else [self.ids[at] for at in places]
        at = dict(self._at) if whole else {id_: at for at, id_ in enumerate(ids)}
        return Ranking(ids, at, self._born[:known][places].copy(), rounded)

    def places(self, ids: Iterable[str]) -> list[int]:
        """The places of those of these memories that are here."""
        return [at for id_ in ids if (at := self._at.get(id_)) is not None]

    # -- the graph -------------------------------------------------------------------------------------------------

    def resize(self, limits: "VectorsConfig") -> bool:
        """Have a graph if there are many rows, a new one if much of it is dead; whether rows are to be linked."""
        known = len(self.ids)
        if known > limits.exact_rows:
            if self.graph is None or self.graph.dead * DEAD_SHARE > known:
                self.graph = Graph(self._rows.shape[1], limits.ef)
                self._linked[:] = False
        elif known * 2 <= limits.exact_rows:  # not at once, or it would come and go with each row
            self.graph = None
            self._linked[:] = False
        return self.graph is not None and self.linked < known

    def link(self) -> bool:
        """Add some rows to the graph; whether there are more."""
        loose = self._loose()
        if self.graph is None or not len(loose):
            return False
        chosen = loose[:LINKED_AT_ONCE]
        rows = self._rows[chosen]
        # A graph has no place for what is not similar to anything.
        meant = rows.any(axis=1)
        if meant.any():
            self.graph.add(chosen[meant], rows[meant])
        self._linked[chosen] = True
        self.changes += len(chosen)
        return len(loose) > len(chosen)

    @property
    def searchable(self) -> bool:
        """Whether a search through the graph is worth it: most rows are linked."""
        return self.graph is not None and 2 * self.linked > len(self.ids)

    def near(self, query: Any, count: int) -> Ranking | None:
        """A ranking with the best `count`, from the graph. None if only all can tell: too many are wanted, others may
        be as similar as the last one, or the wanted ones are not similar at all, like those that are not in the graph.
        """
        import numpy

        wanted = max(4 * count, self.graph.ef) if self.graph else 0
        if self.graph is None or 4 * wanted > self.graph.size:
            return None
        found = self.graph.nearest(query, wanted)
        if len(found) < wanted:
            return None
        ranking = self.rank(query, numpy.concatenate([found, self._loose()]))
        edge = ranking.lowest(len(found))
        best = ranking.best(count)
        return ranking if len(best) == count and best[-1][1] > max(edge, 0) else None

    def misplaced(self) -> bool:
        """Whether the graph has other places than the rows that are linked."""
        known = len(self.ids)
        places = (self._linked[:known] & self._rows[:known].any(axis=1)).nonzero()[0]
        return not self.graph.holds(places) if self.graph else bool(self.linked)

    def parts(self) -> dict[str, Any]:
        """All of it, for a snapshot."""
        known = len(self.ids)
        return {
            "rows": self._rows[:known].astype("<f4", copy=False),
            "born": self._born[:known].astype("<f8"),
            "linked": self._linked[:known].copy(),
            "ids": json.dumps(self.ids).encode(),
            "graph": self.graph.image() if self.graph else b"",
        }

    def restore(self, parts: Mapping[str, Any], ef: int) -> None:
        """Take over what `parts` gave."""
        import numpy

        dimension = self._rows.shape[1]
        self.ids = json.loads(bytes(parts["ids"]))
        self._at = {id_: at for at, id_ in enumerate(self.ids)}
        self._rows = numpy.frombuffer(parts["rows"], "<f4").reshape(len(self.ids), dimension)
        self._born = numpy.frombuffer(parts["born"], "<f8")
        self._linked = numpy.frombuffer(parts["linked"], bool)
        self.graph = Graph(dimension, ef, parts["graph"])

    def _loose(self) -> Any:
        return (~self._linked[: len(self.ids)]).nonzero()[0]

    def _unlink(self, at: int) -> None:
        if self.graph and self._linked[at]:
            self.graph.remove(at)
        self._linked[at] = False

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
