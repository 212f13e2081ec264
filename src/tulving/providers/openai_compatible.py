"""An embedder behind `POST /v1/embeddings`, as OpenAI, vLLM, TEI, Ollama, llama.cpp and others offer it."""

import hashlib
from collections.abc import Sequence
from typing import Any

from tulving.domain.vectors import unit
from tulving.errors import EmbedderUnavailable, InvalidInput
from tulving.providers.json_endpoint import JsonEndpoint, Refused, address, by_index, required

LARGEST = 16_000
"""pgvector's limit of dimensions."""
QUERY_RETRIES = 1
"""A person waits for a search, which also works without the vector."""
SHORT = 500
"""A text of so many characters is not too long for any model."""


class OpenAiCompatible:
    """The vectors of a remote model, scaled to length 1. Whatever it answers wrongly makes it unavailable, so that
    memories are kept and get their vectors once it is repaired.

    A given `dimension` is asked for, which not every model allows. Otherwise it is that of the first answer.
    """

    light: bool = False

    def __init__(
        self,
        *,
        dimension: int | None,
        url: str,
        model: str,
        key_variable: str | None,
        batch_size: int,
        max_characters: int,
        timeout: float,
        retries: int,
        query_prefix: str,
        document_prefix: str,
    ) -> None:
        required("endpoint", url=url, model=model)
        if dimension is not None and not 1 <= dimension <= LARGEST:
            raise InvalidInput("dimension", f"{dimension!r} can't be used", f"1 to {LARGEST}")
        self.model, self.dimension = model, dimension or 0
        # The prefix is part of what is embedded; the address is not, so that a model can move to another server.
        prefix_digest = hashlib.sha256(document_prefix.encode()).hexdigest()[:8]
        self.version = f"endpoint-{prefix_digest}" if document_prefix else "endpoint"
        self._asked = {"dimensions": dimension} if dimension else {}
        self._batch_size, self._max_characters, self._retries = batch_size, max_characters, retries
        self._query_prefix, self._document_prefix = query_prefix, document_prefix
        self._url = address(url, "embeddings")
        self._endpoint = JsonEndpoint("endpoint", self._url, key_variable, timeout, EmbedderUnavailable)

    def unready(self) -> str | None:
        """Whether the key is missing. The service is not asked: it may be slow, and fail at any time."""
        return self._endpoint.unready()

    def measure(self, recorded: int | None) -> None:
        """Set the dimension."""
        try:
            self.dimension = self.dimension or recorded or len(self.embed("probe"))
        except EmbedderUnavailable as error:
            advice = "the dimension of its vectors is not known yet: start it, or set `dimension`"
            raise EmbedderUnavailable(f"{error}; {advice}") from error

    def embed(self, text: str | None) -> list[float]:
        """The vector of a text. None counts as a space."""
        return self._vectors([text], self._document_prefix, QUERY_RETRIES)[0]

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        """One vector per text, in their order."""
        return self._vectors(texts, self._document_prefix, self._retries)

    def embed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of queries, which get a prefix of their own."""
        return self._vectors(texts, self._query_prefix, QUERY_RETRIES)

    def _vectors(self, texts: Sequence[str | None], prefix: str, retries: int) -> list[list[float]]:
        sent = [prefix + (text or " ")[: self._max_characters] for text in texts]
        vectors: list[list[float]] = []
        for start in range(0, len(sent), self._batch_size):
            batch = sent[start : start + self._batch_size]
            vectors += self._read(self._answer(batch, min(retries, self._retries)), len(batch))
        return vectors

    def _answer(self, batch: list[str], retries: int) -> Any:
        """The answer for a batch. Only the server knows which texts are too long: they are cut until it accepts them,
        because a text that is refused each time would hold up all others that wait for their vectors."""
        while True:
            try:
                body = {"model": self.model, "input": batch, **self._asked}
                return self._endpoint.post(body, batch, retries)
            except Refused as error:
                longest = max(map(len, batch))
                if longest <= SHORT:
                    raise EmbedderUnavailable(str(error)) from error
                batch = [text[: longest // 2] for text in batch]

    def _read(self, answer: Any, count: int) -> list[list[float]]:
        try:
            found = by_index(answer.get("data") if isinstance(answer, dict) else None, "embedding", count)
            dimension = self.dimension or len(found[0])
            vectors = [list(unit(vector, dimension)) for vector in found]
        except (ValueError, TypeError) as error:
            raise EmbedderUnavailable(f"{self._url} gave a wrong answer for {self.model}: {error}") from error
        if not dimension:
            raise EmbedderUnavailable(f"{self._url} gave empty vectors for {self.model}")
        self.dimension = dimension
        return vectors
