from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulving.domain.arbitration import (
    SOURCE_PRIORITIES,
    WEIGHTS,
    Arbitration,
    ArbitrationPolicy,
    arbitrate,
    most_severe,
    source_of,
    source_priority,
    weight,
)
from tulving.domain.conflicts import Conflict, Signal
from tulving.domain.model import Fact

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
CANDIDATE, EXISTING = UUID(int=1), UUID(int=2)
SCORES_ONLY: dict[str, Any] = {
    "prefer_detail": False,
    "priority_importance": False,
    "priority_recency": False,
    "priority_source": False,
}


def fact(number: int = 1, **values: Any) -> Fact:
    known = {"content": "prefers tea", "subject": "user", "predicate": "preference", "keyed": False}
    dates = {"created_at": NOW, "updated_at": NOW}
    return Fact(**{"tenant_id": "t", "id": UUID(int=number), "content_hash": None, **known, **dates, **values})


def conflict(existing: Fact, *scores: float, **values: Any) -> Conflict:
    signals = [Signal(kind="semantic", score=score, target_id=existing.id) for score in scores or (0.9,)]
    return Conflict(existing=existing, signals=signals, **values)


def settled(candidate: dict[str, Any], existing: dict[str, Any], of_conflict: Any = (), **policy: Any) -> Arbitration:
    known = conflict(fact(2, **existing), **dict(of_conflict))
    return arbitrate(fact(1, **candidate), [known], ArbitrationPolicy(**policy))


def outcome(result: Arbitration) -> tuple[Any, ...]:
    return result.action, result.winner, result.loser, pytest.approx(result.confidence, abs=1e-4)


def test_without_a_conflict_the_candidate_is_kept() -> None:
    result = arbitrate(fact(1), [], ArbitrationPolicy(default_strategy="reject"))
    assert outcome(result) == ("keep", CANDIDATE, None, 1.0)
    assert (result.reason, result.conflict) == ("no conflict", None)


@pytest.mark.scenario("000-026")
@pytest.mark.parametrize(
    ("candidate", "existing", "winner", "confidence"),
    [(9.0, 5.0, 1, 0.8), (5.0, 9.0, 2, 0.8), (10.0, 5.0, 1, 1.0), (10.0, 0.0, 1, 1.0), (5.5, 5.0, 1, 0.1)],
)
def test_the_more_important_one_wins(candidate: float, existing: float, winner: int, confidence: float) -> None:
    older = NOW - timedelta(days=9)
    result = settled({"importance": candidate, "occurred_at": older}, {"importance": existing})
    assert outcome(result) == ("keep", UUID(int=winner), UUID(int=3 - winner), confidence)
    assert f"{candidate / 10:g}" in result.reason
    assert result.conflict is not None
    assert result.conflict.existing.id == EXISTING


@pytest.mark.scenario("000-027")
@pytest.mark.parametrize(
    ("later", "winner", "confidence", "span"),
    [
        (timedelta(hours=6), 1, 0.25, "6 hours"),
        (timedelta(hours=-6), 2, 0.25, "6 hours"),
        (timedelta(hours=24), 1, 1.0, "1 day"),
        (timedelta(days=30), 1, 1.0, "30 days"),
        (timedelta(microseconds=1), 1, 0.0, "less than a second"),
    ],
)
def test_the_newer_one_wins(later: timedelta, winner: int, confidence: float, span: str) -> None:
    result = settled({"occurred_at": NOW + later, "source": "inferred"}, {"source": "user"})
    assert outcome(result) == ("keep", UUID(int=winner), UUID(int=3 - winner), confidence)
    assert result.reason == f"newer by {span}"


@pytest.mark.parametrize(
    ("later", "span"),
    [
        (timedelta(seconds=1), "1 second"),
        (timedelta(seconds=59, microseconds=999_999), "59 seconds"),
        (timedelta(minutes=1, seconds=59), "1 minute"),
        (timedelta(hours=23, minutes=59), "23 hours"),
        (timedelta(days=1, hours=23), "1 day"),
    ],
)
def test_a_difference_in_time_is_told_in_its_largest_unit(later: timedelta, span: str) -> None:
    assert settled({"occurred_at": NOW + later}, {}).reason == f"newer by {span}"


def test_a_fact_counts_from_when_it_became_true() -> None:
    result = settled({"occurred_at": NOW - timedelta(days=2)}, {"created_at": NOW - timedelta(days=1)})
    assert result.winner == EXISTING


@pytest.mark.scenario("000-028")
@pytest.mark.parametrize(
    ("candidate", "existing", "winner"),
    [("user", "inferred", 1), ("system", "skill", 2), ("conversation", "user", 2), ("inferred", "elsewhere", 1)],
)
def test_the_better_source_wins(candidate: str, existing: str, winner: int) -> None:
    result = settled({"source": candidate}, {"source": existing})
    assert outcome(result) == ("keep", UUID(int=winner), UUID(int=3 - winner), 0.7)
    assert "source priority" in result.reason


