"""The transaction of a search: the candidates of both lanes with enough confidence, in one order."""

from collections.abc import Mapping, Set
from dataclasses import replace
from datetime import datetime
from operator import itemgetter

from tulving.domain import ranking
from tulving.domain.decay import covers_fading
from tulving.domain.model import Hit
from tulving.domain.ranking import Mode
from tulving.storage.connection import Connection
from tulving.storage.kinds import KIND
from tulving.storage.lanes import CandidateRows, Key, LaneRequest, Lanes

DEEPER = 4
"""The factor by which the limit of a lane grows when too many of its candidates have too little confidence."""


def collect(
    conn: Connection, request: LaneRequest, mode: Mode, min_confidence: float, most: int | None
) -> tuple[int, list[Hit], int]:
    """The number of candidates, the best hits with enough confidence, and how many candidates had too little."""
    lanes, doubted = _believed(conn, request, mode, min_confidence)
    order = _order(lanes, mode, request.limit * len(request.kinds))
    hits = [_hit(key, score, place, lanes, request.now) for key, score, place in order[:most]]
    return len(order) + len(doubted), hits, len(doubted)


def _believed(conn: Connection, request: LaneRequest, mode: Mode, min_confidence: float) -> tuple[Lanes, set[Key]]:
    """The lanes without the candidates of too little confidence, and those candidates. They must not displace others:
    if they leave a lane short of its limit, the lane is queried again, first without fading memories, then deeper."""
    doubted: set[Key] = set()
    deeper = request
    while True:
        lanes = conn.lanes(deeper)
        if mode == "hybrid":  # zero similarity is not a match
            alike = {key: similarity for key, similarity in lanes.semantic.items() if similarity > 0}
            lanes = replace(lanes, semantic=alike)
        met = lanes.semantic.keys() | lanes.keyword.keys()
        disbelieved = {key for key in met if lanes.rows.confidence(key, request.now) < min_confidence}
        if not disbelieved and deeper is request:
            return lanes, doubted
        doubted |= disbelieved
        semantic, semantic_short = _sifted(lanes.semantic, lanes.rows, doubted, request, deeper.limit)
        keyword, keyword_short = _sifted(lanes.keyword, lanes.rows, doubted, request, deeper.limit)
        if not (semantic_short or keyword_short):
            return Lanes(semantic, keyword, lanes.rows), doubted
        if covers_fading(min_confidence) and not deeper.filter.unfaded:
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


def _order(lanes: Lanes, mode: Mode, limit: int) -> list[tuple[Key, float, ranking.Fused[Key] | None]]:
    """The candidates of all kinds, best first. All kinds share a lane before fusion, so that a fact and a rule compete
    by how well they match, not by their rank within their kind."""
    if mode != "hybrid":
        lane = lanes.semantic if mode == "semantic" else lanes.keyword
        return [(key, score, None) for key, score in _ranked(lane, lanes.rows)]
    semantic, keyword = ([key for key, _ in _ranked(lane, lanes.rows)] for lane in (lanes.semantic, lanes.keyword))
    return [(place.key, place.rrf_score, place) for place in ranking.fuse(semantic, keyword, limit)]


def _ranked(lane: Mapping[Key, float], rows: CandidateRows) -> list[tuple[Key, float]]:
    """001-126: best first; ties by newest, then lowest id."""
    keys = sorted(lane, key=itemgetter(1))
    keys.sort(key=rows.created_at, reverse=True)
    keys.sort(key=lane.__getitem__, reverse=True)
    return [(key, lane[key]) for key in keys]


def _hit(key: Key, score: float, place: ranking.Fused[Key] | None, lanes: Lanes, now: datetime) -> Hit:
    item = KIND[key[0]].item(lanes.rows[key])
    parts = {
        "similarity": lanes.semantic.get(key),
        "rank": lanes.keyword.get(key),
        "semantic_rank": place and place.semantic_rank,
        "keyword_rank": place and place.keyword_rank,
        "rrf_score": place and place.rrf_score,
        "confidence": lanes.rows.confidence(key, now),
    }
    known = {name: value for name, value in parts.items() if value is not None}
    return Hit(memory_type=key[0], item=item, score=score, parts=known)
