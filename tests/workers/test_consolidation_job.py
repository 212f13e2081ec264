"""The job that learns: pieces by tenant and agent, whatever their names, several workers, and one that is killed."""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from administration import administer
from raw_sql import run_sql
from worker_parts import SOURCE

from tulving import Caller, NewEpisode, StoreBusy, open_memory
from tulving.ports import Completion
from tulving.settings import MemoryModuleConfig, ScheduleConfig
from tulving.testing import ManualClock, ScriptedLlm, SequentialIds, WordEmbedder
from tulving.workers.jobs import JOBS
from tulving.workers.schedule import Schedule
from tulving.workers.scheduler import Scheduler

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
NAMES = ["plain", "a:b", "a/b", "50%", "%3A", "ßé 中文", "two  words", "dots..", "#?&=+", "Ünï:/%"]


def noting(prompt):
    """One fact from each episode, which says what the episode says."""
    told = re.findall(r"^id: (\S+)\n<episode_content>\n> (.*)$", prompt.split("\n---\n")[1], re.MULTILINE)
    facts = [{"subject": "s", "predicate": id_, "content": text, "evidence": [id_]} for id_, text in told]
    return json.dumps({"new_facts": facts})


@pytest.fixture
def clock():
    return ManualClock(START)


@pytest.fixture
def opened(url, clock):
    """The store as another process would open it, with a worker."""
    numbers = iter(range(1, 100))

    @asynccontextmanager
    async def open_one(llm=None):
        number = next(numbers)
        ids = SequentialIds(number * 100_000)
        parts = {"embedder": WordEmbedder(), "clock": clock, "ids": ids, "background": False}
        async with open_memory(url, config=MemoryModuleConfig(), llm=llm, **parts) as memory:
            schedule = Schedule(memory._env.store, clock, f"worker{number}", ScheduleConfig())
            yield memory, Scheduler(schedule, administer(memory), JOBS)

    return open_one


async def tell(memory, *pairs):
    """One episode for each tenant and agent, which names them."""
    for tenant, butler in pairs:
        await memory.bind(caller=Caller(tenant)).store_episode(f"{tenant} | {butler}", butler=butler)


async def test_names_of_any_kind_make_pieces_and_each_is_learned_in_its_place(opened, url):
    pairs = [(tenant, butler) for tenant in NAMES for butler in NAMES[:3]] + [("plain", butler) for butler in NAMES[3:]]
    llm = ScriptedLlm(noting, forever=True)
    async with opened(llm) as (memory, scheduler):
        await tell(memory, *pairs)
        shards = await administer(memory).consolidation_shards()
        assert len(shards) == len(set(shards)) == len(pairs)
        assert all(shard.count(":") == 1 and "/" not in shard and " " not in shard for shard in shards)
        assert await scheduler.rehearse("consolidation") == {"shards": shards}
        assert llm.prompts == []
        run, pieces = await scheduler.once("consolidation")
        assert (run.error, run.result) == (None, {"shards": len(pairs)})
        assert [piece.error for piece in pieces] == [None] * len(pairs)
        assert sum(piece.result["facts_created"] for piece in pieces) == len(pairs)
        assert await administer(memory).consolidation_shards() == []
    facts = run_sql(url, "SELECT tenant_id, scope, content FROM facts")
    assert {(row["tenant_id"], row["scope"]) for row in facts} == set(pairs)
    squeezed = [(" ".join(row["content"].split()), row["tenant_id"], row["scope"]) for row in facts]
    assert all(content == " ".join(f"{tenant} | {butler}".split()) for content, tenant, butler in squeezed)
    assert {row["actor"] for row in run_sql(url, "SELECT actor FROM learning_runs")} == {"maintenance"}
    assert {row["status"] for row in run_sql(url, "SELECT status FROM learning_runs")} == {"done"}
    assert run_sql(url, "SELECT name FROM jobs WHERE name LIKE 'consolidation/%'") == []


async def test_only_what_is_due_makes_a_piece(opened, url, clock):
    async with opened() as (memory, _):
        await tell(memory, *((f"t{n}", "b") for n in range(5)))
        change = "UPDATE episodes SET {} WHERE tenant_id = ?"
        run_sql(url, change.format("consolidation_status = 'consolidated'"), "t0")
        run_sql(url, change.format("consolidation_status = 'dead_letter'"), "t1")
        run_sql(url, change.format("forgotten = TRUE"), "t2")
        later = clock.now + timedelta(hours=1)
        run_sql(url, "UPDATE episodes SET next_consolidation_retry_at = ? WHERE tenant_id = ?", later, "t3")
        administration = administer(memory)
        assert await administration.consolidation_shards() == ["t4:b"]
        assert await administration.consolidation_shards(later - timedelta(seconds=1)) == ["t4:b"]
        assert await administration.consolidation_shards(later) == ["t3:b", "t4:b"]


async def test_without_a_model_there_are_no_pieces(opened, url):
    async with opened() as (memory, scheduler):
        await tell(memory, ("t", "b"))
        assert await scheduler.rehearse("consolidation") == {"shards": []}
        run, pieces = await scheduler.once("consolidation")
        assert (run.result, pieces) == ({"shards": 0}, [])
    assert run_sql(url, "SELECT id FROM learning_runs") == []
    assert [row["consolidated"] for row in run_sql(url, "SELECT consolidated FROM episodes")] == [False]


