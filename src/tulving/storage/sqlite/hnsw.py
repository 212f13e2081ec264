"""A graph of vectors (HNSW, by usearch) that finds the nearest ones without comparing all.

Its vectors are reduced to a byte a number, which is a quarter of the memory. So it only proposes candidates, to be
compared exactly; with these parameters and MiniLM it misses less than one in a hundred of the ten nearest.
"""

import ctypes
import struct
from contextlib import suppress
from functools import cache
from typing import Any

from tulving.extras import is_installed

CONNECTIVITY = 16
EXPANSION_ADD = 200
_SHAPE = struct.Struct("<II")


@cache
def available() -> bool:
    """Whether the extra `hnsw` is installed."""
    return is_installed("hnsw")


@cache
def _index_type() -> Any:
    """usearch 2.26 brings parts of the C++ library of its own. Unless the one of the system is there before them, they
    take its place, and onnxruntime crashes when it is imported later."""
    with suppress(OSError):
        ctypes.CDLL("libstdc++.so.6", mode=ctypes.RTLD_GLOBAL)
    from usearch.index import Index

    return Index


class Graph:
    """Vectors by their places in a matrix. Built by one thread, so that the same vectors make the same graph."""

    def __init__(self, dimension: int, ef: int, image: bytearray | None = None) -> None:
        self._dimension, self.ef = dimension, ef
        self._index = _index_type()(
            ndim=dimension,
            metric="cos",
            dtype="i8",
            connectivity=CONNECTIVITY,
            expansion_add=EXPANSION_ADD,
            expansion_search=ef,
        )
        self.dead = 0
        """How many places hold a vector that was removed; a new vector takes one of them first."""
        if image is not None:
            self._index.load(image)
            self.dead = _SHAPE.unpack_from(image)[0] - self.size

    @property
    def size(self) -> int:
        return self._index.size

    @property
    def nbytes(self) -> int:
        return self._index.memory_usage

    def add(self, places: Any, rows: Any) -> None:
        self._index.add(places, rows, threads=1)
        self.dead = max(0, self.dead - len(places))

    def remove(self, place: int) -> None:
        """Whatever place it is: the entry, the last one, one that is not there."""
        self.dead += int(self._index.remove(place))

    def move(self, place: int, to: int) -> None:
        self._index.rename(place, to)

    def nearest(self, query: Any, count: int) -> Any:
        """About the nearest places, in no order that counts."""
        return self._index.search(query, count, threads=1).keys.astype(int)

    def holds(self, places: Any) -> bool:
        """Whether it has these places and no other."""
        return len(places) == self.size and bool(self._index.contains(places).all())

    def image(self) -> bytearray:
        """All of it as bytes. usearch leaves a removed vector in its place: here it is overwritten with zeros, and only
        leads to others from then on."""
        import numpy

        image: Any = self._index.save()
        if not self.dead:
            return image
        count, width = _SHAPE.unpack_from(image)
        if width != self._dimension or count != self.size + self.dead:
            raise ValueError("this version of usearch writes its vectors in a way that Tulving does not know")
        kept = {row.tobytes() for row in self._index.get(numpy.asarray(self._index.keys))}
        rows = numpy.frombuffer(image, numpy.int8, count * width, _SHAPE.size).reshape(count, width)
        for row in rows:
            if row.tobytes() not in kept:
                row[:] = 0
        return image
