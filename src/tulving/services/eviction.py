"""The size limit of a file: the least recently used episodes make room."""

from collections.abc import Sequence
from dataclasses import dataclass

from tulving import storage
from tulving.domain.events import AuditOf
from tulving.domain.eviction import is_full, surplus_bytes
from tulving.domain.records import Record
from tulving.ports import Finding, Store
from tulving.services.service import Progress, Service, log
from tulving.storage.rows import Row


@dataclass(frozen=True, slots=True, repr=False)
class Evicted(Record):
    """How many episodes were evicted, how many of them were not learned from yet, and the bytes in use before and
    after; what a dry run says is an estimate. `protected` counts the episodes that are never evicted."""

    evicted: int = 0
    unlearned: int = 0
    protected: int | None = None
    limit: int | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    warning: str | None = None


class Eviction(Service):
    """The verb that keeps a file within its limit."""

    async def evict(self, dry_run: bool = False, progress: Progress | None = None) -> Evicted:
        """When a file has reached `max_size_bytes`, delete the least recently used episodes of all tenants
        until it is below 85 % of it.

        Decisions, episodes of active sessions, and archived ones stay, as do all facts and rules. Each batch is its own
        transaction. On PostgreSQL, and below the limit, nothing is done.
        """
        store, limit = self._env.store, self._env.config.max_size_bytes
        before = used = await store.used_bytes()
        if used is None or limit is None or not is_full(used, limit):
            return Evicted(limit=limit, bytes_before=before, bytes_after=used)
        evicted: list[Row] = []
        if dry_run:
            evicted = await self._read(storage.eviction.least_used, surplus_bytes(used, limit))
            used = max(0, used - sum(row["size"] for row in evicted))
        else:
            used = await _without_remains(store)
            if is_full(used, limit):
                evicted, used = await self._make_room(used, limit, progress)
        protected = await self._read(storage.eviction.count_protected)
        warning = None
        if is_full(used, limit):
            warning = _FULL.format(used=used, limit=limit)
            log.warning("%s", warning)
        unlearned = sum(not row["consolidated"] for row in evicted)
        return Evicted(len(evicted), unlearned, protected, limit, before, used, warning)

    async def _make_room(self, used: int, limit: int, progress: Progress | None) -> tuple[list[Row], int]:
        """What was evicted, and the bytes in use after it. Ends when a round frees nothing: then the room is taken by
        something else."""
        evicted, audit_of, last = [], self._audit_of(), used + 1
        while (room := surplus_bytes(used, limit)) and used < last:
            chosen = await self._read(storage.eviction.least_used, room)
            if not chosen:
                break
            evicted += await self._evict(chosen, limit, audit_of, progress)
            last, used = used, await _without_remains(self._env.store)
            if last - used < room / 2 and sum(row["size"] for row in chosen) >= room:
                # The rows that are left lie scattered over half-empty pages.
                await self._env.store.reindex()
                used = await self._env.store.used_bytes() or 0
        return evicted, used

    async def _evict(
        self, chosen: Sequence[Row], limit: int, audit_of: AuditOf, progress: Progress | None
    ) -> list[Row]:
        """The chosen ones take about as much room as is needed; fewer will do if that was too low an estimate."""
        evicted: list[Row] = []
        for start in range(0, len(chosen), storage.eviction.AT_A_TIME):
            batch = chosen[start : start + storage.eviction.AT_A_TIME]
            evicted += await self._write(storage.eviction.evict, batch, audit_of)
            if progress:
                progress(start + len(batch), len(chosen))
            if not surplus_bytes(await self._env.store.used_bytes() or 0, limit):
                break
        return evicted


async def _without_remains(store: Store) -> int:
    """The bytes in use when what deleted memories have left in the file is gone."""
    await store.reindex(only_outgrown=True)
    return await store.used_bytes() or 0


async def size_finding(store: Store, limit: int | None) -> list[Finding]:
    """What `health` says about the size of a file: that it is full, if nothing is left that could be evicted."""
    used = await store.used_bytes()
    if used is None:
        return []
    if limit is None:
        return [Finding("size", note=f"{used} bytes in use, without a limit")]
    stuck = is_full(used, limit) and await store.read(None, storage.eviction.is_exhausted)
    problems = (_FULL.format(used=used, limit=limit),) if stuck else ()
    return [Finding("size", problems, f"{used} of {limit} bytes in use")]


_FULL = (
    "{used} bytes are in use and the limit is {limit}, but what is left is not evicted: facts, rules, decisions,"
    " episodes of active sessions, and the audit trail. Raise `max_size_bytes`, or delete what is not needed"
)
