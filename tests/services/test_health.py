"""Whether the memory works, found by trying."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tulving import Memory, open_memory
from tulving.domain.scope import Caller
from tulving.errors import WeightsError
from tulving.ports import Finding
from tulving.services.health import Readiness, embedder_problems, readiness_of
from tulving.storage import jobs, timelines
from tulving.storage.schema import HEAD
from tulving.testing import ManualClock, ScriptedLlm, WordEmbedder


class Broken(WordEmbedder):
    """Says that it is ready, and is not."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer, self.error = answer, answer if isinstance(answer, Exception) else None

    def embed(self, text: str | None) -> list[float]:
        return super().embed(text) if self.error else self.answer


def problems(health) -> dict[str, tuple[str, ...]]:
    return {each.check: each.problems for each in health.findings if each.problems}


async def test_a_memory_that_works_is_ok_and_nothing_is_changed_by_looking(memory: Memory, engine: str, sql: Callable):
    await memory.store_fact("Anna", "drinks", "tea")
    events = sql("SELECT count(*) AS found FROM memory_events")
    health = await memory.health()
    assert health.ok, health
    assert (health.state, health.reasons) == ("ready", [])
    assert await memory.readiness() == Readiness("ready", [])
    assert await memory.ready()
    assert (health.schema, health.pending) == (HEAD, 0)
    server, file = ["server", "oldest transaction", "write latency"], ["database file", "write-ahead log"]
    engine_tells = [*file, "vector index", "write latency", "size"] if engine == "sqlite" else server
    assert [each.check for each in health.findings] == ["read", "write", *engine_tells, "timeline", "embedder", "jobs"]
    assert health.jobs == []
    assert sql("SELECT count(*) AS found FROM sessions") == [{"found": 0}]
    assert sql("SELECT count(*) AS found FROM memory_events") == events


async def test_a_language_model_is_reported_but_not_asked(url: str, embedder: WordEmbedder):
    llm = ScriptedLlm()
    async with open_memory(url, embedder=embedder, llm=llm, background=False) as memory:
        found = {each.check: each for each in (await memory.health()).findings}["language model"]
        assert (found.problems, found.note) == ((), "scripted")
        llm.problem = "the key is missing"
        health = await memory.health()
    assert not health.ok
    assert problems(health) == {"language model": ("the key is missing",)}
    assert llm.prompts == []


@pytest.mark.parametrize(
    "answer",
    [WeightsError("byte 5 is wrong"), ZeroDivisionError(), [1.0], [float("nan")] * 64, None, ["x"] * 64],
    ids=repr,
)
async def test_an_embedder_that_says_it_is_ready_but_fails_is_found_out(url: str, answer: object):
    embedder = Broken(answer)
    assert embedder.unready() is None
    async with open_memory(url, embedder=embedder) as memory:
        health = await memory.health()
    assert not health.ok
    [problem] = problems(health)["embedder"]
    assert "ready, but fails: " in problem
    assert problem.rpartition(": ")[2]


async def test_an_embedder_that_is_not_ready_and_what_waits_for_it_are_told(url: str):
    embedder = WordEmbedder()
    embedder.problem = "run `tulving init`"
    async with open_memory(url, embedder=embedder) as memory:
        await memory.store_fact("Anna", "drinks", "tea")
        other = memory.bind(caller=Caller("other"))
        health = await memory.health()
        assert (await other.health()).pending == 0, "how much another tenant has is its own affair"
    assert (health.ok, health.pending) == (False, 1)
    assert problems(health) == {"embedder": ("run `tulving init`",)}


async def test_vectors_of_another_embedder_are_told(url: str, embedder: WordEmbedder):
    async with open_memory(url, embedder=embedder):
        pass
    async with open_memory(url, embedder="hashing", may_reembed=True) as memory:
        [problem] = problems(await memory.health())["embedder"]
    assert "tulving reembed" in problem


