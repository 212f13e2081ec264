"""The cache of vectors beside SQLite: what it holds, what it costs, and what goes first."""

import asyncio
import threading
from array import array
from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tulving import Caller, InvalidInput, MemoryModuleConfig, NewEpisode, NewFact
from tulving.domain.scope import Filter
from tulving.errors import DiskFull
from tulving.storage import events
from tulving.storage.connection import savepoint
from tulving.storage.lanes import CONTENT, LaneRequest
from tulving.storage.sqlite.connection import SqliteConnection
from tulving.storage.sqlite.vectors import MOST_EVENTS, SMALLEST_PARTITION, Partition, VectorCache

MEGABYTE = 1024 * 1024


class Weighed(Partition):
    """A partition that notes how often it is weighed."""

    weighings = 0

    @property
    def nbytes(self) -> int:
        Weighed.weighings += 1
        return super().nbytes


def used(cache: VectorCache) -> int:
    return sum(partition.nbytes for partition in cache._partitions.values())


@pytest.mark.parametrize("config", [MemoryModuleConfig(vector_cache_mb=1)])
async def test_thousands_of_strangers_are_dropped_and_cost_the_same_each(memory, path, monkeypatch):
    """Each search weighs its own tenant only, however many others are cached."""
    monkeypatch.setattr("tulving.storage.sqlite.vectors.Partition", Weighed)
    cache = memory._env.store.vectors
    await memory.store_rule("greet")
    await memory.search("greet", mode="semantic")
    for number in range(1500):
        Weighed.weighings = 0
        assert len(await memory.bind(caller=Caller(f"stranger-{number}")).search("greet", mode="semantic")) == 0
        assert Weighed.weighings <= 2
    assert len(cache._partitions) <= MEGABYTE // SMALLEST_PARTITION
    assert list(cache._partitions)[-1] == "stranger-1499"
    assert cache._used == used(cache) <= MEGABYTE
    assert len(await memory.search("greet", mode="semantic")) == 1


def test_the_least_recently_used_goes_first():
    cache = VectorCache(3 * SMALLEST_PARTITION)
    for tenant in ("a", "b", "c", "a", "d", "a", "e"):
        cache._weigh(cache._partition(tenant))
    assert list(cache._partitions) == ["d", "a", "e"]
    assert cache._used == 3 * SMALLEST_PARTITION


def test_the_total_follows_what_grows_shrinks_and_is_dropped():
    cache = VectorCache(100 * SMALLEST_PARTITION)
    large, small = cache._partition("large"), cache._partition("small")
    for size in (7, 90, 20):
        large.matrices = {"fact": SimpleNamespace(nbytes=size * SMALLEST_PARTITION)}  # type: ignore[dict-item]
        cache._weigh(large)
        assert cache._used == used(cache) == (size + 2) * SMALLEST_PARTITION
    large.matrices = {"fact": SimpleNamespace(nbytes=200 * SMALLEST_PARTITION)}  # type: ignore[dict-item]
    cache._weigh(large)
    assert list(cache._partitions) == ["large"], "what is in use stays, however large it is"
    cache._weigh(small)
    assert cache._used == used(cache), "one that was dropped while it was in use is not counted again"


@pytest.mark.parametrize("config", [MemoryModuleConfig(vector_cache_mb=1)])
async def test_a_dropped_tenant_is_read_again(memory, path):
    for tenant in range(12):
        mine = memory.bind(caller=Caller(f"tenant-{tenant}"))
        await mine.store_episodes([NewEpisode(content=f"word{n} of {tenant}", butler="b") for n in range(500)])
        await mine.search("word7", mode="semantic")
    cache = memory._env.store.vectors
    assert "tenant-0" not in cache._partitions
    (hit, *_) = await memory.bind(caller=Caller("tenant-0")).search("word7 of 0", mode="semantic", limit=3)
    assert hit.item.content == "word7 of 0"
    assert cache._used == used(cache) <= MEGABYTE


async def test_the_past_is_searched_without_the_cache(memory, path, clock):
    """It holds what is in use now; nothing of the past may get into it."""
    before = clock.now
    old = await memory.store_fact("tea", "kind", "green")
    clock.advance(days=2)
    await memory.store_fact("tea", "kind", "black")
    cache = memory._env.store.vectors
    (hit,) = await memory.search("tea kind", mode="semantic", as_of=before)
    assert (hit.item.id, hit.item.content) == (old.id, "green")
    assert not cache._partitions
    (hit,) = await memory.search("tea kind", mode="semantic")
    assert hit.item.content == "black"
    (partition,) = cache._partitions.values()
    held = set(partition.matrices["fact"].ids)
    assert len(await memory.search("tea kind", mode="semantic", as_of=before)) == 1
    assert set(partition.matrices["fact"].ids) == held and str(old.id) not in held


