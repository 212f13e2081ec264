"""How a memory will fade if nothing confirms it."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from tulving.domain.decay import EXPIRED_BELOW, FADING_BELOW, days_between, effective_confidence
from tulving.domain.model import Fact, Item, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Effective confidence at equal steps from now until expiry, and when it crosses the thresholds."""

    values: tuple[float, ...]
    fading_at: datetime
    expires_at: datetime


def forecast(item: Item, now: datetime, steps: int) -> Forecast | None:
    """The forecast of a decaying memory; None if it does not decay or is already out of use."""
    if not isinstance(item, Fact | Rule) or item.decay_rate == 0 or item.next_review_at is None:
        return None
    confirmed = item.last_confirmed_at or item.created_at
    try:
        fading_at, expires_at = (
            confirmed + timedelta(days=math.log(max(item.confidence, below) / below) / item.decay_rate)
            for below in (FADING_BELOW, EXPIRED_BELOW)
        )
    except OverflowError:
        return None
    step = timedelta(days=days_between(now, expires_at)) / (steps - 1)
    return Forecast(
        values=tuple(
            effective_confidence(item.confidence, item.decay_rate, confirmed, now + number * step)
            for number in range(steps)
        ),
        fading_at=fading_at,
        expires_at=expires_at,
    )
