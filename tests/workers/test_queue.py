"""procrastinate under our workers: its order after a retry and after a kill, its tables, its rights."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from urllib.parse import urlsplit

import asyncpg
import psycopg
import pytest
from raw_sql import in_thread, run_sql

from tulving import StoreUnavailable, open_memory
from tulving.bootstrap import open_scheduler
from tulving.config import MemoryModuleConfig
from tulving.storage.postgres import queue as postgres_queue
from tulving.testing import WordEmbedder
from tulving.workers.queue import QueueScheduler, connection

SCHEMA = "tulving_queue"
NEVER = "0 0 29 2 *"


@pytest.fixture
def url(postgres, postgres_template):
    url = in_thread(postgres.create_database(template=postgres_template))
    yield url
    in_thread(postgres.drop_database(url))


@pytest.fixture(autouse=True)
async def store(url):
    async with open_memory(url, embedder=WordEmbedder(), background=False):
        pass


@pytest.fixture
async def raw(url):
    raw = await asyncpg.connect(url)
    yield raw
    await raw.close()


async def put(raw, lock, key):
    await raw.execute(
        "INSERT INTO procrastinate_jobs (queue_name, task_name, lock, args) VALUES ('tulving',"
        " 'tulving:consolidation:shard', $1, jsonb_build_object('key', $2::text, 'due_at', $3::text))",
        lock,
        key,
        datetime.now(UTC).isoformat(),
    )


async def test_the_order_of_a_key_outlives_a_retry_and_a_killed_worker(workers, url, raw):
    """Each item has a key of its own, so that nothing but the lock of the queue keeps them in order."""
    await postgres_queue.prepare(raw)
    items = {lock: [f"{lock}#{number}" for number in range(1, 6)] for lock in ("a:x", "b:x", "b:y")}
    await raw.execute(f"SET search_path = {SCHEMA}, public")
    for keys in zip(*items.values(), strict=True):
        for lock, key in zip(items, keys, strict=True):
            await put(raw, lock, key)
    told = {
        "crons": {"consolidation": NEVER},
        "keys": [],
        "failing": ["a:x#2", "b:x#4"],
        "work": 0.1,
        "lease": 1.0,
    }
    processes = {process.pid: process for process in workers.start_together(2, **told)}
    (killed,) = workers.wait(lambda: workers.said("begin", key="a:x#4"))
    workers.kill(processes[killed["pid"]])
    workers.wait(lambda: len(workers.said("end")) >= 15)
    for lock, keys in items.items():
        done = [each["key"] for each in workers.said("end") if each["key"] in keys]
        assert done == keys, f"{lock}: each once, in order"
        begun = [each["key"] for each in workers.said("begin") if each["key"] in keys]
        assert begun == sorted(begun), f"{lock}: no later one was begun before an earlier one was done"
        for this, following in pairwise([each for each in workers.said() if each.get("key") in keys]):
            over = this["what"] != "begin" or this["pid"] == killed["pid"]
            assert over or following["what"] != "begin", f"{lock}: two at once"
    assert len(workers.said("begin", key="a:x#2")) == 2, "it failed, and was tried again"
    assert len(workers.said("begin", key="a:x#4")) == 2, "it was killed, and done by the other"
    alive = next(process for pid, process in processes.items() if pid != killed["pid"])
    workers.wait(lambda: not run_sql(url, f"SELECT id FROM {SCHEMA}.procrastinate_jobs"))
    assert workers.stop(alive) == [0]
    assert [row["name"] for row in run_sql(url, "SELECT name FROM jobs")] == ["consolidation"]


async def test_what_others_began_and_left_is_taken_up(workers, url):
    """The queue has fired the tick already, so that only the jobs table tells that it is still to be done."""
    (worker,) = workers.start_together(1, crons={"decay_sweep": "0 3 * * *"}, lease=2.0)
    workers.wait(lambda: run_sql(url, "SELECT name FROM jobs"))
    for number in (1, 2):
        run_sql(url, "UPDATE jobs SET due_at = ?", datetime.now(UTC) - timedelta(hours=26))
        workers.wait(lambda: len(workers.said("end", job="decay_sweep")) == number)  # noqa: B023
        workers.wait(lambda: run_sql(url, "SELECT name FROM jobs WHERE holder IS NULL"))
    assert workers.stop(worker) == [0]


async def test_an_error_on_the_way_out_does_not_keep_a_worker(url, monkeypatch):
    """Told to stop, procrastinate closes its connections first, and that may fail."""
    begun = asyncio.Event()

    async def serve(self):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise psycopg.OperationalError("the connection is lost") from None

    monkeypatch.setattr(QueueScheduler, "_serve", serve)
    async with open_scheduler(MemoryModuleConfig(url=url), embedder=WordEmbedder()) as scheduler:
        running = asyncio.create_task(scheduler.run())
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 5)


async def test_the_tables_of_the_queue_have_a_schema_of_their_own(url, raw):
    before = await raw.fetch("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1")
    assert await postgres_queue.prepare(raw) == SCHEMA
    assert await postgres_queue.prepare(raw) == SCHEMA
    after = await raw.fetch("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1")
    assert after == before
    assert await raw.fetchval(f"SELECT count(*) FROM {SCHEMA}.procrastinate_jobs") == 0
    assert await raw.fetchval("SELECT current_schema()") == "public"


@pytest.mark.parametrize("first", ["02.06.00_01_add_cancel_states.sql", "03.02.00_01_pre_batch_defer_jobs.sql"])
async def test_an_older_queue_is_migrated(url, raw, monkeypatch, first):
    """The first one adds a value to an enum, which a later script uses."""
    files = postgres_queue._migrations()
    old = files[: files.index(first)]
    monkeypatch.setattr(postgres_queue, "_migrations", lambda: old)
    await raw.execute(f"CREATE SCHEMA {SCHEMA}; COMMENT ON SCHEMA {SCHEMA} IS 'procrastinate '")
    await postgres_queue.prepare(raw)
    has = f"SELECT to_regproc('{SCHEMA}.procrastinate_retry_job_v2')"
    assert await raw.fetchval(has) is None
    monkeypatch.undo()
    await postgres_queue.prepare(raw)
    assert await raw.fetchval(has) is not None
    assert await postgres_queue._missing(raw, SCHEMA) == []


async def test_a_schema_of_somebody_else_is_left_alone(url, raw):
    await raw.execute(f"CREATE SCHEMA {SCHEMA}")
    with pytest.raises(StoreUnavailable, match="not a queue"):
        await postgres_queue.prepare(raw)


def test_a_url_in_the_words_of_libpq():
    made = connection("postgresql://u:p%40@/db?host=/tmp/x&port=5433&search_path=a b&options=-c jit=off", SCHEMA)
    assert urlsplit(made["conninfo"]).query == "host=%2Ftmp%2Fx&port=5433"
    assert made["kwargs"]["options"] == '-c jit=off -c search_path="tulving_queue" -c timezone=UTC'
