"""The event bus: every change as a message, once, in order, to those who may read what it is about."""

import asyncio
import logging
import time
from contextlib import aclosing
from typing import Any

import pytest
from bus_parts import START, end, heard, listeners, opened, settled, until, without_clock

from tulving import InvalidInput, Memory, NewEpisode, open_memory_sync
from tulving.domain.events import Audit
from tulving.domain.messages import TOPICS, Message
from tulving.domain.scope import Caller
from tulving.errors import StoreUnavailable
from tulving.storage import event_stream, timelines
from tulving.testing import ManualClock, SequentialIds, WordEmbedder

SAVED, PRUNED = "memory:episodic:saved", "memory:episodic:pruned"


@pytest.mark.scenario("000-012", "000-019", "000-005")
async def test_what_is_saved_is_told_with_its_content(memory: Memory, clock: ManualClock) -> None:
    after, happened = await end(memory), clock.now
    ann = memory.bind(user_id="ann", household_id="home", persona_id="coach")
    clock.advance(minutes=1)
    tea = await ann.store_episode("tea at five", butler="b", importance=7, type="task", occurred_at=happened)
    note = await ann.store_note("Ann drinks tea", category="preference", importance=6)
    await ann.store_note("ann drinks TEA")
    fact = await memory.store_fact("Bob", "likes", "coffee")
    told = await heard(memory, "memory", after)
    (timeline,) = [await memory._read(timelines.find, "default")]
    assert [(each.topic, each.payload["id"]) for each in told] == [
        (SAVED, str(tea.id)),
        ("memory:semantic:saved", str(note.id)),
        ("memory:semantic:saved", str(fact.id)),
    ], "a duplicate saves nothing"
    assert told[0].payload == {
        "id": str(tea.id),
        "userId": "ann",
        "householdId": "home",
        "personaId": "coach",
        "eventType": "task",
        "timestamp": happened.isoformat(),
        "importance": 7.0,
        "content": "tea at five",
        "segmentId": str(timeline["open_segment_id"]),
    }
    assert told[1].payload == {
        **{"id": str(note.id), "userId": "ann", "householdId": "home", "personaId": "coach"},
        **{"eventType": "preference", "timestamp": clock.now.isoformat(), "importance": 6.0},
        **{"content": "Ann drinks tea", "subject": "user", "predicate": "preference", "keyed": False},
    }
    assert (told[2].payload["content"], told[2].payload["keyed"], told[2].payload["userId"]) == ("coffee", True, None)
    assert (told[0].tenant_id, told[0].occurred_at) == ("default", clock.now)
    assert [each.payload["id"] for each in await heard(memory, SAVED, told[0].cursor)] == []
    assert await heard(memory, after=told[0].cursor) == told[1:]


async def test_content_is_what_the_row_says_when_it_is_told(memory: Memory) -> None:
    ids = [(await memory.store_episode(f"secret {n}", butler="b", importance=3)).id for n in range(3)]
    noted = [(await memory.store_note(f"quiet {n}")).id for n in range(2)]
    await memory.edit("episode", ids[0], content="public")
    await memory.forget("episode", ids[1])
    await memory.delete("episode", ids[2])
    await memory.forget("fact", noted[0])
    await memory.delete("fact", noted[1])
    told = {each.payload["id"]: each.payload for each in await heard(memory, [SAVED, "memory:semantic"])}
    assert [told[str(id_)]["content"] for id_ in (*ids, *noted)] == ["public", None, None, None, None]
    assert told[str(ids[2])]["importance"] == 3.0, "what the event knows itself"
    assert "segmentId" in told[str(ids[2])] and "segmentId" not in told[str(noted[1])]


async def test_every_other_change_is_told_to_those_who_ask_for_it(memory: Memory) -> None:
    ann, bob = memory.bind(user_id="ann"), memory.bind(user_id="bob")
    fact, rule = await ann.store_note("tea"), await bob.store_rule("pour slowly")
    after = await end(memory)
    await ann.edit("fact", fact.id, content="green tea")
    await bob.mark_helpful(rule.id)
    await memory.create_entity("Ann", "person")
    await ann.store_note("milk")
    told = await heard(memory, "audit", after)
    assert [(each.payload["kind"], each.payload["change"]) for each in told] == [
        ("fact", "fact_edited"),
        ("rule", "rule_marked_helpful"),
        ("entity", "entity_created"),
    ], "what is saved has a topic of its own"
    assert [each.topic for each in told] == ["audit:changed"] * 3
    assert told[0].payload == {"id": str(fact.id), "kind": "fact", "change": "fact_edited", "runId": None}
    assert await heard(ann, "audit:changed", after) == told[:1]
    assert await heard(bob, "audit:changed", after) == told[1:2]
    assert "audit:changed" not in {each.topic for each in await heard(memory, None, after)}
    both = await heard(memory, ["audit", "memory"], after)
    assert len(both) == 4 and len({each.cursor for each in both}) == 4


