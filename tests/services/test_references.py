"""References are counted after the answer: no caller waits for it or sees its errors."""

import asyncio
import sqlite3
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg
import pytest

from tulving import Caller, IntegrityError, StoreBusy, open_memory
from tulving.services import references
from tulving.services.references import References
from tulving.testing import WordEmbedder


@asynccontextmanager
async def locked(url):
    """Another process keeps everybody from writing."""
    if url.startswith("postgres"):
        raw = await asyncpg.connect(url)
        await raw.execute("BEGIN; LOCK TABLE episodes, facts, rules IN EXCLUSIVE MODE")
        yield
        await raw.close()
    else:
        raw = sqlite3.connect(url, isolation_level=None)
        raw.execute("BEGIN IMMEDIATE")
        yield
        raw.close()


def counts(sql):
    return {row["id"]: row["reference_count"] for row in sql("SELECT id, reference_count FROM facts")}


@pytest.mark.scenario("001-021", "001-034")
async def test_the_answer_shows_the_count_and_the_row_has_it_soon_after(memory, clock, sql):
    fact = (await memory.store_fact("user", "likes", "tea")).id
    clock.advance(hours=1)
    first = await memory.get("fact", fact)
    (second,) = await memory.recall("tea")
    third = await memory.get("fact", fact)
    assert [item.reference_count for item in (first, second.item, third)] == [1, 2, 3]
    assert {item.last_referenced_at for item in (first, second.item, third)} == {clock.now}
    await memory.settle()
    (row,) = sql("SELECT reference_count, last_referenced_at FROM facts")
    assert (row["reference_count"], row["last_referenced_at"]) == (3, clock.now)
    assert (await memory.get("fact", fact)).reference_count == 4
    assert [event.event_type for event in await memory.events("fact", fact)] == ["fact_created"]


async def test_a_burst_of_recalls_shares_a_write(memory, sql, monkeypatch):
    fact = (await memory.store_fact("user", "likes", "tea")).id
    monkeypatch.setattr(references, "PAUSE", 60.0)
    writes: list[int] = []
    write = memory._env.store.write

    async def noted(tenant_id, transaction, *args):
        writes.append(len(args[-1]))
        return await write(tenant_id, transaction, *args)

    monkeypatch.setattr(memory._env.store, "write", noted)
    for _ in range(5):
        await memory.recall("tea")
        await asyncio.sleep(0)
    assert counts(sql) == {fact: 0}, "they are gathered"
    await memory.settle()
    assert (writes, counts(sql)) == ([1], {fact: 5}), "who wants them counted does not wait"


async def test_recall_and_get_answer_while_another_process_holds_the_write_lock(memory, url, sql):
    fact = (await memory.store_fact("user", "likes", "tea")).id
    async with locked(url):
        assert (await memory.get("fact", fact)).reference_count == 1
        (hit,) = await memory.recall("tea")
        assert (hit.item.id, hit.item.reference_count) == (fact, 2)
        assert "tea" in await memory.context("tea", butler="b")
        assert counts(sql) == {fact: 0}, "the lock is still held"
    await memory.settle()
    assert counts(sql) == {fact: 3}


@pytest.mark.parametrize("error", [StoreBusy("locked"), IntegrityError("two met"), RuntimeError("what?")])
async def test_an_error_is_only_logged(memory, monkeypatch, caplog, sql, error):
    fact = (await memory.store_fact("user", "likes", "tea")).id

    async def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(memory._env.store, "write", fail)
        assert (await memory.get("fact", fact)).reference_count == 1
        assert len(await memory.recall("tea")) == 1
        await memory.settle()
    assert "not counted" in caplog.text and str(error) in caplog.text
    assert (await memory.get("fact", fact)).reference_count == 1, "what is lost is not shown for ever"
    await memory.settle()
    assert counts(sql) == {fact: 1}


