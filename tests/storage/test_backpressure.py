"""000-011: a limited number of writes wait for the store; further callers wait for a place, and nothing is dropped."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from fault_parts import opened
from raw_sql import run_sql

from tulving import Memory
from tulving.domain.throttling import FEWEST_MEASURED, MEASURED
from tulving.errors import StoreBusy
from tulving.ports import Finding
from tulving.settings import MemoryModuleConfig, WritesConfig
from tulving.storage import timelines
from tulving.storage.backpressure import BoundedWrites

TARGET = 2.0


def unheard(tenant_id: str) -> Any:
    return None


class Slow:
    """A store whose writes end when the test says so."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.doing: dict[Any, asyncio.Future[Any]] = {}
        self.path = "here"

    async def write(self, tenant_id: str | None, transaction: Callable[..., Any], *args: Any) -> Any:
        if transaction is not print:
            return None
        [name] = args
        self.begun.append(name)
        self.doing[name] = asyncio.get_running_loop().create_future()
        return await self.doing[name]

    async def health(self) -> list[Finding]:
        return [Finding("disk")]


class Bench:
    """A store behind a limit, and a clock that the test moves."""

    def __init__(self, max_waiting: int, patience: float = 30.0) -> None:
        self.now, self.store = 0.0, Slow()
        limits: dict[str, Any] = {"max_waiting": max_waiting, "patience": patience, "latency_target": TARGET}
        store: Any = self.store
        self.bounded = BoundedWrites(store, lambda: self.now, unheard, **limits)

    async def start(self, *names: Any) -> list[asyncio.Task[Any]]:
        tasks = [asyncio.create_task(self.bounded.write("t", print, name)) for name in names]
        await turns()
        return tasks

    async def end(self, name: Any, after: float = 0.0) -> None:
        self.now += after
        self.store.doing[name].set_result(name)
        await turns()

    async def finding(self) -> Finding:
        return (await self.bounded.health())[-1]


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_first_to_come_is_the_first_to_get_a_place():
    bench = Bench(max_waiting=2)
    tasks = await bench.start(*range(5))
    assert bench.store.begun == [0, 1]
    await bench.end(1)
    tasks += await bench.start("late")
    assert bench.store.begun == [0, 1, 2], "one that comes late does not take a place before the others"
    for name in (0, 2, 3, 4, "late"):
        await bench.end(name)
    assert bench.store.begun == [0, 1, 2, 3, 4, "late"]
    assert [await task for task in tasks] == [0, 1, 2, 3, 4, "late"], "each gets its own answer"
    assert bench.bounded.path == "here", "everything else is the store's own"


@pytest.mark.scenario("000-011")
async def test_one_whose_patience_ends_is_told_so_and_nothing_of_it_is_written():
    bench = Bench(max_waiting=1, patience=0.01)
    [first] = await bench.start("first")
    with pytest.raises(StoreBusy, match="1 writes wait for the store, 0 callers wait for a place"):
        await bench.bounded.write("t", print, "second")
    await bench.end("first")
    assert await first == "first"
    [third] = await bench.start("third")
    await bench.end("third")
    assert await third == "third"
    assert bench.store.begun == ["first", "third"]


async def test_no_place_is_lost_when_callers_give_up():
    bench = Bench(max_waiting=1)
    first, second, third, fourth = await bench.start(*"1234")
    second.cancel()  # while it waits
    await turns()
    bench.store.doing["1"].set_result("1")
    await first
    third.cancel()  # when it was just given the place of the first
    await turns()
    assert bench.store.begun == ["1", "4"]
    fourth.cancel()  # during its write
    [fifth, sixth] = await bench.start("5", "6")
    bench.store.doing["5"].set_exception(StoreBusy("locked"))
    await turns()
    with pytest.raises(StoreBusy, match="locked"):
        await fifth
    await bench.end("6")
    assert await sixth == "6"
    assert all(task.cancelled() for task in (second, third, fourth))


@pytest.mark.scenario("000-011")
async def test_slow_writes_are_throttled_and_told_until_they_are_fast_again(caplog: pytest.LogCaptureFixture):
    bench = Bench(max_waiting=64)
    tasks = await bench.start(*range(80))
    assert len(bench.store.begun) == 64
    assert not (await bench.finding()).problems
    for name in range(FEWEST_MEASURED - 1):
        await bench.end(name, after=4.0 if name == 0 else 0.0)
    assert len(bench.store.begun) == 71, "so few say nothing"
    for name in range(FEWEST_MEASURED - 1, 39):
        await bench.end(name)
    assert len(bench.store.begun) == 71, "as 64 took twice the target, 32 may wait: those that end make room for nobody"
    for name in range(39, 44):
        await bench.end(name)
    assert len(bench.store.begun) == 76
    assert (await bench.finding()).problems == (
        "writes take 4.0 s each, and should take 2 s at most: 32 of 64 may wait for the store, and 4 callers"
        " wait for a place",
    )
    for name in range(44, 80):
        await bench.end(name)
    assert [await task for task in tasks] == list(range(80)), "throttled, and none dropped"
    for name in range(80, 200):
        await bench.start(name)
        await bench.end(name)
    assert (await bench.finding()).problems == ()
    await bench.start(*range(200, 270))
    assert bench.store.begun[-1] == 263, "64 may wait again"
    assert [record.message for record in caplog.records] == [
        "writes take too long; fewer may wait",
        "writes are fast enough again",
    ]


