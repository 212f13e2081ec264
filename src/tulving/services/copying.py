"""A memory copied from one store to another: batch by batch, so that it can be continued, and compared at the end."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from tulving import storage
from tulving.domain.events import Audit
from tulving.domain.scope import Caller
from tulving.errors import DamagedStore, EmbedderMismatch, IntegrityError, InvalidInput, StoreUnavailable
from tulving.ports import Ids, Store
from tulving.services.service import MAINTENANCE, log
from tulving.storage.copying import KIND_OF, REFERENCES, SEQUENCES, Digest, Key, Versions
from tulving.storage.rows import Row
from tulving.storage.transfer import TABLES

MOST_NAMED = 20
_NOTHING = Digest(0, "")

Progress = Callable[[int, int, str], None]
"""Told how much is done, of how much, and of what."""
AuditOf = Callable[[str], Audit]
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
    order: a tenant's events are in another one; extra: only in the target, which is no fault of the copy.
    """

    table: str
    problem: Problem
    rows: int = 0
    named: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class Copied:
    """What a copy, or the comparison alone, came to. The digest is of all that the source holds."""

    tables: dict[str, CopiedTable] = field(default_factory=lambda: {table: CopiedTable() for table in TABLES})
    differences: list[Difference] = field(default_factory=list)
    digest: str = ""

    @property
    def ok(self) -> bool:
        """Whether all that the source holds is in the target, the same."""
        return all(difference.problem == "extra" for difference in self.differences)

    def note(self, table: str, problem: Problem, tenant_id: str, key: str) -> None:
        """One more row that differs."""
        for difference in self.differences:
            if (difference.table, difference.problem) == (table, problem):
                break
        else:
            difference = Difference(table, problem)
            self.differences.append(difference)
        difference.rows += 1
        if len(difference.named) < MOST_NAMED:
            difference.named.append((tenant_id, key))


def silent(done: int, total: int, what: str) -> None:
    """Nobody watches."""


