"""The audit trail as people read it: backward, filtered, page by page, and only what they may see."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from administration import administer
from lesson_parts import consolidate, told

from tulving import Caller, InvalidInput, Memory
from tulving.domain.events import Sought
from tulving.storage import audit
from tulving.testing import ManualClock


async def kinds(memory: Memory, **sought) -> list[str]:
    return [event.event_type for event in await memory.audit(**sought)]


async def test_the_newest_change_comes_first(memory: Memory, clock: ManualClock):
    fact = await memory.store_fact("Anna", "drink", "tea")
    clock.advance(days=1)
    await memory.forget("fact", fact.id)
    trail = await memory.audit()
    assert [event.event_type for event in trail] == ["fact_forgotten", "fact_created"]
    assert {event.entity_id for event in trail} == {fact.id}
    assert (trail.next_cursor, trail.reaches) == (None, None)


async def test_it_is_filtered_by_kind_actor_memory_and_time(memory: Memory, clock: ManualClock):
    ben = memory.bind(caller=Caller("default", "ben"))
    first = await memory.store_fact("Anna", "drink", "tea")
    clock.advance(days=1)
    noon = clock()
    await ben.store_rule("Ask first")
    await ben.confirm("fact", first.id)
    everything = ["fact_confirmed", "rule_created", "fact_created"]
    assert await kinds(memory) == everything
    assert await kinds(memory, event_type="fact") == ["fact_confirmed", "fact_created"]
    assert await kinds(memory, event_type="fact_created") == ["fact_created"]
    assert await kinds(memory, event_type="fac") == []
    assert await kinds(memory, event_type="fact%") == []
    assert await kinds(memory, actor="ben") == everything[:2]
    assert await kinds(memory, actor="Ben") == []
    assert await kinds(memory, item=first.id) == ["fact_confirmed", "fact_created"]
    assert await kinds(memory, item=str(first.id), actor="ben") == ["fact_confirmed"]
    assert await kinds(memory, since=noon) == everything[:2]
    assert await kinds(memory, until=noon) == everything[2:]
    assert await kinds(memory, since=noon + timedelta(days=1)) == []


async def test_what_a_run_did(memory: Memory):
    run, _, _ = await consolidate(memory, new_facts=[told("Anna", "drink", "tea")])
    await memory.store_rule("Ask first")
    assert set(await kinds(memory, run_id=run)) == {"episode_consolidated", "fact_created"}
    assert await kinds(memory, run_id=UUID(int=7)) == []


async def test_pages_have_every_event_once(memory: Memory):
    for number in range(7):
        await memory.store_fact("Anna", f"trait {number}", "yes")
    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        page = await memory.audit(limit=3, cursor=cursor)
        assert len(page) <= 3
        seen, cursor, pages = [*seen, *(event.seq for event in page)], page.next_cursor, pages + 1
        await memory.store_rule("what comes later is not in the way")
    assert (pages, len(seen), seen) == (3, 7, sorted(seen, reverse=True))


@pytest.mark.parametrize("sought", [{}, {"event_type": "fact"}, {"actor": "ben"}, {"item": "the first"}])
@pytest.mark.parametrize("limit", [1, 2, 3, 6])
async def test_pages_of_any_search_have_every_event_once_and_end(memory: Memory, limit: int, sought: dict[str, Any]):
    ben = memory.bind(caller=Caller("default", "ben"))
    first = await ben.store_fact("Anna", "drink", "tea")
    for _ in range(5):
        await ben.confirm("fact", first.id)
    sought = {name: first.id if name == "item" else value for name, value in sought.items()}
    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        page = await memory.audit(limit=limit, cursor=cursor, **sought)
        seen, cursor, pages = [*seen, *(event.seq for event in page)], page.next_cursor, pages + 1
    assert (len({*seen}), len(seen), pages) == (6, 6, 6 // limit)


async def test_a_search_for_something_rare_says_how_far_it_has_looked(memory: Memory, monkeypatch, clock: ManualClock):
    monkeypatch.setattr(audit, "LOOKED_AT", 4)
    await memory.store_rule("Ask first")
    clock.advance(days=1)
    for number in range(9):
        await memory.store_fact("Anna", f"trait {number}", "yes")
    found, cursor, looks = [], None, 0
    while looks == 0 or cursor:
        page = await memory.audit(event_type="rule", cursor=cursor)
        assert (page.reaches is None) == (page.next_cursor is None)
        found, cursor, looks = [*found, *page], page.next_cursor, looks + 1
    assert ([event.event_type for event in found], looks) == (["rule_created"], 3)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("cursor", "x"),
        ("cursor", "-1"),
        ("cursor", "٣"),
        ("cursor", "9" * 40),
        ("limit", 0),
        ("limit", 1001),
        ("item", "no id"),
        ("run_id", "no id"),
        ("since", "yesterday"),
        ("actor", ""),
        ("event_type", "\x00"),
    ],
)
async def test_bad_input_names_the_field(memory: Memory, field, given):
    with pytest.raises(InvalidInput) as caught:
        await memory.audit(**{field: given})
    assert caught.value.field == field


async def test_no_filter_leads_into_another_tenant(memory: Memory):
    theirs = memory.bind(caller=Caller("anna", "anna"))
    fact = await theirs.store_fact("Anna", "secret", "a surprise")
    run, _, _ = await consolidate(theirs, new_facts=[told("Anna", "drink", "tea")])
    token = await administer(theirs).create_token()
    cursor = str((await theirs.audit(limit=1)).events[0].seq + 1)  # pyright: ignore
    for sought in ({}, {"item": fact.id}, {"item": token.id}, {"run_id": run}, {"actor": "anna"}, {"cursor": cursor}):
        assert await kinds(theirs, **sought)
        assert await kinds(memory, **sought) == []


async def test_who_is_bound_to_a_part_sees_what_concerns_that(memory: Memory):
    ann, ben = memory.bind(user_id="ann"), memory.bind(user_id="ben")
    hers = await ann.store_fact("ann", "drink", "tea")
    his = await ben.store_fact("ben", "drink", "coffee")
    run, _, _ = await consolidate(ann, new_facts=[told("ann", "pet", "a cat")])
    await ann.undo(run)
    gone = await ann.store_rule("Ask first")
    await ann.delete("rule", gone.id)
    await administer(memory).create_token()
    told_her = await ann.audit()
    assert {"fact_created", "run_undone", "fact_retracted", "episode_created"} <= {each.event_type for each in told_her}
    assert his.id not in {each.entity_id for each in told_her}
    assert len(await ann.audit(limit=len(told_her))) == len(told_her), "what others did takes no room"
    assert not {each.event_type for each in told_her} & {"token_created", "rule_created", "rule_deleted"}
    assert await kinds(ben) == ["fact_created"]
    assert await kinds(ben, item=hers.id) == await kinds(ben, run_id=run) == []
    assert await kinds(memory.bind(scope="chef"), item=hers.id) == ["fact_created"]  # of the global namespace
    assert await kinds(memory.bind(project="house")) == ["run_undone"]  # runs have no project
    assert {"token_created", "rule_deleted"} <= set(await kinds(memory))


class Overheard:
    """A connection whose queries can be explained later."""

    def __init__(self, conn: Any) -> None:
        self._conn, self.asked = conn, list[tuple[str, Any]]()

    def fetch_all(self, query: str, params: Any) -> Any:
        self.asked.append((query, params))
        return self._conn.fetch_all(query, params)


@pytest.mark.parametrize(
    ("sought", "index"),
    [
        (Sought(), "ix_events_seq"),
        (Sought(before=2000), "ix_events_seq"),
        (Sought(event_type="token"), "ix_events_seq"),
        (Sought(actor="ben"), "ix_events_seq"),
        (Sought(since=ManualClock().now), "ix_events_seq"),
        (Sought(entity_id=UUID(int=1)), "ix_events_entity"),
        (Sought(run_id=UUID(int=1), actor="ben"), "ix_events_run"),
    ],
)
async def test_every_search_follows_an_index(memory: Memory, sql, engine: str, sought: Sought, index: str, monkeypatch):
    """Whatever is looked for, in a trail that is long enough for the planner to care."""
    monkeypatch.setattr(audit, "LOOKED_AT", 500)
    happened, columns = ManualClock().now, ("tenant_id", "id", "event_type", "entity_type", "occurred_at")
    rows = [("default", memory._env.ids(), "fact_created", "fact", happened) for _ in range(6000)]
    await memory._env.store.write("default", lambda conn: conn.insert("memory_events", columns, rows))
    if engine == "postgres":
        sql("ANALYZE memory_events")

    def explained(conn: Any) -> list[str]:
        audit.search(heard := Overheard(conn), "default", memory.bound, sought, 50)  # pyright: ignore[reportArgumentType]
        explain = "EXPLAIN QUERY PLAN" if engine == "sqlite" else "EXPLAIN"
        return [str(conn.tuples(f"{explain} {query}", params)) for query, params in heard.asked]

    plans = await memory._env.store.read("default", explained)
    assert index in plans[-1], plans
    assert not [plan for plan in plans for slow in ("Seq Scan", "TEMP B-TREE", "SCAN ") if slow in plan], plans
