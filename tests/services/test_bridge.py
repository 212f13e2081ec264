"""The bridge: which episodes become facts by themselves, and what becomes of those facts afterwards."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from administration import administer
from bus_parts import end, heard, opened, settled, until

from tulving import Fact, InvalidInput, Memory, NewEpisode
from tulving.domain.events import Audit
from tulving.domain.messages import Cursor
from tulving.domain.routing import lag_ms
from tulving.domain.scope import Caller
from tulving.errors import EmbedderUnavailable, StoreUnavailable
from tulving.ports import Finding
from tulving.settings import BridgeConfig, MemoryModuleConfig
from tulving.storage import bridge, event_stream, events, timelines
from tulving.testing import ManualClock, SequentialIds, WordEmbedder

ON = MemoryModuleConfig(bridge=BridgeConfig(enabled=True))
Sql = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def config() -> MemoryModuleConfig:
    return ON


async def run(memory: Memory, **options: Any) -> dict[str, int]:
    """What a run of the bridge has done, without the zeros."""
    await settled(memory)
    return {name: count for name, count in (await memory.run_bridge(**options)).items() if count}


async def facts(memory: Memory) -> list[Fact]:
    found = (await memory.list_memories("fact", state="any", limit=1000)).items
    return sorted((each for each in found if isinstance(each, Fact)), key=lambda fact: fact.content)


async def bridged(memory: Memory, *contents: str, **options: Any) -> list[UUID]:
    """Episodes that have become facts."""
    options = {"butler": "b", "importance": 9, "type": "note", **options}
    ids = [(await memory.store_episode(content, **options)).id for content in contents]
    await run(Memory(memory._env, memory.caller))
    return ids


# -- which episodes become facts ---------------------------------------------------------------------------------


@pytest.mark.scenario("000-019")
async def test_important_episodes_and_those_of_a_type_become_facts(memory: Memory, clock: ManualClock) -> None:
    ann = memory.bind(user_id="ann", persona_id="coach")
    for content, importance, type_ in (
        ("the roof leaks", 6.0, "note"),
        ("the cat sleeps", 5.999, "note"),
        ("water the plants", 0.0, "reminder"),
        ("coffee was served", 0.0, "Reminder"),
    ):
        await ann.store_episode(
            content, butler="b", importance=importance, type=type_, project="home", session_id=UUID(int=5), tags=["t"]
        )
    clock.advance(minutes=2)
    assert await run(memory) == {"handled": 4, "ingested": 2, "skipped": 2}
    roof, plants = await facts(memory)
    assert (roof.content, plants.content) == ("the roof leaks", "water the plants")
    for fact, source in ((roof, "the roof leaks"), (plants, "water the plants")):
        (episode,) = [e for e in (await memory.list_memories("episode")).items if e.content == source]
        assert (fact.user_id, fact.persona_id, fact.project, fact.session_id) == ("ann", "coach", "home", UUID(int=5))
        assert (fact.scope, fact.source, fact.source_butler, fact.keyed) == ("b", "inferred", "b", False)
        assert (fact.source_episode_id, fact.importance, fact.tags) == (episode.id, episode.importance, ["t"])
        assert (fact.occurred_at, fact.created_at) == (episode.created_at, clock.now)
        (link,) = await memory.get_links("fact", fact.id)
        assert (link.relation, link.target_id) == ("derived_from", episode.id)
        (event,) = await memory.events("fact", fact.id)
        assert (event.event_type, event.actor) == ("fact_created", "bridge")
    assert {hit.item.content for hit in await ann.search("roof", mode="semantic")} >= {"the roof leaks"}
    assert await run(memory) == {}, "once"
    status = await memory.bridge_status()
    assert (status.handled, status.ingested, status.skipped, status.waiting) == (4, 2, 2, 0)
    assert (status.enabled, status.suspended, status.timeline_lag_ms, status.segment_count) == (True, None, 0, 0)


async def test_the_diagnostics_tell_how_far_it_lags(memory: Memory, clock: ManualClock, sql: Sql) -> None:
    await memory.store_episode("first", butler="b", importance=9)
    clock.advance(seconds=3)
    await memory.store_episode("second", butler="b", importance=9)
    await settled(memory)
    clock.advance(seconds=2)
    status = await memory.bridge_status()
    assert (status.timeline_lag_ms, status.waiting) == (5000, 2)
    await run(memory)
    (noted,) = sql("SELECT counts FROM event_cursors WHERE name = 'bridge'")
    assert noted["counts"] == {
        "handled": 2, "ingested": 2, "timelineLagMs": 5000, "segmentCount": 0, "suspended": False,
    }  # fmt: skip
    assert (await memory.bridge_status()).timeline_lag_ms == 0
    assert lag_ms(clock.now, clock.advance(hours=-1)) == 0, "clocks differ"


async def test_what_is_not_to_be_kept_does_not_become_a_fact(memory: Memory, clock: ManualClock) -> None:
    gone, forgotten = [await memory.store_episode(word, butler="b", importance=9) for word in ("gone", "forgotten")]
    await memory.store_episode("expired", butler="b", importance=9)
    await memory.delete("episode", gone.id)
    await memory.forget("episode", forgotten.id)
    unwanted = await memory.store_note("A person took this back")
    await memory.forget("fact", unwanted.id)
    known = await memory.store_note("known already", scope="b")
    clock.advance(days=7)
    await memory.store_episode("a person took THIS back", butler="b", importance=9)
    await memory.store_episode("Known Already", butler="b", importance=9)
    assert await run(memory) == {"handled": 7, "skipped": 3, "unwanted": 1, "duplicates": 1}
    assert {fact.id for fact in await facts(memory)} == {unwanted.id, known.id}
    assert await memory.get_links("fact", known.id) == [], "a person's note does not hang on an episode"


async def test_long_contents_are_cut_and_strange_ones_survive(url: str, clock: ManualClock) -> None:
    limits = MemoryModuleConfig(bridge=BridgeConfig(enabled=True, max_characters=10, importance_threshold=1))
    async with opened(url, clock=clock, config=limits) as memory:
        for content in ("123456789 tail", "x" * 1_000_000, "💧" * 11, "'; DROP TABLE facts; --"):
            await memory.store_episode(content, butler="b", importance=10)
        await memory.store_episode("not enough", butler="b", importance=9.99)
        assert await run(memory) == {"handled": 5, "ingested": 4, "skipped": 1}
        assert {fact.content for fact in await facts(memory)} == {"123456789", "x" * 10, "💧" * 10, "'; DROP TA"}


async def test_without_an_embedder_the_vector_comes_later(memory: Memory, embedder: WordEmbedder) -> None:
    await memory.store_episode("the roof leaks", butler="b", importance=9)
    embedder.error = EmbedderUnavailable("it is down")
    assert await run(memory) == {"handled": 1, "ingested": 1}
    assert [hit.item.content for hit in await memory.search("roof", mode="keyword", types=["fact"])] == [
        "the roof leaks"
    ]
    embedder.error = None
    assert await memory.embed_pending() == 1


async def test_a_fact_of_the_bridge_is_settled_like_every_note(memory: Memory) -> None:
    options: dict[str, Any] = {"butler": "b", "type": "note"}
    await memory.store_note("The user drinks green tea in the morning", scope="b", importance=9, source="user")
    await memory.store_episode("The user does not drink green tea in the morning", importance=6, **options)
    assert (await run(memory))["ingested"] == 1
    (report,) = await memory.conflicts()
    assert report.settlement.outcome == "kept", "who said it wins against what was inferred"
    await memory.store_note("The dog sleeps on the old sofa at night", scope="b", importance=6, source="inferred")
    await memory.store_episode("The dog does not sleep on the old sofa at night", importance=6, **options)
    assert (await run(memory))["ingested"] == 1
    assert {report.settlement.outcome for report in await memory.conflicts()} == {"kept", "merged"}
    assert await memory.count_pending() == 0, "what was merged has its vector too"
    ids = [(await memory.store_episode(word, importance=6, **options)).id for word in ("Tea is here", "tea is HERE")]
    assert await run(memory) == {"handled": 2, "ingested": 1, "duplicates": 1}
    (fact,) = [fact for fact in await facts(memory) if "here" in fact.content.lower()]
    assert {link.target_id for link in await memory.get_links("fact", fact.id)} == set(ids), "two episodes say so"


async def test_it_begins_with_the_present_and_on_demand_with_the_past(url: str, clock: ManualClock) -> None:
    async with opened(url, clock=clock) as off:
        await off.store_episode("long ago", butler="b", importance=9)
        with pytest.raises(InvalidInput, match="switched off"):
            await off.run_bridge()
        assert not (await off.bridge_status()).enabled
    clock.advance(days=1)
    async with opened(url, clock=clock, config=ON) as memory:
        await memory.store_episode("today", butler="b", importance=9)
        assert (await run(memory))["ingested"] == 1
        clock.advance(days=1)
        assert await run(memory, from_start=True) == {"handled": 2, "ingested": 1, "skipped": 1}
        assert [fact.content for fact in await facts(memory)] == ["long ago", "today"]
        with pytest.raises(InvalidInput, match="bound to a part"):
            await memory.bind(user_id="ann").run_bridge()
        with pytest.raises(InvalidInput, match="bound to a part"):
            await memory.bind(user_id="ann").bridge_status()


async def test_a_restored_store_begins_anew(memory: Memory, engine: str) -> None:
    """Its events may be numbered below the place that the bridge had reached on another server."""
    await memory._write(event_stream.begin, "default", "bridge", Cursor(), memory.now())
    ahead = Cursor(2**62, 0) if engine == "postgres" else Cursor(0, 1000)
    await memory._write(event_stream.move, "default", "bridge", ahead, {"handled": 5}, memory.now())
    await memory.store_episode("after the restore", butler="b", importance=9)
    assert await run(memory) == {"handled": 1, "ingested": 1}
    assert (await memory.bridge_status()).handled == 6


async def test_two_processes_make_one_fact(memory: Memory) -> None:
    await memory.store_episodes([NewEpisode(content=f"word{n}", butler="b", importance=9) for n in range(6)])
    await settled(memory)
    seen = await memory._read(bridge.due, "default")
    offers = await memory._offers(seen, memory.now())
    audit, settings = Audit(Caller(actor="bridge"), memory.now(), SequentialIds(5000)), memory.config
    answers = await asyncio.gather(
        *(memory._write(bridge.carry_out, seen, offers, settings.bridge, settings.conflicts, audit) for _ in range(2)),
        memory.run_bridge(),
    )
    assert sum(each is not None and each.counts["ingested"] for each in answers[:2]) + answers[2]["ingested"] == 6
    assert len(await facts(memory)) == 6
    assert (await memory.bridge_status()).ingested == 6


async def test_an_episode_that_changes_meanwhile_is_read_again(memory: Memory) -> None:
    audit, settings = Audit(Caller(actor="bridge"), memory.now(), SequentialIds(5000)), memory.config
    changed = (await memory.store_episode("first words", butler="b", importance=9)).id
    await settled(memory)
    seen = await memory._read(bridge.due, "default")
    asked = seen, await memory._offers(seen, memory.now()), settings.bridge, settings.conflicts, audit
    await memory.edit("episode", changed, content="other words")
    assert await memory._write(bridge.carry_out, *asked) is None
    assert await facts(memory) == []
    assert await run(memory) == {"handled": 1, "ingested": 1}
    gone, forgotten = [
        (await memory.store_episode(word, butler="b", importance=9)).id for word in ("gone", "forgotten")
    ]
    await settled(memory)
    seen = await memory._read(bridge.due, "default")
    asked = seen, await memory._offers(seen, memory.now()), settings.bridge, settings.conflicts, audit
    await memory.delete("episode", gone)
    await memory.forget("episode", forgotten)
    assert (await memory._write(bridge.carry_out, *asked)).counts == {"handled": 2, "skipped": 2}
    assert [fact.content for fact in await facts(memory)] == ["other words"]


async def test_one_episode_that_fails_does_not_hold_up_the_others(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = bridge.facts.store

    def failing(conn: Any, offers: Any, *args: Any) -> Any:
        done = store(conn, offers, *args)
        if offers[0][0].content == "bad":
            raise InvalidInput("content", "is bad")
        return done

    monkeypatch.setattr(bridge.facts, "store", failing)
    for content in ("good", "bad", "better"):
        await memory.store_episode(content, butler="b", importance=9)
    assert await run(memory) == {"handled": 3, "ingested": 2, "failed": 1}
    assert [fact.content for fact in await facts(memory)] == ["better", "good"]
    assert "could not make a fact" in caplog.text


# -- when episodes are gone --------------------------------------------------------------------------------------


@pytest.mark.scenario("000-020")
async def test_what_a_person_does_to_an_episode_is_done_to_its_fact(memory: Memory, sql: Sql) -> None:
    ann = memory.bind(user_id="ann", persona_id="coach")
    ids = await bridged(ann, "deleted", "forgotten", "left alone")
    await ann.delete("episode", ids[0])
    await ann.forget("episode", ids[1])
    assert await run(memory) == {"handled": 2, "deleted": 1, "forgotten": 1}
    assert [(fact.content, fact.state) for fact in await facts(memory)] == [
        ("forgotten", "retracted"),
        ("left alone", "active"),
    ]
    said = sql("SELECT actor, payload FROM memory_events WHERE event_type = 'bridge_reconciled' ORDER BY seq")
    assert [(each["actor"], each["payload"]) for each in said] == [
        ("bridge", {"reason": "deleted", "ids": [str(ids[0])], "deleted": 1}),
        ("bridge", {"reason": "forgotten", "ids": [str(ids[1])], "forgotten": 1}),
    ]
    await ann.store_episode("Deleted", butler="b", importance=9)
    assert await run(memory) == {"handled": 1, "unwanted": 1}, "what a person took back is not told again"
    assert len(sql("SELECT * FROM bridged_facts")) == 1


@pytest.mark.scenario("000-020")
async def test_what_makes_room_is_believed_half(memory: Memory, clock: ManualClock) -> None:
    """By expiry here; whatever else makes room says so in the same place of its events."""
    await bridged(memory, "expiring", type=None)
    await bridged(memory, "kept")
    before = {fact.content: fact for fact in await facts(memory)}
    clock.advance(days=15)
    await memory.run_episode_cleanup()
    assert await run(memory) == {"handled": 1, "demoted": 1}
    after = {fact.content: fact for fact in await facts(memory)}
    assert after["kept"] == before["kept"]
    assert (before["expiring"].confidence, after["expiring"].confidence) == (1.0, 0.5)
    assert after["expiring"].next_review_at < before["expiring"].next_review_at
    assert (after["expiring"].state, after["expiring"].last_confirmed_at) == ("active", before["expiring"].created_at)
    demoted = (await memory.events("fact", after["expiring"].id))[-1]
    assert (demoted.event_type, demoted.actor) == ("fact_demoted", "bridge")
    assert demoted.payload == {"before": 1.0, "confidence": 0.5, "reason": "expiry"}


async def test_other_evidence_keeps_a_fact(memory: Memory, clock: ManualClock) -> None:
    words = ["confirmed", "edited", "linked", "derived", "restated", "consolidated", "twice", "superseded", "alone"]
    ids = dict(zip(words, await bridged(memory, *words), strict=True))
    made = {fact.content: fact.id for fact in await facts(memory)}
    again = await memory.store_episode("Twice", butler="b", importance=9, type="note")
    await memory.confirm("fact", made["confirmed"])
    assert (await memory.store_note("Restated", scope="b")).id == made["restated"]
    await memory.edit("fact", made["edited"], tags=["mine"])
    other = await memory.store_episode("elsewhere", butler="b", type="note")
    await memory.create_link("episode", other.id, "fact", made["linked"], "supports")
    await memory.create_link("fact", made["derived"], "episode", other.id, "derived_from")
    learned = await memory.store_fact("roof", "state", "leaks", source_episode_id=ids["consolidated"])
    await memory.create_link("fact", learned.id, "episode", ids["consolidated"], "derived_from")
    await run(memory)
    for word in words:
        await memory.delete("episode", ids[word])
    done = await run(memory)
    assert done == {"handled": 9, "kept": 5, "deleted": 3}, "consolidated: the fact of the bridge, not the learned one"
    left = {fact.content for fact in await facts(memory)}
    assert left == {"confirmed", "edited", "linked", "derived", "restated", "twice", "leaks"}
    await memory.delete("episode", again.id)
    assert await run(memory) == {"handled": 1, "deleted": 1}, "nothing else speaks for it now"
    await memory.delete("episode", other.id)
    assert await run(memory) == {"handled": 1}, "they are nobody's any more"


async def test_the_last_of_several_episodes_decides(memory: Memory, clock: ManualClock) -> None:
    deleted, *_ = await bridged(memory, "said twice", "Said twice", "taken back", type=None)
    (back,) = [fact for fact in await facts(memory) if fact.content == "taken back"]
    await memory.forget("fact", back.id)
    await memory.delete("episode", deleted)
    clock.advance(days=15)
    await memory.run_episode_cleanup()
    assert await run(memory) == {"handled": 3, "kept": 2, "demoted": 1}
    assert [(fact.confidence, fact.state) for fact in await facts(memory)] == [(0.5, "active"), (1.0, "retracted")]


async def test_a_fact_of_another_owner_is_out_of_reach(memory: Memory, sql: Sql) -> None:
    """Such a row can't come from the bridge, but from an imported file."""
    (mine,) = await bridged(memory.bind(user_id="ann"), "of ann")
    await memory.bind(user_id="bob").store_note("of bob")
    sql("INSERT INTO bridged_facts SELECT tenant_id, ?, id, created_at FROM facts WHERE content = 'of bob'", mine)
    await memory.delete("episode", mine)
    assert await run(memory) == {"handled": 1, "deleted": 1}
    assert [fact.content for fact in await facts(memory)] == ["of bob"]