# -- while a writer searches in the middle of its transaction --------------------------------------------------

TEA = "The user drinks green tea in the morning"
NO_TEA = "The user does not drink green tea in the morning"


class Pause:
    """Stops the writer after it has searched so many times; then it goes on, or fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, searches: int) -> None:
        self.reached, self.go, self.left = threading.Event(), threading.Event(), searches
        self.error: Exception | None = None
        real = SqliteConnection.lanes

        def lanes(conn: SqliteConnection, request: Any) -> Any:
            found = real(conn, request)
            if conn.committed != MOST_EVENTS:
                self.left -= 1
                if not self.left:
                    self.reached.set()
                    assert self.go.wait(30)
                    if self.error is not None:
                        raise self.error
            return found

        monkeypatch.setattr(SqliteConnection, "lanes", lanes)

    async def until_reached(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, 30)


async def about_tea(memory):
    found = await memory.search("green tea in the morning", mode="semantic", types=["fact"], limit=3)
    assert list(await memory._env.store.read(None, lambda conn: conn._verify_cache())) == []
    return [hit.item.content for hit in found if "tea" in hit.item.content]


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("cached", [False, True])
async def test_a_reader_sees_nothing_of_a_transaction_before_it_is_committed(
    memory, path, clock, monkeypatch, failing, cached
):
    """Neither is what the writer has added found, nor what it has replaced missed, though the cache has followed."""
    await memory.store_note(TEA)
    assert await about_tea(memory) == [TEA]
    clock.advance(days=1)
    if not cached:
        memory._env.store.vectors.forget(["default"])
    pause = Pause(monkeypatch, searches=2)
    notes = [NewFact(content=text) for text in (NO_TEA, "Plays the cello", "Somebody sang")]
    writing = asyncio.create_task(memory.store_facts(notes))
    await pause.until_reached()
    for _ in range(2):
        assert await about_tea(memory) == [TEA]
    pause.error = InvalidInput("x", "no", "yes") if failing else None
    pause.go.set()
    if failing:
        with pytest.raises(InvalidInput):
            await writing
    else:
        assert [one.outcome for one in await writing] == ["superseded", "stored", "stored"]
    assert await about_tea(memory) == [TEA if failing else NO_TEA]


async def test_a_part_that_is_rolled_back_leaves_nothing_to_the_rest_of_its_transaction(
    memory, path, clock, monkeypatch
):
    """Neither a job of a group, nor a part of a job."""
    await memory.store_note(TEA)
    clock.advance(days=1)
    good = [NewFact(content="Oslo", subject="user", predicate="city"), NewFact(content=NO_TEA)]
    bad = [NewFact(content=NO_TEA), NewFact(content="Plays the cello"), NewFact(content="Somebody sang")]
    store, texts = memory._env.store, []

    def searched(conn: SqliteConnection) -> set[str]:
        request = LaneRequest(
            tenant_id="default",
            kinds=("fact",),
            filter=Filter(),
            now=clock(),
            limit=9,
            vector=array("f", memory._env.embedder.embed("green tea in the morning")),
            embedding_version=memory._env.embedding.version,
        )
        return {row[CONTENT] for row in conn.lanes(request).rows.values()} & {TEA, NO_TEA}

    def parts(conn: SqliteConnection) -> None:
        (first,) = (row["id"] for row in conn.fetch_all("SELECT id FROM facts WHERE content = :text", {"text": NO_TEA}))
        for fails in (True, False):
            replace(conn, other)
            with suppress(ZeroDivisionError), savepoint(conn):
                replace(conn, first)
                texts.append(searched(conn))
                assert not fails or 1 / 0
            replace(conn, other)  # its event has the number that one of the rolled back part had
            texts.append(searched(conn))

    def replace(conn: SqliteConnection, id_: UUID) -> None:
        conn.execute("UPDATE facts SET validity = 'superseded' WHERE id = :id", {"id": id_})
        events.append(conn, memory._audit(clock()).event("fact_superseded", "fact", id_))

    other = (await memory.store_fact("boat", "name", "Freya")).id
    pause = Pause(monkeypatch, searches=2)
    pause.error = InvalidInput("x", "no", "yes")
    pause.go.set()
    hold = threading.Event()
    waiting = asyncio.create_task(store.write("default", lambda conn: hold.wait(30)))
    await asyncio.sleep(0)  # the next ones wait for it, and so share a commit
    jobs = [asyncio.create_task(memory.store_facts(notes)) for notes in (bad, good)]
    jobs.append(asyncio.create_task(store.write("default", parts)))
    await asyncio.sleep(0.05)
    hold.set()
    await waiting
    with pytest.raises(InvalidInput):
        await jobs[0]
    assert [one.outcome for one in await jobs[1]] == ["stored", "superseded"]
    await jobs[2]
    assert texts == [set(), {NO_TEA}, set(), set()]
    assert await about_tea(memory) == []


def refuse_commits(memory, monkeypatch):
    store = memory._env.store
    real = store._control

    def control(statement: str) -> None:
        if statement == "COMMIT":
            raise DiskFull("the disk is full")
        real(statement)

    monkeypatch.setattr(store, "_control", control)


async def test_a_commit_that_fails_leaves_nothing_in_the_cache(memory, path, clock, monkeypatch):
    await memory.store_note(TEA)
    clock.advance(days=1)
    refuse_commits(memory, monkeypatch)
    with pytest.raises(DiskFull):
        await memory.store_facts([NewFact(content=NO_TEA), NewFact(content="Plays the cello")])
    monkeypatch.undo()
    assert await about_tea(memory) == [TEA]
    assert [one.outcome for one in await memory.store_facts([NewFact(content=NO_TEA)])] == ["superseded"]
    assert await about_tea(memory) == [NO_TEA]


async def test_numbers_of_events_that_were_rolled_back_are_given_again(memory, path, clock, monkeypatch):
    """So a later transaction can't tell by them what the cache has followed."""
    await memory.store_note(TEA)
    clock.advance(days=1)
    with monkeypatch.context() as patch:
        refuse_commits(memory, patch)
        with pytest.raises(DiskFull):
            await memory.store_facts([NewFact(content=NO_TEA), NewFact(content="Plays the cello")])
    keyed = NewFact(content="Oslo", subject="user", predicate="city")
    stored = await memory.store_facts([keyed, NewFact(content=NO_TEA)])
    assert [one.outcome for one in stored] == ["stored", "superseded"]


