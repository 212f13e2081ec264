"""How use judges a rule."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulving.domain import maturity
from tulving.domain.model import Rule
from tulving.domain.text import content_hash

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def rule(success: int = 0, harmful: int = 0, applied: int | None = None, **values) -> Rule:
    """A rule as old as need be."""
    return Rule(
        **{
            "tenant_id": "t",
            "id": UUID(int=1),
            "content": "greet first",
            "content_hash": content_hash("greet first"),
            "created_at": NOW - timedelta(days=400),
            "updated_at": NOW,
            "applied_count": success + harmful if applied is None else applied,
            "success_count": success,
            "harmful_count": harmful,
            **values,
        }
    )


@pytest.mark.scenario("001-090")
def test_helping_is_counted_and_the_score_is_the_share_of_successes():
    helped = maturity.marked_helpful(rule(success=2, applied=3), NOW)
    assert (helped.applied_count, helped.success_count, helped.harmful_count) == (4, 3, 0)
    assert helped.effectiveness_score == 0.75
    assert helped.last_applied_at == helped.last_evaluated_at == helped.updated_at == NOW
    assert maturity.marked_helpful(rule(), NOW).effectiveness_score == 1.0


@pytest.mark.scenario("001-091")
def test_harm_counts_four_times():
    harmed = maturity.marked_harmful(rule(success=3, harmful=1), "it was rude", NOW)
    assert (harmed.applied_count, harmed.success_count, harmed.harmful_count) == (5, 3, 2)
    assert harmed.effectiveness_score == pytest.approx(3 / 11.01) == pytest.approx(0.2725, abs=1e-4)
    assert harmed.last_applied_at == NOW
    assert harmed.metadata["harmful_reasons"] == ["it was rude"]
    again = maturity.marked_harmful(harmed, "it was rude again", NOW)
    assert again.metadata["harmful_reasons"] == ["it was rude", "it was rude again"]
    assert maturity.marked_harmful(rule(), None, NOW).metadata == {}
    assert maturity.marked_harmful(rule(), None, NOW).effectiveness_score == 0.0


@pytest.mark.parametrize("kept", ["not a list", 5, None, [1, None, {"a": 1}]])
def test_reasons_that_are_something_else_are_no_reasons(kept):
    odd = rule(metadata={"harmful_reasons": kept})
    assert maturity.reasons_of(odd) == []
    assert maturity.marked_harmful(odd, "because", NOW).metadata["harmful_reasons"] == ["because"]


@pytest.mark.scenario("001-009")
@pytest.mark.parametrize(
    ("success", "applied", "harmful", "becomes"),
    [
        (4, 4, 0, "established"),
        (3, 3, 0, "candidate"),  # one success too few
        (5, 9, 0, "established"),  # 6 of 10: exactly 0.6
        (5, 10, 0, "candidate"),  # 6 of 11
        (10, 12, 2, "candidate"),  # 11 of 13 is 0.846, but 11/19.01 is 0.579: the harm is not wiped out
        (12, 14, 2, "established"),  # 13/21.01 is 0.619
    ],
)
def test_a_candidate_is_established(success, applied, harmful, becomes):
    assert maturity.marked_helpful(rule(success, harmful, applied), NOW).maturity == becomes


@pytest.mark.scenario("001-010")
@pytest.mark.parametrize(
    ("success", "applied", "harmful", "days", "becomes"),
    [
        (14, 14, 0, 30, "proven"),
        (14, 14, 0, 29.999, "established"),
        (13, 13, 0, 400, "established"),
        (15, 19, 0, 400, "proven"),  # 16 of 20: exactly 0.8
        (15, 20, 0, 400, "established"),
        (14, 15, 1, 400, "established"),  # 15/19.01 is 0.789
        (15, 16, 1, 400, "established"),  # 16/20.01 is 0.7996
        (16, 17, 1, 400, "proven"),  # 17/21.01 is 0.809
    ],
)
def test_an_established_rule_is_proven(success, applied, harmful, days, becomes):
    known = rule(success, harmful, applied, maturity="established", created_at=NOW - timedelta(days=days))
    assert maturity.marked_helpful(known, NOW).maturity == becomes


def test_a_rule_rises_one_step_at_a_time():
    assert maturity.marked_helpful(rule(success=50), NOW).maturity == "established"


def test_a_clock_that_went_back_makes_no_rule_old():
    young = rule(success=50, maturity="established", created_at=NOW + timedelta(days=100))
    assert maturity.marked_helpful(young, NOW).maturity == "established"


@pytest.mark.scenario("001-011")
@pytest.mark.parametrize(
    ("success", "becomes", "score"), [(10, "established", 0.714), (6, "candidate", 0.5994), (7, "established", 0.636)]
)
def test_an_established_rule_falls_below_0_6(success, becomes, score):
    harmed = maturity.marked_harmful(rule(success, maturity="established"), None, NOW)
    assert (harmed.maturity, harmed.effectiveness_score) == (becomes, pytest.approx(score, abs=1e-3))


@pytest.mark.scenario("001-012")
@pytest.mark.parametrize(
    ("success", "becomes"), [(20, "proven"), (17, "proven"), (16, "established"), (3, "established")]
)
def test_a_proven_rule_falls_below_0_8_by_one_step(success, becomes):
    assert maturity.marked_harmful(rule(success, maturity="proven"), None, NOW).maturity == becomes


@pytest.mark.scenario("001-092")
@pytest.mark.parametrize(
    ("success", "harmful", "refuted"), [(0, 3, True), (0, 2, False), (10, 3, False), (5, 3, True), (6, 3, False)]
)
def test_enough_harm_asks_for_inversion(success, harmful, refuted):
    """5/17.01 is 0.294, 6/18.01 is 0.333."""
    harmed = maturity.marked_harmful(rule(success, harmful - 1), None, NOW)
    assert harmed.needs_inversion is refuted
    assert harmed.metadata.get("needs_inversion") == (True if refuted else None)
    assert maturity.is_refuted(harmed) is refuted


def test_enough_help_lifts_the_verdict():
    refuted = maturity.marked_harmful(rule(harmful=2), None, NOW)
    still = maturity.marked_helpful(refuted, NOW)
    assert (still.effectiveness_score, still.needs_inversion) == (0.25, True)
    lifted = maturity.marked_helpful(still, NOW)
    assert (lifted.effectiveness_score, lifted.needs_inversion, lifted.metadata) == (
        0.4,
        False,
        {"needs_inversion": False},
    )


@pytest.mark.scenario("001-013")
def test_a_refuted_rule_warns_against_itself():
    refuted = maturity.marked_harmful(rule(harmful=2, metadata={"harmful_reasons": ["a", "b"], "by": "me"}), "c", NOW)
    later = NOW + timedelta(days=1)
    warning = maturity.inverted(replace(refuted, status="fading"), later)
    assert warning.content == "ANTI-PATTERN: Do NOT greet first. This caused problems because: a; b; c"
    assert warning.content_hash == content_hash(warning.content)
    assert (warning.maturity, warning.status, warning.next_review_at) == ("anti_pattern", None, None)
    assert warning.last_confirmed_at == warning.updated_at == later
    assert warning.metadata == {
        "by": "me",
        "harmful_reasons": ["a", "b", "c"],
        "needs_inversion": False,
        "original_content": "greet first",
    }
    assert not warning.needs_inversion
    assert maturity.inverted(rule(), NOW).content.endswith("because: repeated failures")


def test_a_warning_is_not_inverted_again():
    warning = maturity.inverted(rule(harmful=3), NOW)
    harmed = maturity.marked_harmful(warning, None, NOW)
    assert (harmed.maturity, harmed.needs_inversion, harmed.harmful_count) == ("anti_pattern", False, 4)
    assert maturity.marked_helpful(replace(warning, success_count=90), NOW).maturity == "anti_pattern"


@given(st.lists(st.booleans(), max_size=60))
def test_whatever_happens_the_counts_add_up_and_the_score_is_a_share(marks):
    judged = rule()
    for helped in marks:
        before = judged
        judged = maturity.marked_helpful(judged, NOW) if helped else maturity.marked_harmful(judged, None, NOW)
        ranks = ["candidate", "established", "proven"]
        assert abs(ranks.index(judged.maturity) - ranks.index(before.maturity)) <= 1
        assert (ranks.index(judged.maturity) > ranks.index(before.maturity)) <= helped
        assert judged.needs_inversion == maturity.is_refuted(judged)
    assert judged.applied_count == judged.success_count + judged.harmful_count == len(marks)
    assert 0 <= judged.effectiveness_score <= 1


@pytest.mark.parametrize("level", ["candidate", "established"])
@given(helped=st.integers(0, 40), harmed=st.integers(0, 12), age=st.integers(0, 60))
def test_the_next_step_is_reached_with_the_last_of_its_marks_and_not_before(level, helped, harmed, age):
    score = maturity.penalised(helped, harmed)
    young = rule(helped, harmed, maturity=level, effectiveness_score=score, created_at=NOW - timedelta(days=age))
    step = maturity.next_step(young, NOW)
    assert step is not None and step.marks >= 1
    when = NOW + timedelta(days=step.days)
    for _ in range(step.marks - 1):
        young = maturity.marked_helpful(young, when)
        assert young.maturity == level
    if step.days:
        assert maturity.marked_helpful(young, when - timedelta(seconds=1)).maturity == level
    assert maturity.marked_helpful(young, when).maturity == step.to


@pytest.mark.parametrize("level", ["proven", "anti_pattern"])
def test_what_is_at_the_top_or_a_warning_has_no_next_step(level):
    assert maturity.next_step(rule(maturity=level), NOW) is None