async def test_a_piece_that_somebody_else_is_learning_from_is_tried_again(opened, url, clock):
    async with opened(ScriptedLlm(noting, forever=True)) as (memory, scheduler):
        await tell(memory, ("t", "b"), ("t", "c"))
        await memory.bind(caller=Caller("t")).learn_prompt(butler="b")
        _, pieces = await scheduler.once("consolidation")
        assert sorted(type(piece.error) for piece in pieces if piece.error) == [StoreBusy]
        assert [row["scope"] for row in run_sql(url, "SELECT scope FROM facts")] == ["c"]
        (entry,) = run_sql(url, "SELECT name, due_at, last_error FROM jobs WHERE name LIKE 'consolidation/%'")
        assert entry["name"] == "consolidation/t:b" and "StoreBusy" in entry["last_error"]
        for _ in range(3):
            clock.advance(hours=1)
            await scheduler.look()
        assert {row["scope"] for row in run_sql(url, "SELECT scope FROM facts")} == {"b", "c"}
        assert run_sql(url, "SELECT name FROM jobs WHERE name LIKE 'consolidation/%'") == []


async def test_two_workers_learn_each_episode_once(opened, url):
    async def slowly(prompt, max_tokens):
        await asyncio.sleep(0.01)
        return Completion(noting(prompt))

    llm = ScriptedLlm()
    llm.complete = slowly
    pairs = [(f"t{n}", butler) for n in range(4) for butler in ("x", "y")]
    async with opened(llm) as (memory, one), opened(llm) as (_, other):
        await tell(memory, *pairs)
        administrations = [administer(memory)] * 2
        await asyncio.gather(
            one.once("consolidation"),
            other.once("consolidation"),
            *(each.consolidate_shard(f"{t}:{b}") for each in administrations for t, b in pairs[:2]),
            return_exceptions=True,
        )
        await one.once("consolidation")
    done = run_sql(url, "SELECT entity_id FROM memory_events WHERE event_type = 'episode_consolidated'")
    assert set(Counter(row["entity_id"] for row in done).values()) == {1} and len(done) == len(pairs)
    assert len(run_sql(url, "SELECT id FROM facts")) == len(pairs)


MODEL = """
import pathlib, sys, time
prompt = sys.stdin.read()
folder = pathlib.Path(sys.argv[1])
(folder / "asked").touch()
while not (folder / "go").exists():
    time.sleep(0.01)
print(f'{{"new_facts": [{{"subject": "s", "predicate": "p", "content": "learned {prompt.count(chr(10) + "id: ")}"}}]}}')
"""
WORKER = """
import asyncio, sys
from tulving.bootstrap import open_scheduler
from tulving.settings import LlmConfig, MemoryModuleConfig, ScheduleConfig
from tulving.testing import WordEmbedder

async def main():
    url, *command = sys.argv[1:]
    config = MemoryModuleConfig(url=url, llm=LlmConfig(command=command), schedule=ScheduleConfig(lease=1.0))
    async with open_scheduler(config, embedder=WordEmbedder()) as scheduler:
        run, pieces = await scheduler.once("consolidation")
        if not run.taken or any(piece.error for piece in pieces):
            sys.exit(3)

asyncio.run(main())
"""


async def test_a_worker_that_is_killed_while_it_learns_leaves_nothing_half_done(url, tmp_path):
    async with open_memory(url, embedder=WordEmbedder(), background=False) as memory:
        await memory.store_episodes([NewEpisode(content=f"n{n}", butler="b") for n in range(3)])
    (tmp_path / "model.py").write_text(MODEL)

    def start():
        command = [sys.executable, str(tmp_path / "model.py"), str(tmp_path)]
        environment = {**os.environ, "PYTHONPATH": SOURCE}
        return subprocess.Popen([sys.executable, "-c", WORKER, url, *command], env=environment)

    victim = start()
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "asked").exists():
            assert victim.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        victim.kill()
        victim.wait()
        (tmp_path / "go").touch()
    (run,) = run_sql(url, "SELECT * FROM learning_runs")
    assert (run["status"], run["counts"]) == ("open", {})
    assert run["input_tokens"] > 4096, "what the question may have cost stays counted"
    assert run_sql(url, "SELECT id FROM facts") == []
    time.sleep(1.1)  # the lease of the job, not that of the run
    assert start().wait(60) == 3, "the other may still be learning"
    assert run_sql(url, "SELECT id FROM facts") == []
    run_sql(url, "UPDATE learning_runs SET lease_until = ?", datetime.now(UTC) - timedelta(seconds=1))
    assert start().wait(60) == 0
    runs = {row["id"]: row for row in run_sql(url, "SELECT * FROM learning_runs")}
    assert (runs[run["id"]]["status"], runs[run["id"]]["last_error"]) == ("failed", "abandoned")
    assert Counter(row["status"] for row in runs.values()) == {"failed": 1, "done": 1}
    assert [row["content"] for row in run_sql(url, "SELECT content FROM facts")] == ["learned 3"]
    assert {row["consolidation_attempts"] for row in run_sql(url, "SELECT * FROM episodes")} == {0}
    done = run_sql(url, "SELECT entity_id FROM memory_events WHERE event_type = 'episode_consolidated'")
    assert len(done) == len({row["entity_id"] for row in done}) == 3
