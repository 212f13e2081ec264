"""How many memories come on each day, and which ones will fade."""

from datetime import UTC, datetime, timedelta

import pytest

from tulving import Caller, InvalidInput
from tulving.storage import growth, reviews

TODAY = datetime(2026, 1, 1, tzinfo=UTC)


async def test_what_was_stored_counts_for_its_day_whatever_became_of_it(memory, clock):
    clock.now = TODAY - timedelta(minutes=1)
    await memory.store_episode("yesterday", butler="a")
    clock.now = TODAY
    gone = await memory.store_fact("tea", "colour", "green")
    await memory.store_rule("pour slowly")
    clock.advance(hours=23, minutes=59)
    await memory.forget("fact", gone.id)
    grown = await memory.growth(2)
    told = [(each.day, each.episodes, each.facts, each.rules) for each in grown]
    assert told == [(TODAY - timedelta(days=1), 1, 0, 0), (TODAY, 0, 1, 1)]


async def test_of_one_day_no_more_are_counted_than_a_page_can_afford(memory, monkeypatch):
    monkeypatch.setattr(growth, "MOST_A_DAY", 2)
    for number in range(3):
        await memory.store_rule(f"rule {number}")
    assert (await memory.growth(1))[0].rules == 2


async def test_what_will_fade_is_counted_on_its_day_and_the_most_important_comes_first(memory, clock):
    await memory.store_fact("tea", "colour", "green", importance=2, permanence="ephemeral", confidence=0.25)
    await memory.store_fact("tea", "price", "high", importance=9, permanence="ephemeral", confidence=0.4)
    await memory.store_fact("tea", "origin", "Assam", importance=10, permanence="permanent")
    rule = await memory.store_rule("pour slowly", permanence="ephemeral")  # 0.5 fades after 9.2 days
    coming = await memory.fading(10)
    assert [(each.fading, each.expiring) for each in coming.days] == [
        *((0, 0), (0, 0), (1, 0), (0, 0), (0, 0)),
        *((0, 0), (1, 0), (0, 0), (0, 0), (1, 0)),
    ]
    assert [each.content for each in coming.memories] == ["high", "pour slowly", "green"]
    assert [each.content for each in (await memory.fading(10, limit=1)).memories] == ["high"]
    assert [each.content for each in (await memory.fading(3)).memories] == ["green"]
    await memory.confirm("rule", rule.id)
    clock.advance(days=3)
    assert [each.fading for each in (await memory.fading(1)).days] == [1], "what is overdue counts for today"
    await memory.run_decay_sweep()
    expiring = await memory.fading(20)
    assert [day.expiring for day in expiring.days].index(1) == 13  # 0.25 is below 0.05 after 16.1 days
    assert sum(day.expiring for day in expiring.days) == 1


async def test_of_many_that_are_due_the_first_are_compared(memory, monkeypatch):
    monkeypatch.setattr(reviews, "MOST_WEIGHED", 1)
    await memory.store_fact("tea", "price", "high", importance=9, permanence="ephemeral", confidence=0.4)
    await memory.store_fact("tea", "colour", "green", importance=2, permanence="ephemeral", confidence=0.25)
    assert [each.content for each in (await memory.fading(10)).memories] == ["green"]


async def test_only_ones_own_grow_and_fade(memory):
    await memory.bind(user_id="anna").store_fact("tea", "colour", "green", permanence="ephemeral", confidence=0.21)
    await memory.bind(caller=Caller("other")).store_fact(
        "tea", "colour", "red", permanence="ephemeral", confidence=0.21
    )
    for who, count in ((memory, 1), (memory.bind(user_id="anna"), 1), (memory.bind(user_id="bob"), 0)):
        assert sum(day.facts for day in await who.growth()) == count
        coming = await who.fading()
        assert (sum(day.fading for day in coming.days), len(coming.memories)) == (count, count)


@pytest.mark.parametrize("days", [0, 121, "7"])
async def test_how_many_days_there_may_be(memory, days):
    for verb in (memory.growth, memory.fading):
        with pytest.raises(InvalidInput, match="days"):
            await verb(days)


async def test_what_will_fade_is_read_by_its_date(memory, sql, engine):
    """On SQLite, which keeps no statistics, an index is named; it must be there, and usable for both kinds."""
    await memory.store_rule("pour slowly", permanence="ephemeral")
    assert (await memory.fading(120)).memories
    if engine == "sqlite":
        found = {row["name"] for row in sql("SELECT name FROM sqlite_master WHERE type = 'index'")}
        assert {"ix_facts_review", "ix_rules_review"} <= found
