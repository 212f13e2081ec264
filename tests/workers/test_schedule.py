"""The scheduler with a clock that is set by hand, on both engines."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import chain

import pytest
from raw_sql import run_sql

from tulving import InvalidInput, StoreBusy, StoreUnavailable, open_memory
from tulving.domain.schedule import Entry
from tulving.settings import MemoryModuleConfig, ScheduleConfig
from tulving.storage import jobs as table
from tulving.testing import ManualClock, WordEmbedder
from tulving.workers.jobs import JOBS, Job
from tulving.workers.schedule import Schedule
from tulving.workers.scheduler import AT_ONCE, LONGEST_SLEEP, Scheduler

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
THREE = datetime(2026, 1, 2, 3, tzinfo=UTC)


class Load:
    """A deed that takes a moment, and counts how many of it run at a time."""

    running, most = 0, 0

    async def __call__(self):
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.02)
        self.running -= 1


class Diary:
    """A job that records when it ran, and then does what the test asks for."""

    def __init__(self, name="decay_sweep", keys=()):
        self.runs, self.deed, self.keys = [], None, keys
        self.job = Job(name, self.run, self.list_keys if keys else None)

    async def run(self, memory, as_of, key="", dry_run=False):
        if dry_run:
            return {"would": "run"}
        self.runs.append((key, as_of) if key else as_of)
        if self.deed is not None:
            await self.deed()
        return {"runs": len(self.runs)}

    async def list_keys(self, memory, as_of):
        return self.keys


@pytest.fixture
def clock():
    return ManualClock(START)


@pytest.fixture
async def memory(url, clock):
    async with open_memory(url, embedder=WordEmbedder(), clock=clock, background=False) as memory:
        yield memory


@pytest.fixture
def new(memory, clock):
    """A scheduler as another process would have it."""
    numbers = iter(range(1, 100))

    def make(*diaries, clock=clock, **settings):
        schedule = Schedule(memory._env.store, clock, f"worker{next(numbers)}", ScheduleConfig(**settings))
        return Scheduler(schedule, memory, {diary.job.name: diary.job for diary in diaries})

    return make


@asynccontextmanager
async def broken_off(scheduler, diary):
    """A run that is killed in the middle: until the block ends, its lease is neither renewed nor released."""
    begun = asyncio.Event()

    async def hang():
        begun.set()
        await asyncio.sleep(3600)

    diary.deed = hang
    task = asyncio.create_task(scheduler.look())
    await begun.wait()
    diary.deed = None
    yield task
    task.cancel()
    await asyncio.wait({task})


async def entry(scheduler, name="decay_sweep"):
    return (await scheduler.schedule.entries())[name]


async def test_a_job_runs_once_at_each_tick(new, clock):
    diary = Diary()
    scheduler = new(diary)
    assert await scheduler.look() == []
    assert (await entry(scheduler)).due_at == THREE
    clock.now = THREE - timedelta(microseconds=1)
    assert await scheduler.look() == []
    clock.now = THREE
    (run,) = await scheduler.look()
    assert run.result == {"runs": 1}
    assert (await entry(scheduler)).due_at == THREE + timedelta(days=1)
    assert await scheduler.look() == []
    clock.advance(days=1, minutes=7)
    assert len(await scheduler.look()) == 1
    assert diary.runs == [THREE, THREE + timedelta(days=1, minutes=7)], "as of now, not as of the tick"
    row = await entry(scheduler)
    assert (row.holder, row.last_error, row.result) == (None, None, {"runs": 2})
    assert row.last_started_at == row.last_finished_at == clock.now


@pytest.mark.scenario("001-121")
async def test_when_the_cron_fires_all_that_decays_is_evaluated(memory, clock, url):
    """Each has its own time to fade and to expire; one was inserted without any time for a review."""
    ages = {"fresh": 10, "fading": 250, "expired": 400, "permanent": 9999}
    ids = {}
    for name, days in ages.items():
        clock.now = THREE - timedelta(days=days)
        permanence = "permanent" if name == "permanent" else "standard"
        ids[name] = (await memory.store_fact("user", name, "tea", permanence=permanence)).id
        ids[f"{name} rule"] = (await memory.store_rule(name, permanence=permanence)).id
    run_sql(url, "UPDATE facts SET next_review_at = NULL")
    run_sql(url, "UPDATE rules SET next_review_at = NULL")

    async def states():
        facts = {name: (await memory.get("fact", ids[name])).state for name in ages}
        rules = {name: await memory.get("rule", ids[f"{name} rule"]) for name in ages}
        return facts, {name: "gone" if rule.forgotten else rule.status for name, rule in rules.items()}

    clock.now = START
    schedule = Schedule(memory._env.store, clock, "worker", ScheduleConfig())
    assert schedule.cron("decay_sweep") == "0 3 * * *", "daily"
    scheduler = Scheduler(schedule, memory, {"decay_sweep": JOBS["decay_sweep"]})
    assert await scheduler.look() == []
    clock.now = THREE - timedelta(microseconds=1)
    before = await states()
    assert await scheduler.look() == []
    assert await states() == before == (dict.fromkeys(ages, "active"), dict.fromkeys(ages))
    clock.now = THREE
    (run,) = await scheduler.look()
    assert (run.result["facts_checked"], run.result["rules_checked"]) == (3, 3), "all but the permanent ones"
    assert await states() == (
        {"fresh": "active", "fading": "fading", "expired": "expired", "permanent": "active"},
        {"fresh": None, "fading": "fading", "expired": "gone", "permanent": None},
    )
    clock.advance(days=1)
    (run,) = await scheduler.look()
    assert (run.result["facts_checked"], run.result["rules_checked"]) == (0, 0), "they have their times now"
    clock.advance(days=375)
    await scheduler.look()
    assert (await states())[0] == {**dict.fromkeys(ages, "expired"), "permanent": "active"}


async def test_missed_ticks_are_made_up_for_by_one_run(new, clock):
    diary = Diary()
    await new(diary).look()
    clock.advance(days=30)
    scheduler = new(diary)
    assert len(await scheduler.look()) == 1
    assert await scheduler.look() == []
    assert (await entry(scheduler)).due_at == datetime(2026, 2, 1, 3, tzinfo=UTC)


async def test_of_two_workers_one_does_it(new, clock):
    diary = Diary()
    workers = [new(diary) for _ in range(5)]
    await asyncio.gather(*(worker.look() for worker in workers))
    for _ in range(4):
        clock.advance(days=1)
        await asyncio.gather(*(worker.look() for worker in workers))
    assert len(diary.runs) == 4


async def test_a_lease_keeps_others_away_and_is_renewed(new, clock):
    diary = Diary()
    scheduler, other = new(diary, lease=1.0), new(diary, lease=1.0)
    await scheduler.look()
    clock.now = THREE

    async def work():
        for _ in range(3):
            clock.advance(seconds=0.9)
            until = (await entry(scheduler)).lease_until
            while (await entry(scheduler)).lease_until == until:
                await asyncio.sleep(0.02)
            assert await other.look() == []

    diary.deed = work
    (run,) = await scheduler.look()
    assert run.error is None
    assert len(diary.runs) == 1


async def test_a_killed_run_is_taken_over_when_its_lease_is_over(new, clock):
    diary = Diary()
    dead, heir = new(diary), new(diary)
    await dead.look()
    clock.now = THREE
    async with broken_off(dead, diary) as task:
        clock.advance(seconds=119)
        assert await heir.look() == []
        assert 0 < await heir.pause(60) <= 1
        clock.advance(seconds=1)
        assert len(await heir.look()) == 1
        assert len(diary.runs) == 2
        task.cancel()
        await asyncio.wait({task})
    row = await entry(heir)
    assert (row.holder, row.due_at) == (None, THREE + timedelta(days=1)), "the dead one did not undo what the heir did"


async def test_a_suspended_worker_gives_up_a_job_that_was_taken_over(new, clock):
    diary = Diary()
    sleeper, heir = new(diary, lease=1.0), new(diary, lease=1.0)
    await sleeper.look()
    clock.now = THREE
    async with broken_off(sleeper, diary) as task:
        clock.advance(seconds=2)
        assert len(await heir.look()) == 1
        with pytest.raises(StoreBusy, match="taken over"):
            await asyncio.wait_for(task, 5)


async def test_a_stopped_worker_releases_its_lease(new, clock):
    diary = Diary()
    scheduler, other = new(diary), new(diary)
    await scheduler.look()
    clock.now = THREE
    async with broken_off(scheduler, diary):
        pass
    assert (await entry(scheduler)).holder is None
    assert len(await other.look()) == 1, "still due, and at once"


async def test_a_worker_stopped_during_a_claim_does_not_keep_the_lease(new, clock, memory):
    """The claim is committed, but its answer has not arrived when the cancellation does."""
    scheduler, committed, arrived = new(Diary()), asyncio.Event(), asyncio.Event()
    await scheduler.look()
    clock.now = THREE
    write = scheduler.schedule._store._write

    async def slow(tenant_id, transaction, *args):
        result = await write(tenant_id, transaction, *args)
        if transaction is table.claim:
            committed.set()
            await arrived.wait()
        return result

    scheduler.schedule._store._write = slow
    looking = asyncio.create_task(scheduler.look())
    await committed.wait()
    assert (await entry(scheduler)).holder is not None
    looking.cancel()
    await asyncio.sleep(0)
    arrived.set()
    with pytest.raises(asyncio.CancelledError):
        await looking
    assert (await entry(scheduler)).holder is None


async def test_a_failure_is_recorded_and_tried_again_at_growing_intervals(new, clock):
    diary = Diary()
    scheduler = new(diary)
    await scheduler.look()
    clock.now = THREE

    async def fail():
        raise ValueError("no luck")

    diary.deed = fail
    (run,) = await scheduler.look()
    assert isinstance(run.error, ValueError)
    row = await entry(scheduler)
    assert (row.last_error, row.holder) == ("ValueError: no luck", None)
    intervals = []
    for _ in range(30):
        before = clock.now
        clock.now = (await entry(scheduler)).due_at
        intervals.append((clock.now - before).total_seconds() / 60)
        await scheduler.look()
    assert intervals[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert sum(intervals[:29]) == 24 * 60, "and the next tick is a tick like any other"
    diary.deed = None
    clock.now = (await entry(scheduler)).due_at
    await scheduler.look()
    assert (await entry(scheduler)).last_error is None


@pytest.mark.parametrize("hours", [1, 20, 24 * 400])
async def test_a_clock_that_goes_back_causes_no_storm(new, clock, hours):
    diary = Diary()
    scheduler = new(diary)
    await scheduler.look()
    clock.now = THREE
    await scheduler.look()
    clock.advance(hours=-hours)
    back = clock.now
    for _ in range(48):
        await scheduler.look()
        clock.advance(hours=1)
    assert len(diary.runs) - 1 <= 2, "at most once for each tick that comes again"
    assert clock.now - max(diary.runs[1:]) <= timedelta(hours=24), "nor does it fall asleep"
    assert back < diary.runs[-1]


async def test_a_little_back_is_not_a_tick_again(new, clock):
    diary = Diary()
    scheduler = new(diary)
    await scheduler.look()
    clock.now = THREE
    await scheduler.look()
    clock.advance(minutes=-5)
    for _ in range(10):
        await scheduler.look()
        clock.advance(minutes=1)
    assert len(diary.runs) == 1


async def test_a_lease_from_a_wrong_clock_does_not_block_for_ever(new, clock):
    diary = Diary()
    future = ManualClock(THREE + timedelta(days=3650))
    strayed, scheduler = new(diary, clock=future), new(diary)
    await scheduler.look()
    async with broken_off(strayed, diary):
        clock.now = THREE
        assert len(await scheduler.look()) == 1


async def test_a_changed_expression_is_followed_at_once(new, clock):
    diary = Diary()
    await new(diary).look()
    often = new(diary, decay_sweep="*/5 * * * *")
    await often.look()
    assert (await entry(often)).due_at == START + timedelta(minutes=5)
    off = new(diary, decay_sweep=None)
    clock.advance(hours=1)
    assert await off.look() == []
    assert len(await often.look()) == 1


async def test_a_job_on_demand(new, clock):
    diary = Diary()
    scheduler = new(diary, decay_sweep=None)
    run, pieces = await scheduler.once("decay_sweep")
    assert (run.result, pieces) == ({"runs": 1}, [])
    assert (await entry(scheduler)).due_at is None
    scheduler = new(diary)
    await scheduler.once("decay_sweep")
    assert (await entry(scheduler)).due_at == THREE
    assert await scheduler.rehearse("decay_sweep") == {"would": "run"}
    with pytest.raises(InvalidInput, match="decay_sweep"):
        await scheduler.once("sleep")
    with pytest.raises(InvalidInput, match="decay_sweep"):
        await scheduler.rehearse("sleep")


async def test_on_demand_does_not_wait(new, clock):
    diary = Diary()
    first, second = new(diary), new(diary)
    await first.look()
    clock.now = THREE
    async with broken_off(first, diary):
        run, _ = await second.once("decay_sweep")
    assert not run.taken
    assert run.held_until == THREE + timedelta(seconds=120)


KEYS = ["a:x", "b:x", "b:y"]


async def test_a_divided_job_does_each_key_once(new, clock, sql):
    diary = Diary("consolidation", KEYS)
    workers = [new(diary) for _ in range(3)]
    await asyncio.gather(*(worker.look() for worker in workers))
    clock.advance(hours=6)
    runs = chain.from_iterable(await asyncio.gather(*(worker.look() for worker in workers)))
    assert sorted(key for key, _ in diary.runs) == KEYS
    assert sorted(run.name for run in runs) == ["consolidation", *(f"consolidation/{key}" for key in KEYS)]
    assert sql("SELECT name FROM jobs") == [{"name": "consolidation"}], "what is done leaves no trace"


async def test_a_key_that_fails_is_tried_again_and_holds_up_no_other(new, clock):
    diary = Diary("consolidation", KEYS)
    scheduler = new(diary)
    await scheduler.look()
    clock.advance(hours=6)

    async def fail_on_b():
        if diary.runs[-1][0] == "b:x":
            raise ValueError("b")

    diary.deed = fail_on_b
    await scheduler.look()
    assert sorted(key for key, _ in diary.runs) == KEYS
    diary.deed = None
    clock.advance(minutes=1)
    await scheduler.look()
    assert sorted(key for key, _ in diary.runs[:3]) == KEYS
    assert [key for key, _ in diary.runs[3:]] == ["b:x"]
    assert list(await scheduler.schedule.entries()) == ["consolidation"]


async def test_runs_of_one_key_never_overlap_and_keep_their_order(new, clock):
    diary = Diary("consolidation", ["a:x"])
    diary.deed = load = Load()
    workers = [new(diary) for _ in range(3)]
    await asyncio.gather(*(worker.look() for worker in workers))
    for _ in range(5):
        clock.advance(hours=6)
        await asyncio.gather(*(worker.look() for worker in workers))
    assert load.most == 1
    assert [as_of for _, as_of in diary.runs] == [START + timedelta(hours=6 * n) for n in range(1, 6)]


async def test_a_key_requested_while_it_is_done_is_done_again(new, clock):
    diary, by_other = Diary("consolidation", ["a:x"]), []
    scheduler, other = (new(diary, consolidation="* * * * *") for _ in range(2))
    await scheduler.look()
    clock.advance(minutes=1)

    async def request_again():
        diary.deed = None
        clock.advance(minutes=1)
        by_other.extend(run.name for run in await other.look())

    diary.deed = request_again
    await scheduler.look()
    assert by_other == ["consolidation"], "the key is taken"
    assert [run.name for run in await other.look()] == ["consolidation/a:x"]
    assert [as_of for _, as_of in diary.runs] == [START + timedelta(minutes=1), START + timedelta(minutes=2)]
    assert list(await scheduler.schedule.entries()) == ["consolidation"]


@pytest.mark.parametrize(("seconds", "moved"), [(9, True), (11, False)])
async def test_a_key_requested_again_after_its_lease_keeps_its_place(memory, clock, sql, seconds, moved):
    """While it is being done, the request is for another run. A piece whose worker was killed is still to be done."""
    store, before = memory._env.store, clock.now
    await store.write(None, table.request_pieces, "one", ["a:x"], before)
    await store.write(None, table.claim, Entry("one/a:x", before), ["one"], "me", clock, timedelta(seconds=10))
    clock.advance(seconds=seconds)
    await store.write(None, table.request_pieces, "one", ["a:x"], clock.now)
    assert sql("SELECT due_at FROM jobs") == [{"due_at": clock.now if moved else before}]


async def test_a_piece_that_fails_keeps_its_place_before_later_ones_of_its_key(new, clock, memory):
    """Two jobs have the key; the second becomes due while the first waits to be tried again."""
    first, second = Diary("consolidation", ["a:x", "b:x"]), Diary("decay_sweep", ["a:x"])
    scheduler = new(first, second)
    store = memory._env.store
    await store.write(None, table.request_pieces, "consolidation", ["a:x", "b:x"], clock.now)

    async def fail_on_a():
        if first.runs[-1][0] == "a:x":
            raise ValueError("a")

    first.deed = fail_on_a
    await scheduler.look()
    for seconds in (0, 59):
        clock.advance(seconds=seconds)
        await store.write(None, table.request_pieces, "decay_sweep", ["a:x"], clock.now)
        assert await scheduler.look() == [], "the later one waits too"
    assert 0 < await scheduler.pause(60) <= 1
    first.deed = None
    clock.advance(seconds=1)
    assert [run.name for run in await scheduler.look()] == ["consolidation/a:x"]
    assert [run.name for run in await scheduler.look()] == ["decay_sweep/a:x"]
    assert [key for key, _ in first.runs].count("b:x") == 1


async def test_pieces_of_different_keys_are_done_several_at_a_time(new, clock, memory):
    diary = Diary("consolidation", [f"t:{number}" for number in range(3 * AT_ONCE)])
    diary.deed = load = Load()
    scheduler = new(diary)
    await scheduler.once("consolidation")
    assert len(diary.runs) == 3 * AT_ONCE
    assert load.most == AT_ONCE


async def test_a_store_that_fails_stops_the_other_pieces_too(new, clock, memory, monkeypatch):
    """They are due as before, and their leases are released."""
    diary = Diary("consolidation", KEYS)
    scheduler = new(diary)
    begun = asyncio.Event()

    async def writing(transaction, *args):
        if transaction is table.finish_piece:
            await begun.wait()
            raise StoreUnavailable("gone")
        return await write(transaction, *args)

    async def hang():
        if diary.runs[-1][0] != "a:x":
            begun.set()
            await asyncio.sleep(3600)

    diary.deed = hang
    await memory._env.store.write(None, table.request_pieces, "consolidation", KEYS, clock.now)
    write = scheduler.schedule._write
    monkeypatch.setattr(scheduler.schedule, "_write", writing)
    with pytest.raises(StoreUnavailable, match="gone"):
        await asyncio.wait_for(scheduler.look(), 5)
    held = [name for name, entry in (await scheduler.schedule.entries()).items() if entry.holder]
    assert held == ["consolidation/a:x"], "only the one whose outcome could not be recorded"


@pytest.mark.parametrize("reachable", [True, False])
async def test_a_worker_stops_even_if_the_store_is_gone(new, clock, memory, monkeypatch, reachable):
    diary = Diary("consolidation", KEYS)
    scheduler = new(diary)
    begun = asyncio.Event()

    async def hang():
        begun.set()
        await asyncio.sleep(3600)

    async def gone(*args):
        raise StoreUnavailable("gone")

    diary.deed = hang
    await memory._env.store.write(None, table.request_pieces, "consolidation", KEYS, clock.now)
    running = asyncio.create_task(scheduler.run())
    await begun.wait()
    if not reachable:
        monkeypatch.setattr(scheduler.schedule, "_write", gone)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 5)


async def test_an_idle_worker_looks_every_few_seconds(new):
    assert LONGEST_SLEEP <= 5
    assert await new(Diary(decay := "decay_sweep"), **{decay: "0 0 29 2 *"}).pause(LONGEST_SLEEP) == LONGEST_SLEEP


async def test_two_jobs_do_not_share_a_key(memory, clock):
    store, jobs = memory._env.store, ("one", "two")
    for job, keys in {"one": ["a:x"], "two": ["a:x", "b:x"]}.items():
        await store.write(None, table.request_pieces, job, keys, clock.now)

    async def claimed(name, holder):
        seen = Entry(name, clock.now)
        return (await store.write(None, table.claim, seen, jobs, holder, clock, timedelta(seconds=10)))[0]

    assert await claimed("one/a:x", "me")
    assert not await claimed("two/a:x", "you")
    assert not await claimed("two/a:x", "me"), "nor may the same process do both at once"
    assert await claimed("two/b:x", "you")


async def test_a_claim_is_of_what_was_seen(memory, clock):
    """Another worker has done it since, and it was requested again: now others of its key may come first."""
    store, lease = memory._env.store, timedelta(seconds=10)
    await store.write(None, table.request_pieces, "one", ["a:x"], clock.now)
    seen = Entry("one/a:x", clock.now)
    clock.advance(seconds=1)
    await store.write(None, table.claim, seen, ["one"], "you", clock, lease)
    await store.write(None, table.finish_piece, "one/a:x", "you", clock.now)
    assert not (await store.write(None, table.claim, seen, ["one"], "me", clock, lease))[0]
    await store.write(None, table.request_pieces, "one", ["a:x"], clock.now)
    assert not (await store.write(None, table.claim, seen, ["one"], "me", clock, lease))[0]


class Spy:
    """A connection that records the rows that were read, and that has to wait for its lock."""

    def __init__(self, conn, clock):
        self._conn, self._clock, self.read = conn, clock, []

    def __getattr__(self, name):
        return getattr(self._conn, name)

    def lock(self, *names):
        self._clock.advance(seconds=9)
        self._conn.lock(*names)

    def fetch_all(self, *given):
        self.read += (found := self._conn.fetch_all(*given))
        return found


async def test_a_claim_reads_the_rows_of_its_key_only_and_its_lease_begins_after_any_wait(memory, clock, sql):
    store, lease = memory._env.store, timedelta(seconds=10)
    for job in ("one", "two"):
        await store.write(None, table.request_pieces, job, [f"t:{number}" for number in range(500)], clock.now)

    def claim(conn, seen):
        spy = Spy(conn, clock)
        table.claim(spy, seen, ["one", "two"], "me", clock, lease)
        return sorted(row["name"] for row in spy.read)

    assert await store.write(None, claim, Entry("one/t:77", clock.now)) == ["one/t:77", "two/t:77"]
    assert sql("SELECT lease_until FROM jobs WHERE holder = 'me'") == [{"lease_until": clock.now + lease}]


def test_default_settings_are_those_specified():
    assert MemoryModuleConfig().schedule.crons() == {
        "consolidation": "0 */6 * * *",
        "decay_sweep": "0 3 * * *",
        "timeline_rotation": "30 3 * * *",
        "episode_cleanup": "0 4 * * *",
        "index_maintenance": "30 * * * *",
    }
