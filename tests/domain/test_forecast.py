"""How a memory will fade."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from tulving.domain.decay import EXPIRED_BELOW, FADING_BELOW, next_review_at
from tulving.domain.forecast import forecast
from tulving.domain.model import Episode, Fact

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FACT = Fact(
    tenant_id="t",
    id=UUID(int=1),
    content="x",
    content_hash="",
    created_at=NOW,
    updated_at=NOW,
    subject="a",
    predicate="b",
    last_confirmed_at=NOW,
    next_review_at=next_review_at(1.0, 0.008, NOW, NOW),
)


def test_a_forecast_goes_from_now_to_the_end():
    ahead = forecast(FACT, NOW, 50)
    assert ahead is not None
    assert len(ahead.values) == 50
    assert ahead.values[0] == 1.0
    assert ahead.values[-1] == pytest.approx(EXPIRED_BELOW)
    assert list(ahead.values) == sorted(ahead.values, reverse=True)
    assert (ahead.fading_at - NOW) / timedelta(days=1) == pytest.approx(201.18, abs=0.01)
    assert (ahead.expires_at - NOW) / timedelta(days=1) == pytest.approx(374.47, abs=0.01)


def test_later_less_is_left():
    ahead = forecast(FACT, NOW + timedelta(days=201.2), 10)
    assert ahead is not None
    assert ahead.values[0] == pytest.approx(FADING_BELOW, abs=0.001)


@pytest.mark.parametrize(
    "item",
    [
        replace(FACT, decay_rate=0.0),
        replace(FACT, validity="expired", next_review_at=None),
        replace(FACT, decay_rate=1e-12),
        Episode(
            tenant_id="t",
            id=UUID(int=1),
            content="x",
            content_hash="",
            created_at=NOW,
            updated_at=NOW,
            butler="b",
        ),
    ],
    ids=["permanent", "out of use", "slower than the calendar", "episode"],
)
def test_what_does_not_fade_has_no_forecast(item):
    assert forecast(item, NOW, 10) is None


def test_what_is_doubted_from_the_start_is_over_now():
    ahead = forecast(replace(FACT, confidence=0.01), NOW, 5)
    assert ahead is not None
    assert ahead.expires_at == ahead.fading_at == NOW
