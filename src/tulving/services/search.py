"""Verbs that find memories: search by relevance, recall by several signals."""

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Annotated, Any

from tulving import storage
from tulving.domain import intake, questions, ranking
from tulving.domain.model import KINDS, Episode, Found, Hit, Kind, Similar
from tulving.domain.names import Names
from tulving.domain.ranking import MODES, Mode
from tulving.domain.scope import Filter
from tulving.domain.text import fold, found_by, lookup_terms, preprocess_search_query
from tulving.domain.vectors import unit
from tulving.errors import InvalidInput
from tulving.services.operations import operation
from tulving.services.reranking import Reranking
from tulving.services.service import HouseholdId, PersonaId, Service, UserId
from tulving.storage.connection import Connection
from tulving.storage.lanes import LaneRequest
from tulving.storage.search import Choice, Collected, Inquiry, Recall

LIMITS = intake.Between(1, 1000)
COSINE = intake.Between(-1, 1)
RECALLED = 50
"""How many of each kind recall judges by all its factors."""
POOL = 100
"""How deep each lane is read for a pool of candidates, whatever the limit: so the best ones do not depend on it."""

Types = Annotated[list[Kind] | None, "Which kinds: episode, fact, rule"]
Limit = Annotated[int | None, "How many at most", LIMITS]
AsOf = Annotated[datetime | None, "What was known and true at this time, instead of now"]
MinRelevance = Annotated[float | None, "Leave out what fits less than this, 0 to 1", intake.FRACTION]
MinConfidence = Annotated[float, "Leave out what is believed less than this, 0 to 1", intake.FRACTION]
WRITTEN_LIMIT = 10
MIN_CONFIDENCE = 0.2


def _nothing_found(error: Exception) -> Found:
    return Found(hits=[], mode="none", warning=f"memory could not be searched: {error}")


