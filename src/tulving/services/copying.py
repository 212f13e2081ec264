"""A memory moved from one store to another: batch by batch, so that it can be continued, and compared at the end."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from tulving import storage
from tulving.errors import DamagedStore, EmbedderMismatch, IntegrityError, InvalidInput, StoreUnavailable
from tulving.services.service import Store, log
from tulving.storage.copying import KIND_OF, REFERENCES, SEQUENCES, Key, Versions
from tulving.storage.rows import Row
from tulving.storage.transfer import TABLES

MOST_NAMED = 20

Progress = Callable[[int, int, str], None]
"""Told how much is done, of how much, and of what."""
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
    order: the tenant's events are in another one; extra: only in the target, which is no fault of the copy.
    """

    table: str
    problem: Problem
    rows: int = 0
    named: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class Copied:
    """What a copy, or the comparison alone, came to. The digest is the source's; the target's, if all is verified."""

    tables: dict[str, CopiedTable] = field(default_factory=lambda: {table: CopiedTable() for table in TABLES})
    differences: list[Difference] = field(default_factory=list)
    digest: str = ""

    @property
    def ok(self) -> bool:
        """Whether all that the source holds is in the target, the same."""
        return all(difference.problem == "extra" for difference in self.differences)

    def note(self, table: str, problem: Problem, tenant_id: str, key: str) -> None:
        known = {(each.table, each.problem): each for each in self.differences}
        if (difference := known.get((table, problem))) is None:
            difference = Difference(table, problem)
            self.differences.append(difference)
        difference.rows += 1
        if len(difference.named) < MOST_NAMED:
            difference.named.append((tenant_id, key))


async def copy(
    source: Store,
    target: Store,
    now: datetime,
    *,
    tenant_id: str | None = None,
    progress: Progress | None = None,
) -> Copied:
    """Put all that the source holds, or what it holds of one tenant, into the target, then compare the two.

    Each batch is a transaction of its own: a copy that was interrupted is continued by doing it again. What is in the
    target already is never changed. Access tokens are not copied.
    """
    made = await source.read(None, storage.maintenance.active_version)
    totals = await _totals(source, tenant_id)
    versions = await target.write(None, storage.copying.adopt, made, now)
    copied = Copied()
    for table, total in totals.items():
        await _copy_table(source, target, table, tenant_id, versions, copied.tables[table], total, progress)
    await _tend(target, progress)
    return await _compare(source, target, tenant_id, copied, progress)


async def compare(
    source: Store, target: Store, *, tenant_id: str | None = None, progress: Progress | None = None
) -> Copied:
    """Whether all that the source holds, or what it holds of one tenant, is in the target. Nothing is written."""
    stores = (source, target)
    storage.copying.check_embedder(*[await store.read(None, storage.maintenance.active_version) for store in stores])
    await _totals(source, tenant_id)
    return await _compare(source, target, tenant_id, Copied(), progress)


async def _totals(source: Store, tenant_id: str | None) -> dict[str, int]:
    totals: dict[str, int] = await source.read(None, storage.copying.count, tenant_id)
    if tenant_id is not None and not any(totals.values()):
        raise InvalidInput("tenant", f"the source holds nothing of {tenant_id!r:.80}", "a tenant of the source")
    return totals


# -- copying ---------------------------------------------------------------------------------------------------


async def _copy_table(
    source: Store,
    target: Store,
    table: str,
    tenant_id: str | None,
    versions: Versions,
    counts: CopiedTable,
    total: int,
    progress: Progress | None,
) -> None:
    async for batch in _batches(source, storage.copying.next_rows, table, tenant_id):
        added = await _put(target, table, batch, versions)
        counts.copied += added
        counts.present += len(batch) - added
        if progress:
            done = counts.copied + counts.present
            progress(done, max(done, total), table)
    if table in REFERENCES:
        async for batch in _batches(source, storage.copying.late_references, table, tenant_id):
            await target.write(None, storage.copying.refer, table, batch)


