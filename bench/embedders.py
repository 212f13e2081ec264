"""Embedders whose own cost does not count."""

import hashlib
from collections.abc import Sequence
from time import perf_counter

import numpy

from tulving import get_embedding_engine
from tulving.ports import Embedder


def embedder_named(name: str) -> Embedder:
    """One of ours, or `topics`."""
    return Topics() if name == "topics" else get_embedding_engine(name)


class Constant:
    """Hands out unit vectors that were made before: the same time for any text, and next to none."""

    model, version, dimension, light = "bench-constant", "1", 384, True

    def __init__(self) -> None:
        rows = numpy.random.default_rng(3).standard_normal((512, self.dimension))
        self._vectors = (rows / numpy.linalg.norm(rows, axis=1, keepdims=True)).tolist()
        self._next = 0

    def unready(self) -> None:
        """It always can embed."""

    def embed(self, text: str | None) -> list[float]:
        self._next = (self._next + 1) % 512
        return self._vectors[self._next]

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        return [self.embed(text) for text in texts]


class Topics:
    """Vectors with the structure that those of a language model have: topics, some of them much more frequent than
    others, a few directions in which texts of a topic differ, and noise. The same text has the same vector."""

    model, version, dimension, light = "bench-topics", "1", 384, True
    _topics, _latent, _patterns = 400, 24, 4096

    def __init__(self) -> None:
        random = numpy.random.default_rng(5)
        self._centres = random.standard_normal((self._topics, self._latent))
        self._spread = random.standard_normal((self._patterns, self._latent)) * 0.5
        self._noise = random.standard_normal((self._patterns, self.dimension)) * 0.25
        self._directions = random.standard_normal((self._latent, self.dimension)) / self._latent**0.5
        weights = 1 / numpy.arange(1, self._topics + 1)
        self._shares = numpy.cumsum(weights) / weights.sum()

    def unready(self) -> None:
        """It always can embed."""

    def embed(self, text: str | None) -> list[float]:
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        return self.matrix(texts).tolist()

    def matrix(self, texts: Sequence[str | None]) -> numpy.ndarray:
        digests = b"".join(hashlib.blake2b((text or "").encode(), digest_size=8).digest() for text in texts)
        numbers = numpy.frombuffer(digests, "<u2").reshape(-1, 4)
        topics = numpy.searchsorted(self._shares, numbers[:, 0] / 2**16)
        latent = self._centres[topics] + self._spread[numbers[:, 1] % self._patterns]
        rows = latent @ self._directions + self._noise[numbers[:, 2] % self._patterns]
        return (rows / numpy.linalg.norm(rows, axis=1, keepdims=True)).astype(numpy.float32)


class Warm:
    """Another embedder that knows some vectors by heart. `seconds` is the time spent on the others."""

    def __init__(self, inner: Embedder, light: bool | None = None) -> None:
        self._inner = inner
        self._known: dict[str | None, list[float]] = {}
        self.model, self.version, self.dimension = inner.model, inner.version, inner.dimension
        self.light = inner.light if light is None else light
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
