"""Care of the store: vectors that are missing, a change of embedder, verification."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count

from tulving import storage
from tulving.domain.events import Audit, Event
from tulving.domain.model import Item, Kind
from tulving.domain.scope import Caller
from tulving.errors import EmbedderUnavailable
from tulving.ports import Checkable
from tulving.services.service import Service
from tulving.storage.connection import Connection, Finding
from tulving.storage.rows import IndexEntry

BATCH = 64
PATIENCE = 5
"""So often a conversion runs after those who write meanwhile, before it leaves the last ones to catch up."""
REQUESTS_KEPT = timedelta(days=7)
REQUESTS_AT_A_TIME = 500

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` looked at; `ok` when nothing is wrong."""

    findings: list[Finding]
    pending: int

    @property
    def ok(self) -> bool:
        return not any(finding.problems for finding in self.findings)


class Maintenance(Service):
    """Verbs for the person who runs the memory. They concern the whole store, not one tenant."""

    async def count_pending(self) -> int:
        """How many memories wait for their vector."""
        return await self._read_all(storage.maintenance.count_pending)

    async def embed_pending(self, progress: Progress | None = None) -> int:
        """Give memories that were stored while the embedder was not ready their vectors; how many got one.

        Rows that plain SQL inserted are completed first, whether the embedder is ready or not.
        """
        await self._complete_rows()
        done, total = 0, await self.count_pending()
        while not self._env.embedder.unready() and self._env.embedding_version is not None:
            waiting: list[tuple[Kind, Item]] = await self._read_all(storage.maintenance.pending, BATCH)
            if not waiting:
                break
            entries = await self._index([item for _, item in waiting])
            if any(entry.embedding is None for entry in entries):
                break
            pending = list(zip(waiting, entries, strict=True))
            events: list[Event] = await self._write_all(_set_embeddings, pending, self._system_audit())
            self._publish(events)
            done += len(events)
            if progress:
                progress(done, max(done, total))
        return done

    async def _complete_rows(self) -> None:
        while await self._read_all(storage.completion.waiting):
            audit_of = self._audit_of(self._env.clock(), self._env.ids())
            events: list[Event] = await self._write_all(storage.completion.complete, BATCH, audit_of)
            if not events:
                break
            self._publish(events)

    async def reembed(self, progress: Progress | None = None, *, force: bool = False) -> int:
        """001-120: give every memory a vector of the configured embedder; how many were converted.

        New vectors are made beside the old ones, which stay in use; at the end all change over at once. A run that
        was interrupted is continued. A store that has this embedder already only gets what is missing, unless forced.
        """
        if (problem := self._env.embedder.unready()) is not None:
            raise EmbedderUnavailable(problem)
        if self._env.embedding_version is not None and not force:
            return await self.embed_pending(progress)
        now = self._env.clock()
        version = await self._write_all(storage.maintenance.begin_reembedding, self._env.embedder, now)
        events = None
        for attempt in count(1):
            await self._convert(version, progress)
            late = attempt >= PATIENCE
            events = await self._write_all(storage.maintenance.switch, version, self._system_audit(), late)
            if events is not None:
                break
        self._env.embedding_version = version
        self._publish(events or [])
        await self.embed_pending()
        return (await self._read_all(storage.maintenance.count_unconverted))[1]

    async def _convert(self, version: int, progress: Progress | None) -> None:
        missing, total = await self._read_all(storage.maintenance.count_unconverted)
        last: tuple[Kind, Item] | None = None
        while batch := await self._read_all(storage.maintenance.unconverted, BATCH, last):
            entries = await self._index([item for _, item in batch], version)
            if any(entry.embedding is None for entry in entries):
                raise EmbedderUnavailable("the embedder stopped working; run `tulving reembed` again to continue")
            converted: list[tuple[Kind, Item, IndexEntry]] = [
                (kind, item, entry) for (kind, item), entry in zip(batch, entries, strict=True)
            ]
            await self._write_all(storage.maintenance.add_converted, version, converted)
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
        """Build the search indexes anew; the names of the tables that got one.

        On PostgreSQL `method` is ivfflat or hnsw, the one there is unless given; `only_outgrown` leaves out those
        that still know their table well enough. Searching and storing go on meanwhile.
        """
        return await self._env.store.reindex(method, only_outgrown=only_outgrown, progress=progress)

    async def forget_requests(self, as_of: datetime | None = None, dry_run: bool = False) -> int:
        """Forget the answers to requests that nobody will repeat any more, after a week; how many there were."""
        before = (as_of or self._env.clock()) - REQUESTS_KEPT
        if dry_run:
            return await self._read_all(storage.requests.count_before, before)
        done = 0
        while forgotten := await self._write_all(storage.requests.delete_before, before, REQUESTS_AT_A_TIME):
            done += forgotten
        return done

    async def verify(self) -> Verification:
        """Check the database, its keyword index and its vector index against the rows, and what the embedder uses."""
        findings = await self._read_all(storage.maintenance.verify)
        embedder = self._env.embedder
        if isinstance(embedder, Checkable):
            findings.append(Finding("embedder", tuple(await asyncio.to_thread(embedder.problems))))
        return Verification(findings, await self.count_pending())

    def _system_audit(self) -> Audit:
        return Audit(Caller(self.caller.tenant_id, "maintenance"), self._env.clock(), self._env.ids)


def _set_embeddings(conn: Connection, pending: list[tuple[tuple[Kind, Item], IndexEntry]], audit: Audit) -> list[Event]:
    """The events of those that got a vector; each belongs to the memory's own tenant."""
    entries = storage.maintenance.renumbered(conn, (entry for _, entry in pending))
    events = []
    for ((kind, item), _), entry in zip(pending, entries, strict=True):
        mine = Audit(Caller(item.tenant_id, audit.caller.actor), audit.now, audit.new_id)
        event = mine.event(f"{kind}_embedded", kind, item.id)
        if storage.maintenance.set_embedding(conn, kind, item, entry, event):
            events.append(event)
    return events
