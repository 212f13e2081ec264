"""Embedders whose own cost does not count."""

from collections.abc import Sequence
from random import Random
from time import perf_counter

from tulving.ports import Embedder

DIMENSION = 256


class Constant:
    """Hands out vectors that were made before: the same time for any text, and next to none."""

    model, version, dimension, light = "bench-constant", "1", DIMENSION, True

    def __init__(self) -> None:
        random = Random(3)
        self._vectors = [[random.gauss(0, 1) for _ in range(DIMENSION)] for _ in range(512)]
        self._next = 0

    def unready(self) -> None:
        """It always can embed."""

    def embed(self, text: str | None) -> list[float]:
        self._next = (self._next + 1) % 512
        return self._vectors[self._next]

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        return [self.embed(text) for text in texts]


class Warm:
    """Another embedder that knows some vectors by heart. `seconds` is the time spent on the others."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._known: dict[str | None, list[float]] = {}
        self.model, self.version, self.dimension, self.light = inner.model, inner.version, inner.dimension, inner.light
        self.seconds = 0.0

    def warm(self, texts: Sequence[str]) -> None:
        """From now on these texts cost nothing."""
        for text in texts:
            self._known[text] = self._inner.embed(text)

    def unready(self) -> str | None:
        return self._inner.unready()

    def embed(self, text: str | None) -> list[float]:
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        if all(text in self._known for text in texts):
            return [self._known[text] for text in texts]
        begun = perf_counter()
        vectors = self._inner.embed_batch(texts)
        self.seconds += perf_counter() - begun
        return vectors
