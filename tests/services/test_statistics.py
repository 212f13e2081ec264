"""How much there is, by state."""

import pytest

from tulving import Caller, InvalidInput
from tulving.settings import MemoryModuleConfig, ScheduleConfig


@pytest.fixture
def config() -> MemoryModuleConfig:
    return MemoryModuleConfig(schedule=ScheduleConfig(background=False))


async def test_an_empty_memory(memory):
    assert (await memory.stats()).to_dict() == {
        "episodes": {
            "total": 0,
            "unconsolidated": 0,
            "consolidated": 0,
            "failed": 0,
            "dead_letter": 0,
            "forgotten": 0,
            "expired": 0,
            "archived": 0,
            "pending_vectors": 0,
            "backlog_age_hours": None,
        },
        "facts": {
            "total": 0,
            "active": 0,
            "fading": 0,
            "superseded": 0,
            "expired": 0,
            "retracted": 0,
            "pending_vectors": 0,
        },
        "rules": {
            "total": 0,
            "candidate": 0,
            "established": 0,
            "proven": 0,
            "anti_pattern": 0,
            "forgotten": 0,
            "fading": 0,
            "needs_inversion": 0,
            "pending_vectors": 0,
        },
    }


def without_zeros(counts):
    return {name: count for name, count in counts.to_dict().items() if count}


@pytest.mark.scenario("001-093")
async def test_episodes(memory, clock, sql, embedder):
    """A forgotten episode is never learned from, so it counts neither as unconsolidated nor for the backlog's age."""
    ids = []
    for number in range(7):
        ids.append((await memory.store_episode(f"event {number}", butler="b")).id)
        clock.advance(hours=1.5)
    states = ("consolidated", "failed", "dead_letter")
    for id_, state in zip(ids, states, strict=False):
        sql("UPDATE episodes SET consolidation_status = ? WHERE id = ?", state, id_)
    await memory.forget("episode", ids[3])
    embedder.problem = "no weights"
    await memory.store_episode("event 7", butler="b", type="change")
    assert without_zeros((await memory.stats()).episodes) == {
        "total": 8,
        "unconsolidated": 4,
        "consolidated": 1,
        "failed": 1,
        "dead_letter": 1,
        "forgotten": 1,
        "pending_vectors": 1,
        "backlog_age_hours": 4.5,
    }
    clock.advance(days=8)
    assert (await memory.stats()).episodes.expired == 6, "neither the forgotten one nor the one that lasts"
    clock.advance(days=-1000)
    assert (await memory.stats()).episodes.backlog_age_hours == 0.0, "no negative age"


@pytest.mark.scenario("001-094")
async def test_facts(memory, clock, sql):
    await memory.store_fact("a", "p", "1")
    await memory.store_fact("a", "p", "2")
    await memory.store_fact("b", "p", "3")
    for subject in ("c", "d"):
        await memory.forget("fact", (await memory.store_fact(subject, "p", "4")).id)
    sql("UPDATE facts SET validity = 'forgotten' WHERE subject = 'd'")
    clock.advance(days=100)
    await memory.store_fact("e", "p", "5", permanence="ephemeral")
    await memory.store_fact("f", "p", "6")
    clock.advance(days=105)
    await memory.run_decay_sweep()
    facts = (await memory.stats()).facts
    assert without_zeros(facts) == {
        "total": 7,
        "active": 1,
        "fading": 2,
        "superseded": 1,
        "expired": 1,
        "retracted": 2,
    }
    states = ("active", "fading", "superseded", "expired", "retracted")
    assert sum(getattr(facts, state) for state in states) == facts.total


@pytest.mark.scenario("001-095")
async def test_rules_are_counted_once(memory, sql):
    ids = [(await memory.store_rule(f"rule {number}")).id for number in range(8)]
    for id_, maturity in zip(ids, ("established", "proven", "proven", "anti_pattern", "anti_pattern"), strict=False):
        sql("UPDATE rules SET maturity = ? WHERE id = ?", maturity, id_)
    await memory.forget("rule", ids[4])
    for _ in range(3):
        await memory.mark_harmful(ids[7])
    sql("UPDATE rules SET status = 'fading' WHERE id = ?", ids[6])
    rules = (await memory.stats()).rules
    assert without_zeros(rules) == {
        "total": 8,
        "candidate": 3,
        "established": 1,
        "proven": 2,
        "anti_pattern": 1,
        "forgotten": 1,
        "fading": 1,
        "needs_inversion": 1,
    }
    states = ("candidate", "established", "proven", "anti_pattern", "forgotten")
    assert sum(getattr(rules, state) for state in states) == rules.total, "a forgotten anti-pattern is forgotten"


@pytest.mark.scenario("001-096")
async def test_a_scope_is_that_and_the_global_one(memory):
    for scope in ("global", "health", "work", "work"):
        await memory.store_fact(f"a {scope}", "p", "x", scope=scope)
        await memory.store_rule("greet", scope=scope)
    await memory.store_episode("hello", butler="health")
    totals = {
        scope: {kind: counts["total"] for kind, counts in (await memory.stats(scope)).to_dict().items()}
        for scope in (None, "health", "work", "none")
    }
    assert totals == {
        None: {"episodes": 1, "facts": 3, "rules": 4},
        "health": {"episodes": 1, "facts": 2, "rules": 2},
        "work": {"episodes": 1, "facts": 2, "rules": 3},
        "none": {"episodes": 1, "facts": 1, "rules": 1},
    }
    with pytest.raises(InvalidInput, match="scope"):
        await memory.stats(" ")


async def test_only_ones_own_are_counted(memory):
    anna = memory.bind(user_id="anna")
    await anna.store_fact("user", "likes", "tea")
    await memory.bind(user_id="bob", project="atlas").store_fact("user", "likes", "coffee")
    await memory.bind(caller=Caller("other")).store_fact("user", "likes", "milk")
    totals = [(await who.stats()).facts.total for who in (memory, anna, memory.bind(project="atlas"))]
    assert totals == [2, 1, 1]


async def test_counting_is_one_query_for_each_table(memory, monkeypatch):
    """And leaves no reference behind."""
    from tulving.storage import statistics

    asked = []
    really = statistics.count

    def count(conn, *args):
        one = conn.fetch_one

        class Counted:
            def __getattr__(self, name):
                return getattr(conn, name)

            def fetch_one(self, sql, params=None):
                asked.append(sql)
                return one(sql, params)

        return really(Counted(), *args)

    monkeypatch.setattr(statistics, "count", count)
    await memory.stats()
    assert len(asked) == 3


async def test_counts_are_numbers(memory):
    """`True == 1` would hide a count that was read as a flag."""
    for number in range(2):
        await memory.forget("rule", (await memory.store_rule(f"rule {number}")).id)
        await memory.forget("episode", (await memory.store_episode(f"episode {number}", butler="b")).id)
    stats = await memory.stats()
    assert (stats.rules.forgotten, stats.episodes.forgotten) == (2, 2)
    counts = [
        value for states in stats.to_dict().values() for name, value in states.items() if name != "backlog_age_hours"
    ]
    assert {type(value) for value in counts} == {int}
