"""The decisions about what a model proposes: pure, and exact at their limits."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from tulving.domain.learning import (
    FEW,
    ConsolidationResult,
    Extraction,
    after_failure,
    batch,
    day_of,
    derived_confidence,
    happened_at,
    is_too_much,
    surplus,
    unreadable,
)
from tulving.domain.model import Episode, Fact

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
OWN = {"tenant_id": "t", "content": "c", "content_hash": "h", "created_at": NOW, "updated_at": NOW}


def episode(attempts=0, **more):
    return Episode(**OWN, id=UUID(int=1), butler="b", consolidation_attempts=attempts, **more)


def fact(number, confidence, age=0):
    given = OWN | {"created_at": NOW - timedelta(days=age)}
    return Fact(**given, id=UUID(int=number), subject="s", predicate="p", confidence=confidence)


@pytest.mark.parametrize("kind", [ConsolidationResult, Extraction])
@pytest.mark.parametrize(
    ("errors", "found"),
    [
        ([], None),
        (["new_facts[0]: content is missing"], None),
        (["No JSON block found in consolidation output"], "No JSON block found in consolidation output"),
        (["Invalid JSON: it is cut off"], "Invalid JSON: it is cut off"),
    ],
)
def test_an_answer_is_unreadable_only_if_it_holds_no_object(kind, errors, found):
    assert unreadable(kind(parse_errors=errors)) == found


@pytest.mark.parametrize(
    ("attempts", "size"),
    [
        ([], 0),
        ([0] * 3, 3),
        ([0] * 20, 16),
        ([1] * 20, 8),
        ([2] * 20, 4),
        ([3] * 20, 2),
        ([4] * 20, 1),
        ([99] * 20, 1),
        ([0] * 5 + [4] + [0] * 5, 5),
        ([0] * 9 + [1] * 5, 9),
        ([0] * 2 + [3] * 5, 2),
        ([0] + [3] * 5, 2),
        ([4] + [0] * 5, 1),
    ],
)
def test_a_batch_halves_with_each_failure_and_the_last_attempt_is_made_alone(attempts, size):
    told = [episode(each) for each in attempts]
    assert list(batch(told, 16, 5)) == told[:size]


def test_the_last_attempt_is_made_alone_however_large_batches_are():
    assert len(batch([episode(3)] * 100, 100, 5)) == 12
    assert len(batch([episode(4)] * 100, 100, 5)) == 1
    assert len(batch([episode(0)] * 7 + [episode(4)], 100, 5)) == 7


def test_with_a_single_attempt_nothing_is_made_alone():
    assert len(batch([episode()] * 20, 16, 1)) == 16


def test_the_wait_doubles_until_an_episode_is_given_up():
    waits = []
    for attempts in range(4):
        changes = after_failure(episode(attempts), "Why", 5, NOW)
        assert (changes["consolidation_status"], changes["consolidation_attempts"]) == ("pending", attempts + 1)
        assert changes["last_consolidation_error"] == "Why"
        waits.append((changes["next_consolidation_retry_at"] - NOW) / timedelta(minutes=1))
    assert waits == [2, 4, 8, 16]
    last = after_failure(episode(4), "Why", 5, NOW)
    assert (last["consolidation_status"], last["next_consolidation_retry_at"]) == ("dead_letter", None)
    longest = after_failure(episode(90), "Why", 100, NOW)["next_consolidation_retry_at"] - NOW
    assert longest == timedelta(minutes=1024)


def test_an_episode_is_evidence_since_it_happened():
    earlier = NOW - timedelta(days=9)
    assert happened_at(episode(occurred_at=earlier)) == earlier
    assert happened_at(episode()) == NOW


@pytest.mark.parametrize(
    ("offered", "sources", "expected"),
    [(None, (), 1.0), (0.7, (), 0.7), (0.9, (0.4, 0.8), 0.4), (0.2, (0.4,), 0.2), (None, (0.3,), 0.3)],
)
def test_what_is_derived_is_at_most_as_certain_as_its_sources(offered, sources, expected):
    assert derived_confidence(offered, sources) == expected


@pytest.mark.parametrize(
    ("lost", "facts", "share", "held"),
    [
        (FEW - 1, 2, 0.0, False),
        (FEW, 10, 0.2, True),
        (FEW, 15, 0.2, False),
        (4, 15, 0.2, True),
        (20, 100, 0.2, False),
        (21, 100, 0.2, True),
        (100, 100, 1.0, False),
    ],
)
def test_losing_more_than_the_share_is_too_much_but_a_few_never_are(lost, facts, share, held):
    assert is_too_much(lost, facts, share) is held


def test_the_least_certain_and_then_the_oldest_make_room_and_new_ones_last():
    known = [fact(1, 0.9), fact(2, 0.5, age=1), fact(3, 0.5, age=2), fact(4, 0.7)]
    new = [fact(5, 0.1), fact(6, 0.2)]
    assert [each.id.int for each in surplus(known, new, 4)] == [3, 2]
    assert [each.id.int for each in surplus(known, new, 1)] == [3, 2, 4, 1, 5]
    assert surplus(known, new, 6) == surplus(known, new, 0) == []


def test_a_day_begins_at_midnight_utc():
    assert day_of(NOW) == datetime(2026, 1, 1, tzinfo=UTC)
    assert day_of(datetime(2026, 1, 1, 23, 59, 59, 999_999, tzinfo=UTC)) == datetime(2026, 1, 1, tzinfo=UTC)
    assert day_of(datetime(2026, 1, 2, tzinfo=UTC)) == datetime(2026, 1, 2, tzinfo=UTC)