async def test_an_event_that_is_not_true_changes_nothing(memory: Memory) -> None:
    """Events may come from an imported file; the rows count."""
    (there,) = await bridged(memory, "still there")
    audit = Audit(Caller(), memory.now(), SequentialIds(7000))
    await memory._write(events.append, audit.event("episode_deleted", "episode", there))
    await memory._write(events.append, audit.event("episode_created", "episode", UUID(int=404)))
    await memory._write(events.append, audit.event("episode_created", "episode", there))
    assert await run(memory) == {"handled": 3, "skipped": 2}
    assert [fact.content for fact in await facts(memory)] == ["still there"]
    await memory.delete("episode", there)
    assert await run(memory) == {"handled": 1, "deleted": 1}


async def test_tenants_have_bridges_of_their_own(memory: Memory) -> None:
    other = memory.bind(caller=Caller("other"))
    for each in (memory, other):
        await each.store_episode("tea", butler="b", importance=9)
    await settled(memory)
    done = await administer(memory).run_bridges()
    assert (done["ingested"], done["handled"]) == (2, 2) and done["failed"] == 0
    assert [len(await facts(each)) for each in (memory, other)] == [1, 1]
    assert {event.tenant_id for fact in await facts(other) for event in await other.events("fact", fact.id)} == {
        "other"
    }
    status = await other.bridge_status()
    assert status.ingested == 1


