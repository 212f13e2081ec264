"""What time does: facts and rules fade, expire and recover; episodes are cleaned up."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from administration import administer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tulving import Caller, InvalidInput, NewEpisode, NewFact, NewRule, open_memory
from tulving.domain.context import render
from tulving.domain.decay import PERMANENCE, effective_confidence, review
from tulving.interfaces.wire import wire
from tulving.services import upkeep
from tulving.settings import MemoryModuleConfig, ScheduleConfig
from tulving.testing import ManualClock, SequentialIds, WordEmbedder

NOTHING = {f"{kind}_{what}": 0 for kind in ("facts", "rules") for what in ("checked", "fading", "expired", "recovered")}
QUIET = ScheduleConfig(background=False)


@pytest.fixture
def config() -> MemoryModuleConfig:
    """Nothing is done by itself, only by the tests."""
    return MemoryModuleConfig(schedule=QUIET)


def came_to(**counts):
    return {**NOTHING, **counts}


async def events_of(memory, kind, id_):
    return [event.event_type for event in await memory.events(kind, id_)]


# -- the decay sweep -------------------------------------------------------------------------------------------


@pytest.mark.scenario("001-007", "001-008", "001-037", "001-125")
async def test_a_fact_fades_and_expires(memory, clock):
    """The pinned times: confidence 1.0 at 0.008 a day fades after 201.2 days and expires after 374.5."""
    id_ = (await memory.store_fact("user", "likes", "tea", metadata={"by": "me"})).id
    clock.advance(days=201.1)
    assert await memory.run_decay_sweep() == NOTHING
    clock.advance(days=0.2)
    assert await memory.run_decay_sweep() == came_to(facts_checked=1, facts_fading=1)
    fact = await memory.get("fact", id_)
    assert (fact.validity, fact.status, fact.state, fact.metadata) == ("active", "fading", "fading", {"by": "me"})
    shown = wire(fact)
    assert (shown["metadata"], shown["state"]) == ({"by": "me", "status": "fading"}, "fading")
    assert len(await memory.search("tea", min_confidence=0.1)) == 1, "what fades is still the value there is"
    assert await memory.run_decay_sweep() == NOTHING, "it is not due again"
    clock.advance(days=173.1)
    assert await memory.run_decay_sweep() == NOTHING
    clock.advance(days=0.2)
    assert await memory.run_decay_sweep() == came_to(facts_checked=1, facts_expired=1)
    fact = await memory.get("fact", id_)
    assert (fact.validity, fact.status, fact.next_review_at) == ("expired", None, None)
    assert len(await memory.search("tea", min_confidence=0)) == 0
    assert await memory.run_decay_sweep(as_of=clock.now + timedelta(days=9999)) == NOTHING
    assert await events_of(memory, "fact", id_) == ["fact_created", "fact_fading", "fact_expired"]
    fading, expired = (await memory.events("fact", id_))[1:]
    assert (fading.actor, fading.tenant_id, fading.payload["by"]) == (None, "default", "decay")
    assert fading.payload["effective_confidence"] == pytest.approx(0.2, abs=0.001)
    assert fading.run_id != expired.run_id, "each sweep is a run of its own"
    assert (await administer(memory).verify()).ok


@pytest.mark.scenario("001-037")
@pytest.mark.parametrize(("permanence", "fades", "goes"), [(None, 91.6, 230.3), ("standard", 114.5, 287.8)])
async def test_a_rule_fades_and_is_forgotten(memory, clock, permanence, fades, goes):
    id_ = (await memory.store_rule("greet first", permanence=permanence, metadata={"by": "me"})).id
    start = clock.now
    assert await memory.run_decay_sweep(as_of=start + timedelta(days=fades - 0.1)) == NOTHING
    fading = await memory.run_decay_sweep(as_of=start + timedelta(days=fades + 0.1))
    assert fading == came_to(rules_checked=1, rules_fading=1)
    rule = await memory.get("rule", id_)
    assert (rule.status, rule.forgotten, wire(rule)["metadata"]["status"]) == ("fading", False, "fading")
    assert await memory.run_decay_sweep(as_of=start + timedelta(days=goes - 0.1)) == NOTHING
    gone = await memory.run_decay_sweep(as_of=start + timedelta(days=goes + 0.1))
    assert gone == came_to(rules_checked=1, rules_expired=1)
    rule = await memory.get("rule", id_)
    assert (rule.forgotten, rule.status, rule.metadata) == (True, None, {"by": "me", "forgotten": True})
    assert len(await memory.search("greet", min_confidence=0)) == 0
    assert await events_of(memory, "rule", id_) == ["rule_created", "rule_fading", "rule_expired"]


async def test_what_was_not_looked_at_for_years_expires_without_fading_before(memory, clock):
    id_ = (await memory.store_fact("user", "likes", "tea")).id
    clock.advance(days=5000)
    assert await memory.run_decay_sweep() == came_to(facts_checked=1, facts_expired=1)
    assert await events_of(memory, "fact", id_) == ["fact_created", "fact_expired"]


@pytest.mark.scenario("001-035")
async def test_who_is_left_alone(memory, clock, sql):
    permanent = (await memory.store_fact("a", "p", "permanent", permanence="permanent", confidence=0.01)).id
    old = (await memory.store_fact("b", "p", "superseded")).id
    await memory.store_fact("b", "p", "newer", permanence="permanent")
    retracted = (await memory.store_fact("c", "p", "retracted")).id
    await memory.forget("fact", retracted)
    warning = (await memory.store_rule("greet first")).id
    for _ in range(3):
        await memory.mark_harmful(warning)
    await memory.invert_rule(warning)
    forgotten = (await memory.store_rule("wave")).id
    await memory.forget("rule", forgotten)
    # Even if they have been given a review date.
    for table in ("facts", "rules"):
        sql(f"UPDATE {table} SET next_review_at = ?", clock.now)
    clock.advance(days=9999)
    before = sql("SELECT COUNT(*) AS n FROM memory_events")
    assert await memory.run_decay_sweep() == await memory.run_decay_sweep(dry_run=True) == NOTHING
    assert sql("SELECT COUNT(*) AS n FROM memory_events") == before
    assert (await memory.get("fact", permanent)).state == "active"
    assert (await memory.get("fact", old)).state == "superseded"
    assert (await memory.get("rule", warning)).maturity == "anti_pattern"
    assert not (await memory.get("rule", warning)).forgotten


async def test_what_was_never_confirmed_has_faded_since_it_was_made(memory, clock, sql):
    id_ = (await memory.store_fact("user", "likes", "tea")).id
    sql("UPDATE facts SET last_confirmed_at = NULL")
    clock.advance(days=250)
    assert await memory.run_decay_sweep() == came_to(facts_checked=1, facts_fading=1)
    assert (await memory.get("fact", id_)).state == "fading"
    assert len(await memory.search("tea", min_confidence=0.01)) == 0, "but it is not believed"


@pytest.mark.scenario("001-037")
async def test_what_is_believed_again_recovers(memory, clock, sql):
    fact = (await memory.store_fact("user", "likes", "tea")).id
    rule = (await memory.store_rule("greet")).id
    clock.advance(days=210)
    assert await memory.run_decay_sweep() == came_to(facts_checked=1, facts_fading=1, rules_checked=1, rules_fading=1)
    # Somebody else has confirmed them and left the rest to the sweep.
    for table in ("facts", "rules"):
        sql(f"UPDATE {table} SET last_confirmed_at = ?, next_review_at = ?", clock.now, clock.now)
    assert await memory.run_decay_sweep() == came_to(
        facts_checked=1, facts_recovered=1, rules_checked=1, rules_recovered=1
    )
    for kind, id_ in (("fact", fact), ("rule", rule)):
        item = await memory.get(kind, id_)
        assert item.status is None
        assert "status" not in wire(item)["metadata"]
        assert item.next_review_at > clock.now
        assert (await events_of(memory, kind, id_))[-1] == f"{kind}_recovered"


async def test_confirming_ends_the_fading(memory, clock):
    id_ = (await memory.store_fact("user", "likes", "tea")).id
    clock.advance(days=250)
    await memory.run_decay_sweep()
    assert await memory.confirm("fact", id_)
    assert (await memory.get("fact", id_)).state == "active"
    assert await memory.run_decay_sweep() == NOTHING
    clock.advance(days=202)
    assert await memory.run_decay_sweep() == came_to(facts_checked=1, facts_fading=1)


async def test_a_clock_that_went_back_changes_nothing(memory, clock):
    await memory.store_fact("user", "likes", "tea")
    await memory.store_rule("greet")
    clock.advance(days=250)
    await memory.run_decay_sweep()
    for days in (-1, -250, -251, -100_000):
        assert await memory.run_decay_sweep(as_of=clock.now + timedelta(days=days)) == NOTHING
    clock.advance(days=-300)
    assert await memory.run_decay_sweep() == NOTHING
    await memory.store_fact("user", "sees", "the past")
    assert (await memory.search("past"))[0].parts["confidence"] == 1.0


async def test_each_tenant_has_its_own_events(memory, clock):
    others = [memory.bind(caller=Caller(tenant, "somebody")) for tenant in ("acme", "bolt")]
    ids = [(await other.store_fact("user", "likes", "tea")).id for other in others]
    heard = []
    others[0].subscribe(heard.extend)
    clock.advance(days=250)
    assert await memory.run_decay_sweep() == NOTHING, "those of other tenants are none of its business"
    assert (await administer(memory).run_decay_sweep(dry_run=True))["facts_fading"] == 2
    assert (await administer(memory).run_decay_sweep())["facts_fading"] == 2
    for other, id_ in zip(others, ids, strict=True):
        assert await events_of(other, "fact", id_) == ["fact_created", "fact_fading"]
        assert (await other.events("fact", id_))[-1].actor == "maintenance"
    assert [(event.event_type, event.tenant_id) for event in heard] == [("fact_fading", "acme")]


async def test_a_bound_memory_sweeps_and_inverts_only_what_it_reaches(memory, clock):
    alice, bob = (memory.bind(user_id=name) for name in ("alice", "bob"))
    for user in (alice, bob):
        await user.store_fact("user", "likes", "tea")
        rule = (await user.store_rule("greet")).id
        for _ in range(3):
            await user.mark_harmful(rule)
    assert await alice.invert_refuted() == 1
    clock.advance(days=250)
    assert (await alice.run_decay_sweep())["facts_fading"] == 1
    assert [item.status for item in (await bob.list_memories("fact")).items] == [None]
    assert [item.maturity for item in (await bob.list_memories("rule")).items] == ["candidate"]
    assert await memory.run_decay_sweep() == came_to(
        facts_checked=1, facts_fading=1, rules_checked=1, rules_expired=1
    ), "an unbound one reaches the rest of its tenant"


async def test_a_rehearsal_counts_and_changes_nothing(memory, clock, sql):
    await memory.store_facts([NewFact(content=f"note {n}", confidence=0.3 if n % 2 else 1.0) for n in range(6)])
    await memory.store_rule("greet")
    clock.advance(days=201.5)
    before = [sql(f"SELECT * FROM {table} ORDER BY id") for table in ("facts", "rules", "memory_events")]
    expected = await memory.run_decay_sweep(dry_run=True)
    assert [sql(f"SELECT * FROM {table} ORDER BY id") for table in ("facts", "rules", "memory_events")] == before
    assert expected == came_to(facts_checked=6, facts_fading=6, rules_checked=1, rules_fading=1)
    assert await memory.run_decay_sweep() == expected


async def test_a_sweep_says_how_far_it_is(memory, clock, monkeypatch):
    monkeypatch.setattr(upkeep, "SWEPT_AT_A_TIME", 4)
    await memory.store_facts([NewFact(content=f"note {n}") for n in range(10)])
    await memory.store_rule("greet")
    clock.advance(days=250)
    told = []
    await memory.run_decay_sweep(progress=lambda done, total: told.append((done, total)))
    assert told == [(4, 11), (8, 11), (10, 11), (11, 11)]


@pytest.mark.parametrize("as_of", ["2026-01-01", 5, "now"])
async def test_a_sweep_as_of_no_time_is_refused(memory, as_of):
    with pytest.raises(InvalidInput, match="as_of"):
        await memory.run_decay_sweep(as_of=as_of)


async def test_a_sweep_that_dies_in_the_middle_is_finished_by_the_next(memory, clock, monkeypatch, sql):
    monkeypatch.setattr(upkeep, "SWEPT_AT_A_TIME", 10)
    stored = await memory.store_facts([NewFact(content=f"note {n}") for n in range(35)])
    clock.advance(days=250)
    store, written = memory._env.store, 0
    really = store.write

    async def write(*args, **kwargs):
        nonlocal written
        written += 1
        if written == 3:
            raise ConnectionResetError("killed")
        return await really(*args, **kwargs)

    monkeypatch.setattr(store, "write", write)
    with pytest.raises(ConnectionResetError):
        await memory.run_decay_sweep()
    assert sql("SELECT COUNT(*) AS n FROM facts WHERE status = 'fading'") == [{"n": 20}]
    assert sql("SELECT COUNT(*) AS n FROM memory_events WHERE event_type = 'fact_fading'") == [{"n": 20}]
    assert await memory.run_decay_sweep() == came_to(facts_checked=15, facts_fading=15)
    for answer in stored:
        assert await events_of(memory, "fact", answer.id) == ["fact_created", "fact_fading"]


async def test_a_batch_that_fails_is_undone_as_a_whole(memory, clock, monkeypatch, sql):
    await memory.store_facts([NewFact(content=f"note {n}") for n in range(5)])
    clock.advance(days=250)
    ids = memory._env.ids
    left = [ids(), ids(), ids()]  # the run, two events, and then no more

    def run_out():
        if not left:
            raise RuntimeError("no more ids")
        return left.pop()

    monkeypatch.setattr(memory._env, "ids", run_out)
    with pytest.raises(RuntimeError, match="no more ids"):
        await memory.run_decay_sweep()
    assert sql("SELECT COUNT(*) AS n FROM facts WHERE status = 'fading'") == [{"n": 0}]
    assert sql("SELECT COUNT(*) AS n FROM memory_events WHERE event_type = 'fact_fading'") == [{"n": 0}]
    monkeypatch.setattr(memory._env, "ids", ids)
    assert await memory.run_decay_sweep() == came_to(facts_checked=5, facts_fading=5)


async def test_two_sweeps_at_once_do_each_thing_once(memory, url, clock, embedder, monkeypatch):
    monkeypatch.setattr(upkeep, "SWEPT_AT_A_TIME", 7)
    stored = await memory.store_facts([NewFact(content=f"note {n}") for n in range(100)])
    rules = await memory.store_rules([NewRule(content=f"rule {n}") for n in range(30)])
    clock.advance(days=250)
    ids = SequentialIds(10**9)
    async with open_memory(url, embedder=embedder, clock=clock, ids=ids, background=False) as second:
        results = await asyncio.gather(*(each.run_decay_sweep() for each in (memory, second, memory, second)))
    total = Counter()
    for result in results:
        total.update(result)
    assert dict(+total) == {"facts_checked": 100, "facts_fading": 100, "rules_checked": 30, "rules_expired": 30}
    for kind, answers, last in (("fact", stored, "fact_fading"), ("rule", rules, "rule_expired")):
        for answer in answers:
            assert await events_of(memory, kind, answer.id) == [f"{kind}_created", last]


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_sweep_finds_what_a_full_scan_would(url, sql, data):
    """The oracle looks at every row, by the formula alone; the sweep only at those whose time has come."""
    for table in ("facts", "rules"):
        sql(f"DELETE FROM {table}")
    asyncio.run(_compare_with_oracle(url, data))


async def _compare_with_oracle(url, data):
    clock = ManualClock()
    start = clock.now
    made = st.tuples(
        st.sampled_from(list(PERMANENCE)),
        st.one_of(st.sampled_from([0.0, 0.04, 0.05, 0.1, 0.2, 0.5, 1.0]), st.floats(0, 1)),
        st.floats(0, 300),
    )
    facts = data.draw(st.lists(made, min_size=1, max_size=8))
    rules = data.draw(st.lists(st.tuples(st.sampled_from([None, *PERMANENCE]), st.floats(0, 300)), max_size=3))
    kinds: dict[UUID, str] = {}
    async with open_memory(url, embedder=WordEmbedder(), clock=clock, ids=IDS, background=False) as memory:
        for number, (permanence, confidence, age) in enumerate(facts):
            clock.now = start + timedelta(days=age)
            offer = NewFact(content=f"note {number}", permanence=permanence, confidence=confidence)
            kinds[(await memory.store_facts([offer]))[0].id] = "fact"
        for permanence, age in rules:
            clock.now = start + timedelta(days=age)
            kinds[(await memory.store_rule("greet", permanence=permanence)).id] = "rule"
        known = dict.fromkeys(kinds, "active")
        as_of = start + timedelta(days=300)
        for _ in range(data.draw(st.integers(1, 5))):
            due = [(await memory.get(kinds[id_], id_)).next_review_at for id_ in kinds]
            as_of = max(as_of, _some_time(data, [moment for moment in due if moment], as_of))
            before = dict(known)
            for kind, id_ in ((kinds[id_], id_) for id_ in kinds if known[id_] != "expired"):
                item = await memory.get(kind, id_)
                if item.decay_rate:
                    known[id_] = review(item.confidence, item.decay_rate, item.last_confirmed_at, as_of).state
            changed = Counter(
                (kinds[id_], "recovered" if known[id_] == "active" else known[id_])
                for id_ in kinds
                if known[id_] != before[id_]
            )
            rehearsed = await memory.run_decay_sweep(as_of=as_of, dry_run=True)
            result = await memory.run_decay_sweep(as_of=as_of)
            assert result == rehearsed
            for (kind, what), count in changed.items():
                assert result[f"{kind}s_{what}"] == count
            assert sum(result.values()) - result["facts_checked"] - result["rules_checked"] == changed.total()
            for id_, kind in kinds.items():
                item = await memory.get(kind, id_)
                found = item.state if kind == "fact" else "expired" if item.forgotten else item.status or "active"
                assert found == known[id_], (item, as_of)
            for id_ in data.draw(st.lists(st.sampled_from(list(kinds)), max_size=2)):
                clock.now = as_of
                if await memory.confirm(kinds[id_], id_):
                    known[id_] = "active"


IDS = SequentialIds(10**6)
"""No event of an example may have an id of an earlier one: they stay."""


def _some_time(data, due: list[datetime], as_of: datetime) -> datetime:
    """Some days later, or at the very moment at which something is due, or a microsecond beside it."""
    later = as_of + timedelta(days=data.draw(st.floats(0, 400)))
    moments = [later, *due]
    return moments[data.draw(st.integers(0, len(due)))] + timedelta(microseconds=data.draw(st.integers(-1, 1)))


# -- decay is felt ---------------------------------------------------------------------------------------------


@pytest.mark.scenario("001-036")
async def test_what_was_never_confirmed_is_not_believed(memory, sql):
    await memory.store_fact("garden", "plant", "roses")
    await memory.store_rule("water the garden roses")
    for table in ("facts", "rules"):
        sql(f"UPDATE {table} SET last_confirmed_at = NULL")
    found = await memory.search("garden roses", min_confidence=0)
    assert [hit.parts["confidence"] for hit in found] == [0.0, 0.0]


@pytest.mark.scenario("001-035")
async def test_decay_is_felt_in_retrieval_before_any_sweep(memory, clock):
    await memory.store_fact("garden", "plant", "roses", permanence="ephemeral")
    await memory.store_fact("garden", "fence", "roses grow there", permanence="permanent", confidence=0.6)
    found = await memory.search("garden roses")
    assert sorted(hit.parts["confidence"] for hit in found) == [0.6, 1.0]
    clock.advance(days=7)
    found = {hit.item.predicate: hit.parts["confidence"] for hit in await memory.recall("garden roses")}
    assert found == {"plant": pytest.approx(0.4966, abs=1e-4), "fence": 0.6}
    clock.advance(days=9.5)
    for verb in (memory.search, memory.recall):
        found = await verb("garden roses")
        assert [hit.item.predicate for hit in found] == ["fence"], "below 0.2 it is not found"
        assert found.below_confidence == 1
    block = await memory.context("garden roses", butler="b")
    assert "(confidence: 0.60)" in block and "plant" not in block
    assert len(await memory.search("garden roses", min_confidence=0.1)) == 2


async def test_what_is_believed_less_comes_later(memory, clock):
    await memory.store_fact("a", "tea", "green leaves", permanence="volatile")
    await memory.store_fact("b", "tea", "green leaves", permanence="stable")
    clock.advance(days=30)
    hits = (await memory.recall("tea green leaves")).hits
    assert [hit.item.subject for hit in hits] == ["b", "a"]
    assert hits[1].parts["confidence"] == effective_confidence(1.0, 0.03, hits[1].item.created_at, clock.now)


async def test_proven_rules_come_first_in_the_context(memory, clock, sql):
    older = (await memory.store_rule("water the roses")).id
    await memory.store_rule("water the roses")
    sql("UPDATE rules SET maturity = 'proven' WHERE id = ?", older)
    found = (await memory.recall("water roses", min_confidence=0)).hits
    assert len(found) == 2
    same = [replace(hit, score=0.5) for hit in found]
    for order in (same, same[::-1]):
        assert render(order, 1000).splitlines()[3].startswith("- water the roses (maturity: proven")
    ahead = [replace(hit, score=0.4 if hit.item.id == older else 0.5) for hit in same]
    assert render(ahead, 1000).splitlines()[3].startswith("- water the roses (maturity: candidate")


# -- episodes --------------------------------------------------------------------------------------------------


async def fill(memory, sql, **kept):
    """Episodes by name, each with its status, in the order given."""
    ids = {}
    for name, status in kept.items():
        ids[name] = (await memory.store_episode(f"{name} happened", butler="b")).id
        if status is not None:
            done = status == "consolidated"
            sql("UPDATE episodes SET consolidation_status = ?, consolidated = ? WHERE id = ?", status, done, ids[name])
    return ids


async def names(memory, sql):
    return {row["content"].split()[0] for row in sql("SELECT content FROM episodes")}


@pytest.mark.scenario("001-058", "001-060")
async def test_expired_episodes_are_deleted(memory, clock, sql):
    ids = await fill(memory, sql, learned="consolidated", lost="dead_letter", failed="failed", waiting=None)
    fact = (await memory.store_fact("user", "likes", "tea", source_episode_id=ids["learned"])).id
    await memory.create_link("fact", fact, "episode", ids["learned"], "derived_from")
    await memory.create_link("episode", ids["learned"], "episode", ids["waiting"], "related_to")
    await memory.edit("episode", ids["learned"], content="learned otherwise")
    lasting = (await memory.store_episode("typed happened", butler="b", type="decision")).id
    clock.advance(days=7, microseconds=-1)
    assert await memory.run_episode_cleanup() == {"expired_deleted": 0, "capacity_deleted": 0, "remaining": 5}
    assert len(await memory.search("happened")) == 4, "an expired one would not be found"
    clock.advance(microseconds=1)
    assert [hit.item.id for hit in await memory.search("happened")] == [lasting], "expired ones are not found"
    assert await memory.run_episode_cleanup() == {"expired_deleted": 2, "capacity_deleted": 0, "remaining": 3}
    assert await names(memory, sql) == {"failed", "waiting", "typed"}, "what may be learned from has a grace"
    assert (await memory.get("fact", fact)).source_episode_id is None
    assert await memory.get_links("fact", fact) == await memory.get_links("episode", ids["waiting"]) == []
    assert sql("SELECT * FROM revisions") == []
    assert (await events_of(memory, "episode", ids["learned"]))[-2:] == ["episode_edited", "episode_deleted"]
    assert (await memory.events("episode", ids["learned"]))[-1].payload == {"by": "expiry", "butler": "b"}
    clock.advance(days=7, microseconds=-1)
    assert (await memory.run_episode_cleanup())["expired_deleted"] == 0
    clock.advance(microseconds=1)
    assert await memory.run_episode_cleanup() == {"expired_deleted": 2, "capacity_deleted": 0, "remaining": 1}
    assert (await administer(memory).verify()).ok


@pytest.mark.parametrize(
    "config", [MemoryModuleConfig(schedule=QUIET, episode_grace_days=grace) for grace in (None, 0)], ids=["none", "0"]
)
@pytest.mark.scenario("001-058")
async def test_without_a_grace_all_expired_episodes_are_deleted(memory, clock, sql):
    await fill(memory, sql, learned="consolidated", waiting=None)
    clock.advance(days=7)
    assert await memory.run_episode_cleanup() == {"expired_deleted": 2, "capacity_deleted": 0, "remaining": 0}


async def test_forgotten_episodes_get_no_grace(memory, clock, sql):
    ids = await fill(memory, sql, waiting=None, other=None)
    await memory.forget("episode", ids["waiting"])
    assert [hit.item.id for hit in await memory.search("happened")] == [ids["other"]], "out of sight at once"
    assert await memory.run_episode_cleanup() == {"expired_deleted": 1, "capacity_deleted": 0, "remaining": 1}
    assert await names(memory, sql) == {"other"}


@pytest.mark.scenario("001-059", "001-060")
async def test_the_oldest_that_were_learned_from_make_room(memory, clock, sql):
    for name in ("a", "b", "c", "d"):
        await fill(memory, sql, **{f"old_{name}": "consolidated", f"new_{name}": None})
        clock.advance(hours=1)
    await fill(memory, sql, failed="failed", lost="dead_letter")
    assert await memory.run_episode_cleanup(max_entries=10) == {
        "expired_deleted": 0,
        "capacity_deleted": 0,
        "remaining": 10,
    }
    assert await memory.run_episode_cleanup(max_entries=8, dry_run=True) == {
        "expired_deleted": 0,
        "capacity_deleted": 2,
        "remaining": 8,
    }
    assert await memory.run_episode_cleanup(max_entries=8) == {
        "expired_deleted": 0,
        "capacity_deleted": 2,
        "remaining": 8,
    }
    assert {"old_c", "old_d"} <= await names(memory, sql)
    assert not {"old_a", "old_b"} & await names(memory, sql)
    rehearsed = await memory.run_episode_cleanup(max_entries=0, dry_run=True)
    assert rehearsed == await memory.run_episode_cleanup(max_entries=0)
    assert rehearsed == {"expired_deleted": 0, "capacity_deleted": 2, "remaining": 6}
    assert await names(memory, sql) == {"new_a", "new_b", "new_c", "new_d", "failed", "lost"}


async def test_a_rehearsal_tells_both_and_deletes_nothing(memory, clock, sql):
    await fill(memory, sql, a="consolidated", b="consolidated", c=None)
    clock.advance(days=4)
    await fill(memory, sql, d="consolidated", e="consolidated", f=None)
    clock.advance(days=4)
    before = sql("SELECT * FROM episodes ORDER BY id"), sql("SELECT * FROM memory_events ORDER BY seq")
    rehearsed = await memory.run_episode_cleanup(max_entries=3, dry_run=True)
    assert (sql("SELECT * FROM episodes ORDER BY id"), sql("SELECT * FROM memory_events ORDER BY seq")) == before
    assert rehearsed == {"expired_deleted": 2, "capacity_deleted": 1, "remaining": 3}
    assert await memory.run_episode_cleanup(max_entries=3) == rehearsed
    assert await names(memory, sql) == {"c", "e", "f"}


async def test_the_tool_is_for_ones_own_tenant_and_the_worker_for_all(memory, clock, sql):
    others = {tenant: memory.bind(caller=Caller(tenant)) for tenant in ("acme", "bolt")}
    for tenant, other in others.items():
        await fill(other, sql, **{f"{tenant}_{n}": "consolidated" for n in range(4)})
    await fill(memory, sql, mine="consolidated")
    assert await others["acme"].run_episode_cleanup(max_entries=3) == {
        "expired_deleted": 0,
        "capacity_deleted": 1,
        "remaining": 3,
    }
    assert len(await names(memory, sql)) == 8, "bolt is too full, but that is not acme's affair"
    rehearsed = await administer(memory).run_episode_cleanup(max_entries=2, dry_run=True)
    assert rehearsed == {"expired_deleted": 0, "capacity_deleted": 3, "remaining": 5}
    assert await administer(memory).run_episode_cleanup(max_entries=2) == rehearsed, (
        "each tenant has the capacity for itself"
    )
    clock.advance(days=7)
    assert await administer(memory).run_episode_cleanup() == {
        "expired_deleted": 5,
        "capacity_deleted": 0,
        "remaining": 0,
    }
    rows = sql(
        "SELECT tenant_id, actor, COUNT(*) AS n FROM memory_events WHERE event_type = 'episode_deleted' GROUP BY 1, 2"
    )
    assert {(row["tenant_id"], row["actor"]): row["n"] for row in rows} == {
        ("acme", None): 1,
        ("acme", "maintenance"): 3,
        ("bolt", "maintenance"): 4,
        ("default", "maintenance"): 1,
    }


@pytest.mark.parametrize("config", [MemoryModuleConfig(schedule=QUIET, episode_max_entries=2)])
@pytest.mark.parametrize("who", [lambda memory: memory, administer])
async def test_without_a_capacity_the_configured_one_counts(memory, sql, who):
    await fill(memory, sql, a="consolidated", b="consolidated", c="consolidated")
    assert (await who(memory).run_episode_cleanup(max_entries=3))["capacity_deleted"] == 0
    assert (await who(memory).run_episode_cleanup())["capacity_deleted"] == 1


async def test_a_cleanup_as_of_another_time(memory, clock, sql):
    await fill(memory, sql, learned="consolidated")
    for verb in (memory.run_episode_cleanup, administer(memory).run_episode_cleanup):
        for later in (timedelta(microseconds=1), timedelta(days=8)):
            with pytest.raises(InvalidInput, match="as_of: is in the future"):
                await verb(as_of=clock.now + later)
        assert (await verb(as_of=clock.now + timedelta(days=8), dry_run=True))["expired_deleted"] == 1
        assert (await verb(as_of=clock.now))["remaining"] == 1
    clock.advance(days=10)
    assert (await memory.run_episode_cleanup(as_of=clock.now - timedelta(days=5)))["expired_deleted"] == 0
    clock.advance(days=-20)
    assert (await memory.run_episode_cleanup())["expired_deleted"] == 0, "a clock that went back deletes nothing"
    clock.now = datetime.min.replace(tzinfo=clock.now.tzinfo)
    assert (await administer(memory).run_episode_cleanup())["remaining"] == 1


@pytest.mark.parametrize("most", [-1, 1.5, "10", True])
async def test_a_capacity_that_is_none_is_refused(memory, most):
    with pytest.raises(InvalidInput, match="max_entries"):
        await memory.run_episode_cleanup(max_entries=most)


async def test_a_cleanup_that_dies_in_the_middle_is_finished_by_the_next(memory, clock, monkeypatch, sql):
    monkeypatch.setattr(upkeep, "SWEPT_AT_A_TIME", 10)
    stored = await memory.store_episodes([NewEpisode(content=f"note {n}", butler="b") for n in range(35)])
    clock.advance(days=14)
    store, written = memory._env.store, 0
    really = store.write

    async def write(*args, **kwargs):
        nonlocal written
        written += 1
        if written == 3:
            raise ConnectionResetError("killed")
        return await really(*args, **kwargs)

    monkeypatch.setattr(store, "write", write)
    with pytest.raises(ConnectionResetError):
        await memory.run_episode_cleanup()
    assert sql("SELECT COUNT(*) AS n FROM episodes") == [{"n": 15}]
    assert await memory.run_episode_cleanup() == {"expired_deleted": 15, "capacity_deleted": 0, "remaining": 0}
    for answer in stored:
        assert await events_of(memory, "episode", answer.id) == ["episode_created", "episode_deleted"]


async def test_two_cleanups_at_once_do_not_delete_too_much(memory, url, clock, embedder, monkeypatch, sql):
    monkeypatch.setattr(upkeep, "SWEPT_AT_A_TIME", 7)
    await memory.store_episodes([NewEpisode(content=f"note {n}", butler="b", type="change") for n in range(100)])
    sql("UPDATE episodes SET consolidation_status = 'consolidated', consolidated = TRUE")
    await memory.store_episodes([NewEpisode(content=f"over {n}", butler="b") for n in range(40)])
    clock.advance(days=14)
    ids = SequentialIds(10**9)
    async with open_memory(url, embedder=embedder, clock=clock, ids=ids, background=False) as second:
        results = await asyncio.gather(
            *(each.run_episode_cleanup(max_entries=50) for each in (memory, second, memory, second))
        )
    assert sum(result["expired_deleted"] for result in results) == 40
    assert sum(result["capacity_deleted"] for result in results) == 50
    assert sql("SELECT COUNT(*) AS n FROM episodes") == [{"n": 50}]
    assert sql("SELECT COUNT(*) AS n FROM memory_events WHERE event_type = 'episode_deleted'") == [{"n": 90}]
    assert (await administer(memory).verify()).ok
