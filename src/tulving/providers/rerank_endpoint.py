"""A reranker behind `POST /rerank`, as Cohere, Jina and vLLM have it, and TEI with other names."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

from tulving.errors import RerankerUnavailable
from tulving.providers.json_endpoint import JsonEndpoint, Refused, by_index, required


class RerankEndpoint:
    """The scores of a remote model. A failure is not retried: a person waits for the search, which works without."""

    def __init__(
        self, *, url: str, model: str, dialect: str, key_variable: str | None, timeout: float, max_characters: int
    ) -> None:
        required("reranker", url=url)
        if dialect == "cohere":
            required("reranker", model=model)
        self._model, self._dialect, self._max_characters = model, dialect, max_characters
        self._url = url if url.endswith("/rerank") else url.rstrip("/") + "/rerank"
        self._endpoint = JsonEndpoint("reranker", self._url, key_variable, timeout, RerankerUnavailable)

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score per text, in their order. Of a long text the beginning counts."""
        if not texts:
            return []
        cut = [text[: self._max_characters] for text in texts]
        if self._dialect == "tei":
            body: dict[str, Any] = {"query": query, "texts": cut, "truncate": True}
        else:
            body = {"model": self._model, "query": query, "documents": cut, "top_n": len(cut)}
        try:
            answer = self._endpoint.post(body, [query, *cut])
        except Refused as error:
            raise RerankerUnavailable(str(error)) from error
        entries = answer.get("results") if isinstance(answer, dict) else answer
        name = "relevance_score" if isinstance(answer, dict) else "score"
        try:
            scores = [float(score) for score in by_index(entries, name, len(cut))]
        except (TypeError, ValueError) as error:
            raise RerankerUnavailable(f"{self._url} gave a wrong answer: {error}") from error
        if not all(map(isfinite, scores)):
            raise RerankerUnavailable(f"{self._url} gave a score that is not a finite number")
        return scores
