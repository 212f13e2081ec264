"""What time does to memories: belief fades when nothing confirms it, and episodes expire."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from tulving.domain.intake import LAST, one_of
from tulving.domain.model import Fact, Rule

PERMANENCE = {"permanent": 0.0, "stable": 0.002, "standard": 0.008, "volatile": 0.03, "ephemeral": 0.1}
RULE_DECAY_RATE = 0.01
MAX_ENTRIES = 10_000
"""How many episodes a tenant keeps by default."""
FADING_BELOW = 0.2
EXPIRED_BELOW = 0.05
LAST_SWEEP = LAST - timedelta.resolution
"""A memory that would fade after the end of the calendar is due at the very end, which no sweep reaches."""
_DAY = timedelta(days=1)
_DOUBT = timedelta(milliseconds=10)


def decay_rate(permanence: str) -> float:
    """001-014, 001-015, 004-013: the daily rate of a permanence level."""
    return PERMANENCE[one_of("permanence", permanence, list(PERMANENCE))]


def days_between(earlier: datetime, later: datetime) -> float:
    """Elapsed days; never negative, even if the clock went backwards."""
    return max(0.0, (later - earlier) / _DAY)


def effective_confidence(confidence: float, rate: float, confirmed_at: datetime | None, now: datetime) -> float:
    """001-035, 001-036: confidence * exp(-rate * days since it was last confirmed)."""
    if rate == 0.0:
        return confidence
    if confirmed_at is None:
        return 0.0
    return _faded(confidence, rate, days_between(confirmed_at, now))


def _faded(confidence: float, rate: float, days: float) -> float:
    return confidence * math.exp(-rate * days)


def covers_fading(min_confidence: float) -> bool:
    """Whether every fading memory is below this confidence, so that the stored state can replace the formula."""
    return min_confidence >= FADING_BELOW


def next_review_at(confidence: float, rate: float, confirmed_at: datetime, now: datetime) -> datetime | None:
    """When an active memory is due for review: the moment at which it begins to fade.

    `now` if it should be fading already, None if it does not decay.
    """
    return _next_below(FADING_BELOW, confidence, rate, confirmed_at, now)


def _next_below(
    threshold: float, confidence: float, rate: float, confirmed_at: datetime, now: datetime
) -> datetime | None:
    if rate == 0.0:
        return None
    if effective_confidence(confidence, rate, confirmed_at, now) < threshold:
        return now
    try:
        return min(max(confirmed_at + _lasts(confidence, rate, threshold), now + timedelta.resolution), LAST)
    except OverflowError:
        return LAST


@lru_cache(1024)
def _lasts(confidence: float, rate: float, threshold: float) -> timedelta:
    """How long the formula stays at the threshold or above, to the microsecond. The closed form has rounding errors, so
    it only gives the range of a binary search: at this time and just before it, both must agree."""
    about = timedelta(days=math.log(confidence / threshold) / rate)
    first, last = max(timedelta(0), about - _DOUBT), about + _DOUBT
    while first < last:
        middle = first + (last - first) // 2
        if _faded(confidence, rate, middle / _DAY) < threshold:
            last = middle
        else:
            first = middle + timedelta.resolution
    return first


class Standing(NamedTuple):
    """The result of a review: the state, the effective confidence, and when the next review is due (None: never)."""

    state: Literal["active", "fading", "expired"]
    believed: float
    next_review_at: datetime | None


def review(confidence: float, rate: float, confirmed_at: datetime, now: datetime) -> Standing:
    """001-007, 001-008, 001-037: compare the effective confidence with the thresholds.

    A memory that does not decay stays active, however low its confidence.
    """
    believed = effective_confidence(confidence, rate, confirmed_at, now)
    if rate == 0.0:
        return Standing("active", believed, None)
    if believed < EXPIRED_BELOW:
        return Standing("expired", believed, None)
    if believed < FADING_BELOW:
        return Standing("fading", believed, _next_below(EXPIRED_BELOW, confidence, rate, confirmed_at, now))
    return Standing("active", believed, next_review_at(confidence, rate, confirmed_at, now))


Decaying = TypeVar("Decaying", bound=Fact | Rule)
Transition = Literal["fading", "expired", "recovered"]


class Reviewed(NamedTuple, Generic[Decaying]):
    """A memory after a review, its transition (None: unchanged) and its effective confidence."""

    item: Decaying
    became: Transition | None
    believed: float


def reviewed(item: Decaying, as_of: datetime, now: datetime) -> Reviewed[Decaying]:
    """001-007, 001-008, 001-037: let a memory fade, expire or recover. One that was never confirmed decays from its
    creation."""
    standing = review(item.confidence, item.decay_rate, item.last_confirmed_at or item.created_at, as_of)
    became = _transition(standing.state, item.status == "fading")
    item = replace(item, next_review_at=standing.next_review_at)
    if became is not None:
        item = replace(item, status="fading" if became == "fading" else None, updated_at=now)
    if became == "expired":
        ended: dict[str, Any] = {"validity": "expired"}
        if isinstance(item, Rule):
            ended = {"forgotten": True, "metadata": {**item.metadata, "forgotten": True}}
        item = replace(item, **ended, ended_at=as_of)
    return Reviewed(item, became, standing.believed)


def _transition(state: str, was_fading: bool) -> Transition | None:
    if state == "expired":
        return "expired"
    if (state == "fading") == was_fading:
        return None
    return "recovered" if was_fading else "fading"


def graced_before(as_of: datetime, grace_days: float | None) -> datetime:
    """Episodes that expired by this time are deleted even if unconsolidated; without a grace period it is `as_of`."""
    try:
        return as_of - timedelta(days=grace_days or 0)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def surplus(entries: int, most: int, spent: int) -> int:
    """001-059: how many entries to delete to make room, when only the spent ones may be deleted."""
    return min(max(0, entries - most), spent)
