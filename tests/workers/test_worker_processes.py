"""What the scheduler promises, shown on each engine with several processes, some of which are killed."""

import random
from datetime import UTC, datetime, timedelta
from itertools import chain, pairwise

import pytest
from raw_sql import run_sql

from tulving import open_memory
from tulving.testing import WordEmbedder

EVERY_SECOND = "* * * * * *"
NEVER = "0 0 29 2 *"
KEYS = ["a:x", "b:x", "b:y"]


@pytest.fixture(autouse=True)
async def store(url):
    async with open_memory(url, embedder=WordEmbedder(), background=False):
        pass


def ticks(said):
    """The seconds in which something was begun."""
    return [datetime.fromisoformat(each["as_of"]).replace(microsecond=0) for each in said]


def turns(workers, key):
    """When each run of a key began and ended; a run that was killed has no end."""
    found = []
    for each in workers.said(key=key):
        if each["what"] == "begin":
            found.append([each["at"], None, each["as_of"]])
        else:
            found[-1][1] = each["at"]
    return found


@pytest.mark.usefixtures("path")
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


@pytest.mark.parametrize("keys", [40, pytest.param(334, marks=pytest.mark.soak)])
async def test_pieces_keep_the_order_of_their_keys_through_failures_and_kills(workers, url, engine, keys):
    """Three jobs have a piece for each key. Some fail the first time; every other worker is killed and replaced."""
    draw = random.Random(keys)
    jobs = ["consolidation", "decay_sweep", "episode_cleanup"]
    start = datetime.now(UTC) - timedelta(hours=1)
    order = {f"t{number}:x": draw.sample(jobs, 3) for number in range(keys)}
    due = {
        f"{job}/{key}": start + timedelta(seconds=number, minutes=place)
        for number, (key, turns_of_key) in enumerate(order.items())
        for place, job in enumerate(turns_of_key)
    }
    values = ", ".join(["(?, ?)"] * len(due))
    run_sql(url, f"INSERT INTO jobs (name, due_at) VALUES {values}", *chain.from_iterable(due.items()))
    orders = {
        "crons": dict.fromkeys(jobs, NEVER),
        "keys": [],
        "failing": draw.sample(sorted(due), 20),
        "work": 0.02,
        "lease": 5.0,
    }
    processes = workers.start_together(2 if engine == "sqlite" else 4, **orders)
    killed = set()
    for number in range(len(processes) // 2):
        victim = processes[number]
        workers.wait(lambda: len(workers.said("end")) > len(due) * (number + 1) / 4)  # noqa: B023
        workers.wait(lambda: _running(workers, victim.pid))  # noqa: B023
        workers.kill(victim)
        killed.add(victim.pid)
        processes[number] = workers.start(**orders)
    workers.wait(lambda: not run_sql(url, "SELECT name FROM jobs WHERE name LIKE '%/%'"), 60 if keys < 200 else 110)
    assert set(workers.stop(*processes)) == {0}
    log = workers.said()
    for key, expected in order.items():
        said = [each for each in log if each.get("key") == key]
        assert {each["job"] for each in said if each["what"] == "end"} == set(jobs), f"{key}: one was left out"
        done = [each["job"] for each in said if each["what"] == "end" and each["pid"] not in killed]
        assert len(done) == len(set(done)), f"{key}: one was done twice"
        begun = [each["job"] for each in said if each["what"] == "begin"]
        assert begun == sorted(begun, key=expected.index), f"{key}: an earlier one was not done yet"
        for this, following in pairwise(said):
            over = this["what"] != "begin" or this["pid"] in killed
            assert over or following["what"] != "begin", f"{key}: two at once"
    assert {f"{each['job']}/{each['key']}" for each in workers.said("fail")} == set(orders["failing"])


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
