"""Callers that wait together share a commit and, for some verbs, the statements."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from tulving import Caller, IntegrityError, InvalidInput, Memory, NewFact, open_memory
from tulving.domain.events import Unkeyed
from tulving.storage import facts
from tulving.storage.connection import check, savepoint

pytestmark = pytest.mark.usefixtures("path")
CHANGE = "UPDATE facts SET importance = 1 WHERE tenant_id = :tenant_id"


async def waiting_together(memory: Memory, *calls: Callable[[], Awaitable[Any]]) -> list[Any]:
    """The answers, or errors, of calls that all wait while the writer is busy."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(conn: Any) -> None:
        begun.set()
        assert go_on.wait(10)

    holding = asyncio.ensure_future(memory._write(hold))
    assert await asyncio.to_thread(begun.wait, 10)
    writing = [asyncio.ensure_future(call()) for call in calls]
    await asyncio.sleep(0.05)  # until they have reached the writer's queue
    go_on.set()
    await holding
    return await asyncio.gather(*writing, return_exceptions=True)


def traced(memory: Memory) -> list[str]:
    """Every statement that the writer executes from now on."""
    seen: list[str] = []
    memory._env.store._writer.raw.set_trace_callback(seen.append)  # pyright: ignore[reportAttributeAccessIssue]
    return seen


async def found(memory: Memory, word: str) -> list[str]:
    return [hit.item.content for hit in await memory.search(word, mode="keyword")]


async def intact(memory: Memory) -> bool:
    findings = await memory._read(lambda conn: [check(*each) for each in conn.engine_checks().items()])
    return not any(finding.problems for finding in findings)


async def test_callers_share_statements(memory):
    others = memory.bind(caller=Caller("other"))
    seen = traced(memory)
    answers = await waiting_together(
        memory,
        lambda: memory.store_fact("ann", "likes", "tea"),
        lambda: memory.store_fact("bob", "likes", "milk"),
        lambda: others.store_fact("ann", "likes", "juice"),
        lambda: memory.store_episode("a walk", "agent"),
        lambda: memory.store_episode("a swim", "agent"),
    )
    assert [each.outcome for each in answers] == ["stored"] * 5
    assert sum(statement.startswith("SAVEPOINT") for statement in seen) == 2, "one for the facts, one for the episodes"
    assert sum(statement.startswith("WITH asked") for statement in seen) == 1, "the facts are looked up at once"
    for word, content in {"tea": "tea", "milk": "milk", "walk": "a walk"}.items():
        assert await found(memory, word) == [content]
    assert await found(others, "juice") == ["juice"] and await found(memory, "juice") == []
    assert [event.event_type for event in await others.events("fact", answers[2].id)] == ["fact_created"]
    assert await intact(memory)


async def test_callers_that_share_statements_are_served_in_order(memory):
    published = []
    memory.subscribe(published.extend)
    first, second, third = await waiting_together(
        memory,
        lambda: memory.store_fact("ann", "likes", "tea"),
        lambda: memory.store_fact("ann", "likes", "milk"),
        lambda: memory.store_fact("Ann", "Likes", "milk"),
    )
    assert (second.outcome, second.superseded_id) == ("superseded", first.id)
    assert (third.outcome, third.id) == ("confirmed", second.id)
    types = ["fact_created", "fact_superseded", "fact_created", "fact_confirmed"]
    assert [event.event_type for event in published] == types
    assert [event.event_type for event in await memory.events("fact", first.id)] == types[:2]


async def test_one_that_is_refused_does_not_affect_the_others(memory):
    """Together they fail, so each is executed alone."""
    unknown = uuid4()
    before, refused, after, episode, wrong = await waiting_together(
        memory,
        lambda: memory.store_fact("ann", "likes", "tea"),
        lambda: memory.store_fact("ann", "owns", "a car", entity_id=unknown),
        lambda: memory.store_fact("bob", "likes", "milk"),
        lambda: memory.store_episode("a walk", "agent"),
        lambda: memory.store_rule("greet", source_episode_id=unknown),
    )
    assert [each.outcome for each in (before, after, episode)] == ["stored"] * 3
    assert isinstance(refused, InvalidInput) and refused.field == "entity_id"
    assert isinstance(wrong, InvalidInput) and wrong.field == "source_episode_id"
    assert [await found(memory, word) for word in ("tea", "car", "milk", "walk", "greet")] == [
        ["tea"],
        [],
        ["milk"],
        ["a walk"],
        [],
    ]
    assert await intact(memory)


async def test_a_repeated_request_is_answered_though_others_wait(memory):
    mine = memory.bind(caller=replace(memory.caller, idempotency_key="k"))
    first, second, other = await waiting_together(
        memory,
        lambda: mine.store_fact("ann", "likes", "tea"),
        lambda: mine.store_fact("ann", "likes", "tea"),
        lambda: memory.store_fact("bob", "likes", "milk"),
    )
    assert first == second and first.outcome == "stored" and other.outcome == "stored"