class Search(Service):
    """Verbs that find memories by their content."""

    @operation(
        "memory_search",
        http="POST /v1/search",
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
        min_confidence: MinConfidence = MIN_CONFIDENCE,
        type: Annotated[str | None, "Only this type (of an episode) or category (of a fact)"] = None,
        project: Annotated[str | None, "Only this project"] = None,
        since: Annotated[datetime | None, "Not earlier than this"] = None,
        until: Annotated[datetime | None, "Earlier than this"] = None,
        tags: Annotated[list[str] | None, "Only with all of these labels"] = None,
        as_of: AsOf = None,
        min_relevance: MinRelevance = None,
        archived: Annotated[bool, "Also look through the archive of old episodes, by words only"] = False,
    ) -> Found:
        """Look for particular memories by words and by meaning, of any type, time, project or tag.

        To learn what is known about a topic, recall it instead.
        """
        kinds = kinds_of(types)
        mode = intake.one_of("mode", mode or self._env.config.retrieval.default_mode, MODES)
        wanted = self._filter(scope=scope, type=type, project=project, since=since, until=until, tags=tags, as_of=as_of)
        wanted = replace(wanted, archived=intake.flag("archived", archived))
        return await self._find(
            intake.search_query("query", query),
            kinds,
            wanted,
            mode,
            self._limit(limit),
            intake.number("min_confidence", min_confidence, *intake.FRACTION),
            self._floor(min_relevance),
        )

    @operation(
        "memory_search_similar",
        http="POST /v1/search/similar",
        effect="read",
        command="similar",
        positional=("query",),
        standard=False,
        defaults={"limit": WRITTEN_LIMIT},
        fallback=_nothing_found,
    )
    async def search_similar(
        self,
        embedding: Annotated[Sequence[float] | None, "What to look for, as a vector of the store's embedder"] = None,
        types: Types = None,
        scope: Annotated[str | None, "Only this namespace and the global one; for episodes, this agent"] = None,
        limit: Limit = None,
        min_confidence: MinConfidence = MIN_CONFIDENCE,
        query: Annotated[str | None, "What to look for, in plain words, instead of a vector"] = None,
        min_similarity: Annotated[float | None, "Leave out what is less similar than this, -1 to 1", COSINE] = None,
        since: Annotated[datetime | None, "Not earlier than this"] = None,
        until: Annotated[datetime | None, "Earlier than this"] = None,
        user_id: UserId = None,
        household_id: HouseholdId = None,
        persona_id: PersonaId = None,
        type: Annotated[str | None, "Only this type (of an episode) or category (of a fact)"] = None,
        project: Annotated[str | None, "Only this project"] = None,
        tags: Annotated[list[str] | None, "Only with all of these labels"] = None,
    ) -> Similar:
        """Search by meaning alone, with words or a vector; the score is the cosine similarity.

        All filters apply before the limit. `filtered` tells what would have been found without a condition:
        below_similarity counts those of the nearest in the window that are not similar enough, outside_window those of
        the nearest of any time that are similar enough but outside the window. Nothing found, nothing filtered: there
        is nothing to find.
        """
        kinds, limit = kinds_of(types), self._limit(limit)
        min_confidence = intake.number("min_confidence", min_confidence, *intake.FRACTION)
        least = -1.0 if min_similarity is None else intake.number("min_similarity", min_similarity, *COSINE)
        mine = self._within(user_id, household_id, persona_id)
        wanted = mine._filter(scope=scope, type=type, project=project, since=since, until=until, tags=tags)
        vector, warning = await self._meant(query, embedding)
        if vector is None:
            return Similar(hits=[], mode="semantic", warning=warning)

        async def nearest(wanted: Filter) -> Found:
            return await mine._find("", kinds, wanted, "semantic", limit, min_confidence, 0.0, vector)

        found = await nearest(wanted)
        alike = [hit for hit in found.hits if hit.score >= least]
        filtered = {} if min_similarity is None else {"below_similarity": len(found.hits) - len(alike)}
        if since or until:
            whenever = [hit for hit in await nearest(replace(wanted, since=None, until=None)) if hit.score >= least]
            filtered["outside_window"] = len({hit.item.id for hit in whenever} - {hit.item.id for hit in found.hits})
        return Similar(
            **{each.name: getattr(found, each.name) for each in fields(Found) if each.name != "hits"},
            hits=alike,
            matched_count=len(alike),
            filtered_count=sum(filtered.values()),
            filtered=filtered,
        )

    async def _meant(
        self, query: object, embedding: Sequence[float] | None
    ) -> tuple[Sequence[float] | None, str | None]:
        """The vector to compare with, of words or given; None, perhaps with a warning why, if there is none."""
        if (query is None) == (embedding is None):
            problem = "is missing" if query is None else "is given beside a query"
            raise InvalidInput("embedding", problem, "either an embedding or a query")
        if embedding is not None:
            return unit(embedding, self._env.embedder.dimension), None
        line = preprocess_search_query(intake.search_query("query", query))
        return await self._env.embedding.query(self.caller.tenant_id, line) if line else (None, None)

    @operation(
        "memory_recall",
        http="POST /v1/recall",
        effect="read",
        minimal=("types", "limit"),
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
        min_confidence: MinConfidence = MIN_CONFIDENCE,
        project: Annotated[str | None, "Only this project"] = None,
        tags: Annotated[list[str] | None, "Only with all of these labels"] = None,
        since: Annotated[datetime | None, "Not earlier than this"] = None,
        until: Annotated[datetime | None, "Earlier than this"] = None,
        as_of: AsOf = None,
        min_relevance: MinRelevance = None,
    ) -> Found:
        """Recall what is known about a topic: the best by relevance, importance, recency and confidence.

        To look for one particular memory, search for it instead. Each memory returned counts one more reference.
        """
        limit = self._limit(limit)
        found = await self._recall(
            intake.search_query("topic", topic),
            kinds_of(types),
            self._filter(scope=scope, project=project, since=since, until=until, tags=tags, as_of=as_of),
            limit,
            intake.number("min_confidence", min_confidence, *intake.FRACTION),
            self._floor(min_relevance),
            lambda found: range(len(found))[:limit],
        )
        return replace(found, hits=[self._referenced(hit) for hit in found.hits])

    async def _recall(
        self,
        topic: str,
        kinds: Sequence[Kind],
        wanted: Filter,
        most: int,
        min_confidence: float,
        min_relevance: float,
        choice: Choice,
    ) -> Found:
        """What is chosen of what fits a topic, in the order of recall: of `most`, and of so many of each kind that
        factors other than relevance can raise one. The references are not counted yet."""
        recall = Recall(self._env.config.retrieval.score_weights, self._env.references.last, choice)
        return await self._find(topic, kinds, wanted, "hybrid", most, min_confidence, min_relevance, recall=recall)

    def _limit(self, limit: int | None) -> int:
        """The caller's limit, else the configured one, else the specified 10."""
        configured = self._env.config.retrieval.configured_limit
        return intake.whole("limit", limit if limit is not None else configured or WRITTEN_LIMIT, *LIMITS)

    def _floor(self, least: float | None) -> float:
        """The caller's least relevance, else the configured one."""
        configured = self._env.config.retrieval.min_relevance
        return configured if least is None else intake.number("min_relevance", least, *intake.FRACTION)

    async def _find(
        self,
        query: str,
        kinds: Sequence[Kind],
        wanted: Filter,
        mode: Mode,
        most: int,
        min_confidence: float,
        min_relevance: float,
        vector: Sequence[float] | None = None,
        recall: Recall | None = None,
    ) -> Found:
        """The candidates of all kinds, filtered and ordered, best first."""
        now, env = self._env.clock(), self._env
        most_of_each = RECALLED if recall else 0
        # A reranker has to read the memories before they are in order, and what they were at a moment has to be known.
        late = recall if env.reranker is not None or wanted.as_of is not None else None
        literal = vector is not None or env.config.retrieval.fusion == "rrf"
        by_meaning = vector is None and mode != "keyword"
        terms = lookup_terms(query) if mode != "semantic" else []
        names = Names()
        if not literal:
            last = env.names.last(self.caller.tenant_id, self.bound)
            names = last or await self._read(env.names.of, self.caller.tenant_id, self.bound)
        known, warning = None if literal else names, None
        while True:
            if by_meaning and (line := preprocess_search_query(names.without(query))):
                vector, warning = await env.embedding.query(self.caller.tenant_id, line)
            if not terms and vector is None:
                return Found(hits=[], mode=mode, warning=warning)
            inquiry = Inquiry(
                LaneRequest(
                    tenant_id=self.caller.tenant_id,
                    kinds=kinds,
                    filter=wanted,
                    now=now,
                    limit=max(most, most_of_each if literal or mode == "semantic" else POOL),
                    terms=terms,
                    vector=vector,
                    alike=mode == "hybrid",
                    neighbours=not literal and mode == "hybrid",
                    embedding_version=env.embedding.version,
                ),
                mode,
                max(most, env.reranker.depth if env.reranker else 0),
                min_confidence,
                min_relevance,
                None if literal else questions.understand(query, _meant(names, query), now),
                env.embedding.trust(query),
                most_of_each,
                None if late else recall,
            )
            collected = await self._read(self._collected, inquiry, known)
            if not isinstance(collected, Names):
                break
            names, known = collected, None
        hits = collected.hits
        if collected.irrelevant and not hits:
            env.observer.note("floor_miss")
        if env.reranker is not None and mode == "hybrid":
            hits, problem = await self._reranked(query, hits, env.reranker)
            warning = warning or problem
        if late:
            hits = sorted((self._composed(hit, late, now) for hit in hits), key=_order)
            hits = [hits[at] for at in late.choice(hits)]
        if mode == "hybrid" and not (terms and vector is not None):
            mode = "keyword" if vector is None else "semantic"
        return Found(
            hits=hits if recall else hits[:most],
            mode=mode,
            candidates=collected.candidates,
            below_confidence=collected.doubted,
            below_relevance=collected.irrelevant,
            closest=collected.closest,
            warning=warning,
        )

    def _collected(self, conn: Connection, inquiry: Inquiry, known: Names | None) -> Collected | Names:
        """What a search finds; if other names are known by now, these, because the query has to be read again."""
        if known is not None:
            names = self._env.names.of(conn, self.caller.tenant_id, self.bound)
            if names is not known:
                return names
        return storage.search.collect(conn, inquiry)

    async def _reranked(self, query: str, hits: list[Hit], reranker: Reranking) -> tuple[list[Hit], str | None]:
        """The best hits in the reranker's order. They exchange their relevance and scores, so that these still fall
        from hit to hit and compare with those of other searches."""
        best = hits[: reranker.depth]
        scores, warning = await reranker.rerank(query, [found_by(hit.item) for hit in best])
        if scores is None:
            return hits, warning
        order = sorted(range(len(best)), key=lambda at: -scores[at])
        reranked = [
            replace(
                best[at],
                score=place.score,
                weak=place.weak,
                parts={**best[at].parts, "relevance": place.parts["relevance"], "reranker": scores[at]},
            )
            for at, place in zip(order, best, strict=True)
        ]
        return [*reranked, *hits[reranker.depth :]], warning

    def _composed(self, hit: Hit, recall: Recall, now: datetime) -> Hit:
        """001-032: the hit with its composite score and all its parts."""
        item, kind = hit.item, hit.memory_type
        match = ranking.Match(
            kind,
            hit.parts["relevance"],
            getattr(item, "importance", None),
            hit.parts["confidence"],
            (item.occurred_at or item.created_at) if isinstance(item, Episode) else None,
            recall.last(item.tenant_id, kind, str(item.id), item.last_referenced_at),
            now,
        )
        score, factors = ranking.composite(match, recall.weights)
        return replace(hit, score=score, parts={**hit.parts, **factors})

    def _referenced(self, hit: Hit) -> Hit:
        """001-034: the hit with its reference counted."""
        return replace(hit, item=self._env.references.recall(hit.memory_type, hit.item, self._env.clock()))


def _order(hit: Hit) -> tuple[Any, ...]:
    return ranking.stable_order(hit.score, hit.item.created_at, hit.item.id)


def _meant(names: Names, query: str) -> frozenset[str]:
    """Whom a query names: speakers and subjects, folded, and entities by their id."""
    found = names.mentioned(query)
    sources = {fold(source) for mention in found for source in mention.sources}
    return frozenset({*sources, *(str(id_) for mention in found for id_ in mention.entity_ids)})


def kinds_of(types: Sequence[Kind] | None) -> Sequence[Kind]:
    if types is None:
        return KINDS
    given = [types] if isinstance(types, str) else types
    if not isinstance(given, Sequence):
        raise InvalidInput("types", f"must be a list, not {type(types).__name__}", ", ".join(KINDS))
    return list(dict.fromkeys(intake.one_of("types", kind, KINDS) for kind in given)) or KINDS