async def test_a_store_that_can_not_be_written_is_told(memory: Memory, sql: Callable, engine: str):
    if engine == "sqlite":
        sql("CREATE TRIGGER full BEFORE INSERT ON sessions BEGIN SELECT RAISE(ABORT, 'no room'); END")
    else:
        sql("CREATE FUNCTION refuse() RETURNS trigger AS $$ BEGIN RAISE 'no room'; END $$ LANGUAGE plpgsql")
        sql("CREATE TRIGGER full_ BEFORE INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION refuse()")
    health = await memory.health()
    assert not health.ok
    assert "no room" in problems(health)["write"][0]
    assert health.pending == 0, "it can still be read"


def test_problems_degrade_and_what_warms_is_not_a_problem():
    warming, broken = Finding("vector index", warming="5 of 9"), Finding("disk", ("full", "slow"), note="x")
    assert readiness_of([Finding("read", note="fine")]) == Readiness("ready", [])
    assert readiness_of([Finding("read"), warming]) == Readiness("warming", ["vector index: 5 of 9"])
    assert readiness_of([warming, broken]) == Readiness(
        "degraded", ["disk: full", "disk: slow", "vector index: 5 of 9"]
    )


@pytest.mark.scenario("000-009", "000-017")
async def test_a_host_can_wait_until_nothing_warms(memory: Memory, monkeypatch: pytest.MonkeyPatch):
    warm, store = asyncio.Event(), memory._env.store

    async def health() -> list[Finding]:
        return [Finding("vector index", warming="" if warm.is_set() else "2 of 5 partitions")]

    monkeypatch.setattr(store, "health", health)
    monkeypatch.setattr(store, "ready", warm.wait, raising=False)
    found = await memory.health()
    assert (found.ok, found.state, found.reasons) == (True, "warming", ["vector index: 2 of 5 partitions"])
    assert (await memory.readiness()).state == "warming"
    assert not await memory.ready(timeout=0.01)
    waiting = asyncio.create_task(memory.ready())
    await asyncio.sleep(0)
    assert not waiting.done()
    warm.set()
    assert await waiting
    assert (await memory.health()).state == (await memory.readiness()).state == "ready"


async def test_what_is_wrong_with_a_timeline_is_told_to_its_tenant(memory: Memory):
    store, audit = memory._env.store, memory._audit(memory._env.clock())
    await store.write("default", timelines.warn, audit, "writes are slow", "warning", "wait")
    health = await memory.health()
    assert (health.state, health.reasons) == ("degraded", ["timeline: writes are slow: wait"])
    assert (await memory.bind(caller=Caller("other")).health()).state == "ready"
    await store.write("default", timelines.recover, audit)
    assert (await memory.health()).state == "ready"


async def test_a_damaged_table_is_told(memory: Memory, sql: Callable):
    sql("ALTER TABLE jobs RENAME TO gone")
    health = await memory.health()
    assert (health.ok, health.jobs) == (False, None)
    assert list(problems(health)) == ["jobs"]


async def test_how_jobs_went_is_told_without_what_belongs_to_others(memory: Memory, clock: ManualClock):
    store, now, lease = memory._env.store, clock(), timedelta(minutes=2)
    for name in ("good", "bad", "busy", "split/acme:butler"):
        await store.write(None, jobs.claim, jobs.Entry(name), (), "me", clock, lease, on_demand=True)
    await store.write(None, jobs.finish, "good", "me", now, now + lease, {"tenants": ["acme"]})
    await store.write(None, jobs.fail, "bad", "me", now, now + lease, "acme broke it")
    health = await memory.health()
    assert health.jobs is not None
    assert {each.job: each.state for each in health.jobs} == {"good": "ok", "bad": "failed", "busy": "running"}
    assert {each.last_run for each in health.jobs} == {now}
    assert not health.ok
    assert problems(health) == {"jobs": ("bad failed; `tulving worker --list` says why",)}
    assert "acme" not in repr(health)


def test_real_embedders_are_tried_too(minilm_home: Path, tmp_path: Path):
    from tulving.embedders import get_embedding_engine
    from tulving.providers.minilm import MiniLm

    assert embedder_problems(get_embedding_engine("hashing")) == ()
    assert embedder_problems(MiniLm(minilm_home)) == ()
    [problem] = embedder_problems(MiniLm(tmp_path))
    assert "tulving init" in problem