async def _batches(
    source: Store, read: Callable[..., list[Row]], table: str, tenant_id: str | None
) -> AsyncIterator[list[Row]]:
    """Rows of the source, as many as a transaction takes, each time those after the last ones."""
    last: Row | None = None
    while batch := await source.read(None, read, table, tenant_id, last):
        yield batch
        last = batch[-1]


async def _put(target: Store, table: str, batch: list[Row], versions: Versions) -> int:
    try:
        return await target.write(None, storage.copying.put, table, batch, versions)
    except (DamagedStore, EmbedderMismatch):
        raise
    except IntegrityError as error:
        try:
            await target.write(None, storage.copying.name_refused, table, batch, versions)
        except IntegrityError as named:
            raise IntegrityError(f"{named}; what was copied before stays, and a new run goes on from there") from error
        raise


async def _tend(target: Store, progress: Progress | None) -> None:
    """Indexes that knew nothing of so many rows are built anew. A copy without that is slower, but complete."""

    def tell(table: str, done: int, total: int) -> None:
        if progress:
            progress(done, total, f"index of {table}")

    try:
        await target.reindex(only_outgrown=True, progress=tell)
    except StoreUnavailable as error:
        log.warning("the search indexes were not built anew; run `tulving reindex`: %s", error)


# -- comparing -------------------------------------------------------------------------------------------------


async def _compare(
    source: Store, target: Store, tenant_id: str | None, result: Copied, progress: Progress | None
) -> Copied:
    total = hashlib.sha256()
    for done, table in enumerate(TABLES, 1):
        ours, theirs = await _both(source, target, storage.copying.digests, table, tenant_id)
        for tenant in sorted(ours):
            total.update(repr((table, tenant, ours[tenant].rows, ours[tenant].hash)).encode())
            counts = result.tables[table]
            counts.source += ours[tenant].rows
            if theirs.get(tenant) == ours[tenant]:
                counts.verified += ours[tenant].rows
            else:
                counts.verified += await _find_differences(source, target, table, tenant, result)
        if progress:
            progress(done, len(TABLES), "verifying")
    result.digest = total.hexdigest()
    return result


async def _both(source: Store, target: Store, read: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    ours, theirs = await asyncio.gather(source.read(None, read, *args), target.read(None, read, *args))
    return ours, theirs


async def _find_differences(source: Store, target: Store, table: str, tenant_id: str, result: Copied) -> int:
    """Note down each row that is not the same in both; how many are."""
    same, fine = 0, True
    async for ours, theirs in _pages(source, target, table, tenant_id):
        extra = sorted(theirs.keys() - ours.keys())
        gone: set[Any] = set()
        if extra and table in KIND_OF:
            ids = [id_ for (id_,) in extra]
            gone = await source.read(None, storage.copying.deleted, KIND_OF[table], tenant_id, ids)
        for key in sorted(ours.keys() | theirs.keys()):
            problem: Problem | None = None
            if key not in theirs:
                problem = "missing"
            elif key not in ours:
                problem = "deleted" if key[0] in gone else "extra"
            elif ours[key] != theirs[key]:
                problem = "different"
            if problem is None:
                same += 1
            else:
                fine = False
                result.note(table, problem, tenant_id, " ".join(map(str, key)))
    if fine and table in SEQUENCES:
        result.note(table, "order", tenant_id, "")
    return same


async def _pages(
    source: Store, target: Store, table: str, tenant_id: str
) -> AsyncIterator[tuple[dict[Key, bytes], dict[Key, bytes]]]:
    """The hashes of both sides, stretch by stretch: what lies behind the end of a page is for the next one."""
    end: Key | None = None
    while True:
        pages = await _both(source, target, storage.copying.hashes, table, tenant_id, end)
        ends = [max(page) for page in pages if len(page) == storage.copying.BATCH]
        end = min(ends, default=None)
        ours, theirs = ({key: page[key] for key in page if end is None or key <= end} for page in pages)
        yield ours, theirs
        if end is None:
            return
