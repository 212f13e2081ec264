"""Days, which begin at midnight in UTC."""

from datetime import UTC, datetime, timedelta

DAY = timedelta(days=1)
EVER = datetime(1, 1, 2, tzinfo=UTC)
"""A time before everything that is stored."""


def midnight(moment: datetime) -> datetime:
    """When the day of a moment began."""
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def until(last: datetime, count: int) -> list[datetime]:
    """The beginnings of so many days, the last of which is that of a moment."""
    return after(midnight(last) - (count - 1) * DAY, count)


def after(first: datetime, count: int) -> list[datetime]:
    """The beginnings of so many days, the first of which is that of a moment."""
    return [midnight(first) + number * DAY for number in range(count)]
