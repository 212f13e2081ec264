"""Reranking of the best candidates of a search, by a model that reads query and text together."""

import asyncio
import logging
from collections.abc import Sequence

from tulving.errors import InvalidInput, RerankerUnavailable
from tulving.ports import Reranker

log = logging.getLogger("tulving")


class Reranking:
    """The reranker of an open store. It is meant for the best `depth` candidates of a search."""

    def __init__(self, reranker: Reranker, depth: int) -> None:
        self._reranker, self.depth = reranker, depth

    async def rerank(self, query: str, texts: Sequence[str]) -> tuple[list[float] | None, str | None]:
        """One score per text, in their order; None and a warning if the reranker fails."""
        try:
            scores = await asyncio.to_thread(self._reranker.rerank, query, texts)
        except RerankerUnavailable as error:
            log.warning("not reranked: %s", error)
            return None, f"not reranked: {error}"
        if len(scores) != len(texts):
            raise InvalidInput("reranker", f"did not give one score for each of {len(texts)} texts")
        return scores, None
