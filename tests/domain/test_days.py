"""Days, which begin at midnight in UTC wherever a moment is told."""

from datetime import UTC, datetime, timedelta, timezone

from tulving.domain import days

EVENING = datetime(2026, 3, 1, 23, 30, tzinfo=timezone(timedelta(hours=-3)))


def test_a_day_is_that_of_utc():
    assert days.midnight(EVENING) == datetime(2026, 3, 2, tzinfo=UTC)


def test_days_up_to_a_moment_and_from_it_on():
    assert days.until(EVENING, 3) == [datetime(2026, 2, 28, tzinfo=UTC) + n * days.DAY for n in range(3)]
    assert days.after(EVENING, 2) == [datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 3, 3, tzinfo=UTC)]