async def test_many_answers_share_few_writes(memory, monkeypatch, sql):
    fact = (await memory.store_fact("user", "likes", "tea")).id
    written = []
    write = memory._env.store.write

    async def noted(tenant_id, transaction, *args):
        written.append(args)
        await write(tenant_id, transaction, *args)

    monkeypatch.setattr(memory._env.store, "write", noted)
    await asyncio.gather(*(memory.get("fact", fact) for _ in range(50)))
    await memory.settle()
    assert counts(sql) == {fact: 50}
    assert len(written) < 50


async def test_each_tenants_references_are_its_own(memory, sql):
    other = memory.bind(caller=Caller("other"))
    mine, theirs = [(await each.store_fact("user", "likes", "tea")).id for each in (memory, other)]
    await memory.get("fact", mine)
    await other.recall("tea")
    await other.get("fact", theirs)
    assert await other.get("fact", mine) is None
    await memory.settle()
    assert counts(sql) == {mine: 1, theirs: 2}


@pytest.mark.parametrize("fails", [False, True])
async def test_closing_counts_what_is_left(url, fails):
    """In a block that ends at once, by itself or by an error, as a command does."""
    async with open_memory(url, embedder=WordEmbedder(), background=False) as memory:
        fact = (await memory.store_fact("user", "likes", "tea")).id
    try:
        async with open_memory(url, embedder=WordEmbedder(), background=False) as memory:
            await memory.recall("tea")
            if fails:
                raise ZeroDivisionError
    except ZeroDivisionError:
        assert fails
    async with open_memory(url, embedder=WordEmbedder(), background=False) as memory:
        assert (await memory.look("fact", fact)).reference_count == 1


async def test_closing_waits_no_longer_than_a_person_would(url, monkeypatch, caplog):
    """The lock is let go only after the memory is closed, so that waiting for it would never end."""
    monkeypatch.setattr(references, "CLOSE_TIMEOUT", 0.01)
    async with open_memory(url, embedder=WordEmbedder(), background=False) as memory:
        fact = (await memory.store_fact("user", "likes", "tea")).id
    async with locked(url):
        async with open_memory(url, embedder=WordEmbedder(), background=False) as memory:
            assert (await memory.get("fact", fact)).reference_count == 1
        assert "not counted" in caplog.text
    async with open_memory(url, embedder=WordEmbedder(), background=False) as memory:
        assert (await memory.look("fact", fact)).reference_count == 0
        await memory.store_rule("writing goes on")


async def test_looking_is_no_reference(memory, sql):
    fact = (await memory.store_fact("user", "likes", "tea")).id
    looked = await memory.look("fact", fact)
    assert (looked.content, looked.reference_count) == ("tea", 0)
    assert await memory.look("fact", UUID(int=404)) is None
    await memory.settle()
    assert counts(sql) == {fact: 0}


async def test_they_are_written_by_kind_and_id_and_only_the_latest_time_counts(clock):
    written = []

    class Store:
        async def write(self, tenant_id, transaction, *args):
            written.append(args[1])

    memory = await stored_items(clock)
    counting = References(Store())  # type: ignore[arg-type]
    late = clock.now
    for kind, item in memory:
        counting.count(kind, item, clock.advance(minutes=-1))
    counting.count(*memory[0], late)
    await counting.settle()
    assert [(kind, id_.int, count) for kind, id_, count, _ in written[0]] == [
        ("episode", 5, 1),
        ("fact", 1, 2),
        ("fact", 9, 1),
        ("rule", 2, 1),
        ("rule", 4, 1),
    ]
    assert {last for kind, id_, _, last in written[0] if id_.int == 1} == {late}


async def stored_items(clock):
    from tulving.domain.model import Episode, Fact, Rule

    def made(cls, number, **more):
        common = {"content": "tea", "content_hash": "", "created_at": clock.now, "updated_at": clock.now}
        return cls(tenant_id="t", id=UUID(int=number), **common, **more)

    fact = {"subject": "s", "predicate": "p"}
    return [
        ("fact", made(Fact, 1, **fact)),
        ("rule", made(Rule, 4)),
        ("episode", made(Episode, 5, butler="b")),
        ("fact", made(Fact, 9, **fact)),
        ("rule", made(Rule, 2)),
    ]
