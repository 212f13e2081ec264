"""002-013: a file that has reached its limit makes room by its least recently used episodes."""

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from administration import administer
from raw_sql import in_thread, run_sql

from tulving import Memory, open_memory
from tulving.domain.eviction import TARGET, is_full, surplus_bytes
from tulving.domain.model import NewEpisode
from tulving.domain.scope import Caller
from tulving.services.administration import Administration
from tulving.settings import MemoryModuleConfig
from tulving.storage import eviction
from tulving.testing import ManualClock, WordEmbedder

GROUPS, IN_A_GROUP = 12, 50
MANY = GROUPS * IN_A_GROUP
SESSION = UUID(int=7)
WORDS = "the harbour was quiet and the boats lay still under a grey sky, waiting for the tide to turn again " * 8
NOW = ManualClock().now + timedelta(days=30)


def opened(path: Path, limit: int | None = None) -> Any:
    config = MemoryModuleConfig(max_size_bytes=limit)
    return open_memory(path, config=config, embedder=WordEmbedder(256), clock=ManualClock(NOW), background=False)


@pytest.fixture(scope="module")
def full_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with episodes of two tenants, of which one group after the other was used, and a fact. To be copied."""
    path = tmp_path_factory.mktemp("full") / "memory.db"

    async def fill() -> None:
        async with opened(path) as memory:
            other = memory.bind(caller=Caller("other"))
            for group in range(GROUPS):
                offers = [
                    NewEpisode(content=f"event{group} {number} {WORDS}", butler="b") for number in range(IN_A_GROUP)
                ]
                await (other if group % 3 == 0 else memory).store_episodes(offers)
                used_at = NOW - timedelta(hours=GROUPS - group)
                run_sql(str(path), "UPDATE episodes SET accessed_at = ? WHERE accessed_at = ?", used_at, NOW)
            await memory.store_fact("Anna", "drinks", "tea")

    in_thread(fill())
    return path


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> int:
    """Batches that suit a small file; the real number."""
    real = eviction.AT_A_TIME
    monkeypatch.setattr(eviction, "AT_A_TIME", 10)
    return real


@pytest.fixture
def file(full_file: Path, path: Path) -> Path:
    return Path(shutil.copyfile(full_file, path))


def used(path: Path) -> int:
    with closing(sqlite3.connect(path)) as raw:
        pages, free, size = (
            raw.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
    return (pages - free) * size


def by_use(path: Path) -> list[UUID]:
    """The episodes, the least recently used first."""
    return [row["id"] for row in run_sql(str(path), "SELECT id FROM episodes ORDER BY accessed_at, created_at, id")]


def protect(path: Path, decisions: str = "FALSE", in_session: str = "FALSE", status: str = "active") -> None:
    run_sql(str(path), f"UPDATE episodes SET type = 'decision' WHERE {decisions}")
    run_sql(str(path), f"UPDATE episodes SET session_id = ? WHERE {in_session}", SESSION)
    for tenant in ("default", "other"):
        run_sql(
            str(path),
            "INSERT INTO sessions (tenant_id, id, started_at, status) VALUES (?, ?, ?, ?)",
            tenant,
            SESSION,
            NOW,
            status,
        )


async def sound(store: Administration) -> None:
    verification = await store.verify()
    assert verification.ok, verification


@asynccontextmanager
async def administered(path: Path, limit: int | None) -> AsyncIterator[Administration]:
    async with opened(path, limit) as memory:
        yield administer(memory)


@pytest.mark.scenario("002-013")
async def test_a_full_file_keeps_what_was_used_and_what_is_protected(file: Path, small_batches: int) -> None:
    assert small_batches == 100
    protect(file, decisions="content LIKE 'event0 1%'", in_session="content LIKE 'event0 2%'")
    run_sql(str(file), "UPDATE episodes SET consolidated = TRUE WHERE content LIKE 'event1 %'")
    order, limit, length = by_use(file), used(file), file.stat().st_size
    kept = [
        row["id"]
        for row in run_sql(str(file), "SELECT id FROM episodes WHERE type = 'decision' OR session_id IS NOT NULL")
    ]
    assert len(kept) == 22
    async with opened(file, limit) as memory:
        read = order[0] if order[0] not in kept else order[30]
        other = memory.bind(caller=Caller("other"))
        await other.get("episode", read)  # the least recently used one is used
        await memory.settle()
        vectors = len((await other.search(WORDS, types=["episode"], limit=100)).hits)
        assert vectors == 100
        told = []
        done = await administer(memory).evict(progress=lambda *at: told.append(at))
        assert told and all(1 <= some <= all_ for some, all_ in told)
        left = by_use(file)
        assert done.bytes_before == limit
        assert done.bytes_after == used(file) < TARGET * limit
        assert done.bytes_after > 0.7 * limit, "no more than needed"
        gone = [id_ for id_ in order if id_ not in left]
        assert gone == [id_ for id_ in order if id_ not in kept and id_ != read][: len(gone)], "the least used ones"
        assert (done.evicted, done.protected, done.warning) == (len(gone), 22, None)
        assert 50 <= len(gone) < MANY / 3
        assert done.unlearned == sum(id_ not in order[IN_A_GROUP : 2 * IN_A_GROUP] for id_ in gone) < done.evicted
        assert file.stat().st_size < length - 0.1 * limit, "the space is given back to the file system"
        found = {hit.item.id for hit in (await other.search(WORDS, types=["episode"], limit=100)).hits}
        assert found <= set(left)
        assert (await memory.recall("Anna tea")).hits[0].memory_type == "fact"
        await sound(administer(memory))
        again = await administer(memory).evict()
        assert (again.evicted, again.protected) == (0, None), "there is room"
    events = run_sql(
        str(file), "SELECT entity_id, payload, actor FROM memory_events WHERE event_type = 'episode_deleted'"
    )
    assert sorted(row["entity_id"] for row in events) == sorted(gone)
    assert {row["payload"]["by"] for row in events} == {"eviction"}
    assert {row["actor"] for row in events} == {"maintenance"}


async def test_nothing_is_evicted_below_the_limit_or_without_one(file: Path) -> None:
    for limit in (used(file) + 1, None):
        async with administered(file, limit) as store:
            done = await store.evict()
        assert (done.evicted, done.protected, done.limit, done.bytes_after) == (0, None, limit, used(file))
    assert len(by_use(file)) == MANY


async def test_a_dry_run_says_what_would_go_and_changes_nothing(file: Path) -> None:
    limit, before = used(file), dump(file)
    async with administered(file, limit) as store:
        said = await store.evict(dry_run=True)
        assert dump(file) == before
        done = await store.evict()
    assert said.bytes_before == done.bytes_before == limit
    assert 0.75 <= said.evicted / done.evicted <= 1.25, "an estimate"
    assert said.bytes_after is not None
    assert done.bytes_after is not None
    assert abs(said.bytes_after - done.bytes_after) < 0.1 * limit


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as raw:
        return list(raw.iterdump())


@pytest.mark.parametrize("protection", ["decisions", "in_session"])
async def test_when_only_protected_ones_remain_it_warns_and_deletes_nothing(
    file: Path, protection: str, caplog: pytest.LogCaptureFixture
) -> None:
    protect(file, **{protection: "TRUE"})
    async with opened(file, used(file)) as memory:
        done = await administer(memory).evict()
        health = await memory.health()
    assert (done.evicted, done.protected) == (0, MANY)
    assert done.warning is not None
    assert "max_size_bytes" in done.warning
    assert caplog.messages.count(done.warning) == 1
    assert (health.state, health.ok, health.reasons) == ("degraded", False, [f"size: {done.warning}"])
    assert len(by_use(file)) == MANY


@pytest.mark.parametrize("status", ["completed", "abandoned"])
async def test_a_session_that_is_over_protects_nothing(file: Path, status: str) -> None:
    protect(file, in_session="TRUE", status=status)
    run_sql(str(file), "INSERT INTO sessions (tenant_id, id, started_at) VALUES ('third', ?, ?)", SESSION, NOW)
    async with opened(file, used(file)) as memory:
        assert (await memory.health()).state == "ready", "there is something to evict"
        assert (await administer(memory).evict()).evicted > 0


async def test_scattered_rows_do_not_make_it_delete_everything(file: Path) -> None:
    """Pages are half empty then, and the bytes in use fall only when the file is written anew."""
    with closing(sqlite3.connect(file, isolation_level=None)) as raw:
        moments = [moment for (moment,) in raw.execute("SELECT DISTINCT accessed_at FROM episodes ORDER BY 1")]
        # Every seventh row, then every other seventh.
        raw.executemany(
            "UPDATE episodes SET accessed_at = ? WHERE num % 7 = ?",
            [(moments[part], part * 3 % 7) for part in range(7)],
        )
    order, limit = by_use(file), used(file)
    async with administered(file, limit) as store:
        done = await store.evict()
        await sound(store)
    assert done.bytes_after == used(file) < TARGET * limit
    assert 0.1 * MANY < done.evicted < 0.3 * MANY
    assert by_use(file) == order[done.evicted :]


async def test_what_was_deleted_before_goes_first(file: Path) -> None:
    run_sql(str(file), "DELETE FROM episodes WHERE content LIKE 'event1%'")
    left, limit = by_use(file), used(file)
    async with administered(file, limit) as store:
        done = await store.evict()
    assert (done.evicted, done.warning) == (0, None)
    assert done.bytes_after == used(file) < limit
    assert by_use(file) == left


async def test_it_ends_when_nothing_is_freed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[Any] = []

    def nothing(conn: Any, chosen: Any, audit_of: Any) -> list[Any]:
        rounds.append(chosen)
        assert len(rounds) < 1000, "it does not end"
        return []

    monkeypatch.setattr(eviction, "evict", nothing)
    async with administered(file, used(file)) as store:
        done = await store.evict()
    assert done.evicted == 0


async def test_what_is_used_or_protected_meanwhile_is_kept(file: Path) -> None:
    limit = used(file)
    async with administered(file, limit) as store:
        engine = store._env.store
        chosen = await engine.read(None, eviction.least_used, surplus_bytes(limit, limit))
        used_row, decided, in_session, archived, *_ = chosen
        assert len(chosen) > 50
        this = "WHERE tenant_id = ? AND id = ?"
        for row, change in (
            (used_row, "accessed_at = created_at"),
            (decided, "type = 'decision'"),
            (in_session, f"session_id = '{SESSION}'"),
            (archived, "segment_id = id"),
        ):
            run_sql(str(file), f"UPDATE episodes SET {change} {this}", row["tenant_id"], row["id"])
        protect(file)
        evicted = await engine.write(None, eviction.evict, chosen, store._audit_of())
        assert evicted == chosen[4:]
        assert await engine.write(None, eviction.evict, chosen, store._audit_of()) == [], "they are gone already"
    assert set(by_use(file)) >= {used_row["id"], decided["id"], in_session["id"], archived["id"]}


async def test_what_is_stored_meanwhile_is_kept(file: Path) -> None:
    stored: list[UUID] = []
    async with opened(file, used(file)) as memory, opened(file) as elsewhere:
        evicting = asyncio.create_task(administer(memory).evict())
        while not evicting.done():
            for one in (memory, elsewhere):
                stored.append((await one.store_episode("meanwhile", butler="b")).id)
        done = await evicting
        await sound(administer(memory))
    assert len(stored) >= 2
    assert set(by_use(file)) >= set(stored)
    assert len(by_use(file)) == MANY - done.evicted + len(stored)


async def test_an_older_file_gives_its_space_back_when_it_is_reindexed(
    file: Path, small_batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction, "AT_A_TIME", small_batches)
    with closing(sqlite3.connect(file, isolation_level=None)) as raw:
        raw.execute("PRAGMA auto_vacuum = NONE")
        raw.execute("VACUUM")
        assert raw.execute("PRAGMA auto_vacuum").fetchone() == (0,)
    limit = used(file)
    async with administered(file, limit) as store:
        await store.evict()
        length = file.stat().st_size
        assert used(file) < TARGET * limit <= length, "the free pages are there for what is stored next"
        await store.reindex()
        assert used(file) == file.stat().st_size < length
        await sound(store)
    assert run_sql(str(file), "PRAGMA auto_vacuum") == [{"auto_vacuum": 2}]


async def test_a_file_that_another_process_writes_to_is_not_rewritten(
    file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tulving.storage.sqlite import place

    monkeypatch.setattr(place, "PATIENCE", 0.01)
    async with administered(file, None) as store:
        engine = store._env.store
        with closing(sqlite3.connect(file, isolation_level=None)) as raw:
            raw.execute("BEGIN IMMEDIATE")
            await asyncio.to_thread(engine._place.compact, True)
        assert "could not be shortened: database is locked" in caplog.text
        await sound(store)


async def test_only_a_file_has_a_size_limit(memory: Memory, engine: str) -> None:
    """A new file has more than the lowest limit there is."""
    memory._env.config = replace(memory._env.config, max_size_bytes=1_000_000)
    await memory.store_episode("hello", butler="b")
    done = await administer(memory).evict()
    assert (done.evicted, done.bytes_before is None) == ((1, False) if engine == "sqlite" else (0, True))


@pytest.mark.parametrize(("used_bytes", "full"), [(999_999, False), (1_000_000, True)])
def test_the_limit_itself_is_full(used_bytes: int, full: bool) -> None:
    assert is_full(used_bytes, 1_000_000) is full
    assert not is_full(used_bytes, None)
    assert surplus_bytes(850_000, 1_000_000) == 1, "below 85 %, not at it"
    assert surplus_bytes(849_999, 1_000_000) == 0
