"""The transaction of a search: the candidates of both lanes with enough confidence, and the evidence for each."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, lru_cache, partial
from operator import attrgetter, itemgetter
from typing import NamedTuple, Protocol
from uuid import UUID

from tulving.domain import ranking, updates
from tulving.domain.decay import covers_fading
from tulving.domain.model import Fact, Hit, Kind
from tulving.domain.questions import Question
from tulving.domain.ranking import Match, Mode
from tulving.domain.relevance import WEAK, Candidate, Weighed, weigh
from tulving.domain.text import fold, search_text
from tulving.domain.updates import Statement
from tulving.domain.validity import as_it_was
from tulving.storage import archive_lane, edits, timeline
from tulving.storage.connection import Connection
from tulving.storage.kinds import KIND
from tulving.storage.lanes import CONTENT, CandidateRows, Key, LaneRequest, Lanes, Neighbours
from tulving.storage.rows import Row

DEEPER = 4
"""The factor by which the limit of a lane grows when too many of its candidates have too little confidence."""
COMPARED = 20
"""So many of the best candidates are compared with each other at least, to see which are outdated."""


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What a search looks for: `most` candidates, or `most_of_each` kind, that are believed and relevant enough.

    Without a `question` the relevance comes from the ranks in the lanes. `trust` is how far the embedder's similarities
    count as evidence. With `recall`, its choice among these is found.
    """

    lanes: LaneRequest
    mode: Mode
    most: int
    min_confidence: float
    min_relevance: float = 0.0
    question: Question | None = None
    trust: float = 1.0
    most_of_each: int = 0
    recall: "Recall | None" = None


class Judged(Protocol):
    """What a recall chooses by, beside the order."""

    @property
    def memory_type(self) -> Kind: ...

    @property
    def weak(self) -> bool: ...


Choice = Callable[[Sequence[Judged]], Sequence[int]]
"""Which of the memories in the order of recall are returned, by their places."""


@dataclass(frozen=True, slots=True)
class Recall:
    """How recall orders what was found, and which of it is read. `last` is when a memory was last referred to, as far
    as that counts (`References.last`)."""

    weights: Mapping[str, float]
    last: Callable[[str, Kind, str, datetime | None], datetime | None]
    choice: Choice


class _Recalled(NamedTuple):
    memory_type: Kind
    weak: bool
    key: Key
    score: float
    factors: dict[str, float]


@dataclass(frozen=True, slots=True)
class Collected:
    """The best candidates, how many there were, and what was left out: how many were believed too little, how many were
    less relevant than wanted, and the best of these."""

    hits: list[Hit]
    candidates: int
    doubted: int
    irrelevant: int
    closest: Hit | None


def collect(conn: Connection, inquiry: Inquiry) -> Collected:
    """The candidates of all kinds in one order."""
    lanes, doubted = _believed(conn, inquiry)
    pool = _Pool(lanes, doubted, inquiry)
    relevant = pool.relevance
    order = list(pool.scores)
    fitting = [key for key in order if relevant[key] >= inquiry.min_relevance]
    newer = pool.newer(fitting[: max(inquiry.most, COMPARED)])
    best = _best(fitting, inquiry)
    if not fitting and order:
        best = [max(order, key=relevant.__getitem__)]
    recalled = pool.recalled(best, inquiry.recall) if fitting and inquiry.recall else {}
    best = [*recalled] or best
    found = conn.memories(inquiry.lanes.tenant_id, best)
    rows = dict(zip(found, timeline.restored(conn, [*found.values()]), strict=True))
    hits = [pool.hit(key, rows[key], newer.get(key), recalled.get(key)) for key in best]
    hits = _as_of(conn, hits, inquiry.lanes.filter.as_of)
    closest = None if fitting or not hits else hits.pop()
    return Collected(hits, len(order) + len(doubted), len(doubted), len(order) - len(fitting), closest)


def _best(fitting: Sequence[Key], inquiry: Inquiry) -> list[Key]:
    """The first candidates, and the first of each kind."""
    seen: Counter[Kind] = Counter()
    best: list[Key] = []
    for at, key in enumerate(fitting):
        if at < inquiry.most or seen[key[0]] < inquiry.most_of_each:
            best.append(key)
            seen[key[0]] += 1
    return best


def _as_of(conn: Connection, hits: list[Hit], moment: datetime | None) -> list[Hit]:
    """The hits as they were at a moment."""
    if moment is None:
        return hits
    items = edits.as_of(conn, [hit.item for hit in hits], moment)
    then = [as_it_was(item, moment) if isinstance(item, Fact) else item for item in items]
    return [replace(hit, item=item) for hit, item in zip(hits, then, strict=True)]


