"""What the tests of large vector indexes share: vectors without ties, and a memory whose index is large soon."""

import zlib
from collections.abc import Sequence
from typing import Any

import numpy

from tulving import Memory, MemoryModuleConfig, NewEpisode
from tulving.settings import VectorsConfig
from tulving.storage.sqlite.matrix import Matrix
from tulving.testing import WordEmbedder

SMALL = VectorsConfig(exact_rows=100, ef=50)
"""So a graph is searched from 200 rows on: fewer are compared faster."""
CONFIG = MemoryModuleConfig(vectors=SMALL)
ROWS = 260
NOW = "2026-01-01T00:00:00.000000+00:00"
WORDS = [f"word{number}" for number in range(60)]


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


def linked(rows: Sequence[Any] | Any, limits: VectorsConfig = SMALL) -> Matrix:
    """A matrix with these rows, and a graph that has them all."""
    matrix = Matrix(len(rows[0]))
    ids = [f"{number:05}" for number in range(len(rows))]
    matrix.load(ids, [NOW] * len(ids), [row.astype("<f4").tobytes() for row in rows])
    matrix.resize(limits)
    while matrix.link():
        pass
    return matrix


def recall(matrix: Matrix, queries: Any, count: int = 10) -> float:
    """How much of the exact answer the graph gives, where it is asked."""
    shares = []
    for query in queries:
        query = (query / numpy.linalg.norm(query)).astype("f4")
        near = matrix.near(query, count)
        assert near is not None
        exact = {id_ for id_, _ in matrix.rank(query).best(count)}
        shares.append(len(exact & {id_ for id_, _ in near.best(count)}) / count)
    return float(numpy.mean(shares))
