"""How belief fades when nothing confirms it."""

import math
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from tulving.domain.intake import one_of

PERMANENCE = {"permanent": 0.0, "stable": 0.002, "standard": 0.008, "volatile": 0.03, "ephemeral": 0.1}
RULE_DECAY_RATE = 0.01
FADING_BELOW = 0.2
EXPIRED_BELOW = 0.05
_DAY = timedelta(days=1)


def decay_rate(permanence: str) -> float:
    """001-014, 001-015, 004-013: the daily rate of a permanence level."""
    return PERMANENCE[one_of("permanence", permanence, list(PERMANENCE))]


def days_between(earlier: datetime, later: datetime) -> float:
    """Elapsed days; a clock that went backwards never gives a negative age."""
    return max(0.0, (later - earlier) / _DAY)


def effective_confidence(confidence: float, rate: float, confirmed_at: datetime | None, now: datetime) -> float:
    """001-035, 001-036: confidence * exp(-rate * days since it was last confirmed)."""
    if rate == 0.0:
        return confidence
    if confirmed_at is None:
        return 0.0
    return confidence * math.exp(-rate * days_between(confirmed_at, now))


def next_review_at(confidence: float, rate: float, confirmed_at: datetime, now: datetime) -> datetime | None:
    """When the effective confidence next falls below a threshold: the closed form of the crossing.

    `now` when it is already below the last one, None when it never will be.
    """
    if rate == 0.0:
        return None
    for threshold in (FADING_BELOW, EXPIRED_BELOW):
        if confidence < threshold:
            continue
        try:
            crossing = confirmed_at + timedelta(days=math.log(confidence / threshold) / rate)
        except OverflowError:
            return None
        if crossing > now:
            return crossing
    return now


class Standing(NamedTuple):
    """What a review finds: how well a belief stands, and when to look again (None: never)."""

    state: Literal["active", "fading", "expired"]
    next_review_at: datetime | None


def review(confidence: float, rate: float, confirmed_at: datetime, now: datetime) -> Standing:
    """001-007, 001-008, 001-037: where the effective confidence stands between the thresholds."""
    believed = effective_confidence(confidence, rate, confirmed_at, now)
    if believed < EXPIRED_BELOW:
        return Standing("expired", None)
    state = "fading" if believed < FADING_BELOW else "active"
    return Standing(state, next_review_at(confidence, rate, confirmed_at, now))