def _believed(conn: Connection, inquiry: Inquiry) -> tuple[Lanes, set[Key]]:
    """The lanes without the candidates of too little confidence, and those candidates. They must not displace others:
    if they leave a lane short of its limit, the lane is queried again, first without fading memories, then deeper."""
    request, least = inquiry.lanes, inquiry.min_confidence
    doubted: set[Key] = set()
    deeper = request
    while True:
        if deeper.filter.archived:
            lanes = conn.lanes(replace(deeper, filter=replace(deeper.filter, archived=False)))
            archive_lane.add(conn, deeper, lanes)
        else:
            lanes = conn.lanes(deeper)
        if inquiry.mode == "hybrid" and min(lanes.semantic.values(), default=1.0) <= 0:  # that is not a match
            alike = {key: similarity for key, similarity in lanes.semantic.items() if similarity > 0}
            lanes = replace(lanes, semantic=alike)
        met = lanes.semantic.keys() | lanes.keyword.keys()
        disbelieved = {key for key in met if lanes.rows.confidence(key, request.now) < least}
        if not disbelieved and deeper is request:
            return lanes, doubted
        doubted |= disbelieved
        semantic, semantic_short = _sifted(lanes.semantic, lanes.rows, doubted, request, deeper.limit)
        keyword, keyword_short = _sifted(lanes.keyword, lanes.rows, doubted, request, deeper.limit)
        if not (semantic_short or keyword_short):
            return replace(lanes, semantic=semantic, keyword=keyword), doubted
        if covers_fading(least) and not deeper.filter.unfaded:
            deeper = replace(deeper, filter=replace(deeper.filter, unfaded=True))
        else:
            deeper = replace(deeper, limit=deeper.limit * DEEPER)


def _sifted(
    lane: Mapping[Key, float], rows: CandidateRows, doubted: Set[Key], request: LaneRequest, depth: int
) -> tuple[dict[Key, float], bool]:
    """A lane without the doubted, up to the limit of each kind; True if a kind is short but may have more."""
    kept: dict[Key, float] = {}
    short = False
    ranked = _ranked(lane, rows.newest_first(lane))
    for kind in request.kinds:
        of_kind = [entry for entry in ranked if entry[0][0] == kind]
        good = [entry for entry in of_kind if entry[0] not in doubted][: request.limit]
        short |= len(good) < request.limit and len(of_kind) >= depth
        kept.update(good)
    return kept, short


