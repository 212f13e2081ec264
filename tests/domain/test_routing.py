"""What the bridge decides, as pure functions."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from tulving.domain.model import Episode, Fact
from tulving.domain.routing import as_fact, becomes_fact, demoted, fate
from tulving.settings import BridgeConfig

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = BridgeConfig(types=("task",), importance_threshold=0.7, max_characters=5)
EPISODE = Episode(
    tenant_id="t", id=UUID(int=1), content="hello world", content_hash=None, butler="b", created_at=NOW, updated_at=NOW
)


@pytest.mark.scenario("000-019")
@pytest.mark.parametrize(
    ("changes", "becomes"),
    [
        ({"importance": 7.0}, True),
        ({"importance": 6.999}, False),
        ({"importance": 0.0, "type": "task"}, True),
        ({"importance": 0.0, "type": "tasks"}, False),
        ({"importance": 10.0, "forgotten": True}, False),
        ({"importance": 10.0, "expires_at": NOW}, False),
        ({"importance": 10.0, "expires_at": NOW + timedelta(microseconds=1)}, True),
    ],
)
def test_what_becomes_a_fact(changes: dict, becomes: bool) -> None:
    assert becomes_fact(replace(EPISODE, **changes), POLICY, NOW) is becomes


def test_the_fact_of_an_episode() -> None:
    fact = as_fact(replace(EPISODE, type="preference", occurred_at=NOW - timedelta(days=1)), POLICY)
    assert (fact.content, fact.category, fact.occurred_at) == ("hello", "preference", NOW - timedelta(days=1))
    assert as_fact(replace(EPISODE, type="task", content="a b c d"), POLICY).category is None
    assert as_fact(replace(EPISODE, content="abcd efg"), POLICY).content == "abcd"
    assert becomes_fact(replace(EPISODE, importance=0.0), BridgeConfig(importance_threshold=0), NOW)


@pytest.mark.scenario("000-020")
def test_what_becomes_of_a_fact_without_its_episode() -> None:
    fates = {reason: fate(reason) for reason in ("deleted", "forgotten", "expiry", "capacity", "retention", "eviction")}
    assert fates.pop("deleted") == "delete" and fates.pop("forgotten") == "forget"
    assert set(fates.values()) == {"demote"}
    fact = Fact(
        tenant_id="t", id=UUID(int=2), content="c", content_hash=None, subject="s", predicate="p", confidence=0.8,
        last_confirmed_at=NOW, created_at=NOW, updated_at=NOW,
    )  # fmt: skip
    half = demoted(fact, NOW + timedelta(days=1))
    assert isinstance(half, Fact) and half.confidence == 0.4
    assert (half.last_confirmed_at, half.updated_at) == (NOW, NOW + timedelta(days=1)), "believed less, not confirmed"