def test_source_priorities_of_ones_own_are_used_everywhere() -> None:
    crm = {"CRM ": 20.0, "user": 10.0}
    ours, theirs = {"source": "Crm"}, {"source": "user"}
    assert settled(ours, theirs, source_priorities=crm).winner == CANDIDATE
    assert settled(ours, theirs).winner == EXISTING
    weighed = settled(ours, theirs, source_priorities=crm, **SCORES_ONLY, merge_threshold=0)
    assert outcome(weighed) == ("keep", CANDIDATE, EXISTING, 0.6)  # 0.5 + 0.2 * (20 - 10) / 20, twice halved
    assert settled(ours, theirs, source_priorities={}, allow_merge=False).confidence == 0.5


def test_the_source_of_a_fact() -> None:
    run = UUID(int=9)
    assert source_of(fact(source=" User ")) == "user"
    assert source_of(fact(source="Skill", run_id=run)) == "skill"
    assert source_of(fact(run_id=run)) == "inferred"
    assert source_of(fact()) == source_of(fact(source=" ")) == "user"
    assert source_priority(fact(run_id=run), SOURCE_PRIORITIES) == source_priority("INFERRED", SOURCE_PRIORITIES) == 2
    assert source_priority("unknown", SOURCE_PRIORITIES) == 0
    assert weight(fact()) == 0.5


@pytest.mark.parametrize("winner", [CANDIDATE, EXISTING])
@pytest.mark.parametrize(
    ("similarity", "confidence"), [(0.95, 0.95), (None, 0.9), (1.2, 1.0), (-0.3, 0.0), (float("nan"), 0.0)]
)
def test_of_two_that_say_the_same_the_fuller_one_wins(
    winner: UUID, similarity: float | None, confidence: float
) -> None:
    told = {"same": True, "fuller": winner, "similarity": similarity}
    result = settled({"importance": 9.0}, {"importance": 2.0}, told)
    assert outcome(result)[:2] == ("keep", winner)
    assert result.confidence == confidence
    assert "fuller" in result.reason


@pytest.mark.parametrize(
    ("told", "policy"),
    [
        ({"same": False, "fuller": EXISTING}, {}),
        ({"same": True, "fuller": None}, {}),
        ({"same": True, "fuller": EXISTING}, {"prefer_detail": False}),
    ],
    ids=["not the same", "neither is fuller", "disabled"],
)
def test_else_detail_does_not_decide(told: dict[str, Any], policy: dict[str, Any]) -> None:
    assert settled({"importance": 9.0}, {}, told, **policy).winner == CANDIDATE


@pytest.mark.parametrize(
    ("disabled", "winner"), [((), 1), (("importance",), 2), (("importance", "recency"), 1)], ids=str
)
def test_a_disabled_strategy_is_passed_over(disabled: Sequence[str], winner: int) -> None:
    candidate = {"importance": 6.0, "source": "user"}
    existing = {"importance": 5.0, "source": "system", "occurred_at": NOW + timedelta(hours=1)}
    policy = {f"priority_{name}": False for name in disabled}
    assert settled(candidate, existing, **policy).winner == UUID(int=winner)


@pytest.mark.scenario("000-029")
@pytest.mark.parametrize(
    ("candidate", "told", "ahead"),
    [
        ({"importance": 8.0}, {}, 0.24),
        ({"occurred_at": NOW + timedelta(days=20)}, {}, 0.4),
        ({"occurred_at": NOW + timedelta(days=30)}, {}, 0.6),
        ({"occurred_at": NOW + timedelta(days=900)}, {}, 0.6),
        ({"occurred_at": NOW - timedelta(days=900)}, {}, -0.6),
        ({"source": "inferred"}, {}, -0.32),
        ({"importance": 0.0, "occurred_at": NOW - timedelta(days=90), "source": "else"}, {}, -1.0),
        ({"importance": 8.0, "source": "inferred"}, {}, -0.08),
        ({}, {"fuller": CANDIDATE, "similarity": 0.8}, 0.16),
        ({}, {"fuller": EXISTING}, -0.18),
        ({}, {"similarity": 0.8}, 0.0),
    ],
)
def test_the_higher_score_wins(candidate: dict[str, Any], told: dict[str, Any], ahead: float) -> None:
    """The candidate's score minus the other one's: 2 * (0.4, 0.3, 0.2 and 0.1 times the differences)."""
    assert WEIGHTS == {"importance": 0.4, "recency": 0.3, "source": 0.2, "semantic": 0.1}
    result = settled(candidate, {}, told, **SCORES_ONLY, merge_threshold=0)
    winner, loser = (CANDIDATE, EXISTING) if ahead >= 0 else (EXISTING, CANDIDATE)
    assert outcome(result) == ("keep", winner, loser, 0.5 + abs(ahead) / 2)


