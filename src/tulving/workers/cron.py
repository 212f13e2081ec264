"""The ticks of a cron expression. Times are UTC; a sixth field, if there is one, is seconds."""

from datetime import datetime


def tick_after(cron: str, moment: datetime) -> datetime:
    """The first tick after a moment."""
    from croniter import croniter  # takes a tenth of a second

    return croniter(cron, moment).get_next(datetime)
