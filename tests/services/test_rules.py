"""Rules that learn: marks, their record, and warnings against what did harm."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from administration import administer

from tulving import Caller, InvalidInput, NotFound, open_memory
from tulving.settings import MemoryModuleConfig, ScheduleConfig
from tulving.testing import CLOSE, SequentialIds

NOBODY = UUID(int=404)


@pytest.fixture
def config() -> MemoryModuleConfig:
    return MemoryModuleConfig(schedule=ScheduleConfig(background=False))


async def refute(memory, id_, *reasons):
    for reason in reasons or (None, None, None):
        rule = await memory.mark_harmful(id_, reason)
    return rule


@pytest.mark.scenario("001-090", "001-118")
async def test_a_helpful_mark_is_counted_and_recorded(memory, clock, sql):
    id_ = (await memory.store_rule("greet first")).id
    clock.advance(hours=1)
    by_anna = memory.bind(caller=Caller("default", "anna"))
    rule = await by_anna.mark_helpful(str(id_), circumstances={"task": 7})
    assert (rule.applied_count, rule.success_count, rule.effectiveness_score) == (1, 1, 1.0)
    assert rule.last_applied_at == rule.last_evaluated_at == clock.now
    assert rule == replace_references(await memory.get("rule", id_), rule)
    [application] = sql("SELECT * FROM rule_applications")
    assert (application["rule_id"], application["outcome"], application["applied_at"], application["context"]) == (
        id_,
        "helpful",
        clock.now,
        {"task": 7},
    )
    _, marked = await memory.events("rule", id_)
    assert (marked.event_type, marked.actor) == ("rule_marked_helpful", "anna")
    assert marked.payload["application_id"] == str(application["id"])
    assert marked.payload["effectiveness_score"] == 1.0


def replace_references(item, like):
    moved = ("reference_count", "last_referenced_at", "accessed_at")
    return replace(item, **{name: getattr(like, name) for name in moved})


@pytest.mark.scenario("001-091", "001-092", "001-118")
async def test_harmful_marks_keep_their_reasons(memory, clock, sql):
    id_ = (await memory.store_rule("greet first", metadata={"by": "me"})).id
    rule = await memory.mark_harmful(id_, "it was  rude<private> to Bob</private>\n")
    assert rule.metadata == {"by": "me", "harmful_reasons": ["it was rude"]}
    rule = await memory.mark_harmful(id_)
    assert (rule.applied_count, rule.harmful_count, rule.needs_inversion) == (2, 2, False)
    rule = await memory.mark_harmful(id_, "  ", circumstances={"task": 7})
    assert (rule.effectiveness_score, rule.needs_inversion) == (0.0, True)
    assert rule.metadata == {"by": "me", "harmful_reasons": ["it was rude"], "needs_inversion": True}
    rows = sql("SELECT outcome, context FROM rule_applications ORDER BY id")
    assert [row["outcome"] for row in rows] == ["harmful"] * 3
    assert [row["context"] for row in rows] == [{"reason": "it was rude"}, None, {"task": 7}]
    assert "rude" not in str([event.payload for event in await memory.events("rule", id_)])


@pytest.mark.scenario("001-009", "001-010", "001-011", "001-012")
async def test_the_career_of_a_rule(memory, clock):
    id_ = (await memory.store_rule("greet first")).id
    clock.advance(days=30, microseconds=-1)
    for number in range(1, 16):
        rule = await memory.mark_helpful(id_)
        assert rule.maturity == ("candidate" if number < 5 else "established")
    clock.advance(microseconds=1)
    assert (await memory.mark_helpful(id_)).maturity == "proven"
    rule = await memory.mark_harmful(id_)
    assert (rule.maturity, rule.effectiveness_score) == ("established", pytest.approx(16 / 20.01))
    for maturity in ("established", "candidate"):
        rule = await memory.mark_harmful(id_)
        assert rule.maturity == maturity
    assert (await memory.mark_helpful(id_)).maturity == "candidate", "17 of 20, but the harm is not wiped out"
    steps = [event.payload.get("maturity") for event in await memory.events("rule", id_)][1:]
    assert (
        steps == ["candidate"] * 4 + ["established"] * 11 + ["proven", "established", "established"] + ["candidate"] * 2
    )


@pytest.mark.parametrize("verb", ["mark_helpful", "mark_harmful", "invert_rule"])
async def test_a_rule_that_there_is_not(memory, sql, verb):
    other = memory.bind(caller=Caller("other"))
    theirs = (await other.store_rule("greet")).id
    fact = (await memory.store_fact("a", "b", "c")).id
    anna = (await memory.bind(user_id="anna").store_rule("wave")).id
    for who, id_ in ((memory, NOBODY), (memory, theirs), (memory, fact), (memory.bind(user_id="bob"), anna)):
        with pytest.raises(NotFound, match="Rule not found"):
            await getattr(who, verb)(id_)
        with pytest.raises(KeyError):
            await getattr(who, verb)(str(id_))
    with pytest.raises(InvalidInput, match="rule_id"):
        await getattr(memory, verb)("greet")
    assert sql("SELECT * FROM rule_applications") == []


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"reason": 5}, "reason"),
        ({"reason": "x" * 2001}, "reason"),
        ({"circumstances": "monday"}, "circumstances"),
        ({"circumstances": {"a": float("nan")}}, "circumstances.a"),
    ],
)
async def test_bad_feedback_is_refused(memory, sql, arguments, field):
    id_ = (await memory.store_rule("greet")).id
    with pytest.raises(InvalidInput) as refused:
        await memory.mark_harmful(id_, **arguments)
    assert refused.value.field == field
    assert sql("SELECT * FROM rule_applications") == []


async def test_marks_at_the_same_time_are_all_counted(memory, url, clock, embedder):
    id_ = (await memory.store_rule("greet")).id
    ids = SequentialIds(10**9)
    async with open_memory(url, embedder=embedder, clock=clock, ids=ids, background=False) as second:
        marks = [each.mark_helpful(id_) for each in (memory, second) for _ in range(10)]
        marks += [each.mark_harmful(id_, f"{n}") for each in (memory, second) for n in range(5)]
        await asyncio.gather(*marks)
    rule = await memory.get("rule", id_)
    assert (rule.applied_count, rule.success_count, rule.harmful_count) == (30, 20, 10)
    assert sorted(rule.metadata["harmful_reasons"]) == sorted(f"{n}" for n in range(5) for _ in range(2))
    assert len(await memory.events("rule", id_)) == 31


async def test_a_mark_that_fails_leaves_nothing(memory, sql, monkeypatch):
    from tulving.storage import events

    id_ = (await memory.store_rule("greet")).id

    def fail(*args):
        raise RuntimeError("boom")

    monkeypatch.setattr(events, "append", fail)
    with pytest.raises(RuntimeError):
        await memory.mark_helpful(id_)
    monkeypatch.undo()
    assert (await memory.get("rule", id_)).applied_count == 0
    assert sql("SELECT * FROM rule_applications") == []


async def test_deleting_a_rule_deletes_the_record_of_its_use(memory, sql):
    id_ = (await memory.store_rule("greet")).id
    await memory.mark_harmful(id_, "because of the zanzibar affair")
    await memory.delete("rule", id_)
    assert sql("SELECT * FROM rule_applications") == []


@pytest.mark.scenario("001-013")
async def test_a_refuted_rule_becomes_a_warning(memory, clock):
    id_ = (await memory.store_rule("greet everybody", tags=["manners"])).id
    await refute(memory, id_, "Bob was annoyed", None, "so was Eve")
    clock.advance(days=80)
    heard = []
    memory.subscribe(heard.extend)
    rule = await memory.invert_rule(id_)
    said = "ANTI-PATTERN: Do NOT greet everybody. This caused problems because: Bob was annoyed; so was Eve"
    assert (rule.content, rule.maturity, rule.needs_inversion) == (said, "anti_pattern", False)
    assert rule.metadata["original_content"] == "greet everybody"
    assert rule.metadata["needs_inversion"] is False
    assert rule == replace_references(await memory.get("rule", id_), rule)
    assert [event.event_type for event in heard] == ["rule_inverted"]
    # Words and vector are those of the warning now.
    for mode in ("keyword", "semantic"):
        assert [hit.item.id for hit in await memory.search("annoyed Bob", mode=mode)] == [id_]
    assert (await memory.search_similar(memory._env.embedder.embed(said)))[0].parts["similarity"] == pytest.approx(
        1.0, abs=CLOSE
    )
    assert (await administer(memory).verify()).ok
    events = await memory.events("rule", id_)
    assert replace_references(await memory.invert_rule(id_), rule) == rule
    assert await memory.events("rule", id_) == events, "once inverted it stays"
    assert "anti_pattern" in await memory.context("greet everybody", butler="b")


@pytest.mark.parametrize("marks", ["", "hh", "hhs" + "s" * 10 + "h", "hhhss"])
async def test_a_rule_that_is_not_refuted_stays(memory, marks):
    """None; two harms; three but 11 successes; three, then 2 of 5 successes."""
    id_ = (await memory.store_rule("greet")).id
    for mark in marks:
        await (memory.mark_harmful if mark == "h" else memory.mark_helpful)(id_)
    before = await memory.events("rule", id_)
    assert await memory.invert_rule(id_) is None
    assert await memory.invert_refuted() == 0
    assert (await memory.get("rule", id_)).content == "greet"
    assert await memory.events("rule", id_) == before


async def test_a_reason_added_during_the_inversion_is_in_the_warning(memory, monkeypatch):
    """The vector is made before the transaction; what is said until then must not be lost."""
    id_ = (await memory.store_rule("greet")).id
    await refute(memory, id_, "a", "b", "c")
    really, said = memory._env.embedding.index, []

    async def index(items, version=None):
        if not said:
            said.append(await memory.mark_harmful(id_, "d"))
        return await really(items, version)

    monkeypatch.setattr(memory._env.embedding, "index", index)
    rule = await memory.invert_rule(id_)
    assert rule.content.endswith("because: a; b; c; d")
    assert rule.harmful_count == 4
    assert (await administer(memory).verify()).ok


async def test_a_rule_that_helps_during_the_inversion_is_not_inverted(memory, monkeypatch):
    id_ = (await memory.store_rule("greet")).id
    await refute(memory, id_)
    really = memory._env.embedding.index

    async def index(items, version=None):
        for _ in range(2):
            await memory.mark_helpful(id_)
        return await really(items, version)

    monkeypatch.setattr(memory._env.embedding, "index", index)
    assert await memory.invert_rule(id_) is None
    assert (await memory.get("rule", id_)).content == "greet"


async def test_refuted_rules_of_all_tenants_are_inverted(memory, clock, monkeypatch):
    from tulving.services import upkeep

    monkeypatch.setattr(upkeep, "INVERTED_AT_A_TIME", 2)
    ids = {}
    for tenant in ("acme", "bolt", "default"):
        who = memory.bind(caller=Caller(tenant))
        ids[tenant] = [(await who.store_rule(f"greet {n}")).id for n in range(3)]
        for id_ in ids[tenant][:2]:
            await refute(who, id_)
    await memory.forget("rule", ids["default"][0])
    assert await administer(memory).invert_refuted() == 5
    assert await administer(memory).invert_refuted() == 0
    for tenant, theirs in ids.items():
        who = memory.bind(caller=Caller(tenant))
        found = [(await who.get("rule", id_)).maturity for id_ in theirs]
        assert found == ["candidate" if tenant == "default" else "anti_pattern", "anti_pattern", "candidate"]
        last = (await who.events("rule", theirs[1]))[-1]
        assert (last.event_type, last.actor, last.tenant_id) == ("rule_inverted", "maintenance", tenant)


async def test_without_an_embedder_the_warning_waits_for_its_vector(memory, embedder):
    id_ = (await memory.store_rule("greet")).id
    await refute(memory, id_, "rude", "rude", "rude")
    embedder.problem = "no weights"
    assert (await memory.invert_rule(id_)).maturity == "anti_pattern"
    assert await memory.count_pending() == 1
    assert [hit.item.id for hit in await memory.search("rude", mode="keyword")] == [id_]
    embedder.problem = None
    assert await memory.embed_pending() == 1
    assert [hit.item.id for hit in await memory.search("rude", mode="semantic")] == [id_]


async def test_a_warning_can_be_recalled_however_old_the_rule_was(memory, clock):
    id_ = (await memory.store_rule("greet everybody")).id
    clock.advance(days=120)
    assert len(await memory.recall("greet")) == 0
    await refute(memory, id_)
    await memory.invert_rule(id_)
    assert [hit.parts["confidence"] for hit in await memory.recall("greet")] == [0.5]
    clock.now += timedelta(days=9999)
    assert (await memory.run_decay_sweep())["rules_expired"] == 0
