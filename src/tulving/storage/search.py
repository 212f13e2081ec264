"""The transaction of a search: the candidates of both lanes with enough confidence, and the evidence for each."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from operator import itemgetter

from tulving.domain import ranking, relevance
from tulving.domain.decay import covers_fading
from tulving.domain.model import Hit
from tulving.domain.questions import Question
from tulving.domain.ranking import Fused, Mode
from tulving.domain.relevance import Candidate, Evidence
from tulving.domain.text import fold
from tulving.storage.connection import Connection
from tulving.storage.kinds import KIND
from tulving.storage.lanes import CandidateRows, Key, LaneRequest, Lanes

DEEPER = 4
"""The factor by which the limit of a lane grows when too many of its candidates have too little confidence."""


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What a search looks for: `most` candidates that are believed and relevant enough.

    Without a `question` the relevance comes from the ranks in the lanes. `trust` is how far the embedder's similarities
    count as evidence.
    """

    lanes: LaneRequest
    mode: Mode
    most: int
    min_confidence: float
    min_relevance: float = 0.0
    question: Question | None = None
    trust: float = 1.0


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
    """001-030, 001-126: the candidates of all kinds in one order. All kinds share a lane before fusion, so that a fact
    and a rule compete by how well they match, not by their rank within their kind."""
    lanes, doubted = _believed(conn, inquiry)
    places = _places(lanes, inquiry)
    evidence = _evidence(lanes, places, doubted, inquiry)
    scores = _scores(lanes, places, evidence, inquiry)
    order = list(scores)
    fitting = [key for key in order if evidence[key]["relevance"] >= inquiry.min_relevance]
    closest = None
    if not fitting and order:
        best = max(order, key=lambda key: evidence[key]["relevance"])
        closest = _hit(best, scores[best], places.get(best), evidence[best], lanes, inquiry)
    hits = [_hit(key, scores[key], places.get(key), evidence[key], lanes, inquiry) for key in fitting[: inquiry.most]]
    return Collected(hits, len(order) + len(doubted), len(doubted), len(order) - len(fitting), closest)


def _believed(conn: Connection, inquiry: Inquiry) -> tuple[Lanes, set[Key]]:
    """The lanes without the candidates of too little confidence, and those candidates. They must not displace others:
    if they leave a lane short of its limit, the lane is queried again, first without fading memories, then deeper."""
    request, least = inquiry.lanes, inquiry.min_confidence
    doubted: set[Key] = set()
    deeper = request
    while True:
        lanes = conn.lanes(deeper)
        if inquiry.mode == "hybrid":  # zero similarity is not a match
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
    ranked = _ranked(lane, rows)
    for kind in request.kinds:
        of_kind = [entry for entry in ranked if entry[0][0] == kind]
        good = [entry for entry in of_kind if entry[0] not in doubted][: request.limit]
        short |= len(good) < request.limit and len(of_kind) >= depth
        kept.update(good)
    return kept, short


def _places(lanes: Lanes, inquiry: Inquiry) -> dict[Key, Fused[Key]]:
    """The ranks of the candidates in both lanes."""
    semantic, keyword = ([key for key, _ in _ranked(lane, lanes.rows)] for lane in (lanes.semantic, lanes.keyword))
    return {place.key: place for place in ranking.fuse(semantic, keyword, _depth(inquiry))}


def _depth(inquiry: Inquiry) -> int:
    return inquiry.lanes.limit * len(inquiry.lanes.kinds)


def _evidence(
    lanes: Lanes, places: Mapping[Key, Fused[Key]], doubted: Set[Key], inquiry: Inquiry
) -> dict[Key, Evidence]:
    """How relevant each candidate is, and why. The neighbours of candidates are candidates too."""
    if inquiry.question is None:
        both = 2 if inquiry.lanes.terms and inquiry.lanes.vector is not None else 1
        return {
            key: {"relevance": ranking.relevance(place.rrf_score, _depth(inquiry), both)}
            for key, place in places.items()
        }
    beside = (key for pair in lanes.neighbours.values() for key in pair if key is not None)
    pool = dict.fromkeys([*places, *beside])
    dated = inquiry.question.span is not None
    candidates = {key: _candidate(key, lanes, dated) for key in pool if key not in doubted}
    return relevance.weigh(inquiry.question, candidates, inquiry.trust)


def _candidate(key: Key, lanes: Lanes, dated: bool) -> Candidate[Key]:
    rows, kind = lanes.rows, key[0]
    about = [fold(rows.raw(key, "source") or "")] if kind == "episode" else []
    if kind == "fact":
        about = [fold(rows.raw(key, "subject")), str(rows.raw(key, "entity_id"))]
    before, after = lanes.neighbours.get(key, (None, None))
    return Candidate(
        words=rows.words(key),
        content=rows.raw(key, "content"),
        moment=rows.moment(key) if dated else None,
        similarity=lanes.similarities.get(key),
        about=frozenset(about),
        distilled=kind != "episode",
        session=rows.raw(key, "session_id") if kind == "episode" else None,
        before=before,
        after=after,
    )


def _scores(
    lanes: Lanes, places: Mapping[Key, Fused[Key]], evidence: Mapping[Key, Evidence], inquiry: Inquiry
) -> dict[Key, float]:
    """The candidates, best first, with what they are ordered by: in one lane its own score, else the evidence or the
    ranks."""
    if inquiry.mode != "hybrid":
        return dict(_ranked(lanes.semantic if inquiry.mode == "semantic" else lanes.keyword, lanes.rows))
    if inquiry.question is None:
        return {key: place.rrf_score for key, place in places.items()}
    return dict(_ranked({key: each["relevance"] for key, each in evidence.items()}, lanes.rows))


def _ranked(lane: Mapping[Key, float], rows: CandidateRows) -> list[tuple[Key, float]]:
    """001-126: best first; ties by newest, then lowest id."""
    keys = sorted(lane, key=itemgetter(1))
    keys.sort(key=rows.created_at, reverse=True)
    keys.sort(key=lane.__getitem__, reverse=True)
    return [(key, lane[key]) for key in keys]


def _hit(key: Key, score: float, place: Fused[Key] | None, evidence: Evidence, lanes: Lanes, inquiry: Inquiry) -> Hit:
    beyond = _depth(inquiry) + 1
    both = inquiry.mode == "hybrid"
    place = place or Fused(key, beyond, beyond, ranking.rrf_score(beyond, beyond))
    parts = {
        "similarity": lanes.similarities.get(key),
        "rank": lanes.keyword.get(key),
        "semantic_rank": place.semantic_rank if both else None,
        "keyword_rank": place.keyword_rank if both else None,
        "rrf_score": place.rrf_score if both else None,
        "confidence": lanes.rows.confidence(key, inquiry.lanes.now),
    }
    known = {name: value for name, value in parts.items() if value is not None}
    return Hit(memory_type=key[0], item=KIND[key[0]].item(lanes.rows[key]), score=score, parts={**known, **evidence})