class _Pool:
    """The candidates of a search, and what is known of each."""

    def __init__(self, lanes: Lanes, doubted: Set[Key], inquiry: Inquiry) -> None:
        self._lanes, self._doubted, self._inquiry = lanes, doubted, inquiry
        self._depth = inquiry.lanes.limit * len(inquiry.lanes.kinds)

    @cached_property
    def _newest(self) -> list[Key]:
        return self._lanes.rows.newest_first(self._lanes.rows)

    @cached_property
    def ranks(self) -> tuple[dict[Key, int], dict[Key, int]]:
        """The ranks of the candidates in both lanes. All kinds share a lane before fusion, so that a fact and a rule
        compete by how well they match, not by their rank within their kind."""
        ranked = (_ranked(lane, self._newest) for lane in (self._lanes.semantic, self._lanes.keyword))
        semantic, keyword = ({key: rank for rank, (key, _) in enumerate(lane, 1)} for lane in ranked)
        return semantic, keyword

    @cached_property
    def fused(self) -> dict[Key, float]:
        """001-030: the candidates in the order of their ranks."""
        semantic, keyword = self.ranks
        return {place.key: place.rrf_score for place in ranking.fuse([*semantic], [*keyword], self._depth)}

    @cached_property
    def _neighbours(self) -> Neighbours:
        """The neighbours of each turn in a lane, and each turn as the neighbour of these. An engine may have read more
        rows than it put into a lane."""
        lanes = self._lanes
        met = lanes.semantic.keys() | lanes.keyword.keys()
        known = {turn: pair for turn, pair in lanes.neighbours.items() if turn in met}
        before = {after: turn for turn, (_, after) in known.items() if after is not None}
        after = {before: turn for turn, (before, _) in known.items() if before is not None}
        return {key: (before.get(key), after.get(key)) for key in {**before, **after}} | known

    @cached_property
    def _weighed(self) -> Weighed[Key] | None:
        """The candidates as the question weighs them. The neighbours of candidates are candidates too."""
        if (question := self._inquiry.question) is None:
            return None
        rows, similarities, neighbours = self._lanes.rows, self._lanes.similarities, self._neighbours
        pool: dict[Key, Candidate[Key]] = {}
        for key in dict.fromkeys([*self._lanes.semantic, *self._lanes.keyword, *neighbours]):
            if key in self._doubted:
                continue
            row, beside = rows[key], neighbours.get(key)
            before, after = beside or (None, None)
            pool[key] = Candidate(
                row[-1] or "",
                row[CONTENT],
                rows.moment(key) if question.span else None,
                similarities.get(key),
                self._about(key) if beside or question.names else frozenset(),
                key[0] != "episode",
                row[-2],
                before,
                after,
            )
        return weigh(question, pool, self._inquiry.trust, rows.mark)

    @cached_property
    def relevance(self) -> Mapping[Key, float]:
        """How relevant each candidate is."""
        if self._weighed is not None:
            return self._weighed
        request = self._inquiry.lanes
        both = 2 if request.terms and request.vector is not None else 1
        return {key: ranking.relevance(score, self._depth, both) for key, score in self.fused.items()}

    @cached_property
    def scores(self) -> dict[Key, float]:
        """001-126: the candidates, best first, with what they are ordered by: in one lane its own score, else the
        evidence or the ranks."""
        mode, lanes = self._inquiry.mode, self._lanes
        if mode != "hybrid":
            return dict(_ranked(lanes.semantic if mode == "semantic" else lanes.keyword, self._newest))
        if self._inquiry.question is None:
            return self.fused
        return dict(_ranked(self.relevance, self._newest))

    def newer(self, keys: Sequence[Key]) -> dict[Key, Key]:
        """Which of these candidates seem to be outdated, and by which."""
        if self._inquiry.question is None:
            return {}
        rows = self._lanes.rows
        found = {
            key: Statement(key[0], self._about(key), rows.moment(key), self.relevance[key], partial(self._said, key))
            for key in keys
        }
        return updates.newer(found)

    def recalled(self, keys: Sequence[Key], recall: Recall) -> dict[Key, _Recalled]:
        """001-032: the choice of a recall among these candidates, in its order."""
        rows, request = self._lanes.rows, self._inquiry.lanes
        found: list[_Recalled] = []
        for key in rows.newest_first(keys):
            kind, id_ = key
            match = Match(
                kind,
                self.relevance[key],
                rows.importance(key),
                rows.confidence(key, request.now),
                rows.moment(key),
                recall.last(request.tenant_id, kind, str(id_), rows.referenced(key)),
                request.now,
            )
            found.append(_Recalled(kind, self._weak(key), key, *ranking.composite(match, recall.weights)))
        found.sort(key=attrgetter("score"), reverse=True)
        return {found[at].key: found[at] for at in recall.choice(found)}

    def hit(self, key: Key, row: Row, newer: Key | None, recalled: _Recalled | None) -> Hit:
        lanes = self._lanes
        evidence = {"relevance": self.relevance[key]} if self._weighed is None else self._weighed.evidence(key)
        parts = {
            "similarity": lanes.similarities.get(key),
            "rank": lanes.keyword.get(key),
            "confidence": lanes.rows.confidence(key, self._inquiry.lanes.now),
            **evidence,
        }
        if self._inquiry.mode == "hybrid":
            semantic, keyword = (lane.get(key, self._depth + 1) for lane in self.ranks)
            rrf_score = ranking.rrf_score(semantic, keyword)
            parts |= {"semantic_rank": semantic, "keyword_rank": keyword, "rrf_score": rrf_score}
        if recalled is not None:
            parts |= recalled.factors
        return Hit(
            memory_type=key[0],
            item=KIND[key[0]].item(row),
            score=self.scores[key] if recalled is None else recalled.score,
            parts={name: value for name, value in parts.items() if value is not None},
            weak=self._weak(key),
            newer=None if newer is None else UUID(str(newer[1])),
        )

    def _weak(self, key: Key) -> bool:
        return self._inquiry.question is not None and self.relevance[key] < WEAK

    def _said(self, key: Key) -> str:
        """The words of a memory; those of an unkeyed fact without its category, which many others have."""
        rows = self._lanes.rows
        content, _, _, keyed, *_ = rows[key][CONTENT:]
        return rows.first_words(key) if keyed or key[0] != "fact" else search_text(content)

    def _about(self, key: Key) -> frozenset[str]:
        """The folded speaker of an episode; the folded subject and the entity of a fact."""
        _, name, entity_id, *_ = self._lanes.rows[key][CONTENT:]
        if key[0] == "episode":
            return _named(name or "")
        return _named(name, str(entity_id)) if key[0] == "fact" else frozenset()


@lru_cache(4096)
def _named(name: str, *ids: str) -> frozenset[str]:
    return frozenset([fold(name), *ids])


def _ranked(lane: Mapping[Key, float], newest: Iterable[Key]) -> list[tuple[Key, float]]:
    """001-126: best first; ties in the order of `newest`."""
    return sorted([(key, lane[key]) for key in newest if key in lane], key=itemgetter(1), reverse=True)
