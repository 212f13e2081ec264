"""Whose turn it is: pure decisions about jobs and pieces."""

from datetime import UTC, datetime, timedelta

import pytest

from tulving.domain.schedule import Entry, next_turns, pause_after_failure

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(minutes=2)
JOBS = ["learn", "sweep"]


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def turns(*entries: Entry, jobs: list[str] = JOBS) -> list[tuple[str, datetime]]:
    return [(entry.name, free_at) for free_at, entry in next_turns(entries, jobs, NOW, LEASE)]


def test_jobs_come_in_the_order_in_which_they_are_due():
    entries = Entry("sweep", at(-1)), Entry("learn", at(-1)), Entry("sweep/a:x", at(-2)), Entry("learn/b:x", at(5))
    assert turns(*entries) == [("sweep/a:x", at(-2)), ("learn", at(-1)), ("sweep", at(-1)), ("learn/b:x", at(5))]


def test_what_has_no_time_or_is_switched_off_has_no_turn():
    assert turns(Entry("sweep"), Entry("learn", at(-1)), Entry("learn/a:x", at(-1)), jobs=["sweep"]) == []


def test_of_a_key_the_earliest_piece_goes_first():
    assert turns(Entry("learn/a:x", at(-1)), Entry("sweep/a:x", at(-2))) == [("sweep/a:x", at(-2))]


def test_a_piece_of_a_job_that_is_switched_off_holds_up_its_key_only_while_it_is_done():
    mine = Entry("sweep/a:x", at(-1))
    assert turns(mine, Entry("learn/a:x", at(-2)), jobs=["sweep"]) == [("sweep/a:x", at(-1))]
    running = Entry("learn/a:x", at(-2), holder="other", lease_until=at(1))
    assert turns(mine, running, jobs=["sweep"]) == [("sweep/a:x", at(1))]


def test_a_piece_that_failed_holds_up_those_behind_it():
    failed = Entry("learn/a:x", at(-2), lease_until=at(50), last_error="ValueError")
    assert turns(failed, Entry("sweep/a:x", at(-1))) == [("learn/a:x", at(50))]


@pytest.mark.parametrize(
    ("holder", "minutes", "free_at"),
    [("other", 1, at(1)), ("other", 20, at(20)), ("other", 21, at(-1)), ("other", 0, at(-1)), (None, 61, at(-1))],
)
def test_a_lease_that_is_over_or_can_not_be_true_does_not_block(holder, minutes, free_at):
    assert turns(Entry("sweep", at(-1), holder=holder, lease_until=at(minutes))) == [("sweep", free_at)]


@pytest.mark.parametrize(("since", "pause"), [(None, 1), (0.1, 1), (1, 2), (20, 40), (31, 60), (600, 60)])
def test_pauses_after_failures_grow(since, pause):
    failed = Entry("sweep", last_error="ValueError", last_started_at=None if since is None else at(-since))
    assert pause_after_failure(failed, NOW) == timedelta(minutes=pause)


def test_the_first_failure_after_a_success_is_tried_again_soon():
    assert pause_after_failure(Entry("sweep", last_started_at=at(-600)), NOW) == timedelta(minutes=1)


@pytest.mark.parametrize(
    ("entry", "state"),
    [
        (Entry("sweep"), "waiting"),
        (Entry("sweep", at(-1)), "waiting"),
        (Entry("sweep", holder="me", lease_until=at(1), last_started_at=at(-1)), "running"),
        (Entry("sweep", holder="me", lease_until=at(0), last_started_at=at(-2)), "interrupted"),
        (Entry("sweep", holder="me", lease_until=at(60), last_started_at=at(-2)), "interrupted"),  # by a wrong clock
        (Entry("sweep", last_started_at=at(-1), last_finished_at=at(-2)), "interrupted"),
        (Entry("sweep", last_started_at=at(-1), last_finished_at=at(-1)), "ok"),
        (Entry("sweep", last_started_at=at(-2), last_finished_at=at(-1), last_error="no luck"), "failed"),
        (Entry("sweep", holder="me", lease_until=at(1), last_started_at=at(0), last_error="no luck"), "running"),
    ],
)
def test_the_state_of_a_job_is_that_of_its_last_run(entry: Entry, state: str):
    assert entry.state(NOW, LEASE) == state
