"""Belief is a filter before the cut: what has faded takes the place of nothing that is believed."""

from datetime import timedelta
from itertools import product

import pytest

from tulving import NewFact
from tulving.services import search
from tulving.services.search import POOL

DAYS = 210
"""After so long a standard fact is believed by 0.19, a volatile one by 0.002."""


async def remember(memory, clock, swept=False):
    """60 facts that match best and have faded, and 10 fresh ones behind them."""
    old = [NewFact(subject="user", predicate=f"likes_{n}", content="green tea") for n in range(60)]
    await memory.store_facts(old)
    clock.advance(days=DAYS)
    fresh = [NewFact(subject="user", predicate=f"drinks_{n}", content=f"green tea with milk {n}") for n in range(10)]
    stored = await memory.store_facts(fresh)
    if swept:
        assert (await memory.run_decay_sweep())["facts_fading"] == 60
    return {answer.id for answer in stored}


@pytest.mark.scenario("001-031", "001-032", "001-087")
@pytest.mark.parametrize("swept", [False, True])
async def test_what_has_faded_hides_nothing_that_is_believed(memory, clock, swept):
    fresh = await remember(memory, clock, swept)
    for mode in search.MODES:
        found = await memory.search("green tea", mode=mode)
        assert {hit.item.id for hit in found} == fresh, mode
        assert found.below_confidence >= 10, "the answer counts the candidates of too little confidence"
    recalled = await memory.recall("green tea")
    assert {hit.item.id for hit in recalled} == fresh
    assert (await memory.context("green tea", butler="b")).count("with milk") == 10


async def test_ranks_count_among_the_believed(memory, clock):
    await remember(memory, clock)
    found = await memory.search("green tea")
    assert (
        sorted(hit.parts["keyword_rank"] for hit in found)
        == sorted(hit.parts["semantic_rank"] for hit in found)
        == [*range(1, 11)]
    )


@pytest.mark.parametrize("swept", [False, True])
async def test_every_threshold_cuts_where_it_says(memory, clock, swept):
    """Facts of five ages that are believed by 0.06 to 1 now; the less they are believed, the better they match."""
    ages = {0.06: 351.7, 0.12: 265.0, 0.21: 195.1, 0.55: 74.8, 1.0: 0.0}
    for place, (belief, days) in enumerate(sorted(ages.items())):
        words = "green tea" + " and milk" * place
        facts = [NewFact(subject="user", predicate=f"{belief}_{n}", content=f"{words} {n}") for n in range(15)]
        clock.advance(days=-days)
        await memory.store_facts(facts)
        clock.advance(days=days)
    if swept:
        await memory.run_decay_sweep()
    for mode, threshold in product(search.MODES, (0, 0.1, 0.2, 0.5, 1)):
        believed = [belief for belief in ages if belief >= threshold]
        found = await memory.search("green tea", types=["fact"], mode=mode, min_confidence=threshold, limit=12)
        assert len(found) == 12
        assert all(hit.parts["confidence"] >= threshold for hit in found)
        everything = await memory.search("green tea", types=["fact"], mode=mode, min_confidence=threshold, limit=100)
        assert len(everything) == 15 * len(believed)
        assert everything.below_confidence == 75 - len(everything)


async def test_the_very_moment_of_fading_decides(memory, clock):
    stored = await memory.store_facts([NewFact(subject="u", predicate=f"p{n}", content="tea") for n in range(30)])
    review = (await memory.get("fact", stored[0].id)).next_review_at
    clock.now = review - timedelta(microseconds=1)
    assert len(await memory.search("tea")) == 10
    clock.now = review
    found = await memory.search("tea")
    assert (len(found), found.below_confidence) == (0, 30)
    fresh = await memory.store_fact("u", "fresh", "tea")
    assert [hit.item.id for hit in await memory.search("tea")] == [fresh.id]


@pytest.mark.parametrize("mode", search.MODES)
async def test_rows_that_were_never_given_a_review_are_decided_by_the_formula(memory, clock, sql, mode):
    """Some of those made by hand have faded and some have not; none says so."""
    fresh = await remember(memory, clock)
    sql("UPDATE facts SET next_review_at = NULL, status = NULL")
    assert {hit.item.id for hit in await memory.search("green tea", mode=mode)} == fresh
    sql("UPDATE facts SET last_confirmed_at = NULL WHERE predicate = 'drinks_0'")
    found = await memory.search("green tea", mode=mode)
    assert len(found) == 9 and found.below_confidence


async def test_what_does_not_decay_is_never_taken_for_faded(memory, clock, sql):
    await remember(memory, clock)
    sql("UPDATE facts SET decay_rate = 0 WHERE predicate = 'likes_0'")
    found = await memory.search("green tea", limit=20)
    assert {hit.item.predicate for hit in found if hit.item.decay_rate == 0} == {"likes_0"}


async def test_rules_and_facts_do_not_hide_each_other(memory, clock):
    for number in range(45):
        await memory.store_rule(f"serve green tea {number}")
    clock.advance(days=DAYS)
    fact = await memory.store_fact("user", "likes", "green tea with milk")
    rule = await memory.store_rule("serve green tea with milk and honey at noon")
    assert {hit.item.id for hit in await memory.recall("green tea")} == {fact.id, rule.id}


async def test_a_lane_is_asked_for_again_only_where_faded_candidates_left_it_short(memory, clock, monkeypatch):
    asked: list[tuple[int, bool]] = []

    def heard(conn, request):
        asked.append((request.limit, request.filter.unfaded))
        return lanes(conn, request)

    connection = await memory._env.store.read("default", type)
    lanes = connection.lanes
    monkeypatch.setattr(connection, "lanes", heard)
    await memory.store_facts([NewFact(subject="u", predicate=f"p{n}", content="green tea") for n in range(130)])
    assert len(await memory.search("green tea")) == 10
    assert asked == [(POOL, False)]
    asked.clear()
    clock.advance(days=DAYS)
    fresh = [NewFact(subject="u", predicate=f"q{n}", content=f"green tea with milk {n}") for n in range(130)]
    await memory.store_facts(fresh)
    assert len(await memory.search("green tea")) == 10
    assert asked == [(POOL, False), (POOL, True)], "the stored moment of fading is enough"
    asked.clear()
    assert len(await memory.search("green tea", min_confidence=0.1)) == 10
    assert asked == [(POOL, False)]
    asked.clear()
    clock.advance(days=10)
    assert len(await memory.search("green tea", min_confidence=0.9)) == 10
    assert asked == [(POOL, False), (POOL, True)]
    clock.advance(days=10)
    asked.clear()
    assert len(await memory.search("green tea", min_confidence=0.9)) == 0
    assert asked == [(POOL, False), (POOL, True), (4 * POOL, True)], "nothing is left behind the cut"