@pytest.mark.scenario("000-029")
@pytest.mark.parametrize(
    ("importance", "action", "confidence"),
    [(7.5, "keep", 0.6), (2.5, "keep", 0.6), (7.49, "merge", 0.6), (2.51, "merge", 0.6), (5.0, "merge", 0.6)],
)
def test_close_scores_lead_to_a_merge(importance: float, action: str, confidence: float) -> None:
    """2 * 0.4 * 0.25 is the threshold of 0.2 itself, which is not less than that."""
    result = settled({"importance": importance}, {}, **SCORES_ONLY)
    assert result.action == action
    assert result.confidence == pytest.approx(confidence)
    if action == "merge":
        assert (result.winner, result.loser) == (None, None)
        assert "differ by less than 0.2" in result.reason
        assert settled({"importance": importance}, {}, **SCORES_ONLY, allow_merge=False).action == "keep"


def test_a_greater_threshold_merges_more() -> None:
    result = settled({"importance": 9.0}, {}, **SCORES_ONLY, merge_threshold=0.5)
    assert outcome(result) == ("merge", None, None, 0.6)
    assert result.conflict is not None
    assert settled({}, {}).action == "merge"


def test_weights_of_ones_own_decide() -> None:
    candidate = {"importance": 9.0, "occurred_at": NOW - timedelta(days=15)}
    assert settled(candidate, {}, **SCORES_ONLY, allow_merge=False).winner == CANDIDATE
    weights = {"recency": 0.9}
    result = settled(candidate, {}, **SCORES_ONLY, weights=weights)
    assert outcome(result) == ("keep", EXISTING, CANDIDATE, 0.95)


@pytest.mark.scenario("000-030")
@pytest.mark.parametrize(
    ("strategy", "action", "winner"),
    [("keep-candidate", "keep", 1), ("keep-existing", "keep", 2), ("reject", "reject", 2)],
)
def test_the_default_strategy_settles_a_draw(strategy: Any, action: str, winner: int) -> None:
    result = settled({}, {}, allow_merge=False, default_strategy=strategy)
    assert outcome(result) == (action, UUID(int=winner), UUID(int=3 - winner), 0.5)
    assert strategy in result.reason
    assert settled({}, {}, merge_threshold=0, default_strategy=strategy) == result


@pytest.mark.scenario("000-031")
def test_the_most_severe_conflict_is_settled() -> None:
    mild, severe = conflict(fact(2), 0.7), conflict(fact(3), 0.5, 0.4)
    result = arbitrate(fact(1, importance=9.0), [mild, severe], ArbitrationPolicy())
    assert outcome(result) == ("keep", CANDIDATE, UUID(int=3), 0.8)
    assert result.conflict is severe


def test_equal_conflicts_have_one_order() -> None:
    later = NOW + timedelta(seconds=1)
    ranked = [
        conflict(fact(9), 0.9, similarity=0.1),
        conflict(fact(8), 0.3, 0.2, 0.1, similarity=0.9),
        conflict(fact(7), 0.1, 0.2, 0.3, similarity=0.8, same=True),
        conflict(fact(6, created_at=later), 0.6, similarity=float("nan")),
        conflict(fact(4), 0.6),
        conflict(fact(5), 0.6, similarity=0.0),
    ]
    for first in range(len(ranked)):
        for order in permutations(ranked[first:], min(4, len(ranked) - first)):
            assert most_severe(order) is min(order, key=ranked.index)


facts = st.builds(
    fact,
    st.integers(1, 9),
    importance=st.floats(0, 10),
    occurred_at=st.none() | st.datetimes(datetime(1900, 1, 1), timezones=st.just(UTC)),
    source=st.none() | st.sampled_from(list(SOURCE_PRIORITIES)) | st.text(max_size=5),
    content=st.just("the secret word"),
)
policies = st.builds(
    ArbitrationPolicy,
    prefer_detail=st.booleans(),
    priority_importance=st.booleans(),
    priority_recency=st.booleans(),
    priority_source=st.booleans(),
    allow_merge=st.booleans(),
    merge_threshold=st.floats(0, 1),
    default_strategy=st.sampled_from(["keep-candidate", "keep-existing", "reject"]),
    weights=st.dictionaries(st.sampled_from(list(WEIGHTS)), st.floats(0, 1)),
    source_priorities=st.dictionaries(st.text(max_size=5), st.floats(0, 1000)),
)


@given(facts, facts, st.sampled_from([None, CANDIDATE, EXISTING]), st.none() | st.floats(), st.booleans(), policies)
def test_every_conflict_is_settled(
    candidate: Fact, existing: Fact, fuller: UUID | None, similarity: float, same: bool, policy: ArbitrationPolicy
) -> None:
    known = conflict(existing, similarity=similarity, same=same, fuller=fuller)
    result = arbitrate(candidate, [known], policy)
    assert 0 <= result.confidence <= 1
    assert {result.winner, result.loser} == ({None} if result.action == "merge" else {candidate.id, existing.id})
    assert "secret" not in result.reason
    assert len(result.reason) < 120
