"""Maintenance by a process that has the memory open: it is done, and does not disturb."""

import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta

import pytest
from raw_sql import run_sql

from tulving import open_memory
from tulving.services.administration import Administration
from tulving.settings import MemoryModuleConfig, ScheduleConfig
from tulving.testing import ManualClock, WordEmbedder
from tulving.workers import background
from tulving.workers.jobs import JOBS
from tulving.workers.scheduler import Scheduler

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def opened(url, clock, embedder=None, **schedule):
    config = MemoryModuleConfig(schedule=ScheduleConfig(**schedule))
    return open_memory(url, embedder=embedder or WordEmbedder(), clock=clock, config=config)


async def until(condition):
    for _ in range(500):
        if found := condition():
            return found
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


@pytest.fixture
def clock():
    return ManualClock(START)


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(background, "BEFORE", 0.0)
    monkeypatch.setattr(background, "SHORTEST_SLEEP", 0.02)
    monkeypatch.setattr(background, "LONGEST_SLEEP", 0.05)


@pytest.fixture
def rows(url, memory_file):
    return lambda: {row["name"]: row for row in run_sql(url, "SELECT * FROM jobs")}


@pytest.fixture
async def memory_file(url):
    async with open_memory(url, embedder=WordEmbedder(), background=False):
        pass


@pytest.mark.scenario("001-121", "001-122")
async def test_a_user_without_a_worker_has_decay_and_cleanup_too(url, clock, rows):
    async with opened(url, clock) as memory:
        fact = await memory.store_fact("user", "mood", "cheerful", permanence="ephemeral")
        await memory.store_episode("it rained", butler="b")
        await until(lambda: len(rows()) == len(JOBS))
        assert all(row["last_started_at"] is None for row in rows().values()), "nothing is due yet"
    clock.advance(days=400)
    async with opened(url, clock) as memory:
        await until(lambda: all(row["last_finished_at"] for row in rows().values()))
        assert rows()["decay_sweep"]["result"]["facts_expired"] == 1
        assert rows()["episode_cleanup"]["result"]["expired_deleted"] == 1
        assert (await memory.get("fact", fact.id)).validity == "expired"
        finished = {name: row["last_finished_at"] for name, row in rows().items()}
        clock.advance(days=1)
        await until(lambda: all(row["last_finished_at"] > finished[name] for name, row in rows().items()))


@pytest.mark.scenario("001-122")
async def test_the_scheduled_cleanup_keeps_to_the_capacity(url, clock, rows):
    config = MemoryModuleConfig(episode_max_entries=2)
    async with open_memory(url, embedder=WordEmbedder(), clock=clock, config=config) as memory:
        for number in range(5):
            await memory.store_episode(f"event {number}", butler="b")
            clock.advance(seconds=1)
        run_sql(url, "UPDATE episodes SET consolidation_status = 'consolidated', consolidated = ?", True)
        await until(lambda: "episode_cleanup" in rows())
        clock.advance(days=1)
        await until(lambda: rows()["episode_cleanup"]["last_finished_at"])
        assert rows()["episode_cleanup"]["result"] == {"expired_deleted": 0, "capacity_deleted": 3, "remaining": 2}
        kept = await memory.list_memories("episode")
        assert [item.content for item in kept.items] == ["event 4", "event 3"], "the oldest went first"


async def test_several_open_memories_do_it_once(url, clock, rows, monkeypatch):
    runs = []
    sweep = Administration.run_decay_sweep

    async def counted(self, **given):
        runs.append(given)
        return await sweep(self, **given)

    monkeypatch.setattr(Administration, "run_decay_sweep", counted)
    async with opened(url, clock), opened(url, clock), opened(url, clock):
        await until(lambda: len(rows()) == len(JOBS))
        clock.advance(days=3)
        await until(lambda: all(row["last_finished_at"] for row in rows().values()))
        await asyncio.sleep(0.3)
    assert [given["as_of"] for given in runs] == [clock.now]


async def test_it_can_be_switched_off(url, clock, rows):
    async with opened(url, clock, background=False):
        await asyncio.sleep(0.2)
    assert rows() == {}
    async with opened(url, clock, consolidation=None, decay_sweep=None, timeline_rotation=None, episode_cleanup=None):
        await until(rows)
    assert list(rows()) == ["index_maintenance"]


async def test_opening_and_closing_do_not_wait_for_it(url, clock, rows, monkeypatch):
    begun = asyncio.Event()

    async def endless(self, **given):
        begun.set()
        await asyncio.sleep(3600)

    async with opened(url, clock):
        await until(lambda: len(rows()) == len(JOBS))
    clock.advance(days=1)
    monkeypatch.setattr(Administration, "run_decay_sweep", endless)
    async with opened(url, clock) as memory:
        await asyncio.wait_for(begun.wait(), 5)
        await memory.store_fact("user", "likes", "tea")
        before = time.monotonic()
    assert time.monotonic() - before < 1
    row = rows()["decay_sweep"]
    assert (row["holder"], row["last_error"]) == (None, None), "released"
    assert row["due_at"] < clock.now, "still due"


async def test_a_job_that_fails_is_logged_and_does_not_disturb(url, clock, rows, monkeypatch, caplog):
    async def broken(self, **given):
        raise RuntimeError("no sweep today")

    async with opened(url, clock):
        await until(lambda: len(rows()) == len(JOBS))
    clock.advance(days=1)
    monkeypatch.setattr(Administration, "run_decay_sweep", broken)
    with caplog.at_level(logging.ERROR, "tulving"):
        async with opened(url, clock) as memory:
            await until(lambda: rows()["episode_cleanup"]["last_finished_at"])
            await memory.store_fact("user", "likes", "tea")
    assert "no sweep today" in caplog.text
    assert rows()["decay_sweep"]["last_error"] == "RuntimeError: no sweep today"
    assert rows()["decay_sweep"]["due_at"] == clock.now + timedelta(minutes=1)


async def test_a_store_that_goes_wrong_is_tried_again(url, clock, rows, monkeypatch):
    look, failures = Scheduler.look, []

    async def failing(self):
        if len(failures) < 2:
            failures.append(1)
            raise OSError("the network is down")
        return await look(self)

    monkeypatch.setattr(Scheduler, "look", failing)
    async with opened(url, clock):
        await until(lambda: len(rows()) == len(JOBS))
    assert len(failures) == 2
