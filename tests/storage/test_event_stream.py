"""Reading the audit trail forward: nothing is skipped, whatever the order in which transactions commit."""

from typing import Any

import asyncpg
from bus_parts import heard, opened, settled

from tulving.domain.messages import Cursor
from tulving.storage import event_stream
from tulving.testing import ManualClock

WORDS = 512


async def test_a_reader_comes_through_all_events_in_batches(url: str, engine: str) -> None:
    async with opened(url, dimension=WORDS) as memory:
        notes = [(await memory.store_note(f"number {number}")).id for number in range(7)]
        await settled(memory)
        place, found = Cursor(), []
        while batch := await memory._read(event_stream.read, "default", place, 3):
            assert len(batch) <= 3 and batch[-1][0] > place
            place = batch[-1][0]
            found += batch
        assert [event.entity_id for _, event in found] == notes
        assert sorted(found, key=lambda read: read[0]) == found
        assert (place.transaction_id > 0) is (engine == "postgres")
        assert await memory._read(event_stream.read, "another", Cursor(), 3) == []
        at_the_end: Cursor = await memory._read(event_stream.end, "default")
        assert await memory._read(event_stream.read, "default", at_the_end, 3) == []
        await memory.store_note("one more")
        await settled(memory)
        ((_, event),) = await memory._read(event_stream.read, "default", at_the_end, 3)
        assert event.event_type == "fact_created"


async def test_more_than_a_batch_is_told_without_waiting(url: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(event_stream, "BATCH", 2)
    monkeypatch.setattr(event_stream.read, "__defaults__", (2,))
    async with opened(url, dimension=WORDS) as memory:
        for number in range(5):
            await memory.store_note(f"number {number}")
        assert [each.payload["content"] for each in await heard(memory)] == [f"number {number}" for number in range(5)]


async def test_a_moment_is_found_in_the_trail(url: str) -> None:
    clock = ManualClock()
    async with opened(url, dimension=WORDS, clock=clock) as memory:
        for number in range(3):
            clock.advance(hours=1)
            await memory.store_note(f"number {number}")
        await settled(memory)
        for moment, left in ((clock.now, 1), (clock.advance(hours=-1), 2), (clock.advance(hours=9), 0)):
            place: Cursor = await memory._read(event_stream.since, "default", moment)
            assert len(await memory._read(event_stream.read, "default", place)) == left


async def test_named_readers_keep_their_places(url: str) -> None:
    async with opened(url, dimension=WORDS) as memory:
        now = memory.now()
        assert await memory._read(event_stream.cursor, "default", "bridge") is None
        for place in (Cursor(3, 4), Cursor(9, 9)):
            await memory._write(event_stream.begin, "default", "bridge", place, now)
        assert await memory._read(event_stream.cursor, "default", "bridge") == (Cursor(3, 4), {}), "begun once"
        await memory._write(event_stream.move, "default", "bridge", Cursor(5, 1), {"handled": 2}, now)
        assert await memory._read(event_stream.cursor, "default", "bridge") == (Cursor(5, 1), {"handled": 2})
        for tenant, name in (("default", "other"), ("other", "bridge")):
            assert await memory._read(event_stream.cursor, tenant, name) is None


async def test_the_next_events_are_found_by_an_index(url: str) -> None:
    async with opened(url, dimension=WORDS) as memory:
        plan = await memory._read(_plan)
    assert ("ix_events_seq" in plan or "ix_events_transaction" in plan) and "sort" not in plan and "b-tree" not in plan


def _plan(conn: Any) -> str:
    asked: list[tuple[str, Any]] = []

    class Asking:
        event_order = conn.event_order

        def fetch_all(self, *given: Any) -> list[Any]:
            asked.append(given)
            return []

    event_stream.read(Asking(), "default", Cursor(1, 2))  # pyright: ignore[reportArgumentType]
    statement, params = asked[0]
    if conn.event_order.transaction == "0":
        return str(conn.tuples(f"EXPLAIN QUERY PLAN {statement}", params)).lower()
    return str(conn.fetch_all(f"EXPLAIN {statement}", params)).lower()


_INSERT = (
    "INSERT INTO memory_events (tenant_id, event_type, entity_type, payload)"
    """ VALUES ('default', 'merge_rule_updated', 'merge_rule', '{"name": "slow"}')"""
)


async def test_a_slow_transaction_is_not_skipped(postgres_url: str) -> None:
    """Two transactions, numbered in one order and committed in the other. Whoever only remembers the last number has
    passed the events of the slow one when they appear."""
    async with opened(postgres_url, dimension=WORDS) as memory:

        async def contents(after: Cursor) -> list[str | None]:
            found = await memory._read(event_stream.read, "default", after)
            return [event.payload.get("name") for _, event in found]

        for slow_first in (True, False):
            await settled(memory)
            start: Cursor = await memory._read(event_stream.end, "default")
            slow = await asyncpg.connect(postgres_url)
            await slow.execute("BEGIN")
            await slow.execute(_INSERT if slow_first else "SELECT pg_current_xact_id()")
            await memory.register_merge_rule({"name": f"quick {slow_first}"})
            assert await contents(start) == [], "the slow one comes first"
            resumed: Cursor = await memory._read(event_stream.end, "default")
            assert not slow_first or resumed <= start, "nobody begins behind it either"
            assert await memory._read(event_stream.since, "default", memory.now()) <= resumed, "at whatever moment"
            if not slow_first:
                await slow.execute(_INSERT)
            await slow.execute("COMMIT")
            await slow.close()
            await settled(memory)
            assert await contents(start) == ["slow", f"quick {slow_first}"] == await contents(resumed)
