"""How long an episode is kept after it has expired."""

from datetime import UTC, datetime, timedelta

MAX_ENTRIES = 10_000


def graced_before(as_of: datetime, grace_days: float | None) -> datetime:
    """Episodes that expired by this time are deleted even if unconsolidated; without a grace period it is `as_of`."""
    try:
        return as_of - timedelta(days=grace_days or 0)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def surplus(entries: int, most: int, spent: int) -> int:
    """001-059: how many entries to delete to make room, when only the spent ones may be deleted."""
    return min(max(0, entries - most), spent)
