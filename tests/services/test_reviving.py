"""What decay has taken out of use comes back when it is confirmed; what a person has ended stays ended."""

import asyncio
from datetime import timedelta

import pytest
from administration import administer

from tulving import Caller, InvalidInput, NewFact, NewRule, open_memory
from tulving.domain.scope import Bound
from tulving.settings import MemoryModuleConfig, ScheduleConfig
from tulving.storage import reviews
from tulving.testing import SequentialIds


@pytest.fixture
def config() -> MemoryModuleConfig:
    return MemoryModuleConfig(schedule=ScheduleConfig(background=False))


async def refute(memory, id_):
    for _ in range(3):
        await memory.mark_harmful(id_, "rude")


async def let_expire(memory, clock):
    clock.advance(days=400)
    return await memory.run_decay_sweep()


# -- facts and rules that decay has ended ----------------------------------------------------------------------


@pytest.mark.scenario("001-022")
async def test_confirming_brings_an_expired_fact_back(memory, clock):
    id_ = (await memory.store_fact("user", "likes", "tea")).id
    assert (await let_expire(memory, clock))["facts_expired"] == 1
    heard = []
    memory.subscribe(heard.extend)
    assert await memory.confirm("fact", id_) is True
    fact = await memory.get("fact", id_)
    assert (fact.state, fact.last_confirmed_at, fact.updated_at) == ("active", clock.now, clock.now)
    assert fact.next_review_at > clock.now + timedelta(days=200)
    for mode in ("keyword", "semantic"):
        assert [hit.parts["confidence"] for hit in await memory.search("tea", mode=mode)] == [1.0]
    assert [event.event_type for event in heard] == ["fact_confirmed"]
    assert [event.event_type for event in await memory.events("fact", id_)] == [
        "fact_created",
        "fact_expired",
        "fact_confirmed",
    ]
    assert (await administer(memory).verify()).ok
    assert (await memory.store_fact("user", "likes", "coffee")).superseded_id == id_, "it has its key again"


async def test_confirming_brings_an_expired_note_back(memory, clock):
    stored = await memory.store_note("likes tea")
    await let_expire(memory, clock)
    assert await memory.confirm("fact", stored.ref) is True
    assert (await memory.store_note("Likes TEA")).outcome == "duplicate"


@pytest.mark.scenario("001-022")
async def test_confirming_brings_back_a_rule_that_faded_away(memory, clock):
    id_ = (await memory.store_rule("greet first", metadata={"by": "me"})).id
    assert (await let_expire(memory, clock))["rules_expired"] == 1
    assert await memory.confirm("rule", id_) is True
    rule = await memory.get("rule", id_)
    assert (rule.forgotten, rule.metadata, rule.last_confirmed_at) == (False, {"by": "me"}, clock.now)
    assert rule.next_review_at > clock.now
    assert [hit.item.id for hit in await memory.recall("greet")] == [id_]
    assert (await let_expire(memory, clock))["rules_expired"] == 1, "and it may fade away again"
    assert await memory.confirm("rule", id_) is True


@pytest.mark.parametrize("key", ["subject", "entity", "content"])
async def test_an_expired_fact_does_not_push_out_the_one_in_its_place(memory, clock, key):
    if key == "content":
        old = await memory.store_note("likes tea")
    else:
        about = {"entity_id": (await memory.create_entity("Ann", "person")).entity_id} if key == "entity" else {}
        old = await memory.store_fact("Ann", "likes", "tea", **about)
    await let_expire(memory, clock)
    if key == "content":
        new = await memory.store_note("Likes TEA")
    else:
        new = await memory.store_fact("Ann", "likes", "coffee", **about)
    assert new.outcome == "stored"
    before = await memory.events("fact", old.id)
    with pytest.raises(InvalidInput, match=f"memory_id: the fact {old.ref or old.id} .*{new.ref or new.id} has taken"):
        await memory.confirm("fact", old.id)
    assert (await memory.get("fact", old.id)).state == "expired"
    assert await memory.events("fact", old.id) == before
    await memory.forget("fact", new.id)
    assert await memory.confirm("fact", old.id) is True


