"""`tulving worker`: on schedule, now, for show, and until told to end."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest
from raw_sql import run_sql

EVERY_SECOND = "* * * * * *"


@pytest.fixture
def old(cli, url):
    """A memory in which time has passed: facts that are over, and an episode too."""
    cli("store", "fact", "user", "mood", "cheerful", "--permanence", "ephemeral")
    cli("store", "fact", "user", "name", "Anna", "--permanence", "permanent")
    cli("store", "episode", "it rained")
    past = datetime.now(UTC) - timedelta(days=400)
    for table in ("facts", "episodes"):
        run_sql(url, f"UPDATE {table} SET created_at = ?", past)
    run_sql(url, "UPDATE facts SET last_confirmed_at = ?", past)
    run_sql(url, "UPDATE facts SET next_review_at = ? WHERE next_review_at IS NOT NULL", past + timedelta(days=30))
    run_sql(url, "UPDATE episodes SET expires_at = ?, consolidation_status = 'consolidated'", past + timedelta(days=7))
    return url


def validities(url):
    return {row["content"]: row["validity"] for row in run_sql(url, "SELECT content, validity FROM facts")}


def wait_until(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


@pytest.mark.scenario("001-121", "001-122")
def test_the_worker_sweeps_and_cleans_up_at_each_tick(engine, old):
    number = signal.SIGTERM if engine == "sqlite" else signal.SIGINT
    off = dict.fromkeys(("CONSOLIDATION", "INDEX_MAINTENANCE"), "none")
    jobs = {"DECAY_SWEEP": EVERY_SECOND, "EPISODE_CLEANUP": EVERY_SECOND, **off}
    crons = {f"TULVING_SCHEDULE__{name}": cron for name, cron in jobs.items()}
    worker = subprocess.Popen(
        [sys.executable, "-m", "tulving", "worker"], env=os.environ | crons, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: validities(old) == {"cheerful": "expired", "Anna": "active"})
        wait_until(lambda: run_sql(old, "SELECT id FROM episodes") == [])
        worker.send_signal(number)
        _, log = worker.communicate(timeout=20)
    finally:
        worker.kill()
    assert worker.returncode == 0
    assert "decay_sweep (* * * * * *)" in log
    assert '"facts_expired": 1' in log
    assert f"told to stop ({number.name})" in log
    rows = run_sql(old, "SELECT name, holder, last_error FROM jobs ORDER BY name")
    ran = ("decay_sweep", "episode_cleanup", "timeline_rotation")
    assert rows == [{"name": name, "holder": None, "last_error": None} for name in ran]


def test_a_job_now_and_what_it_would_do(cli, old, engine):
    told = cli("worker", "--once", "decay_sweep", "--dry-run", "--json")
    assert json.loads(told.out)["facts_expired"] == 1
    assert validities(old)["cheerful"] == "active"
    assert run_sql(old, "SELECT name FROM jobs") == [], "a rehearsal leaves no trace"
    ran = cli("worker", "--once", "decay_sweep")
    assert ran.code == 0
    assert "facts expired" in ran.out
    assert validities(old)["cheerful"] == "expired"
    told = cli("worker", "--once", "episode_cleanup", "--dry-run", "--json")
    assert json.loads(told.out)["expired_deleted"] == 1
    assert len(run_sql(old, "SELECT id FROM episodes")) == 1
    assert json.loads(cli("worker", "--once", "episode_cleanup", "--json").out)["expired_deleted"] == 1
    assert run_sql(old, "SELECT id FROM episodes") == []
    assert json.loads(cli("worker", "--once", "index_maintenance", "--json").out) == {
        "embedded": 0,
        "reindexed": ["episodes"] if engine == "sqlite" else [],
        "requests_forgotten": 0,
        "sessions_abandoned": 0,
        "evicted": 0,
        "bridged": 0,
    }


def test_the_list(cli, url):
    before = json.loads(cli("worker", "--list", "--json").out)["jobs"]
    assert [job["job"] for job in before] == [
        "consolidation",
        "decay_sweep",
        "timeline_rotation",
        "episode_cleanup",
        "index_maintenance",
    ]
    assert all(job["last_run"] is None and job["next_run"] for job in before)
    cli("worker", "--once", "decay_sweep")
    run_sql(url, "UPDATE jobs SET last_error = 'ValueError: no luck'")
    shown = cli("worker", "--list").out
    assert "0 3 * * *" in shown
    assert "failed: ValueError: no luck" in shown


def test_a_job_that_another_one_does_is_left_to_it(cli, url):
    cli("worker", "--once", "decay_sweep")
    until = datetime.now(UTC) + timedelta(seconds=90)
    run_sql(url, "UPDATE jobs SET holder = 'elsewhere:1:abc', lease_until = ?", until)
    ran = cli("worker", "--once", "decay_sweep")
    assert ran.code == 1
    assert "being done by another process" in ran.err
    assert "running at elsewhere:1:abc" in cli("worker", "--list").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--once", "sleep"], "decay_sweep, timeline_rotation, episode_cleanup, index_maintenance"),
        (["--dry-run"], "--once JOB"),
        (["--list", "--once", "decay_sweep"], "--list"),
    ],
)
def test_what_is_not_meant_is_refused(cli, path, arguments, said):
    ran = cli("worker", *arguments)
    assert (ran.code, said in ran.err) == (2, True)


@pytest.mark.parametrize(
    "cron", ["every day", "61 * * * *", "* * * *", "0 0 31 2 *", "R R * * *", "H 3 * * *", "0 3 * * * * 2030"]
)
def test_a_bad_cron_is_refused_by_name(cli, path, cron, monkeypatch):
    monkeypatch.setenv("TULVING_SCHEDULE__DECAY_SWEEP", cron)
    ran = cli("worker")
    assert ran.code == 2
    assert "schedule.decay_sweep" in ran.err
    assert "five fields" in ran.err


@pytest.mark.parametrize(("value", "said"), [("maybe", "true, false"), ("none", "can't be none")])
def test_a_bad_switch_is_refused(cli, path, value, said, monkeypatch):
    monkeypatch.setenv("TULVING_SCHEDULE__BACKGROUND", value)
    ran = cli("worker", "--list")
    assert (ran.code, said in ran.err) == (2, True)
