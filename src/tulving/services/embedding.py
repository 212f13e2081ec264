"""Index entries of memories, their words and vectors, computed outside any transaction."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence, Sized
from typing import Any

from tulving.domain.model import Item
from tulving.domain.text import found_by, meant_by, search_text
from tulving.domain.vectors import pack, unit
from tulving.errors import EmbedderUnavailable, InvalidInput
from tulving.ports import UNOBSERVED, Embedder, Observer, Querying
from tulving.storage.rows import IndexEntry

log = logging.getLogger("tulving")

SHORT_TEXT = 20_000
LONGEST_REMEMBERED = 2_000


class Embedding:
    """The embedder of an open store. `version` is None while the store holds vectors of another embedder. The vectors
    of the latest `remembered` queries are kept: agents ask the same again. Those of each tenant are its own, so that
    none can tell from the time of an answer what another has asked."""

    def __init__(
        self, embedder: Embedder, version: int | None, remembered: int = 0, observer: Observer = UNOBSERVED
    ) -> None:
        self.embedder, self.version = embedder, version
        self._observer = observer
        self._failure: str | None = None
        self._remembered, self._queries = remembered, OrderedDict[tuple[str, str], tuple[float, ...]]()

    def trust(self, query: str) -> float:
        """How far similarities to a query count as evidence (`relevance.py`)."""
        trust: Any = getattr(self.embedder, "trust", 1.0)
        return trust if isinstance(trust, int | float) else trust(query)

    @property
    def warning(self) -> str | None:
        """Why memories are found by keyword only, if they are."""
        return self.embedder.unready() or self._failure

    async def index(
        self, items: Sequence[Item], version: int | None = None, given: bytes | None = None
    ) -> list[IndexEntry]:
        """The index entries of memories.

        If the embedder is not ready or fails, they have no vector and get it later. A vector that is `given` for the
        only one is used as if the embedder had made it.
        """
        texts = [found_by(item) for item in items]
        worded = _worded(texts) if _short(texts) else await asyncio.to_thread(_worded, texts)
        meant = [meant_by(item) for item in items]
        version = version or self.version
        vectors: Sequence[bytes | None] = [None] * len(texts)
        if given is not None and version is not None:
            vectors = [given]
        elif texts and version is not None and not self.embedder.unready():
            try:
                vectors = [pack(vector, self.embedder.dimension) for vector in await self._vectors(meant)]
            except EmbedderUnavailable as error:
                log.warning("stored without vectors for now: %s", error)
        return [
            IndexEntry(text, vector, None if vector is None else version)
            for text, vector in zip(worded, vectors, strict=True)
        ]

    async def query(self, tenant_id: str, line: str) -> tuple[Sequence[float] | None, str | None]:
        """The vector of a query, or None and a warning if only a keyword search is possible."""
        asked = tenant_id, line
        if unready := self.embedder.unready():  # an embedder that failed is retried
            return None, unready
        if known := self._queries.get(asked):
            self._queries.move_to_end(asked)
            self._observer.note("lookup", cache="queries", result="hit")
            return known, None
        try:
            self._observer.note("lookup", cache="queries", result="miss")
            [vector] = await self._vectors([line], query=True)
        except EmbedderUnavailable as error:
            log.warning("searching by keyword only: %s", error)
            return None, f"searched by keyword only: {error}"
        vector = tuple(unit(vector, self.embedder.dimension))
        if len(line) <= LONGEST_REMEMBERED:
            self._queries[asked] = vector
            while len(self._queries) > self._remembered:
                self._queries.popitem(last=False)
        return vector, None

    async def _vectors(self, texts: Sequence[str], query: bool = False) -> list[list[float]]:
        embedder = self.embedder
        embed = embedder.embed_queries if query and isinstance(embedder, Querying) else embedder.embed_batch
        try:
            with self._observer.during("embedding", purpose="query" if query else "store", texts=len(texts)):
                if embedder.light and _short(texts):
                    vectors = embed(texts)
                else:
                    vectors = await asyncio.to_thread(embed, texts)
        except EmbedderUnavailable as error:
            self._failure = f"found by keyword only, since the embedder failed: {error}"
            raise
        self._failure = None
        if not isinstance(vectors, Sized) or len(vectors) != len(texts):
            problem = f"the embedder {self.embedder.model} did not give one vector for each of {len(texts)} texts"
            raise InvalidInput("embedding", problem)
        return vectors


def _short(texts: Sequence[str]) -> bool:
    """Whether texts are processed faster than they could be handed to a thread."""
    return sum(map(len, texts)) <= SHORT_TEXT


def _worded(texts: Sequence[str]) -> list[str]:
    return [search_text(text) for text in texts]