async def test_what_is_rolled_back_takes_no_words_of_others_with_it(memory):
    def fail(conn: Any) -> None:
        conn.execute(CHANGE, {"tenant_id": "default"})
        raise RuntimeError("no")

    one, failed, other = await waiting_together(
        memory,
        lambda: memory.store_fact("ann", "likes", "tea"),
        lambda: memory._write(fail),
        lambda: memory.store_fact("bob", "likes", "milk"),
    )
    assert [one.outcome, other.outcome] == ["stored", "stored"] and isinstance(failed, RuntimeError)
    assert [await found(memory, word) for word in ("tea", "milk")] == [["tea"], ["milk"]]
    assert await intact(memory)


async def test_a_part_that_is_rolled_back_takes_no_words_of_earlier_rows_with_it(memory):
    def store(conn: Any) -> None:
        for place, fact in enumerate(made):
            try:
                with savepoint(conn):
                    facts.store(conn, [(fact, entries[place], {})], memory._audit(memory.now()), memory.bound)
                    if place == 1:
                        conn.execute(CHANGE, {"tenant_id": "default"})
                        raise RuntimeError
            except RuntimeError:
                continue

    offers = [NewFact(subject=name, predicate="likes", content=f"{name} tea") for name in ("ann", "bob", "eve")]
    made = [memory._fact(offer, memory.now()) for offer in offers]
    entries = await memory._env.embedding.index(made)
    await memory._write(store)
    assert sorted(await found(memory, "tea")) == ["ann tea", "eve tea"]
    assert await intact(memory)


async def test_a_note_is_compared_with_those_before_it_in_its_batch(memory):
    one, other = await memory.store_facts(
        [NewFact(content="Ann has a dog and likes green tea"), NewFact(content="Ann has a dog and likes the green tea")]
    )
    assert one.outcome == "stored" and other.conflict is not None


@pytest.mark.parametrize("count", [7, 8, 9, 128, 169])
async def test_a_batch_of_any_size_is_stored_in_order(memory, count):
    """Some rows at a time are inserted by one statement."""
    stored = await memory.store_facts(
        [NewFact(subject="s", predicate=f"p{at}", content=f"c{at}") for at in range(count)]
    )
    rows = await memory._read(lambda conn: conn.fetch_all("SELECT id FROM facts ORDER BY num"))
    assert [row["id"] for row in rows] == [each.id for each in stored]
    assert [
        [event.event_type for event in await memory.events("fact", each.id)] for each in (stored[0], stored[-1])
    ] == [["fact_created"]] * 2
    assert await found(memory, f"c{count - 1}") == [f"c{count - 1}"]
    assert await intact(memory)


async def test_one_row_that_is_refused_by_the_database_refuses_its_batch(memory):
    def store(conn: Any) -> None:
        facts.store(conn, [(fact, entry, {}) for fact, entry in zip(made, entries, strict=True)], audit, memory.bound)

    audit = memory._audit(memory.now())
    made = [memory._fact(NewFact(subject="s", predicate=f"p{at}", content="c"), memory.now()) for at in range(20)]
    made[15] = replace(made[15], importance=11.0)
    entries = await memory._env.embedding.index(made)
    with pytest.raises(IntegrityError, match="importance"):
        await memory._write(store)
    assert await memory._read(lambda conn: conn.fetch_all("SELECT id FROM facts")) == []


async def test_what_was_gathered_is_stored_before_the_store_is_closed(path, embedder):
    async with open_memory(path, embedder=embedder) as memory:
        await waiting_together(memory, *[lambda at=at: memory.store_fact("s", f"p{at}", "c") for at in range(3)])
        store: Any = memory._env.store
        assert store._crowded  # so that the next ones are handed over together
        last = [asyncio.ensure_future(memory.store_fact("s", f"q{at}", "c")) for at in range(3)]
        await asyncio.sleep(0)  # they have been called, and not been handed over
        assert len(store._gathered) == 1
        await store.close()
        assert [each.outcome for each in await asyncio.gather(*last)] == ["stored"] * 3


async def test_the_key_of_a_tenant_that_was_rolled_back_is_not_used(memory):
    """Events hold hashes with the tenant's key, which its first event creates."""

    def fail(conn: Any) -> None:
        facts.store(conn, [(fact, entry, {})], memory._audit(memory.now()), memory.bound)
        raise RuntimeError

    fact = memory._fact(NewFact(subject="ann", predicate="likes", content="tea"), memory.now())
    [entry] = await memory._env.embedding.index([fact])
    with pytest.raises(RuntimeError):
        await memory._write(fail)
    await waiting_together(memory, *[lambda: memory._write(fail)] * 2)
    stored = await memory.store_fact("ann", "likes", "tea")
    [created] = await memory.events("fact", stored.id)
    [row] = await memory._read(lambda conn: conn.fetch_all("SELECT secret FROM tenant_keys"))
    assert created.payload["content_hash"] == Unkeyed(fact.content_hash, uuid4).keyed(row["secret"])