# -- warnings ----------------------------------------------------------------------------------------------------


@pytest.mark.scenario("000-021")
async def test_it_waits_while_the_timeline_is_not_well(
    memory: Memory, clock: ManualClock, caplog: pytest.LogCaptureFixture, sql: Sql
) -> None:
    (known,) = await bridged(memory, "before")
    audit, after = Audit(Caller(), clock.now, SequentialIds(9000)), await end(memory)
    await memory._write(timelines.warn, audit, "a segment is damaged", "critical", "restore it")
    await memory.store_episode("meanwhile", butler="b", importance=9)
    await memory.delete("episode", known)
    with caplog.at_level(logging.WARNING):
        assert [await run(memory) for _ in range(3)] == [{}, {}, {}]
    assert caplog.text.count("suspended") == 1, "said once"
    await memory._write(bridge.suspend, await memory._read(bridge.due, "default"), audit)
    assert len(sql("SELECT id FROM memory_events WHERE event_type = 'bridge_suspended'")) == 1, "whoever says it"
    status = await memory.bridge_status()
    assert (status.suspended, status.waiting, status.ingested) == ("a segment is damaged", 2, 1)
    assert "a segment is damaged" in (await memory._read(bridge.finding, "default")).problems[0]
    assert [fact.content for fact in await facts(memory)] == ["before"]
    await memory._write(timelines.recover, audit)
    assert await run(memory) == {"handled": 2, "ingested": 1, "deleted": 1}, "nothing is lost"
    assert (await memory.bridge_status()).suspended is None
    assert await memory._read(bridge.finding, "default") == Finding("bridge", (), "2 facts of 3 events")
    assert (await memory._read(bridge.finding, "nobody")).note == "has not begun"
    topics = [each.topic for each in await heard(memory, ["memory:episodic", "memory:monitoring"], after)]
    for suspended in (True, False):  # once more, with nothing to do meanwhile
        await memory._write(
            *(timelines.warn, audit, "slow", "warning", "wait") if suspended else (timelines.recover, audit)
        )
        await run(memory)
        assert (await memory._read(bridge.due, "default")).suspended is suspended
    assert topics == [
        *("memory:episodic:warning", "memory:monitoring:warning"),
        *("memory:episodic:saved", "memory:episodic:pruned", "memory:episodic:healthy"),
    ]


