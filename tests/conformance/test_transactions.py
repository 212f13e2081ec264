"""Transactions: all or nothing, in isolation, one at a time where it matters."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from conformance_parts import EAST, NOW, ONE, Opened, count, entry, fact, insert, put, rule

from tulving.domain.events import Audit, Event
from tulving.domain.scope import Address, Bound, Caller, Filter
from tulving.errors import IntegrityError, StoreUnavailable
from tulving.storage import facts, items
from tulving.storage.connection import Connection
from tulving.testing import SequentialIds


def test_a_write_is_seen_by_its_own_transaction_and_then_by_all(store: Opened) -> None:
    def twice(conn: Connection) -> tuple[int, int]:
        put(conn, rule(1))
        return count(conn), count(conn, "memory_events")

    assert store.write(twice) == (1, 1)
    assert store.read(count) == 1


def test_a_transaction_that_fails_leaves_nothing(store: Opened) -> None:
    def fail(conn: Connection) -> None:
        put(conn, rule(1))
        raise LookupError("a bug of the caller's own")

    with pytest.raises(LookupError, match="of the caller's own"):
        store.write(fail)
    assert store.read(lambda conn: (count(conn), count(conn, "memory_events"))) == (0, 0)


def test_of_many_at_once_only_those_that_fail_are_undone(store: Opened) -> None:
    """Some fail at a statement, one at its very end."""

    def late(conn: Connection) -> None:
        conn.defer_references()
        insert(conn, rule(100, source_episode_id=UUID(int=404)))

    store.write(put, rule(5))
    writes = [lambda conn, number=number: put(conn, rule(number)) for number in range(1, 11)]
    answers = store.write_at_once(*writes[:3], late, *writes[3:])
    failed = [at for at, answer in enumerate(answers) if answer is not None]
    assert failed == [3, 5], "the one without its episode, and the one whose id is taken"
    assert all(isinstance(answers[at], IntegrityError) for at in failed)
    assert store.read(count) == 10


def test_events_are_published_once_and_only_after_the_commit(store: Opened) -> None:
    """Also those of transactions that shared a commit with one that failed, and were run again."""
    published: list[Event] = []
    store.store.publish = published.extend

    def work(conn: Connection, number: int, fails: bool = False, late: bool = False) -> None:
        if late:
            conn.defer_references()
            insert(conn, rule(900 + number, source_episode_id=UUID(int=404)))
        put(conn, rule(number))
        assert not any(event.entity_id == UUID(int=number) for event in published)
        if fails:
            raise LookupError("a bug of the caller's own")

    with pytest.raises(LookupError):
        store.write(work, 1, fails=True)
    assert published == []
    works = [partial(work, number=number, fails=number % 5 == 0, late=number == 7) for number in range(2, 30)]
    store.write_at_once(*works)
    kept = store.read(lambda conn: conn.fetch_all("SELECT id FROM memory_events"))
    assert sorted(event.id for event in published) == sorted(row["id"] for row in kept)
    assert {event.entity_id.int for event in published} == {number for number in range(2, 30) if number % 5} - {7}


def test_a_read_sees_one_moment(store: Opened) -> None:
    store.write(put, rule(1))
    written = False

    def look(conn: Connection) -> set[int]:
        seen, deadline = {count(conn)}, time.monotonic() + 20
        while not written and time.monotonic() < deadline:
            seen.add(count(conn))
        return seen | {count(conn)}

    async def together() -> set[int]:
        nonlocal written
        looking = asyncio.ensure_future(store.store.read(ONE, look))
        await asyncio.sleep(0.05)
        await store.store.write(ONE, put, rule(2))
        written = True
        return await looking

    assert store.run(together()) == {1}
    assert store.read(count) == 2


def test_a_row_read_for_update_is_changed_by_one_at_a_time(store: Opened) -> None:
    store.write(put, rule(1))
    key = {"tenant_id": ONE, "id": UUID(int=1)}

    def increase(conn: Connection) -> None:
        query = "SELECT reference_count FROM rules WHERE tenant_id = :tenant_id AND id = :id"
        row = conn.fetch_one(query + conn.for_update, key)
        assert row is not None
        update = "UPDATE rules SET reference_count = :more WHERE tenant_id = :tenant_id AND id = :id"
        conn.execute(update, {**key, "more": row["reference_count"] + 1})

    assert store.write_at_once(*[increase] * 12) == [None] * 12
    assert store.read(items.get, Address(ONE, "rule", UUID(int=1))).reference_count == 12


def test_a_name_is_locked_by_one_at_a_time(store: Opened) -> None:
    log: list[tuple[str, int]] = []

    def work(conn: Connection, number: int) -> None:
        conn.lock("b", f"of {number} alone", "a")
        log.append(("begins", number))
        assert [count(conn) for _ in range(3)] == [0] * 3
        log.append(("ends", number))

    store.write_at_once(*(lambda conn, number=number: work(conn, number) for number in range(6)))
    assert len(log) == 12
    assert all(log[at][1] == log[at + 1][1] for at in range(0, 12, 2)), log


def test_the_lock_of_the_store_excludes_every_other_writer(store: Opened) -> None:
    log: list[str] = []

    def work(conn: Connection, name: str) -> None:
        if name == "alone":
            conn.lock_store()
        log.append(name)
        assert [count(conn) for _ in range(5)] == [0] * 5
        log.append(name)

    names = ["a", "b", "alone", "c", "d"]
    store.write_at_once(*(lambda conn, name=name: work(conn, name) for name in names))
    at = log.index("alone")
    assert log[at : at + 2] == ["alone", "alone"], log
    assert sorted(log) == sorted(names * 2)


def test_a_closed_store_says_so(store: Opened) -> None:
    store.run(store.store.close())
    with pytest.raises(StoreUnavailable):
        store.write(put, rule(1))
    with pytest.raises(StoreUnavailable):
        store.read(count)


def test_writers_of_one_key_take_turns(store: Opened) -> None:
    audit = Audit(Caller(ONE), NOW, SequentialIds(1000))

    def offer(number: int) -> Callable[[Connection], Any]:
        new = fact(number, f"tea {number}")
        return lambda conn: facts.store(conn, [(new, entry(new, EAST), {})], audit, Bound())

    answers = [answer[0] for answer in store.write_at_once(*map(offer, range(1, 9)))]
    assert sorted(answer.outcome for answer in answers) == ["stored"] + ["superseded"] * 7
    kept = store.read(items.listing, ONE, "fact", Filter(state="any"), NOW, 100, None)
    assert [one.state for one in kept].count("active") == 1 and len(kept) == 8
    assert len({one.supersedes_id for one in kept}) == 8, "a chain: each was superseded once"