@dataclass(slots=True)
class Copying:
    """Two stores, and whose part of the source is meant: one tenant's, or all (None). For one use."""

    source: Store
    target: Store
    tenant_id: str | None = None
    progress: Progress = silent
    result: Copied = field(default_factory=Copied)

    async def copy(self, now: datetime, new_id: Ids) -> Copied:
        """Put what the source holds into the target, then compare the two.

        Each batch is a transaction of its own: a copy that was interrupted is continued by doing it again. What is
        in the target already is never changed. Access tokens are not copied.
        """
        totals = await self._totals()
        made = await self.source.read(self.tenant_id, storage.maintenance.active_version)
        versions = await self.target.write(self.tenant_id, storage.copying.adopt, made, now)
        run_id = new_id()

        def audit_of(tenant_id: str) -> Audit:
            return Audit(Caller(tenant_id, MAINTENANCE), now, new_id, run_id)

        for table, total in totals.items():
            await self._copy_table(table, total, versions, audit_of)
        await self._tend()
        return await self._compare()

    async def compare(self) -> Copied:
        """Whether what the source holds is in the target. Nothing is written."""
        await self._totals()
        storage.copying.check_embedder(*await self._both(self.tenant_id, storage.maintenance.active_version))
        return await self._compare()

    async def _totals(self) -> dict[str, int]:
        totals: dict[str, int] = await self.source.read(self.tenant_id, storage.copying.count, self.tenant_id)
        if self.tenant_id is not None and not any(totals.values()):
            raise InvalidInput(
                "tenant", f"the source holds nothing of {self.tenant_id!r:.80}", "a tenant of the source"
            )
        return totals

    # -- copying -----------------------------------------------------------------------------------------------

    async def _copy_table(self, table: str, total: int, versions: Versions, audit_of: AuditOf) -> None:
        counts = self.result.tables[table]
        async for batch in self._batches(storage.copying.next_rows, table):
            added = await self._put(table, batch, versions, audit_of)
            counts.copied += added
            counts.present += len(batch) - added
            done = counts.copied + counts.present
            self.progress(done, max(done, total), table)
        if table in REFERENCES:
            async for batch in self._batches(storage.copying.late_references, table):
                await self.target.write(self.tenant_id, storage.copying.refer, table, batch)

    async def _batches(self, read: Callable[..., list[Row]], table: str) -> AsyncIterator[list[Row]]:
        """Rows of the source, as many as a transaction takes, each time those after the last ones."""
        last: Row | None = None
        while batch := await self.source.read(self.tenant_id, read, table, self.tenant_id, last):
            yield batch
            last = batch[-1]

    async def _put(self, table: str, batch: list[Row], versions: Versions, audit_of: AuditOf) -> int:
        try:
            return await self.target.write(self.tenant_id, storage.copying.put, table, batch, versions, audit_of)
        except (DamagedStore, EmbedderMismatch):
            raise
        except IntegrityError as error:
            try:
                await self.target.write(self.tenant_id, storage.copying.name_refused, table, batch, versions)
            except IntegrityError as named:
                hint = "run it again if the source was written to meanwhile, else copy to a new store"
                raise IntegrityError(f"{named}; what was copied before stays: {hint}") from error
            raise

    async def _tend(self) -> None:
        """Build indexes anew that knew nothing of so many rows. A copy without that is slower, but complete."""

        def tell(table: str, done: int, total: int) -> None:
            self.progress(done, total, f"index of {table}")

        try:
            await self.target.reindex(only_outgrown=True, progress=tell)
        except StoreUnavailable as error:
            log.warning("the search indexes were not built anew; run `tulving reindex`: %s", error)

    # -- comparing ---------------------------------------------------------------------------------------------

    async def _compare(self) -> Copied:
        """By the digests of each tenant's rows; row by row where those differ."""
        digests = {}
        for done, table in enumerate(TABLES, 1):
            digests[table] = await self._both(self.tenant_id, storage.copying.digests, table, self.tenant_id)
            self.progress(done, len(TABLES), "verifying")
        tenants = sorted({tenant for ours, _ in digests.values() for tenant in ours})
        total = hashlib.sha256()
        for table, (ours, theirs) in digests.items():
            counts = self.result.tables[table]
            for tenant in tenants:
                digest = ours.get(tenant, _NOTHING)
                same = digest.rows
                if digest != theirs.get(tenant, _NOTHING):
                    same = await self._find_differences(table, tenant)
                counts.source += digest.rows
                counts.verified += same
                total.update(f"{table} {tenant!r} {digest.rows} {digest.hash}\n".encode())
        self.result.digest = total.hexdigest()
        return self.result

    async def _find_differences(self, table: str, tenant_id: str) -> int:
        """Note down each row that is not the same in both; how many are."""
        same, fine = 0, True
        async for ours, theirs in self._pages(table, tenant_id):
            gone = await self._deleted(table, tenant_id, theirs.keys() - ours.keys())
            for key in sorted(ours.keys() | theirs.keys()):
                if ours.get(key) == theirs.get(key):
                    same += 1
                    continue
                problem: Problem = "different"
                if key not in theirs:
                    problem = "missing"
                elif key not in ours:
                    problem = "deleted" if key in gone else "extra"
                self.result.note(table, problem, tenant_id, " ".join(map(str, key)))
                fine = False
        if fine and table in SEQUENCES:
            self.result.note(table, "order", tenant_id, "")
        return same

    async def _pages(self, table: str, tenant_id: str) -> AsyncIterator[tuple[dict[Key, bytes], dict[Key, bytes]]]:
        """The hashes of both sides, stretch by stretch: what lies behind the end of a full page is for the next one."""
        end: Key | None = None
        while True:
            pages = await self._both(tenant_id, storage.copying.hashes, table, tenant_id, end)
            end = min((max(page) for page in pages if len(page) == storage.copying.BATCH), default=None)
            ours, theirs = ({key: page[key] for key in page if end is None or key <= end} for page in pages)
            yield ours, theirs
            if end is None:
                return

    async def _deleted(self, table: str, tenant_id: str, keys: set[Key]) -> set[Key]:
        if not keys or table not in KIND_OF:
            return set()
        ids = [id_ for (id_,) in keys]
        gone = await self.source.read(tenant_id, storage.copying.deleted, KIND_OF[table], tenant_id, ids)
        return {(id_,) for id_ in gone}

    async def _both(self, tenant_id: str | None, read: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
        ours, theirs = (store.read(tenant_id, read, *args) for store in (self.source, self.target))
        return await asyncio.gather(ours, theirs)
