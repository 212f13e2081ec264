"""The real jobs under kills: nothing half done, nothing twice, and the next run finishes it."""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from raw_sql import run_sql
from worker_parts import SOURCE

from tulving import NewEpisode, NewFact, open_memory
from tulving.testing import ManualClock

FACTS = 3000


@pytest.fixture
async def aged(url):
    """A store of long ago: everything in it is due."""
    clock = ManualClock(datetime.now(UTC) - timedelta(days=900))
    async with open_memory(url, embedder="hashing", clock=clock, background=False) as memory:
        for start in range(0, FACTS, 500):
            batch = range(start, start + 500)
            await memory.store_facts(
                [NewFact(subject="user", predicate=f"p{n}", content=f"c{n}", permanence="ephemeral") for n in batch]
            )
            await memory.store_episodes([NewEpisode(content=f"e{n}", butler="b") for n in batch])
    run_sql(url, "UPDATE episodes SET consolidation_status = 'consolidated'")
    return url


def command(url, *arguments):
    environment = {
        **os.environ,
        "PYTHONPATH": SOURCE,
        "TULVING_URL": url,
        "TULVING_EMBEDDER": "hashing",
        "TULVING_SCHEDULE__LEASE": "1",
    }
    return subprocess.Popen([sys.executable, "-m", "tulving", "worker", *arguments], env=environment)


def done_so_far(url):
    done = "SELECT count(*) AS events FROM memory_events WHERE event_type IN ('fact_expired', 'episode_deleted')"
    return run_sql(url, done)[0]["events"]


@pytest.mark.soak
@pytest.mark.parametrize("job", ["decay_sweep", "episode_cleanup"])
async def test_a_job_that_is_killed_again_and_again_is_finished_in_the_end(aged, job):
    draw = random.Random(1)
    kills = 0
    for _ in range(8):
        before = done_so_far(aged)
        child = command(aged, "--once", job)
        while child.poll() is None and done_so_far(aged) == before:
            time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.02))
        kills += child.poll() is None
        child.kill()
        child.wait()
        time.sleep(1.1)
    assert kills
    assert command(aged, "--once", job).wait() == 0
    _check(aged, job)


@pytest.mark.soak
async def test_two_at_once_handle_each_item_once(aged):
    """Under leases only one works; what if both did, because one was away for longer than its lease?"""
    for job in ("decay_sweep", "episode_cleanup"):
        verb = "run_decay_sweep" if job == "decay_sweep" else "run_store_cleanup"
        code = (
            "import asyncio, sys\nfrom tulving import open_memory\nasync def main():\n"
            "    async with open_memory(sys.argv[1], embedder='hashing', background=False) as memory:\n"
            f"        await memory.{verb}()\nasyncio.run(main())"
        )
        children = [
            subprocess.Popen([sys.executable, "-c", code, aged], env={**os.environ, "PYTHONPATH": SOURCE})
            for _ in range(2)
        ]
        assert [child.wait() for child in children] == [0, 0]
        _check(aged, job)


def _check(url, job):
    events = Counter(
        (row["event_type"], row["entity_id"]) for row in run_sql(url, "SELECT event_type, entity_id FROM memory_events")
    )
    assert max(events.values()) == 1, "nothing was done twice"
    done = Counter(kind for kind, _ in events)
    if job == "decay_sweep":
        states = {row["validity"] for row in run_sql(url, "SELECT validity FROM facts")}
        assert states == {"expired"}
        assert done["fact_expired"] == FACTS
    else:
        assert run_sql(url, "SELECT id FROM episodes") == []
        assert done["episode_deleted"] == FACTS
