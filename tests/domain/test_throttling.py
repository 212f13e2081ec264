"""How many writes may wait, by how long the latest ones took."""

import pytest

from tulving.domain.throttling import FEWEST, FEWEST_MEASURED, MEASURED, WINDOW, Latency, allowed, is_slow


def test_the_latency_is_that_of_the_latest_writes():
    latency = Latency()
    assert latency.median(0) == 0
    for number in range(MEASURED):
        latency.add(number / 1000, 4.0)
    assert latency.median(1) == 4.0
    for _ in range(MEASURED // 2):
        latency.add(1, 2.0)
    assert latency.median(1) == 4.0, "half of them are replaced"
    latency.add(1, 2.0)
    assert latency.median(1) == 2.0, "more than half of them"
    assert latency.median(1 + WINDOW) == 2.0, "the older half says nothing about now"
    assert latency.median(1.001 + WINDOW) == 0, "nor does any of them, a moment later"


def test_one_large_batch_says_nothing_about_the_others():
    latency = Latency()
    for number in range(FEWEST_MEASURED - 1):
        latency.add(number, 100.0)
    assert latency.median(10) == 0, "too few to tell"
    latency.add(10, 100.0)
    assert latency.median(10) == 100.0
    for _ in range(FEWEST_MEASURED):
        latency.add(10, 0.5)
    latency.add(10, 0.5)
    assert latency.median(10) == 0.5


@pytest.mark.parametrize(
    ("latency", "was_slow", "slow"),
    [(1.999, False, False), (2.0, False, True), (9.0, True, True), (1.0, True, True), (0.999, True, False)],
)
def test_slow_begins_at_the_target_and_ends_below_half_of_it(latency: float, was_slow: bool, slow: bool):
    assert is_slow(latency, 2.0, was_slow) is slow


@pytest.mark.parametrize(
    ("before", "waiting", "latency", "limit"),
    [
        (1000, 400, 4.0, 200),  # twice as slow as it should be: half as many
        (1000, 400, 2.0, 400),
        (100, 400, 4.0, 100),  # it never rises while writes are slow
        (1000, 20, 40.0, FEWEST),
        (200, 200, 1.999, 200),
        (200, 200, 1.0, 200),
        (200, 200, 0.999, 400),
        (600, 1, 0.0, 1000),
    ],
)
def test_slow_writes_lower_the_limit_and_fast_ones_raise_it(before: int, waiting: int, latency: float, limit: int):
    assert allowed(before, waiting, latency, 2.0, most=1000) == limit


def test_a_limit_of_the_users_own_may_be_lower_than_ours():
    assert allowed(2, 2, 40.0, 2.0, most=2) == 2
