"""How long an episode stays when its time is over."""

from datetime import UTC, datetime, timedelta

MAX_ENTRIES = 10_000


def graced_before(as_of: datetime, grace_days: float | None) -> datetime:
    """What expired by then is deleted even if nobody has learned from it; without a grace that is `as_of` itself."""
    try:
        return as_of - timedelta(days=grace_days or 0)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def surplus(entries: int, most: int, spent: int) -> int:
    """001-059: how many of the entries go to make room, when only those that are spent may."""
    return min(max(0, entries - most), spent)