@pytest.mark.scenario("000-020")
async def test_what_is_pruned_is_told_by_its_ids(memory: Memory, clock: ManualClock) -> None:
    ann, bob = memory.bind(user_id="ann"), memory.bind(user_id="bob", persona_id="coach")
    mine = [each.id for each in await ann.store_episodes([NewEpisode(content=f"a{n}", butler="b") for n in range(3)])]
    theirs = await bob.store_episode("b", butler="b")
    forgotten, deleted = [await ann.store_episode(name, butler="b", type="task") for name in ("c", "d")]
    await memory.forget("episode", forgotten.id)
    await memory.delete("episode", deleted.id)
    after = await end(memory)
    clock.advance(days=30)
    await memory.run_episode_cleanup()
    one_by_one = await heard(memory, PRUNED, START)
    assert [(each.payload["reason"], each.payload["ids"]) for each in one_by_one[:2]] == [
        ("forgotten", [str(forgotten.id)]),
        ("deleted", [str(deleted.id)]),
    ]
    assert all(each.payload["userId"] == "ann" for each in one_by_one[:2])
    expired = [
        (each.payload["userId"], each.payload["personaId"], each.payload["reason"], each.payload["ids"])
        for each in await heard(memory, PRUNED, after)
    ]
    assert expired == [
        ("ann", None, "expiry", [str(id_) for id_ in mine]),
        ("bob", "coach", "expiry", [str(theirs.id)]),
        ("ann", None, "expiry", [str(forgotten.id)]),
    ], "in a row, of one owner"
    assert len(one_by_one) == 5


@pytest.mark.scenario("000-021")
async def test_warnings_are_forwarded_to_monitoring(memory: Memory, clock: ManualClock) -> None:
    audit = Audit(Caller(), clock.now, SequentialIds(1000))
    await memory._write(timelines.warn, audit, "a segment is damaged", "critical", "restore it")
    await memory._write(timelines.recover, audit)
    told = await heard(memory)
    assert [each.topic for each in told] == [
        "memory:episodic:warning",
        "memory:monitoring:warning",
        "memory:episodic:healthy",
    ]
    said = {"warning": "a segment is damaged", "severity": "critical", "hint": "restore it"}
    assert said.items() <= told[0].payload.items() <= told[1].payload.items()
    assert told[1].payload["topic"] == "memory:episodic:warning"
    assert told[2].payload.keys() == {"timestamp", "segmentId"}
    assert await heard(memory, after=told[0].cursor) == told, "who stopped between the two may see one again"
    assert await heard(memory, "memory:monitoring", told[0].cursor) == [told[1]]
    assert await heard(memory, after=told[1].cursor) == told[2:]


@pytest.mark.scenario("000-041")
async def test_changes_of_merge_rules_are_told_with_their_configuration(memory: Memory) -> None:
    await memory.register_merge_rule({"name": "careful", "priority": 3})
    await memory.update_merge_rule("careful", {"priority": 4})
    await memory.delete_merge_rule("careful")
    told = await heard(memory, "rule")
    assert [each.topic for each in told] == ["rule:registered", "rule:updated", "rule:deleted"]
    assert [each.payload["config"]["priority"] for each in told] == [3, 4, 4]
    assert {each.payload["name"] for each in told} == {"careful"}


async def test_a_bound_connection_hears_of_what_it_may_read(memory: Memory) -> None:
    ann = memory.bind(user_id="ann")
    parts = [ann, ann.bind(project="p"), memory.bind(user_id="bob"), memory.bind(scope="other")]
    stored = []
    for place, part in enumerate(parts):
        kept, gone = [await part.store_episode(f"{word} {place}", butler="b") for word in ("kept", "gone")]
        await part.forget("episode", kept.id) if place == 3 else None
        await part.delete("episode", gone.id)
        stored.append((str(kept.id), str(gone.id)))
    await memory.store_note("for all")

    async def of(part: Memory) -> list[tuple[str, Any]]:
        return [(each.topic, each.payload.get("id") or each.payload["ids"]) for each in await heard(part, "memory")]

    mine, project, bobs, others = stored
    assert await of(ann) == [(SAVED, mine[0]), (PRUNED, [mine[1]]), (SAVED, project[0]), (PRUNED, [project[1]])]
    assert await of(ann.bind(project="p")) == [(SAVED, project[0]), (PRUNED, [project[1]])]
    assert await of(memory.bind(user_id="bob", scope="b")) == [(SAVED, bobs[0]), (PRUNED, [bobs[1]])]
    assert (await of(memory.bind(scope="other")))[:-1] == [
        (SAVED, others[0]),
        (PRUNED, [others[0]]),
        (PRUNED, [others[1]]),
    ]
    assert await of(memory.bind(caller=Caller("stranger"))) == [] == await of(memory.bind(user_id="eve"))
    assert len(await of(memory)) == 4 * 3 + 2
    await memory.register_merge_rule({"name": "careful"})
    assert [each.topic for each in await heard(ann, "rule")] == ["rule:registered"], "rules may be read by all"


