"""Verbs on the whole store: for the command line, the worker, and administrators over a network."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from urllib.parse import quote, unquote

from tulving import storage
from tulving.domain.model import Item, Kind
from tulving.domain.records import Record
from tulving.domain.scope import Caller
from tulving.errors import EmbedderUnavailable, StoreBusy
from tulving.ports import Checkable, Finding
from tulving.services.bridge import COUNTED, Bridge
from tulving.services.eviction import Eviction
from tulving.services.jobs import Jobs
from tulving.services.learning import Consolidated, Learning
from tulving.services.moving import Moving
from tulving.services.operations import operation
from tulving.services.service import MAINTENANCE, Progress
from tulving.services.sessions import Abandoning
from tulving.services.tenants import Tenants
from tulving.services.tokens import Tokens
from tulving.services.upkeep import EMBEDDED_AT_A_TIME

MOST_ROUNDS = 5
"""How often a conversion catches up with concurrent writers before it leaves the last rows for later."""
REQUESTS_KEPT = timedelta(days=7)
REQUESTS_AT_A_TIME = 500


@dataclass(frozen=True, slots=True, repr=False)
class Verification(Record):
    """The findings of `verify`; `ok` if none has problems."""

    findings: list[Finding]
    pending: int

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not any(finding.problems for finding in self.findings)


class Administration(Moving, Abandoning, Tenants, Tokens, Jobs, Eviction):
    """The verbs of upkeep and moving for all tenants, and those that only make sense for the whole store. Opened by
    `tulving.open_administration`."""

    @property
    def _tenant_id(self) -> str | None:
        return None

    def _actor(self, tenant_id: str) -> Caller:
        return Caller(tenant_id, MAINTENANCE, self.caller.request_id)

    async def reembed(self, progress: Progress | None = None, *, force: bool = False) -> int:
        """Give every memory a vector of the configured embedder; returns how many were converted.

        New vectors are computed beside the old ones, which stay in use; at the end all are switched at once. An
        interrupted run is resumed. If the store has this embedder already, only missing vectors are added, unless
        forced.
        """
        embedding = self._env.embedding
        if (problem := embedding.embedder.unready()) is not None:
            raise EmbedderUnavailable(problem)
        if embedding.version is not None and not force:
            return await self.embed_pending(progress)
        version = await self._write(storage.embeddings.begin_reembedding, embedding.embedder, self._env.clock())
        audit = self._audit_of()(self.caller.tenant_id)
        for attempt in count(1):
            await self._convert(version, progress)
            if await self._write(storage.embeddings.switch, version, audit, attempt >= MOST_ROUNDS):
                break
        embedding.version = version
        await self.embed_pending()
        return (await self._read(storage.embeddings.count_unconverted))[1]

    async def _convert(self, version: int, progress: Progress | None) -> None:
        missing, total = await self._read(storage.embeddings.count_unconverted)
        last: tuple[Kind, Item] | None = None
        while batch := await self._read(storage.embeddings.unconverted, EMBEDDED_AT_A_TIME, last):
            converted = await self._indexed(batch, version)
            if not converted:
                raise EmbedderUnavailable("the embedder stopped working; run `tulving reembed` again to continue")
            await self._write(storage.embeddings.add_converted, version, converted)
            last = batch[-1]
            missing = max(0, missing - len(batch))
            if progress:
                progress(total - missing, total)

    async def reindex(
        self,
        method: str | None = None,
        *,
        only_outgrown: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> list[str]:
        """Rebuild the search indexes; returns the names of the tables that got one.

        On PostgreSQL `method` is ivfflat or hnsw, by default the current one; `only_outgrown` skips indexes that still
        suit their table. Searching and storing continue while it runs.
        """
        return await self._env.store.reindex(method, only_outgrown=only_outgrown, progress=progress)

    async def forget_requests(self, as_of: datetime | None = None, dry_run: bool = False) -> int:
        """Delete the answers of idempotency keys after a week; returns how many."""
        before = (as_of or self._env.clock()) - REQUESTS_KEPT
        if dry_run:
            return await self._read(storage.requests.count_before, before)
        done = 0
        while forgotten := await self._write(storage.requests.delete_before, before, REQUESTS_AT_A_TIME):
            done += forgotten
        return done

    async def run_bridges(self) -> dict[str, int]:
        """Run the bridge of each tenant (`Bridge.run_bridge`); the counts of all together."""
        total = Counter[str](dict.fromkeys(COUNTED, 0))
        for tenant_id in await self._read(storage.bridge.tenants):
            total.update(await Bridge(self._env, self._actor(tenant_id)).run_bridge())
        return dict(total)

    async def consolidation_shards(self, as_of: datetime | None = None) -> list[str]:
        """Which tenants and agents have episodes to learn from, as `tenant:agent`; names are quoted as in a URL."""
        found = await self._read(storage.learning.shards, as_of or self._env.clock())
        return [f"{quote(tenant, safe='')}:{quote(butler, safe='')}" for tenant, butler in found]

    async def consolidate_shard(self, shard: str) -> Consolidated:
        """Learn from the episodes of one shard, with the configured model. Raises `StoreBusy` while another process
        holds its lease, so that the worker tries again."""
        tenant, butler = map(unquote, shard.split(":"))
        result = await Learning(self._env, self._actor(tenant)).run_consolidation(butler=butler)
        if result["errors"] and not result["runs"]:
            raise StoreBusy(result["errors"][0])
        return result

    @property
    def learns(self) -> bool:
        """Whether there is a model to learn with."""
        return self._env.model is not None

    @operation("memory_verify", http="GET /v1/verify", effect="admin", standard=False)
    async def verify(self, progress: Callable[[int, int, str], None] | None = None) -> Verification:
        """Check the database, its keyword and vector indexes against the rows, and the files of the embedder."""
        findings = await self._read(storage.verification.verify, progress)
        embedder = self._env.embedder
        if isinstance(embedder, Checkable):
            findings.append(Finding("embedder", tuple(await asyncio.to_thread(embedder.problems))))
        return Verification(findings, await self.count_pending())
