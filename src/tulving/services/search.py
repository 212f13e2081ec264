"""Verbs that find memories: search by relevance, recall by several signals."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated

from tulving import storage
from tulving.domain import intake, ranking
from tulving.domain.model import KINDS, Found, Hit, Kind
from tulving.domain.ranking import MODES, Mode
from tulving.domain.scope import Filter
from tulving.domain.text import lookup_terms, preprocess_search_query
from tulving.domain.vectors import unit
from tulving.errors import InvalidInput
from tulving.services.operations import operation
from tulving.services.service import Service
from tulving.storage.lanes import LaneRequest

LARGEST_LIMIT = 1000
RECALL_POOL = 20
RECALLED: tuple[Kind, ...] = ("fact", "rule")

Types = Annotated[list[Kind] | None, "Which kinds: episode, fact, rule"]
Limit = Annotated[int | None, "How many at most"]
WRITTEN_LIMIT = 10


def _nothing_found(error: Exception) -> Found:
    return Found(hits=[], mode="none", warning=f"memory could not be searched: {error}")


class Search(Service):
    """Verbs that find memories by their content."""

    @operation(
        "memory_search",
        effect="read",
        command="search",
        positional=("query",),
        defaults={"mode": "hybrid", "limit": WRITTEN_LIMIT},
        fallback=_nothing_found,
    )
    async def search(
        self,
        query: Annotated[str, "What to look for, in plain words"],
        types: Types = None,
        scope: Annotated[str | None, "Only this namespace and the global one; for episodes, this agent"] = None,
        mode: Annotated[Mode | None, "hybrid, semantic or keyword"] = None,
        limit: Limit = None,
        min_confidence: Annotated[float, "Leave out what is believed less than this, 0 to 1"] = 0.2,
        type: Annotated[str | None, "Only this type (of an episode) or category (of a fact)"] = None,
        project: Annotated[str | None, "Only this project"] = None,
        since: Annotated[datetime | None, "Not earlier than this"] = None,
        until: Annotated[datetime | None, "Earlier than this"] = None,
        tags: Annotated[list[str] | None, "Only with all of these labels"] = None,
    ) -> Found:
        """Search episodes, facts and rules by words and by meaning; each hit carries its score parts."""
        kinds = _kinds(types, KINDS)
        mode = intake.one_of("mode", mode or self._env.config.retrieval.default_mode, MODES)
        limit = self._limit(limit)
        min_confidence = intake.number("min_confidence", min_confidence, 0, 1)
        wanted = self._filter(scope=scope, type=type, project=project, since=since, until=until, tags=tags)
        query = intake.search_query("query", query)
        return await self._find(query, None, kinds, wanted, mode, limit, min_confidence)

    async def search_similar(
        self,
        embedding: Sequence[float],
        types: Types = None,
        scope: str | None = None,
        limit: Limit = None,
        min_confidence: float = 0.2,
    ) -> Found:
        """Search by a vector of the store's own embedder instead of words."""
        vector = unit(embedding, self._env.embedder.dimension)
        limit = self._limit(limit)
        min_confidence = intake.number("min_confidence", min_confidence, 0, 1)
        wanted = self._filter(scope=scope)
        return await self._find("", vector, _kinds(types, KINDS), wanted, "semantic", limit, min_confidence)

    @operation(
        "memory_recall",
        effect="read",
        command="recall",
        positional=("topic",),
        defaults={"limit": WRITTEN_LIMIT},
        fallback=_nothing_found,
    )
    async def recall(
        self,
        topic: Annotated[str, "What to remember about, in plain words"],
        scope: Annotated[str | None, "Only this namespace and the global one"] = None,
        limit: Limit = None,
        types: Types = None,
        min_confidence: Annotated[float, "Leave out what is believed less than this, 0 to 1"] = 0.2,
        project: Annotated[str | None, "Only this project"] = None,
        tags: Annotated[list[str] | None, "Only with all of these labels"] = None,
    ) -> Found:
        """Recall facts and rules (and episodes, if asked) by relevance, importance, recency and confidence.

        Each memory returned counts one more reference.
        """
        kinds = _kinds(types, RECALLED)
        limit = self._limit(limit)
        min_confidence = intake.number("min_confidence", min_confidence, 0, 1)
        wanted = self._filter(scope=scope, project=project, tags=tags)
        now = self._env.clock()
        pool = max(limit, RECALL_POOL)
        topic = intake.search_query("topic", topic)
        found = await self._find(topic, None, kinds, wanted, "hybrid", pool, min_confidence, cut=False)
        lanes = 2 if found.mode == "hybrid" else 1
        scored = [self._composed(hit, pool * len(kinds), lanes, now) for hit in found.hits]
        scored.sort(key=lambda hit: ranking.stable_order(hit.score, hit.item.created_at, hit.item.id))
        return replace(found, hits=[self._referenced(hit, now) for hit in scored[:limit]])

    def _limit(self, limit: int | None) -> int:
        """The caller's limit, else the configured one, else the specified 10."""
        configured = self._env.config.retrieval.configured_limit
        return intake.whole("limit", limit if limit is not None else configured or WRITTEN_LIMIT, 1, LARGEST_LIMIT)

    async def _find(
        self,
        query: str,
        vector: Sequence[float] | None,
        kinds: Sequence[Kind],
        wanted: Filter,
        mode: Mode,
        limit: int,
        min_confidence: float,
        cut: bool = True,
    ) -> Found:
        """The candidates of all kinds, filtered and fused, best first."""
        now = self._env.clock()
        warning = None
        terms = lookup_terms(query) if mode != "semantic" else []
        if vector is None and mode != "keyword" and (line := preprocess_search_query(query)):
            vector, warning = await self._env.embedding.query(line)
        if not terms and vector is None:
            return Found(hits=[], mode=mode, warning=warning)
        request = LaneRequest(
            tenant_id=self.caller.tenant_id,
            kinds=kinds,
            filter=wanted,
            now=now,
            limit=limit,
            terms=terms,
            vector=vector,
            embedding_version=self._env.embedding.version,
        )
        candidates, hits, doubted = await self._read(
            storage.search.collect, request, mode, min_confidence, limit if cut else None
        )
        if mode == "hybrid" and not (terms and vector is not None):
            mode = "keyword" if vector is None else "semantic"
        return Found(hits=hits, mode=mode, candidates=candidates, below_confidence=doubted, warning=warning)

    def _composed(self, hit: Hit, pool: int, lanes: int, now: datetime) -> Hit:
        """001-032: the hit with its composite score and all its parts."""
        relevance = ranking.relevance(hit.parts.get("rrf_score", 0.0), pool, lanes)
        match = ranking.Match(hit.item, relevance, hit.parts["confidence"], now)
        score, signals = ranking.composite(match, self._env.config.retrieval.score_weights)
        return replace(hit, score=score, parts={**hit.parts, **signals})

    def _referenced(self, hit: Hit, now: datetime) -> Hit:
        """001-034: the hit with its reference counted."""
        return replace(hit, item=self._env.references.count(hit.memory_type, hit.item, now))


def _kinds(types: Sequence[Kind] | None, default: tuple[Kind, ...]) -> Sequence[Kind]:
    if types is None:
        return default
    given = [types] if isinstance(types, str) else types
    if not isinstance(given, Sequence):
        raise InvalidInput("types", f"must be a list, not {type(types).__name__}", ", ".join(KINDS))
    return list(dict.fromkeys(intake.one_of("types", kind, KINDS) for kind in given)) or default
