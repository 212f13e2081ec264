"""What every scheduler promises, shown on each engine's own with real processes and a cron of seconds."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from raw_sql import run_sql

from tulving import open_memory
from tulving.testing import WordEmbedder

EVERY_SECOND = "* * * * * *"
KEYS = ["a:x", "b:x", "b:y"]


@pytest.fixture(autouse=True)
async def store(url):
    async with open_memory(url, embedder=WordEmbedder(), background=False):
        pass


def ticks(said):
    """The seconds in which something was begun."""
    return [datetime.fromisoformat(each["as_of"]).replace(microsecond=0) for each in said]


def turns(workers, key):
    """When each run of a key began and ended; one that was killed has no end."""
    found = []
    for each in workers.said(key=key):
        if each["what"] == "begin":
            found.append([each["at"], None, each["as_of"]])
        else:
            found[-1][1] = each["at"]
    return found


async def test_two_workers_do_each_tick_once_and_make_up_for_missed_ones_once(workers, url):
    now = datetime.now(UTC)
    run_sql(url, "INSERT INTO jobs (name, due_at) VALUES (?, ?)", "episode_cleanup", now - timedelta(days=40))
    crons = {"decay_sweep": EVERY_SECOND, "episode_cleanup": "0 4 * * *", "index_maintenance": "0 4 * * *"}
    processes = workers.start_together(2, crons=crons, work=0.01)
    workers.wait(lambda: len(workers.said("end", job="decay_sweep")) >= 3)
    assert workers.stop(*processes) == [0, 0]
    done = ticks(workers.said("begin", job="decay_sweep"))
    assert len(done) == len(set(done)), "no tick twice"
    assert done[-1] - done[0] <= timedelta(seconds=len(done) + 1), "and none left out"
    assert len(workers.said("begin", job="episode_cleanup")) == 1
    assert workers.said("begin", job="index_maintenance") == [], "it is new, and its first tick is to come"
    (row,) = run_sql(url, "SELECT holder, due_at, last_error FROM jobs WHERE name = 'episode_cleanup'")
    assert row["holder"] is None
    assert row["last_error"] is None
    assert now < row["due_at"] < now + timedelta(hours=25)


async def test_keys_are_shared_out_and_each_keeps_its_order_when_a_worker_is_killed(workers, url):
    told = {"crons": {"consolidation": EVERY_SECOND}, "keys": KEYS, "work": 0.2, "lease": 1.0}
    victim, heir = workers.start_together(2, **told)
    workers.wait(lambda: all(workers.said("end", key=key) for key in KEYS))
    begun = workers.wait(lambda: _running(workers, victim.pid))
    workers.kill(victim)
    key = begun["key"]
    killed = workers.said("begin", key=key, pid=victim.pid)[-1]
    again = workers.wait(lambda: [each for each in workers.said("end", key=key) if each["at"] > killed["at"]])
    assert again[0]["pid"] == heir.pid
    workers.wait(lambda: len([each for each in workers.said("end") if each["at"] > again[0]["at"]]) >= 3)
    assert workers.stop(heir) == [0]
    for key in KEYS:
        for (_, end, as_of), (begin, _, later) in pairwise(turns(workers, key)):
            assert end is None or end <= begin, f"{key} was done twice at once"
            assert as_of < later, f"the runs of {key} changed places"
    assert run_sql(url, "SELECT name FROM jobs WHERE holder IS NOT NULL") == []


def _running(workers, pid):
    ended = {(each["key"], each["as_of"]) for each in workers.said("end")}
    mine = [each for each in workers.said("begin", pid=pid) if (each["key"], each["as_of"]) not in ended]
    return mine[-1] if mine else None


async def test_a_stopped_worker_finishes_what_it_writes_and_gives_the_rest_back(workers, url):
    told = {"crons": {"decay_sweep": EVERY_SECOND}, "work": 30, "lease": 60.0}
    (first,) = workers.start_together(1, **told)
    begun = workers.wait(lambda: workers.said("begin"))
    assert workers.stop(first) == [0]
    assert [each["what"] for each in workers.said()] == ["ready", "begin", "stopped", "stopped by signal"]
    (job,) = run_sql(url, "SELECT holder, due_at, last_finished_at FROM jobs")
    assert (job["holder"], job["last_finished_at"]) == (None, None)
    assert job["due_at"] <= datetime.now(UTC), "it is still due"
    assert len(run_sql(url, "SELECT 1 AS one FROM episodes")) == 1, "what it had begun to write is written"
    (second,) = workers.start_together(1, **told)
    taken = workers.wait(lambda: workers.said("begin", pid=second.pid))
    assert taken[0]["as_of"] > begun[0]["as_of"]
    workers.kill(second)
