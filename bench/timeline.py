"""`python -m bench.timeline [SIZE]`: the archive, on both engines: how long a write waits while 10,000 episodes are
archived, how soon a store with an archive is ready after it is opened, and how long a window of 7 days takes."""

import asyncio
import sys
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any

from bench.sweeps import BATCH, Constant
from tests.postgres_server import open_server
from tulving import Memory, NewEpisode, open_memory
from tulving.settings import MemoryModuleConfig, TimelineConfig
from tulving.testing import ManualClock

ROTATED = 10_000
ROUNDS = 20
PER_DAY = 200
TEXT = "They talked about the harbour, the price of rope and what the weather would do to both of them in spring. " * 3


async def fill(memory: Memory, size: int, clock: ManualClock) -> None:
    for at in range(0, size, BATCH):
        offers = [
            NewEpisode(
                content=f"{number} {TEXT}",
                butler="b",
                type="talk",
                occurred_at=clock.now - timedelta(days=number / PER_DAY),
            )
            for number in range(at, at + BATCH)
        ]
        await memory.store_episodes(offers)
    learned = "UPDATE episodes SET consolidated = TRUE WHERE tenant_id = 'default'"
    await memory._write(lambda conn: conn.execute(learned))


async def waits(memory: Memory, until: asyncio.Future[Any]) -> list[float]:
    times = []
    while not until.done() or len(times) < 100:
        begun = perf_counter()
        await memory.store_episode("something new", butler="b")
        times.append(perf_counter() - begun)
    return times


def keep(memory: Memory, capacity: int) -> None:
    env = memory._env
    env.config = replace(env.config, timeline=replace(env.config.timeline, capacity=capacity))


async def measure(engine: str, url: str, size: int) -> None:
    clock, config = ManualClock(), MemoryModuleConfig(timeline=TimelineConfig(capacity=10**9))
    open_ = {"embedder": Constant(), "clock": clock, "config": config, "background": False}
    async with open_memory(url, **open_) as memory:
        await fill(memory, size, clock)
        idle = asyncio.get_running_loop().create_future()
        idle.set_result(None)
        alone = await waits(memory, idle)
        keep(memory, size + len(alone) - ROTATED)
        rotation = asyncio.ensure_future(memory.rotate_timeline())
        begun = perf_counter()
        beside = await waits(memory, rotation)
        took = perf_counter() - begun
        assert rotation.result()["archived"] >= ROTATED, rotation.result()
        for what, times in (("alone", alone), ("beside a rotation", beside)):
            slowest = quantiles(times, n=100)[98]
            print(f"{engine}: a write {what}: median {median(times) * 1000:.1f} ms, p99 {slowest * 1000:.1f} ms")
        print(f"{engine}: {ROTATED:,} episodes archived in {took:.1f} s")
        keep(memory, 0)
        await memory.rotate_timeline()
    begun = perf_counter()
    async with open_memory(url, **open_) as memory:
        assert await memory.check_segments() == 0
        ready = perf_counter() - begun
        archived = (await memory.stats()).episodes.archived
        print(f"{engine}: ready {ready:.2f} s after it is opened, with {archived:,} archived episodes")
        times = []
        for number in range(ROUNDS):
            to = clock.now - timedelta(days=7 * (number % max(1, size // PER_DAY // 7)))
            begun = perf_counter()
            window = await memory.query_window(since=to - timedelta(days=7), until=to)
            times.append(perf_counter() - begun)
            assert len(window.events) == 10 and all(event.content for event in window.events)
        print(f"{engine}: a window of 7 days: median {median(times) * 1000:.1f} ms, first {times[0] * 1000:.1f} ms")


async def run(size: int) -> None:
    with tempfile.TemporaryDirectory() as folder, open_server() as server:
        await measure("sqlite", str(Path(folder) / "memory.db"), size)
        await measure("postgres", await server.create_database(), size)


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
