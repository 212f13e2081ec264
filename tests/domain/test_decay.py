import math
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulving.domain.decay import LAST_SWEEP, decay_rate, effective_confidence, next_review_at, review, reviewed
from tulving.domain.model import Fact, Rule

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("permanence", "rate"),
    [("permanent", 0.0), ("stable", 0.002), ("standard", 0.008), ("volatile", 0.03), ("ephemeral", 0.1)],
)
def test_each_permanence_has_its_rate(permanence, rate):
    assert decay_rate(permanence) == rate


@pytest.mark.scenario("004-014")
@pytest.mark.parametrize("permanence", ["super_permanent", "", "Standard", None, 5])
def test_unknown_permanence_names_the_levels(permanence):
    with pytest.raises(ValueError, match="ephemeral, permanent, stable, standard, volatile"):
        decay_rate(permanence)


@pytest.mark.scenario("001-035")
def test_permanent_never_decays():
    assert effective_confidence(0.9, 0.0, NOW - timedelta(days=365), NOW) == 0.9
    assert effective_confidence(0.9, 0.0, None, NOW) == 0.9


@pytest.mark.scenario("001-036")
def test_unconfirmed_is_not_believed():
    assert effective_confidence(0.9, 0.01, None, NOW) == 0.0


def test_half_life_and_a_clock_that_went_back():
    assert effective_confidence(1.0, 0.1, NOW - timedelta(days=math.log(2) / 0.1), NOW) == pytest.approx(0.5)
    assert effective_confidence(0.7, 0.1, NOW + timedelta(days=5), NOW) == 0.7


@pytest.mark.parametrize(
    ("confidence", "rate", "fading", "expired"),
    [(1.0, 0.008, 201.2, 374.5), (0.5, 0.01, 91.6, 230.3), (0.5, 0.008, 114.5, 287.8)],
)
def test_reviews_fall_due_at_the_crossings(confidence, rate, fading, expired):
    first = next_review_at(confidence, rate, NOW, NOW)
    assert first is not None
    assert (first - NOW) / timedelta(days=1) == pytest.approx(fading, abs=0.05)
    state, _, second = review(confidence, rate, NOW, first)
    assert state == "fading"
    assert second is not None
    assert (second - NOW) / timedelta(days=1) == pytest.approx(expired, abs=0.05)
    assert (review(confidence, rate, NOW, second).state, next_review_at(confidence, rate, NOW, second)) == (
        "expired",
        second,
    )


def test_no_review_for_what_never_fades():
    assert next_review_at(1.0, 0.0, NOW, NOW) is None
    beyond_the_calendar = next_review_at(1.0, 1e-12, NOW, NOW)
    assert beyond_the_calendar is not None and beyond_the_calendar > LAST_SWEEP, "no sweep finds it due"
    for confidence in (0.01, 0.1, 0.19):
        assert next_review_at(confidence, 0.1, NOW, NOW) == NOW, "below a threshold from the start"


@given(st.floats(0.05, 1), st.floats(0.001, 1), st.floats(0, 2000))
def test_the_closed_form_agrees_with_the_formula(confidence, rate, days):
    """Before its review a memory stays on its side of the threshold; just after, it has crossed one."""
    now = NOW + timedelta(days=days)
    state, before, due = review(confidence, rate, NOW, now)
    if due is None:
        assert (state, before < 0.05) == ("expired", True)
        return
    threshold = 0.2 if state == "active" else 0.05
    after = effective_confidence(confidence, rate, NOW, due + timedelta(seconds=1))
    assert due > now
    assert after < threshold <= before


@pytest.mark.scenario("001-007", "001-008", "001-037")
@pytest.mark.parametrize(
    ("confidence", "state"),
    [
        (1.0, "active"),
        (0.2, "active"),
        (0.19999999, "fading"),
        (0.05, "fading"),
        (0.04999999, "expired"),
        (0, "expired"),
    ],
)
def test_the_thresholds_themselves_are_not_below(confidence, state):
    assert review(confidence, 0.008, NOW, NOW).state == state


def test_what_does_not_decay_stands_however_little_it_is_believed():
    assert review(0.01, 0.0, NOW, NOW + timedelta(days=9999)) == ("active", 0.01, None)


def test_a_review_that_finds_no_change_is_not_due_again_at_once():
    """Exactly at a threshold the next review must come later, or a sweep would never end."""
    for confidence in (0.2, 0.05):
        found = review(confidence, 0.008, NOW, NOW)
        assert found.next_review_at is not None
        assert NOW < found.next_review_at < NOW + timedelta(seconds=1)


@given(st.floats(0.05, 1), st.floats(1e-6, 1), st.sampled_from([-1, 0, 1]))
def test_a_review_is_due_at_the_first_microsecond_of_the_new_state(confidence, rate, offset):
    """At that time and a microsecond before it, the formula and the closed form agree."""
    state, _, due = review(confidence, rate, NOW, NOW)
    if due is None:
        return
    asked = due + timedelta(microseconds=offset)
    changed = review(confidence, rate, NOW, max(asked, NOW)).state != state
    assert changed == (offset >= 0)


def test_a_clock_that_went_back_expires_nothing():
    assert review(0.5, 0.1, NOW, NOW - timedelta(days=9999)).state == "active"


@pytest.mark.scenario("001-037")
@pytest.mark.parametrize(
    ("days", "was", "became"),
    [
        (100, None, None),
        (100, "fading", "recovered"),
        (250, None, "fading"),
        (250, "fading", None),
        (400, None, "expired"),
        (400, "fading", "expired"),
    ],
)
@pytest.mark.parametrize("record", [Fact, Rule])
def test_a_review_lets_a_memory_fade_expire_or_recover(record, days, was, became):
    own = {"subject": "s", "predicate": "p"} if record is Fact else {}
    item = record(
        tenant_id="t",
        id=UUID(int=1),
        content="c",
        content_hash="h",
        confidence=1.0,
        decay_rate=0.008,
        status=was,
        created_at=NOW,
        updated_at=NOW,
        metadata={"kept": 1},
        **own,
    )
    as_of, now = NOW + timedelta(days=days), NOW + timedelta(days=999)
    found = reviewed(item, as_of, now)
    assert found.became == became
    assert found.item.updated_at == (now if became else NOW)
    assert found.item.status == ("fading" if became == "fading" or (was and not became) else None)
    if became == "expired":
        assert found.item.next_review_at is None
        ended = found.item.validity == "expired" if record is Fact else found.item.forgotten
        assert ended and found.item.metadata["kept"] == 1
    else:
        assert found.item.next_review_at > as_of, "it is not due again"