async def test_another_users_fact_does_not_take_the_key(memory, clock):
    old = (await memory.bind(user_id="ann").store_fact("user", "likes", "tea")).id
    await let_expire(memory, clock)
    await memory.bind(user_id="bob").store_fact("user", "likes", "coffee")
    await memory.bind(caller=Caller("other")).store_fact("user", "likes", "milk")
    assert await memory.bind(user_id="bob").confirm("fact", old) is False
    assert await memory.bind(caller=Caller("other")).confirm("fact", old) is False
    assert await memory.bind(user_id="ann").confirm("fact", old) is True


async def test_what_a_person_or_a_newer_value_has_ended_stays_so(memory, clock, sql):
    superseded = (await memory.store_fact("user", "likes", "tea")).id
    await memory.store_fact("user", "likes", "coffee", permanence="permanent")
    retracted = (await memory.store_fact("user", "fears", "cats")).id
    await memory.forget("fact", retracted)
    late = (await memory.store_fact("user", "owns", "a boat")).id
    rule, late_rule = (await memory.store_rule("greet")).id, (await memory.store_rule("wave")).id
    await memory.forget("rule", rule)
    await let_expire(memory, clock)
    await memory.forget("fact", late)
    assert await memory.confirm("rule", late_rule) is True
    await memory.forget("rule", late_rule)
    tables = [sql(f"SELECT * FROM {table} ORDER BY id") for table in ("facts", "rules", "memory_events")]
    for kind, id_ in (("fact", superseded), ("fact", retracted), ("fact", late), ("rule", rule), ("rule", late_rule)):
        assert await memory.confirm(kind, id_) is False, (kind, id_)
    assert [sql(f"SELECT * FROM {table} ORDER BY id") for table in ("facts", "rules", "memory_events")] == tables


async def test_of_two_that_take_one_place_at_once_one_is_told(memory, url, clock, embedder):
    """Confirming the old fact and storing a new one: one key, one active fact, in either order."""
    olds = [(await memory.store_fact("user", f"p{n}", "old")).id for n in range(8)]
    await let_expire(memory, clock)
    ids = SequentialIds(10**9)
    async with open_memory(url, embedder=embedder, clock=clock, ids=ids, background=False) as second:
        calls = [second.store_fact("user", f"p{n}", "new") for n in range(8)]
        done = await asyncio.gather(*calls, *(memory.confirm("fact", id_) for id_ in olds), return_exceptions=True)
    for old, stored, told in zip(olds, done[:8], done[8:], strict=True):
        state = (await memory.get("fact", old)).state
        if told is True:
            assert (stored.superseded_id, state) == (old, "superseded")
        else:
            assert isinstance(told, InvalidInput) and state == "expired"
    assert len((await memory.list_memories("fact")).items) == 8
    assert (await administer(memory).verify()).ok


# -- warnings --------------------------------------------------------------------------------------------------


@pytest.mark.scenario("001-013")
@pytest.mark.parametrize("permanence", [None, "ephemeral"])
async def test_a_warning_is_recalled_after_years(memory, clock, permanence):
    id_ = (await memory.store_rule("greet everybody", permanence=permanence)).id
    await refute(memory, id_)
    rule = await memory.invert_rule(id_)
    assert (rule.permanence, rule.decay_rate, rule.next_review_at) == ("permanent", 0.0, None)
    for change in ("none", "confirm", "edit", "mark"):
        if change == "confirm":
            assert await memory.confirm("rule", id_)
        elif change == "edit":
            await memory.edit("rule", id_, content="ANTI-PATTERN: Do NOT greet everybody at all")
        elif change == "mark":
            await memory.mark_helpful(id_)
        clock.advance(days=2000)
        swept = await memory.run_decay_sweep()
        assert (swept["rules_checked"], swept["rules_fading"]) == (0, 0), change
        assert [hit.parts["confidence"] for hit in await memory.recall("greet everybody")] == [0.5], change
        rule = await memory.get("rule", id_)
        assert (rule.decay_rate, rule.next_review_at, rule.status, rule.forgotten) == (0.0, None, None, False), change


# -- rows without a time for their review ----------------------------------------------------------------------


