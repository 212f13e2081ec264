"""The vectors of one tenant and kind in memory, compared one by one or, if they are many, through a graph."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from tulving.errors import DamagedStore
from tulving.storage.sqlite.hnsw import Graph
from tulving.storage.sqlite.vector_codes import bounds, reduced, similarities, unit_rows

if TYPE_CHECKING:
    from tulving.settings import VectorsConfig

LINKED_AT_ONCE = 8
"""How many vectors are added to a graph while searches wait: about 5 ms."""
DEAD_SHARE = 4
"""A graph is built anew once this part of its places is of removed vectors."""
BYTES_PER_ID = 200
"""What the id of a row takes: its text, its place, and their entries."""


Reader = Callable[[Sequence[str]], Sequence[tuple[str, str, bytes]]]
"""Gives the ids, creation times and vectors of those of some memories that are stored."""


class Ranked(Protocol):
    """The memories of one tenant and kind by similarity to a query."""

    def __len__(self) -> int: ...

    def of(self, ids: Iterable[str]) -> dict[str, float]: ...

    def best(
        self, count: int, among: Collection[str] | None = None, alike: bool = False
    ) -> list[tuple[str, float]]: ...


class Compared:
    """The memories that were compared with a query of length 1: their similarities and creation times."""

    def __init__(self, query: Any, read: Reader) -> None:
        self.query = query
        self.similarity: dict[str, float] = {}
        self.created_at: dict[str, str] = {}
        self._read = read

    def compare(self, ids: Iterable[str]) -> list[str]:
        """Those of these memories that are stored. Their similarities are known from now on."""
        ids, known = list(ids), self.similarity
        if unknown := [id_ for id_ in ids if id_ not in known]:
            rows = self._read(unknown)
            read, times, blobs = zip(*rows, strict=True) if rows else ((), (), ())
            _check(times)
            known.update(zip(read, similarities(blobs, self.query).tolist(), strict=True))
            self.created_at.update(zip(read, times, strict=True))
        return [id_ for id_ in ids if id_ in known]

    def of(self, ids: Iterable[str]) -> dict[str, float]:
        return {id_: self.similarity[id_] for id_ in self.compare(ids)}


class Ranking:
    """All memories of one tenant and kind, with the least and the greatest similarity that each can have; only those
    that can belong to the requested part are compared and sorted."""

    def __init__(self, ids: list[str], at: dict[str, int], least: Any, greatest: Any, compared: Compared) -> None:
        self._ids, self._at, self._least, self._greatest, self._compared = ids, at, least, greatest, compared

    def __len__(self) -> int:
        return len(self._ids)

    def of(self, ids: Iterable[str]) -> dict[str, float]:
        """The similarities of those of these memories that have a vector."""
        return self._compared.of(id_ for id_ in ids if id_ in self._at)

    def has_below(self, similarity: float, count: int) -> bool:
        """Whether one of the first `count` is less similar than that."""
        if (self._greatest[:count] < similarity).any():
            return True
        unsure = (self._least[:count] < similarity).nonzero()[0]
        return any(each < similarity for each in self.of(self._ids[at] for at in unsure).values())

    def best(self, count: int, among: Collection[str] | None = None, alike: bool = False) -> list[tuple[str, float]]:
        """001-126: the most similar ones, best first; ties by newest, then lowest id. With `alike` only those that have
        any similarity."""
        import numpy

        ids, least, greatest = self._ids, self._least, self._greatest
        if among is not None:
            places = [at for id_ in among if (at := self._at.get(id_)) is not None]
            ids, least, greatest = [ids[at] for at in places], least[places], greatest[places]
        edge = -numpy.inf
        if count < len(ids):
            # Negated: partitioning from the other end is slow when many values are equal (no similarity at all).
            negated = -least
            negated.partition(count - 1)
            edge = -negated[count - 1]
        possible = greatest >= edge
        if alike:
            possible &= greatest > 0
        best = sorted(self._compared.compare([ids[at] for at in possible.nonzero()[0].tolist()]))
        best.sort(key=self._compared.created_at.__getitem__, reverse=True)
        similarity = self._compared.similarity
        best.sort(key=similarity.__getitem__, reverse=True)
        return [(id_, similarity[id_]) for id_ in best[:count] if similarity[id_] > 0 or not alike]


class Nearest:
    """The same as a `Ranking`, looked up in the graph when it is asked for. The matrix may have changed by then: what
    is found is compared with the rows anyway."""

    def __init__(self, matrix: "Matrix", lock: Lock, compared: Compared) -> None:
        self._matrix, self._lock, self._compared = matrix, lock, compared
        self._all: Ranking | None = None

    def __len__(self) -> int:
        return len(self._matrix.ids)

    def of(self, ids: Iterable[str]) -> dict[str, float]:
        with self._lock:
            known = [self._matrix.ids[at] for at in self._matrix.places(ids)]
        return self._compared.of(known)

    def best(self, count: int, among: Collection[str] | None = None, alike: bool = False) -> list[tuple[str, float]]:
        """A filter is applied before, not after: what passes it is compared exactly. Without one the graph answers,
        unless only all can tell: too many are wanted, others may be as similar as the last one, or the wanted ones are
        not similar at all, like those that are not in the graph."""
        if among is not None:
            with self._lock:
                passed = self._matrix.rank(self._compared, self._matrix.places(among))
            return passed.best(count, alike=alike)
        if self._all is None:
            with self._lock:
                near = self._matrix.near(self._compared, count)
            if near is not None:
                best = near[0].best(count)
                if len(best) == count and best[-1][1] > 0 and near[0].has_below(best[-1][1], near[1]):
                    return best
            with self._lock:
                self._all = self._matrix.rank(self._compared)
        return self._all.best(count, alike=alike)


class Matrix:
    """Unit vectors of one tenant and kind, reduced, with room to grow; a removed row is replaced by the last one.

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
        self._lent = False
        """Whether a ranking has `ids` and `_at`, which then must not change any more."""
        self._codes = numpy.empty((0, dimension), numpy.int8)
        self._steps = numpy.empty(0, numpy.float32)
        self._slack = numpy.empty(0, numpy.float32)
        self._linked = numpy.empty(0, bool)

    @property
    def nbytes(self) -> int:
        arrays = (self._codes, self._steps, self._slack, self._linked)
        graph = self.graph.nbytes if self.graph else 0
        return sum(array.nbytes for array in arrays) + len(self.ids) * BYTES_PER_ID + graph

    @property
    def linked(self) -> int:
        """How many rows the graph finds, or need not find because they are zero."""
        return int(self._linked[: len(self.ids)].sum())

    def load(self, blocks: Iterable[Sequence[tuple[str, bytes]]]) -> None:
        """Load all rows: ids and vectors, some at a time. A graph is kept, with what has not changed."""
        import numpy

        if self.graph is not None:
            gone = set(self.ids)
            for block in blocks:
                for id_, blob in block:
                    self.put(id_, blob)
                    gone.discard(id_)
            for id_ in gone:
                self.drop(id_)
            return
        dimension = self._codes.shape[1]
        ids: list[str] = []
        parts = [reduced(unit_rows([], dimension))]
        for block in blocks:
            ids += [id_ for id_, _ in block]
            parts.append(reduced(unit_rows([blob for _, blob in block], dimension)))
        self._codes, self._steps, self._slack = map(numpy.concatenate, zip(*parts, strict=True))
        self._hold(ids)
        self._linked = numpy.zeros(len(ids), bool)

    def put(self, id_: str, blob: bytes) -> None:
        (codes,), (step,), (slack,) = reduced(unit_rows([blob], self._codes.shape[1]))
        at = self._at.get(id_)
        if at is None:
            at = len(self.ids)
            if at == len(self._codes):
                arrays = (self._codes, self._steps, self._slack, self._linked)
                self._codes, self._steps, self._slack, self._linked = map(_with_room, arrays)
            self._own()
            self.ids.append(id_)
            self._at[id_] = at
        elif self._linked[at]:
            if self._steps[at] == step and (self._codes[at] == codes).all():
                self._slack[at] = slack
                return
            self._unlink(at)
        self._codes[at], self._steps[at], self._slack[at] = codes, step, slack
        self._linked[at] = False
        self.changes += 1

    def drop(self, id_: str) -> None:
        at = self._at.get(id_)
        if at is None:
            return
        self._own()
        self._unlink(at)
        self.changes += 1
        del self._at[id_]
        last = self.ids.pop()
        if last != id_:
            old = len(self.ids)
            self.ids[at] = last
            self._at[last] = at
            for array in (self._codes, self._steps, self._slack, self._linked):
                array[at] = array[old]
            if self.graph and self._linked[old]:
                self.graph.move(old, at)

    def content(self) -> dict[str, bytes]:
        return {id_: self._codes[at].tobytes() + self._steps[at].tobytes() for id_, at in self._at.items()}

    def rank(self, compared: Compared, places: Any = None) -> Ranking:
        """All memories, or those at these places, between what similarities to the query they are."""
        chosen = slice(len(self.ids)) if places is None else places
        least, greatest = bounds(self._codes[chosen], self._steps[chosen], self._slack[chosen], compared.query)
        if places is None:
            self._lent = True
            return Ranking(self.ids, self._at, least, greatest, compared)
        ids = [self.ids[at] for at in places]
        return Ranking(ids, {id_: at for at, id_ in enumerate(ids)}, least, greatest, compared)

    def places(self, ids: Iterable[str]) -> list[int]:
        """The places of those of these memories that are here."""
        return [at for id_ in ids if (at := self._at.get(id_)) is not None]

    # -- the graph -------------------------------------------------------------------------------------------------

    def resize(self, limits: "VectorsConfig") -> bool:
        """Have a graph if there are many rows, a new one if much of it is dead; whether rows are to be linked."""
        known = len(self.ids)
        if known > limits.exact_rows:
            if self.graph is None or self.graph.dead * DEAD_SHARE > known:
                self.graph = Graph(self._codes.shape[1], limits.ef)
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
        # A graph has no place for what is not similar to anything.
        meant = chosen[self._steps[chosen] > 0]
        if len(meant):
            self.graph.add(meant, self._codes[meant] * self._steps[meant][:, None])
        self._linked[chosen] = True
        self.changes += len(chosen)
        return len(loose) > len(chosen)

    @property
    def searchable(self) -> bool:
        """Whether a search through the graph is worth it: most rows are linked."""
        return self.graph is not None and 2 * self.linked > len(self.ids)

    def near(self, compared: Compared, count: int) -> tuple[Ranking, int] | None:
        """A ranking of more than `count` from the graph, and of what it has not; how many are from the graph. None if
        that would be most of it."""
        import numpy

        wanted = max(4 * count, self.graph.ef) if self.graph else 0
        if self.graph is None or 4 * wanted > self.graph.size:
            return None
        found = self.graph.nearest(compared.query, wanted)
        if len(found) < wanted:
            return None
        return self.rank(compared, numpy.concatenate([found, self._loose()])), wanted

    def misplaced(self) -> bool:
        """Whether the graph has other places than the rows that are linked."""
        known = len(self.ids)
        places = (self._linked[:known] & (self._steps[:known] > 0)).nonzero()[0]
        return not self.graph.holds(places) if self.graph else bool(self.linked)

    def parts(self) -> dict[str, Any]:
        """All of it, for a snapshot."""
        known = len(self.ids)
        return {
            "codes": self._codes[:known],
            "steps": self._steps[:known].astype("<f4"),
            "slack": self._slack[:known].astype("<f4"),
            "linked": self._linked[:known].copy(),
            "ids": json.dumps(self.ids).encode(),
            "graph": self.graph.image() if self.graph else b"",
        }

    def restore(self, parts: Mapping[str, Any], ef: int) -> None:
        """Take over what `parts` gave."""
        import numpy

        dimension = self._codes.shape[1]
        self._hold(json.loads(bytes(parts["ids"])))
        self._codes = numpy.frombuffer(parts["codes"], numpy.int8).reshape(len(self.ids), dimension)
        self._steps = numpy.frombuffer(parts["steps"], "<f4")
        self._slack = numpy.frombuffer(parts["slack"], "<f4")
        self._linked = numpy.frombuffer(parts["linked"], bool)
        self.graph = Graph(dimension, ef, parts["graph"])

    def _loose(self) -> Any:
        return (~self._linked[: len(self.ids)]).nonzero()[0]

    def _unlink(self, at: int) -> None:
        if self.graph and self._linked[at]:
            self.graph.remove(at)
        self._linked[at] = False

    def _hold(self, ids: list[str]) -> None:
        self.ids, self._at = ids, {id_: at for at, id_ in enumerate(ids)}
        self._lent = False

    def _own(self) -> None:
        if self._lent:
            self.ids, self._at = self.ids.copy(), self._at.copy()
            self._lent = False


def _check(times: Iterable[str]) -> None:
    """Stored times order as they are, if they are times."""
    try:
        list(map(datetime.fromisoformat, times))
    except (ValueError, TypeError) as error:
        raise DamagedStore(f"the database file is damaged: a stored time can't be read ({error})") from error


def _with_room(array: Any) -> Any:
    import numpy

    grown = numpy.empty((max(64, len(array) * 3 // 2), *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown
