"""What the tests of large vector indexes share: vectors without ties, and a memory whose index is large soon."""

import zlib
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy

from tulving import Memory, MemoryModuleConfig, NewEpisode
from tulving.settings import VectorsConfig
from tulving.storage.sqlite.matrix import Compared, Matrix, Nearest, Ranking
from tulving.testing import WordEmbedder

SMALL = VectorsConfig(exact_rows=100, ef=50)
"""So a graph is searched from 200 rows on: fewer are compared faster."""
CONFIG = MemoryModuleConfig(vectors=SMALL)
ROWS = 260
NOW = "2026-01-01T00:00:00.000000+00:00"
WORDS = [f"word{number}" for number in range(60)]


class Stored(Matrix):
    """A matrix, and the rows that it is made of, as a database has them."""

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.rows: dict[str, tuple[str, str, bytes]] = {}
        self.read = 0
        """How many rows were read."""

    def put(self, id_: str, blob: bytes, created_at: str = NOW) -> None:
        self.rows[id_] = id_, created_at, blob
        super().put(id_, blob)

    def drop(self, id_: str) -> None:
        self.rows.pop(id_, None)
        super().drop(id_)

    def compared(self, query: Any) -> Compared:
        def read(ids: Sequence[str]) -> list[tuple[str, str, bytes]]:
            self.read += len(ids)
            return [self.rows[id_] for id_ in ids if id_ in self.rows]

        return Compared(query, read)

    def ranked(self, query: Any) -> Ranking:
        return self.rank(self.compared(query))

    def nearest(self, query: Any) -> Nearest:
        return Nearest(self, Lock(), self.compared(query))


class Dense(WordEmbedder):
    """Each word has a direction that is similar to others: no two texts are equally similar to a third."""

    def embed(self, text: str | None) -> list[float]:
        words = (text or "").split()
        if not words:
            return [0.0] * self.dimension
        found = sum(numpy.random.default_rng(zlib.crc32(word.encode())).normal(size=self.dimension) for word in words)
        return (found / numpy.linalg.norm(found)).tolist()


def texts(count: int, seed: int = 1) -> list[str]:
    chance = numpy.random.default_rng(seed)
    return [" ".join(chance.choice(WORDS, 6, replace=False)) + f" n{seed}x{number}" for number in range(count)]


async def fill(memory: Memory, count: int = ROWS, seed: int = 1) -> list[Any]:
    """Store episodes and wait until the graph has them; their ids."""
    stored = await memory.store_episodes([NewEpisode(content=text, butler="b") for text in texts(count, seed)])
    await memory._env.store.ready()
    return [each.id for each in stored]


async def found(memory: Memory, query: str, limit: int = 10, **options: Any) -> list[tuple[str, float]]:
    hits = await memory.search(query, mode="semantic", limit=limit, **options)
    return [(str(hit.item.id), hit.parts["similarity"]) for hit in hits]


def matrix_of(memory: Memory, kind: Any = "episode") -> Matrix:
    (partition,) = memory._env.store.vectors._partitions.values()
    return partition.matrices[kind]


def linked(rows: Sequence[Any] | Any, limits: VectorsConfig = SMALL) -> Stored:
    """A matrix with these rows, and a graph that has them all."""
    matrix = Stored(len(rows[0]))
    for number, row in enumerate(rows):
        matrix.rows[f"{number:05}"] = f"{number:05}", NOW, row.astype("<f4").tobytes()
    matrix.load([[(id_, blob) for id_, _, blob in matrix.rows.values()]])
    matrix.resize(limits)
    while matrix.link():
        pass
    return matrix


def recall(matrix: Stored, queries: Any, count: int = 10) -> float:
    """How much of the exact answer the graph gives, where it is asked."""
    shares = []
    for query in queries:
        query = (query / numpy.linalg.norm(query)).astype("f4")
        nearest = matrix.nearest(query)
        found = {id_ for id_, _ in nearest.best(count)}
        assert nearest._all is None, "the graph has answered"
        exact = {id_ for id_, _ in matrix.ranked(query).best(count)}
        shares.append(len(exact & found) / count)
    return float(numpy.mean(shares))