async def test_rows_inserted_without_a_review_are_reviewed_by_the_next_sweep(memory, clock, sql):
    facts = [(await memory.store_fact("user", f"p{n}", "tea")).id for n in range(3)]
    rule = (await memory.store_rule("greet")).id
    kept = (await memory.store_fact("user", "born", "1970", permanence="permanent")).id
    for table in ("facts", "rules"):
        sql(f"UPDATE {table} SET next_review_at = NULL, last_confirmed_at = NULL")
    assert (await memory.run_decay_sweep(as_of=clock.now - timedelta(seconds=1)))["facts_checked"] == 0
    rehearsed = await memory.run_decay_sweep(dry_run=True)
    swept = await memory.run_decay_sweep()
    assert swept == rehearsed
    assert (swept["facts_checked"], swept["rules_checked"], swept["facts_fading"]) == (3, 1, 0)
    assert (await memory.run_decay_sweep())["facts_checked"] == 0, "they have their time now"
    for kind, id_ in (*(("fact", id_) for id_ in facts), ("rule", rule)):
        assert (await memory.get(kind, id_)).next_review_at > clock.now
    assert (await memory.get("fact", kept)).next_review_at is None
    await memory.settle()
    sql("UPDATE facts SET next_review_at = NULL")
    clock.advance(days=400)
    assert (await memory.run_decay_sweep())["facts_expired"] == 3


async def test_what_fades_after_the_end_of_time_does_not_keep_a_sweep_busy(memory, clock, sql):
    id_ = (await memory.store_fact("user", "likes", "tea")).id
    sql("UPDATE facts SET decay_rate = 0.000000001, next_review_at = NULL")
    assert (await memory.run_decay_sweep())["facts_checked"] == 1
    end = clock.now.replace(year=9999, month=12, day=31, hour=23, minute=59, second=59, microsecond=999_999)
    for as_of in (clock.now, end):
        assert (await memory.run_decay_sweep(as_of=as_of))["facts_checked"] == 0
    assert (await memory.get("fact", id_)).state == "active"


@pytest.mark.parametrize("kind", ["fact", "rule"])
async def test_a_sweep_reads_what_is_due_by_an_index(memory, clock, sql, engine, kind):
    await memory.store_facts([NewFact(content=f"note {n}") for n in range(300)])
    await memory.store_rules([NewRule(content=f"rule {n}") for n in range(300)])
    table = f"{kind}s"
    sql("ANALYZE")
    due, _ = await administer(memory)._read(reviews._due, kind, None, Bound(), clock.now)
    due = due.replace(":as_of", f"'{clock.now.isoformat()}'")
    statement = f"SELECT m.id FROM {table} AS m WHERE {due} ORDER BY {reviews._DUE_AT} LIMIT 10"
    plan = " ".join(str(row) for row in sql(("EXPLAIN QUERY PLAN " if engine == "sqlite" else "EXPLAIN ") + statement))
    assert f"ix_{table}_review" in plan, plan


# -- one word for retracted facts ------------------------------------------------------------------------------


@pytest.mark.scenario("004-011")
async def test_no_answer_says_forgotten_of_a_fact(memory, sql):
    from tulving.interfaces.wire import wire

    id_ = (await memory.store_fact("user", "likes", "tea")).id
    sql("UPDATE facts SET validity = 'forgotten'")
    answers = [
        await memory.get("fact", id_),
        await memory.list_memories("fact", state="forgotten"),
        await memory.history("user", "likes"),
        await memory.edit("fact", id_, tags=["x"]),
    ]
    for answer in answers:
        assert "forgotten" not in str(wire(answer)) and "'validity': 'retracted'" in str(wire(answer))
    assert await memory.forget("fact", id_) is True, "there is one, and it is forgotten already"
    assert await memory.confirm("fact", id_) is False
    assert (await memory.store_fact("user", "likes", "tea")).outcome == "stored"


@pytest.mark.scenario("004-011")
async def test_a_change_of_a_legacy_row_writes_the_canonical_word(memory, sql):
    id_ = (await memory.store_fact("user", "likes", "tea")).id
    sql("UPDATE facts SET validity = 'forgotten'")
    await memory.edit("fact", id_, importance=9)
    assert sql("SELECT validity FROM facts") == [{"validity": "retracted"}]