async def test_a_reader_that_others_have_outrun_begins_again(memory, path, clock, monkeypatch):
    """Its rows are those of its beginning, but the cache has followed a later change."""
    await memory.store_note(TEA)
    assert await about_tea(memory) == [TEA]
    clock.advance(days=1)
    begun, go, slow = threading.Event(), threading.Event(), []
    real = VectorCache.rank

    def rank(cache: VectorCache, conn: SqliteConnection, *args: Any) -> Any:
        if not slow and conn.committed == MOST_EVENTS:
            slow.append(threading.get_ident())
            conn.fetch_all("SELECT 1 FROM facts LIMIT 1")
            begun.set()
            assert go.wait(30)
        return real(cache, conn, *args)

    monkeypatch.setattr(VectorCache, "rank", rank)
    reading = asyncio.create_task(about_tea(memory))
    assert await asyncio.to_thread(begun.wait, 30)
    await memory.store_note(NO_TEA)
    assert await about_tea(memory) == [NO_TEA]
    go.set()
    assert await reading == [NO_TEA]


async def test_many_readers_beside_a_writer_that_settles_find_one_side_each_time(memory, path, clock):
    """At every moment one of the two notes is in use."""
    await memory.store_note(TEA)
    done = False

    async def read() -> int:
        times = 0
        while not done:
            found = await memory.search("green tea in the morning", mode="semantic", types=["fact"], limit=3)
            texts = [hit.item.content for hit in found]
            assert texts in ([TEA], [NO_TEA]), texts
            times += 1
        return times

    readers = [asyncio.create_task(read()) for _ in range(4)]
    for number in range(40):
        clock.advance(days=1)
        text = (NO_TEA, TEA)[number % 2]
        (stored,) = await memory.store_facts([NewFact(content=text)])
        assert stored.outcome == "superseded"
    done = True
    assert min(await asyncio.gather(*readers)) > 3
    assert await about_tea(memory) == [TEA]
