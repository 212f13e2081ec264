"""Health checks that try the store, the embedder and the jobs."""

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from tulving import storage
from tulving.domain.model import Kind
from tulving.domain.records import Record
from tulving.domain.vectors import unit
from tulving.errors import TulvingError
from tulving.ports import Checkable, Embedder, Finding
from tulving.services.eviction import size_finding
from tulving.services.operations import operation
from tulving.services.timeline import Timeline
from tulving.storage.connection import Connection
from tulving.storage.schema import HEAD

PROBE = "Is the memory well?"

State = Literal["ready", "warming", "degraded"]


@dataclass(frozen=True, slots=True, repr=False)
class JobState(Record):
    """The state of a job after its last run, and when it is due again. The error itself is left out: it may concern
    other tenants."""

    job: str
    state: str
    last_run: datetime | None
    next_run: datetime | None


@dataclass(frozen=True, slots=True, repr=False)
class Readiness(Record):
    """Whether a memory works as it should (000-009, 000-017), and why not: it is `degraded` by problems, and `warming`
    while an index is being built; it answers then too, but slower."""

    state: State
    reasons: list[str]


def readiness_of(findings: Iterable[Finding]) -> Readiness:
    findings = list(findings)
    problems = [f"{each.check}: {problem}" for each in findings for problem in each.problems]
    warming = [f"{each.check}: {each.warming}" for each in findings if each.warming]
    return Readiness("degraded" if problems else "warming" if warming else "ready", problems + warming)


@dataclass(frozen=True, slots=True, repr=False)
class Health(Record):
    """All findings; `ok` if none has problems, which is any state but `degraded`. The `reasons` of the state are for
    people. The schema was checked when the store was opened.

    `pending` counts the caller's memories without a vector. `jobs` is None if the database user may not see them.
    `tool_text` tells how models' texts were read for tool calls (000-004).
    """

    ok: bool
    schema: str
    pending: int | None
    findings: list[Finding]
    jobs: list[JobState] | None
    tool_text: dict[str, Any] | None = None
    state: State = "ready"
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Glance:
    """What can be told of a memory in milliseconds: how many memories of each kind there are, how many wait for their
    vectors, the jobs (None if the database user may not see them), and the engine."""

    memories: dict[Kind, int]
    pending: int
    jobs: list[JobState] | None
    engine: dict[str, Any]


class HealthCheck(Timeline):
    """The verbs for monitoring."""

    async def glance(self) -> Glance:
        """Count the memories and look at the jobs, without trying anything."""
        counts, pending = await self._read(storage.health.glance, self.caller.tenant_id)
        return Glance(counts, pending, await self.jobs(), await self._read(lambda conn: conn.about()))

    async def jobs(self) -> list[JobState] | None:
        """The state of the scheduled jobs; None if the database user may not see them."""
        entries = await self._env.store.read(None, storage.health.job_entries)
        if entries is None:
            return None
        now, lease = self._env.clock(), timedelta(seconds=self._env.config.schedule.lease)
        return [JobState(each.name, each.state(now, lease), each.last_started_at, each.due_at) for each in entries]

    @operation("memory_health", http="GET /v1/health", effect="read", command="health", standard=False)
    async def health(self) -> Health:
        """Check whether the memory works: reading, writing, the embedder, and its scheduled jobs."""
        env, tenant_id = self._env, self.caller.tenant_id
        archive, _ = await _tried("timeline", self.check_segments())
        reading, read = await _tried("read", self._read(_looked, tenant_id, env.config.bridge.enabled))
        pending, tool_text, timeline = read or (None, None, [])
        writing, _ = await _tried("write", self._write(storage.health.write, tenant_id, env.ids(), env.clock()))
        embedding = await asyncio.to_thread(embedder_problems, env.embedder)
        if env.embedding.version is None:
            embedding += ("the store holds vectors of another embedder; run `tulving reembed` to convert it",)
        reranking = []
        if env.reranker is not None:
            _, warning = await env.reranker.rerank(PROBE, [PROBE])
            reranking = [Finding("reranker", (warning,) if warning else ())]
        learning = []
        if env.model is not None:  # it is not asked: that may take minutes and costs tokens
            problem = env.model.unready()
            learning = [Finding("language model", (problem,) if problem else (), env.model.name)]
        listing, jobs = await _tried("jobs", self.jobs())
        failed = tuple(
            f"{job.job} failed; `tulving worker --list` says why" for job in jobs or () if job.state == "failed"
        )
        engine = await _tried("engine", env.store.health())
        size = await _tried("size", size_finding(env.store, env.config.max_size_bytes))
        findings = [
            reading,
            writing,
            *(engine[1] or [engine[0]]),
            *([size[0]] if size[1] is None else size[1]),
            *([archive] if archive.problems else timeline),
            Finding("embedder", embedding),
            *reranking,
            *learning,
            Finding("jobs", listing.problems + failed),
        ]
        found = readiness_of(findings)
        return Health(found.state != "degraded", HEAD, pending, findings, jobs, tool_text, found.state, found.reasons)

    async def readiness(self) -> Readiness:
        """The state of the store and the embedder, without trying them: for a host that asks often."""
        return readiness_of(await self.readiness_findings())

    async def readiness_findings(self) -> list[Finding]:
        """What the readiness follows from."""
        embedder = Finding("embedder", (self.warning,) if self.warning else ())
        return [*await self._env.store.health(), embedder]

    async def ready(self, timeout: float | None = None) -> bool:
        """Wait until the indexes of the store are warm; False if that takes more than so many
        seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._env.store.ready()
                await self.check_segments()
        except TimeoutError:
            return False
        return True


def embedder_problems(embedder: Embedder) -> tuple[str, ...]:
    """Why an embedder can't embed, found by trying: one that says it is ready may still fail."""
    if (problem := embedder.unready()) is not None:
        return (problem,)
    try:
        unit(embedder.embed(PROBE), embedder.dimension)
    except Exception as error:  # whatever it raises is the answer
        return (f"{embedder.model} says that it is ready, but fails: {str(error) or type(error).__name__}",)
    return tuple(embedder.problems()) if isinstance(embedder, Checkable) else ()


def _looked(conn: Connection, tenant_id: str, bridging: bool) -> tuple[int, dict[str, Any], list[Finding]]:
    return (
        storage.embeddings.count_pending(conn, tenant_id),
        storage.tool_texts.summary(conn, tenant_id),
        [
            storage.timelines.finding(conn, tenant_id),
            *([storage.bridge.finding(conn, tenant_id)] if bridging else []),
        ],
    )


async def _tried(check: str, attempt: Awaitable[Any]) -> tuple[Finding, Any]:
    try:
        return Finding(check), await attempt
    except TulvingError as error:
        return Finding(check, (str(error),)), None
