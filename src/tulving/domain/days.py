"""Days in UTC."""

from datetime import UTC, datetime, timedelta

DAY = timedelta(days=1)
EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
"""A time before that of anything stored."""


def midnight(moment: datetime) -> datetime:
    """The start of the day of a moment."""
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def until(last: datetime, count: int) -> list[datetime]:
    """The starts of `count` consecutive days, of which `last` is the last."""
    return after(midnight(last) - (count - 1) * DAY, count)


def after(first: datetime, count: int) -> list[datetime]:
    """The starts of `count` consecutive days, of which `first` is the first."""
    return [midnight(first) + number * DAY for number in range(count)]
