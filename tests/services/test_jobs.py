"""Scheduled jobs, as an administrator sees them and asks for them."""

import asyncio
import time
from datetime import timedelta

import pytest
from administration import administer

from tulving import InvalidInput, Memory, open_memory
from tulving.domain.schedule import Entry
from tulving.errors import EmbedderUnavailable
from tulving.services.administration import Administration
from tulving.settings import CRONS, MemoryModuleConfig, ScheduleConfig
from tulving.storage import jobs
from tulving.testing import ManualClock, WordEmbedder
from tulving.workers import background
from tulving.workers.jobs import JOBS
from tulving.workers.schedule import Schedule
from tulving.workers.scheduler import Scheduler


@pytest.fixture
def config() -> MemoryModuleConfig:
    return MemoryModuleConfig(schedule=ScheduleConfig(timeline_rotation=None))


@pytest.fixture
def scheduler(memory: Memory, clock: ManualClock) -> Scheduler:
    schedule = Schedule(memory._env.store, clock, "here", memory.config.schedule)
    return Scheduler(schedule, administer(memory), JOBS)


async def job(memory: Memory, name: str):
    return next(each for each in await administer(memory).list_jobs() if each.job == name)


def test_the_settings_name_all_jobs():
    assert {*CRONS} == {*JOBS}


async def test_all_are_listed_also_those_that_never_ran(memory: Memory):
    found = await administer(memory).list_jobs()
    assert [each.job for each in found] == [*CRONS]
    assert {each.state for each in found} == {"waiting"}
    assert {each.job for each in found if each.cron is None} == {"timeline_rotation"}


async def test_one_that_is_switched_off_has_no_next_run(memory: Memory, clock: ManualClock):
    await memory._env.store.write(None, jobs.enroll, "timeline_rotation", None, clock())
    assert (await job(memory, "timeline_rotation")).next_run is None


async def test_what_the_last_run_did_and_when_the_next_one_is(memory: Memory, scheduler: Scheduler, clock: ManualClock):
    await scheduler.once("decay_sweep")
    found = await job(memory, "decay_sweep")
    assert (found.state, found.last_run, found.last_finished) == ("ok", clock(), clock())
    assert found.result is not None and found.result["facts_checked"] == 0
    assert found.next_run == clock() + timedelta(hours=3)


async def test_the_error_of_a_job_that_failed(memory: Memory, scheduler: Scheduler, monkeypatch):
    async def fail(*_, **__):
        raise EmbedderUnavailable("the embedder is away")

    monkeypatch.setattr(Administration, "embed_pending", fail)
    await scheduler.once("index_maintenance")
    found = await job(memory, "index_maintenance")
    assert (found.state, found.last_error) == ("failed", "EmbedderUnavailable: the embedder is away")


async def test_a_job_that_is_asked_for_is_done_at_the_next_look(
    memory: Memory, scheduler: Scheduler, clock: ManualClock
):
    await scheduler.look()
    assert (await job(memory, "decay_sweep")).last_run is None
    asked = await administer(memory).run_job("decay_sweep")
    assert (asked.job, asked.next_run) == ("decay_sweep", clock())
    await administer(memory).run_job("decay_sweep")  # it is due already
    assert [run.name for run in await scheduler.look()] == ["decay_sweep"]
    assert (await job(memory, "decay_sweep")).last_run == clock()
    assert [event.payload["job"] for event in await memory.audit(event_type="job_requested")] == ["decay_sweep"]


async def test_one_that_is_being_done_is_left_alone(memory: Memory, scheduler: Scheduler, clock: ManualClock):
    taken, _, _ = await scheduler.schedule._claim(Entry("decay_sweep"), True)
    assert taken
    found = await administer(memory).run_job("decay_sweep")
    assert (found.state, found.running, found.next_run) == ("running", "here", None)
    assert list(await memory.audit(event_type="job_requested")) == []


async def test_one_whose_process_has_died_is_interrupted_and_can_be_asked_for(
    memory: Memory, scheduler: Scheduler, clock: ManualClock
):
    await scheduler.schedule._claim(Entry("decay_sweep"), True)
    clock.advance(hours=1)
    found = await job(memory, "decay_sweep")
    assert (found.state, found.running, found.lease_until) == ("interrupted", None, None)
    [seen] = await memory.jobs() or []
    assert seen.state == "interrupted"
    assert (await administer(memory).run_job("decay_sweep")).next_run == clock()
    assert "decay_sweep" in [run.name for run in await scheduler.look()]
    assert (await job(memory, "decay_sweep")).state == "ok"


async def test_who_waits_is_woken_once_for_what_was_asked(memory: Memory):
    boss = administer(memory)
    await boss.run_job("decay_sweep")
    await asyncio.wait_for(boss.wait_for_jobs(3600), 10)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(boss.wait_for_jobs(3600), 0.05)


@pytest.mark.parametrize("name", ["timeline_rotation", "unknown", "decay_sweep/x", ""])
async def test_what_is_switched_off_or_unknown_is_refused(memory: Memory, name: str):
    with pytest.raises(InvalidInput, match="job"):
        await administer(memory).run_job(name)


async def test_a_process_that_is_asked_begins_at_once(url: str, clock: ManualClock, monkeypatch):
    """Its background would look again after five minutes."""
    monkeypatch.setattr(background, "BEFORE", 0.0)
    async with open_memory(url, embedder=WordEmbedder(), clock=clock) as memory:
        await asyncio.sleep(0.2)
        await administer(memory).run_job("decay_sweep")
        begun = time.monotonic()
        while (await job(memory, "decay_sweep")).last_run is None:
            assert time.monotonic() - begun < 10
            await asyncio.sleep(0.02)
