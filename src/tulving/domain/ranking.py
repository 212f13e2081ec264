"""From ranks and ages to one order. Pure formulas; the engines only supply ranks."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import mul
from typing import Any, Generic, Literal, NamedTuple, TypeVar
from uuid import UUID

from tulving.domain.decay import days_between
from tulving.domain.model import Kind

Key = TypeVar("Key", bound=Hashable)

Mode = Literal["hybrid", "semantic", "keyword"]
MODES: tuple[Mode, ...] = ("hybrid", "semantic", "keyword")
FUSIONS = ("evidence", "rrf")
"""What the order of a hybrid search comes from: the evidence for each memory (`relevance.py`), or the ranks alone."""

RRF_K = 60
RECENCY_HALF_LIFE_DAYS = 7.0
NEUTRAL_IMPORTANCE = 5.0

SIMILARITY_DECIMALS = 5
"""Each engine rounds a cosine similarity to this many decimals, once, where it is computed.

Sums of 32-bit floats differ in the seventh decimal between processors and between engines; rounding makes equal
vectors tie on all of them. A value within 1e-6 of a rounding edge may still fall on either side of it, so memories
whose similarities are within 1e-5 of each other may change places.
"""


@dataclass(frozen=True, slots=True)
class Fused(Generic[Key]):
    """One candidate's place in both lanes; a lane that misses it counts as rank limit + 1."""

    key: Key
    semantic_rank: int
    keyword_rank: int
    rrf_score: float


def rrf_score(semantic_rank: int, keyword_rank: int) -> float:
    """001-030: reciprocal rank fusion."""
    return 1.0 / (RRF_K + semantic_rank) + 1.0 / (RRF_K + keyword_rank)


def fuse(semantic: Sequence[Key], keyword: Sequence[Key], limit: int) -> list[Fused[Key]]:
    """001-030, 002-011: fuse both lanes into one order; ties go to the better semantic rank."""
    missing = limit + 1
    semantic_ranks = {key: rank for rank, key in enumerate(semantic[:limit], 1)}
    keyword_ranks = {key: rank for rank, key in enumerate(keyword[:limit], 1)}
    fused = [
        Fused(key, s := semantic_ranks.get(key, missing), k := keyword_ranks.get(key, missing), rrf_score(s, k))
        for key in {**semantic_ranks, **keyword_ranks}
    ]
    return sorted(fused, key=lambda place: (-place.rrf_score, place.semantic_rank, place.keyword_rank))


def relevance(rrf: float, limit: int, lanes: int = 2) -> float:
    """An RRF score over its attainable range: the best possible hit is 1, the worst 0.

    Dividing by the best alone would leave all hits between 0.87 and 1. With one lane only, its first
    hit has the best possible score.
    """
    best = rrf_score(1, 1 if lanes == 2 else limit + 1)
    worst = rrf_score(limit, limit + 1)
    if best <= worst:
        return 1.0
    return min(1.0, max(0.0, (rrf - worst) / (best - worst)))


def recency(last_referenced_at: datetime | None, now: datetime, half_life: float = RECENCY_HALF_LIFE_DAYS) -> float:
    """001-033: halves every seven days since the last reference; 0 for a memory that was never referenced."""
    if last_referenced_at is None:
        return 0.0
    return min(1.0, max(0.0, math.exp(-math.log(2) / half_life * days_between(last_referenced_at, now))))


class Match(NamedTuple):
    """A memory that was found, as input to the factors. `importance` is None for one that has none of its own.
    `happened` is when an episode happened, `last` when it was last referred to, by someone else than the one who now
    recalls."""

    kind: Kind
    relevance: float
    importance: float | None
    confidence: float
    happened: datetime | None
    last: datetime | None
    now: datetime


class Factor(NamedTuple):
    """One reason to recall a memory: its default weight, and how strong it is from 0 to 1."""

    weight: float
    strength: Callable[[Match], float]


def _recency(match: Match) -> float:
    """Of an episode since it happened, of a fact or rule since it was last referred to."""
    return recency(match.happened if match.kind == "episode" else match.last, match.now)


FACTORS: dict[str, Factor] = {
    "relevance": Factor(0.4, lambda match: match.relevance),
    "importance": Factor(
        0.3, lambda match: (NEUTRAL_IMPORTANCE if match.importance is None else match.importance) / 10
    ),
    "recency": Factor(0.2, _recency),
    "confidence": Factor(0.1, lambda match: match.confidence),
}
"""What recall orders by. Settings assign weights by these names, and every surface shows the strengths."""
WEIGHTS: dict[str, float] = {name: factor.weight for name, factor in FACTORS.items()}


def composite(match: Match, weights: Mapping[str, float]) -> tuple[float, dict[str, float]]:
    """001-032: the weighted sum that recall orders by, and the strength of each factor."""
    strengths = {name: factor.strength(match) for name, factor in FACTORS.items()}
    return sum(map(mul, map(weights.__getitem__, strengths), strengths.values())), strengths


def stable_order(score: float, created_at: datetime, id_: UUID) -> tuple[Any, ...]:
    """001-126: score descending, then newest first, then lowest id."""
    return (-score, -created_at.timestamp(), id_)