async def test_a_caller_that_gave_up_counts_only_if_it_waited_for_too_long():
    bench = Bench(max_waiting=4)
    for waited, slow in ((0.1, False), (TARGET + 0.1, True)):
        for number in range(FEWEST_MEASURED):
            [task] = await bench.start((waited, number))
            bench.now += waited
            task.cancel()
            await turns()
        assert bool((await bench.finding()).problems) is slow
    bench.now += 100
    assert (await bench.finding()).problems == (), "how it was a while ago says nothing about now"


async def test_callers_of_several_event_loops_wait_in_one_line():
    bench, answered = Bench(max_waiting=1), []
    [first] = await bench.start("first")

    async def elsewhere() -> None:
        answered.append(await bench.bounded.write("t", len))

    thread = threading.Thread(target=asyncio.run, args=(elsewhere(),))
    thread.start()
    while not bench.bounded._queue:
        await asyncio.sleep(0.001)
    await bench.end("first")
    await asyncio.to_thread(thread.join, 10)
    assert (await first, answered) == ("first", [None])


@pytest.mark.scenario("000-021")
async def test_a_tenant_whose_write_is_slow_has_a_warning_until_writes_are_fast_again(url: str):
    now = [0.0]

    async def write(memory: Memory, seconds: float, times: int = 1) -> list[tuple[str, str, str]]:
        """Write so often, each time for so long; all warnings and recoveries since the beginning."""
        store: Any = memory._env.store
        store._clock = lambda: now[0]
        for _ in range(times):
            await store.write("default", lambda conn: now.__setitem__(0, now[0] + seconds))
        while store._telling:
            await asyncio.wait(store._telling)
        told = "SELECT tenant_id, event_type, actor FROM memory_events ORDER BY seq"
        return [tuple(row.values()) for row in run_sql(url, told)]

    slow, fast = (("default", f"timeline_{what}", "maintenance") for what in ("warning", "recovered"))
    async with opened(url, background=False) as memory:
        assert await write(memory, TARGET - 0.1, times=MEASURED) == []
        assert await write(memory, 1000.0) == [], "one large batch says nothing about the others"
        assert await write(memory, TARGET, times=MEASURED) == [slow]
        assert await write(memory, TARGET + 0.1, times=3) == [slow], "once"
        health = await memory.health()
        assert health.state == "degraded"
        assert [reason.split(":")[0] for reason in health.reasons] == ["write latency", "timeline"]
        assert await write(memory, 0.0, times=MEASURED) == [slow, fast]
        assert (await memory.health()).state == "ready"
        for _ in range(MEASURED):
            await memory._env.store.write("default", lambda conn: now.__setitem__(0, now[0] + 3.0))
    assert [row["event_type"] for row in run_sql(url, "SELECT event_type FROM memory_events")].count(slow[1]) == 2
    async with opened(url, background=False) as memory:
        assert await write(memory, 0.0) == [slow, fast, slow, fast], "the process that warned was closed"
        store, audit = memory._env.store, memory._audit(memory._env.clock())
        await store.write("default", timelines.warn, audit, "a segment is damaged", "critical", "restore it")
        assert len(await write(memory, 3.0, times=MEASURED)) == len(await write(memory, 0.0, times=MEASURED)) == 5
        timeline = await store.read("default", timelines.find, "default")
        assert timeline["warning"] == "a segment is damaged", "which fast writes don't repair"


@pytest.mark.parametrize("patience", [30.0, 0.0])
async def test_what_is_acknowledged_is_there_and_nothing_else(url: str, patience: float):
    config = MemoryModuleConfig(writes=WritesConfig(max_waiting=1, patience=patience))
    async with opened(url, config=config, background=False) as memory:

        async def store(number: int) -> str | None:
            try:
                return (await memory.store_episode(f"event {number}", butler="b")).id.hex
            except StoreBusy:
                return None

        stored = await asyncio.gather(*map(store, range(40)))
        health = await memory.health()
    acknowledged = {id_ for id_ in stored if id_}
    assert acknowledged == {row["id"].hex for row in run_sql(url, "SELECT id FROM episodes")}
    assert 1 <= len(acknowledged) < 40 if patience == 0 else len(acknowledged) == 40
    assert (health.state, health.reasons) == ("ready", [])