async def test_handlers_are_called_in_order_and_may_fail(
    memory: Memory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_clock(monkeypatch)  # a commit of this process wakes them
    words: list[str] = []

    async def slow(message: Message) -> None:
        await asyncio.sleep(0)
        words.append(message.payload["content"])
        if message.payload["content"] == "note 1":
            raise ValueError("not this one")

    await memory.store_note("before")
    await settled(memory)
    stop = await memory.on("memory:semantic:saved", slow)
    plain: list[Message] = []
    await memory.on(None, plain.append)
    for number in range(4):
        await memory.store_note(f"note {number}")
    await until(lambda: len(words) == 4 and len(plain) == 4)
    assert words == [f"note {number}" for number in range(4)] == [each.payload["content"] for each in plain]
    (failure,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "memory:semantic:saved" in failure.getMessage() and failure.exc_info
    stop()
    await memory.store_note("later")
    await until(lambda: len(plain) == 5)
    await asyncio.sleep(0)
    assert len(words) == 4


async def test_a_handler_goes_on_after_an_outage(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tulving.services.bus.RETRY", 0.0)
    told, outages, read = list[str](), [1, 2], event_stream.next_messages

    def failing(*asked: Any) -> Any:
        if told and outages:
            raise StoreUnavailable(f"outage {outages.pop()}")
        return read(*asked)

    monkeypatch.setattr(event_stream, "next_messages", failing)
    await memory.on("memory", lambda message: told.append(message.payload["content"]))
    for number in range(3):
        await memory.store_note(f"note {number}")
        await until(lambda number=number: len(told) > number)
    assert (told, outages) == ([f"note {number}" for number in range(3)], [])


def test_code_that_is_not_asynchronous_has_handlers_too(url: str) -> None:
    told: list[str] = []
    with open_memory_sync(url, embedder=WordEmbedder(), background=False) as memory:
        stop = memory.on("memory", lambda message: told.append(message.payload["content"]))
        memory.store_note("heard")
        for _ in range(1000):
            if told:
                break
            time.sleep(0.005)
        stop()
        memory.store_note("not heard")
    assert told == ["heard"]


async def test_closing_calls_handlers_to_the_last_and_ends_streams(url: str) -> None:
    heard_by_handler: list[Message] = []

    async def read_all(memory: Memory) -> list[Message]:
        return [message async for message in memory.messages("memory")]

    async with opened(url) as memory:
        await memory.on("memory", heard_by_handler.append)
        reading = asyncio.create_task(read_all(memory))
        await asyncio.sleep(0.05)
        await settled(memory)
        await memory.store_note("the last word")
        await settled(memory)
    async with asyncio.timeout(10):
        await reading
    assert [each.payload["content"] for each in heard_by_handler] == ["the last word"]


async def test_another_process_is_heard_and_a_reader_resumes(
    url: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By polling on SQLite; on PostgreSQL by its announcement, long before the next look."""
    without_clock(monkeypatch)
    poll = 0.02 if engine == "sqlite" else 600
    async with opened(url) as reader, opened(url) as writer:
        async with asyncio.timeout(20), aclosing(reader.messages(SAVED, poll=poll)) as stream:
            coming = asyncio.ensure_future(anext(stream))
            if engine == "postgres":
                await until(lambda: listeners(url))
            else:
                await asyncio.sleep(0.05)
            first = await writer.store_episode("one", butler="b")
            message = await coming
            assert message.payload["id"] == str(first.id)
        second = await writer.store_episode("two", butler="b")
        assert [each.payload["id"] for each in await heard(reader, SAVED, message.cursor)] == [str(second.id)]
    async with opened(url) as later:
        assert [each.payload["id"] for each in await heard(later, SAVED, message.cursor)] == [str(second.id)]


HOSTILE: list[Any] = [
    "",
    ":",
    "memory:episodic:save",
    "memory:episodic:saved:x",
    "Rule",
    "\x00",
    "x" * 1_000_000,
    3,
    b"rule",
]


async def test_what_is_no_topic_or_cursor_is_refused(memory: Memory, engine: str) -> None:
    for topics in (*HOSTILE, [], ["rule", "no"], [None]):
        with pytest.raises(InvalidInput) as refusal:
            await memory.on(topics, print)
        assert refusal.value.field == "topics" and "rule:updated" in str(refusal.value.allowed)
        with pytest.raises(InvalidInput):
            await anext(memory.messages(topics))
    for cursor in ("", "1", "1.", ".1", "1.2.3", "-1.0", "a.b", "1.9223372036854775808", "٣.١", "1 .2", 7, 1.5, b"0.1"):
        with pytest.raises(InvalidInput) as refusal:
            await anext(memory.messages(after=cursor))
        assert refusal.value.field == "after"
    for poll in (0, -1, float("nan"), float("inf"), "1", True):
        with pytest.raises(InvalidInput, match="poll"):
            await anext(memory.messages(poll=poll))  # pyright: ignore[reportArgumentType]
    ahead = f"{2**63 - 1}.0" if engine == "postgres" else "0.1"
    with pytest.raises(InvalidInput, match="restored"):
        await anext(memory.messages(after=ahead))
    assert await heard(memory, TOPICS, await end(memory)) == []
    assert await heard(memory, ["rule:", "memory:", SAVED], START) == []
