import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulving.domain.decay import decay_rate, effective_confidence, next_review_at

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.mark.scenario("001-014", "004-013")
@pytest.mark.parametrize(
    ("permanence", "rate"),
    [("permanent", 0.0), ("stable", 0.002), ("standard", 0.008), ("volatile", 0.03), ("ephemeral", 0.1)],
)
def test_each_permanence_has_its_rate(permanence, rate):
    assert decay_rate(permanence) == rate


@pytest.mark.scenario("001-015", "004-014")
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
    second = next_review_at(confidence, rate, NOW, first)
    assert second is not None
    assert (second - NOW) / timedelta(days=1) == pytest.approx(expired, abs=0.05)
    assert next_review_at(confidence, rate, NOW, second) == second


def test_no_review_for_what_never_fades():
    assert next_review_at(1.0, 0.0, NOW, NOW) is None
    assert next_review_at(1.0, 1e-12, NOW, NOW) is None, "beyond the end of the calendar"
    assert next_review_at(0.01, 0.1, NOW, NOW) == NOW, "already below both thresholds"


@given(st.floats(0.05, 1), st.floats(0.001, 1), st.floats(0, 2000))
def test_the_closed_form_agrees_with_the_formula(confidence, rate, days):
    """Before its review a memory stays on its side of the threshold; just after, it has crossed one."""
    now = NOW + timedelta(days=days)
    review = next_review_at(confidence, rate, NOW, now)
    assert review is not None
    before = effective_confidence(confidence, rate, NOW, now)
    if review > now:
        after = effective_confidence(confidence, rate, NOW, review + timedelta(seconds=1))
        threshold = 0.2 if before >= 0.2 else 0.05
        assert after < threshold <= before + 1e-9
    else:
        assert before <= 0.05 + 1e-9