# -- in the background -------------------------------------------------------------------------------------------


async def test_an_open_memory_runs_it_by_itself(url: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for other tenants that it serves, and for what another process stores; and to the end when it is closed."""
    monkeypatch.setattr("tulving.services.streams.POLL", 0.02)
    monkeypatch.setattr("tulving.services.bridge.PAUSE", 0.0)
    async with opened(url, config=ON, background=True) as memory, opened(url) as another:
        told: list[str] = []
        for each in (memory, memory.bind(caller=Caller("served"))):
            await each.on("memory:semantic", lambda message: told.append(message.payload["content"]))
        await memory.store_episode("tea", butler="b", importance=9)
        await until(lambda: told == ["tea"])
        await memory.bind(caller=Caller("served")).store_episode("for the first time", butler="b", importance=9)
        await until(lambda: len(told) == 2)
        await another.store_episode("from elsewhere", butler="b", importance=9)
        await until(lambda: len(told) == 3)
        await memory.store_episode("the last word", butler="b", importance=9)
        await settled(memory)
    assert told[:3] == ["tea", "for the first time", "from elsewhere"]
    async with opened(url) as later:
        assert "the last word" in {fact.content for fact in await facts(later)}


async def test_a_failing_bridge_goes_on(url: str, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr("tulving.services.bridge.RETRY", 0.01)
    monkeypatch.setattr("tulving.services.streams.POLL", 0.02)
    due, failures = bridge.due, list(range(3))

    def failing(conn: Any, tenant_id: str) -> Any:
        if failures and tenant_id == "served":
            raise ValueError(f"failure {failures.pop()}")
        return due(conn, tenant_id)

    monkeypatch.setattr(bridge, "due", failing)
    async with opened(url, config=ON, background=True) as memory:
        served, told = memory.bind(caller=Caller("served")), list[Any]()
        await served.on("memory:semantic", told.append)
        await served.store_episode("tea", butler="b", importance=9)
        await until(lambda: told)
    assert caplog.text.count("the bridge failed") == 3


async def test_a_reader_that_cannot_write_opens_all_the_same(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def refusing(*args: Any) -> None:
        raise StoreUnavailable("read-only")

    monkeypatch.setattr(bridge, "begin", refusing)
    async with opened(url, config=ON) as memory:
        assert await memory._read(event_stream.cursor, "default", "bridge") is None
    assert "read-only" in caplog.text
