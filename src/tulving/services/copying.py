"""A memory copied from one store to another: batch by batch, so that it can be continued, and compared at the end."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal

from tulving import storage
from tulving.domain.events import Audit
from tulving.domain.scope import Caller
from tulving.errors import EmbedderMismatch, IntegrityError, InvalidInput, StoreUnavailable
from tulving.ports import Ids, Store
from tulving.services.service import MAINTENANCE, NamedProgress, log
from tulving.storage.comparing import NOTHING
from tulving.storage.moving import MOVED
from tulving.storage.rows import Row

MOST_NAMED = 20

Problem = Literal["missing", "different", "deleted", "order", "extra"]


@dataclass(slots=True)
class CopiedTable:
    """Rows of the source; of those, put into the target now, there before, and found to be the same in both."""

    source: int = 0
    copied: int = 0
    present: int = 0
    verified: int = 0


@dataclass(slots=True)
class Difference:
    """How many rows of a table differ in one way, and which the first of them are (tenant and key).

    missing: not in the target; different: not the same there; deleted: still there, though deleted in the source;
    order: a tenant's events are in another one; extra: only in the target, which is not the fault of the copy.
    """

    table: str
    problem: Problem
    rows: int = 0
    named: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class Copied:
    """What a copy, or the comparison alone, came to. The digest is of all that the source holds."""

    tables: dict[str, CopiedTable] = field(default_factory=lambda: {table: CopiedTable() for table in MOVED})
    differences: list[Difference] = field(default_factory=list)
    digest: str = ""

    @property
    def ok(self) -> bool:
        """Whether all that the source holds is in the target, the same."""
        return all(difference.problem == "extra" for difference in self.differences)

    def note(self, table: str, problem: Problem, tenant_id: str, key: str) -> None:
        """One more row that differs."""
        found = next((each for each in self.differences if (each.table, each.problem) == (table, problem)), None)
        if found is None:
            found = Difference(table, problem)
            self.differences.append(found)
        found.rows += 1
        if len(found.named) < MOST_NAMED:
            found.named.append((tenant_id, key))


@dataclass(slots=True)
class Copying:
    """Two stores, and the part of the source that is meant: one tenant's, or all (None). For one use."""

    source: Store
    target: Store
    tenant_id: str | None
    progress: NamedProgress
    result: Copied = field(default_factory=Copied)

    async def copy(self, now: datetime, new_id: Ids) -> Copied:
        """Put what the source holds into the target, then compare the two.

        Each batch is a transaction of its own: a copy that was interrupted is continued by doing it again. What is
        in the target already is never changed. Access tokens are not copied.
        """
        totals, made = await self._begin()
        version = None
        if made is not None:
            adopt = storage.embeddings.adopt_version
            version = await self.target.write(self.tenant_id, adopt, SimpleNamespace(**made), now)
        audit = Audit(Caller(actor=MAINTENANCE), now, new_id, run_id=new_id())
        arrival = storage.moving.Arrival("copy", version, audit)
        for table, counts in self.result.tables.items():
            async for batch in self._batches(table):
                if any(row.get("embedding_version") not in (None, made and made["number"]) for row in batch):
                    raise EmbedderMismatch("the source was re-embedded while it was copied; copy to a new store")
                added = await self._put(arrival, table, batch)
                counts.copied += added
                counts.present += len(batch) - added
                done = counts.copied + counts.present
                self.progress(done, max(done, totals[table]), table)
            if MOVED[table].reference:
                async for batch in self._batches(table, forward=True):
                    await self.target.write(self.tenant_id, storage.moving.refer, table, batch)
        await self._rebuild_indexes()
        return await self._compare()

    async def compare(self) -> Copied:
        """Whether what the source holds is in the target. Nothing is written."""
        await self._begin()
        return await self._compare()

    async def _begin(self) -> tuple[dict[str, int], Row | None]:
        """How many rows there are to copy, and the embedder that made their vectors."""
        totals = await self.source.read(self.tenant_id, storage.moving.count, self.tenant_id)
        if self.tenant_id is not None and not any(totals.values()):
            raise InvalidInput(
                "tenant", f"the source holds nothing of {self.tenant_id!r:.80}", "a tenant of the source"
            )
        made, active = await self._both(self.tenant_id, storage.embeddings.active_version)
        storage.comparing.check_embedders(made, active)
        return totals, made

    async def _batches(self, table: str, forward: bool = False) -> AsyncIterator[list[Row]]:
        """Rows of the source, as many as a transaction takes, each time those after the last ones."""
        last: Row | None = None
        read = partial(self.source.read, self.tenant_id, storage.moving.next_batch, table, self.tenant_id)
        while batch := await read(last, forward):
            yield batch
            last = batch[-1]

    async def _put(self, *batch: Any) -> int:
        put = partial(self.target.write, self.tenant_id, storage.moving.put_copied, *batch)
        try:
            return await put()
        except IntegrityError:
            try:
                return await put(one_by_one=True)  # so that the error names the row
            except IntegrityError as error:
                hint = "copy again if the source was changed during the copy, else copy to a new store"
                raise type(error)(f"{error}; what was copied before stays: {hint}") from error

    async def _rebuild_indexes(self) -> None:
        """Those that knew nothing of so many rows. Without it the copy is slower to search, but complete."""
        try:
            await self.target.reindex(
                only_outgrown=True, progress=lambda table, done, total: self.progress(done, total, f"index of {table}")
            )
        except StoreUnavailable as error:
            log.warning("the search indexes were not rebuilt; run `tulving reindex`: %s", error)

    # -- comparing ---------------------------------------------------------------------------------------------

    async def _compare(self) -> Copied:
        """By the digests of each tenant's rows; row by row where those differ."""
        digests = {}
        for done, table in enumerate(MOVED, 1):
            digests[table] = await self._both(self.tenant_id, storage.comparing.digests, table, self.tenant_id)
            self.progress(done, len(MOVED), "verifying")
        tenants = sorted({tenant for ours, _ in digests.values() for tenant in ours})
        total = hashlib.sha256()
        for table, (ours, theirs) in digests.items():
            for tenant in tenants:
                rows, digest = ours.get(tenant, NOTHING)
                same = (rows, digest) == theirs.get(tenant, NOTHING)
                self.result.tables[table].source += rows
                self.result.tables[table].verified += rows if same else await self._differ(table, tenant)
                total.update(f"{table} {tenant!r} {rows} {digest}\n".encode())
        self.result.digest = total.hexdigest()
        return self.result

    async def _differ(self, table: str, tenant_id: str) -> int:
        """Note each row that is not the same in both; how many are. The hashes come page by page: what is behind the
        end of a full page is left to the next one."""
        same, alike, end = 0, True, None
        while True:
            pages = await self._both(tenant_id, storage.comparing.next_hashes, table, tenant_id, end)
            end = min((max(page) for page in pages if len(page) == storage.moving.BATCH), default=None)
            ours, theirs = ({key: page[key] for key in page if end is None or key <= end} for page in pages)
            only_theirs = list(theirs.keys() - ours.keys())
            gone = await self.source.read(tenant_id, storage.comparing.deleted, table, tenant_id, only_theirs)
            same += sum(ours[key] == theirs.get(key) for key in ours)
            alike = alike and ours == theirs
            for key in sorted(key for key in ours | theirs if ours.get(key) != theirs.get(key)):
                extra: Problem = "deleted" if key in gone else "extra"
                problem = "missing" if key not in theirs else "different" if key in ours else extra
                self.result.note(table, problem, tenant_id, " ".join(map(str, key)))
            if end is None:
                break
        if alike and MOVED[table].sequence:
            self.result.note(table, "order", tenant_id, "")
        return same

    async def _both(self, tenant_id: str | None, read: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
        ours, theirs = (store.read(tenant_id, read, *args) for store in (self.source, self.target))
        return await asyncio.gather(ours, theirs)
