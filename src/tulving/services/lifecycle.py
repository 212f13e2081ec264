"""What time does to a memory: the decay sweep and the cleanup of episodes; and how much there is of it all."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any, TypedDict

from tulving import storage
from tulving.domain import intake
from tulving.domain.decay import LAST_SWEEP
from tulving.domain.model import Kind
from tulving.domain.retention import MAX_ENTRIES, graced_before, surplus
from tulving.domain.scope import Bound
from tulving.errors import InvalidInput
from tulving.services.operations import operation
from tulving.services.service import Service
from tulving.storage.cleanup import AuditOf
from tulving.storage.reviews import REVIEWED

BATCH = 200
MOST_ENTRIES = 2**31 - 1
_HOUR = timedelta(hours=1)

Progress = Callable[[int, int], None]
"""Told how much is done, of how much."""


class CleanedUp(TypedDict):
    """001-060: what a cleanup has deleted, and how many episodes there are now."""

    expired_deleted: int
    capacity_deleted: int
    remaining: int


class Statistics(TypedDict):
    """001-093 to 001-095: for each kind the total and the number in each state."""

    episodes: dict[str, Any]
    facts: dict[str, Any]
    rules: dict[str, Any]


class Lifecycle(Service):
    """Verbs that are mostly done by themselves, by a worker. All of them can be broken off and done again."""

    async def run_decay_sweep(
        self, as_of: datetime | None = None, dry_run: bool = False, progress: Progress | None = None
    ) -> dict[str, int]:
        """001-037, 001-121: review all facts and rules of the store that are due: let them fade, expire or recover.

        Each batch is a transaction of its own. What a time before the last sweep would find is done already, so that
        nothing happens then. A dry run only counts.
        """
        now = self._env.clock()
        as_of = min(intake.moment("as_of", as_of) or now, LAST_SWEEP)
        due = await self._read_all(storage.reviews.count_due, as_of)
        audit_of = self._audit_of(now, self._env.ids())
        counts: dict[Kind, Counter[str]] = {kind: Counter() for kind in REVIEWED}
        for kind in REVIEWED:
            if dry_run:
                counts[kind] = await self._read_all(storage.reviews.forecast, kind, as_of)
                continue
            while True:
                done, events = await self._write_all(storage.reviews.sweep, kind, as_of, BATCH, audit_of)
                if not done["checked"]:
                    break
                counts[kind] += done
                self._publish(events)
                if progress:
                    checked = sum(count["checked"] for count in counts.values())
                    progress(checked, max(checked, due))
        return {
            f"{kind}s_{what}": counts[kind][what]
            for what in ("checked", "fading", "expired", "recovered")
            for kind in REVIEWED
        }

    @operation(
        "memory_run_episode_cleanup",
        effect="destroy",
        command="cleanup",
        idempotent=True,
        defaults={"max_entries": MAX_ENTRIES},
    )
    async def run_episode_cleanup(
        self,
        max_entries: Annotated[int | None, "How many episodes may stay"] = None,
        as_of: Annotated[datetime | None, "As if it were this time; one to come only with dry_run"] = None,
        dry_run: Annotated[bool, "Only count what would be deleted"] = False,
    ) -> CleanedUp:
        """Delete episodes that have expired, and the oldest that were learned from where there are too many.

        What waits to be learned from is never deleted to make room, and has a few days of grace when it expires.
        """
        now = self._env.clock()
        audit = self._audit(now)
        return await self._clean_up(
            self.caller.tenant_id, self.bound, max_entries, now, as_of, dry_run, lambda _: audit
        )

    async def run_store_cleanup(
        self, max_entries: int | None = None, as_of: datetime | None = None, dry_run: bool = False
    ) -> CleanedUp:
        """001-122: the cleanup of all tenants. Each may have as many episodes as given, else as configured."""
        now = self._env.clock()
        audit_of = self._audit_of(now, self._env.ids())
        return await self._clean_up(None, Bound(), max_entries, now, as_of, dry_run, audit_of)

    @operation("memory_stats", effect="read", command="stats")
    async def stats(
        self, scope: Annotated[str | None, "Only facts and rules of this namespace and the global one"] = None
    ) -> Statistics:
        """Count the memories of each kind by the state they are in, and how long the oldest episode has waited."""
        now = self._env.clock()
        wanted = replace(self._filter(scope=scope), state="any")
        # Episodes are an agent's, whatever the namespace; only what a connection is bound to holds for them too.
        of_kind: dict[Kind, Any] = {"episode": replace(wanted, scope=self.bound.scope), "fact": wanted, "rule": wanted}
        counts = await self._read(storage.statistics.count, self.caller.tenant_id, of_kind, now)
        oldest: datetime | None = counts["episode"].pop("created_at")
        age = None if oldest is None else max(0.0, (now - oldest) / _HOUR)
        counts["episode"]["backlog_age_hours"] = age
        return {"episodes": counts["episode"], "facts": counts["fact"], "rules": counts["rule"]}

    async def _clean_up(
        self,
        tenant_id: str | None,
        bound: Bound,
        max_entries: int | None,
        now: datetime,
        as_of: datetime | None,
        dry_run: bool,
        audit_of: AuditOf,
    ) -> CleanedUp:
        """Of what one caller may reach, or (None) of all tenants, each with the capacity for itself."""
        as_of = intake.moment("as_of", as_of) or now
        if as_of > now and not dry_run:
            raise InvalidInput("as_of", "is yet to come, and what is deleted is gone", "a time up to now, or a dry run")
        configured = self._env.config.episode_max_entries
        most = intake.whole("max_entries", configured if max_entries is None else max_entries, 0, MOST_ENTRIES)
        graced = graced_before(as_of, self._env.config.episode_grace_days)
        store = self._env.store
        tenants = [tenant_id] if tenant_id is not None else await self._read_all(storage.cleanup.tenants)
        expired = capacity = 0
        if dry_run:
            over = await store.read(tenant_id, storage.cleanup.count_expired, tenant_id, bound, as_of, graced)
            expired = sum(over.values())
            for tenant in tenants:
                there = await store.read(tenant_id, storage.cleanup.count, tenant, bound) - over.get(tenant, 0)
                spent = await store.read(tenant_id, storage.cleanup.count_spent, tenant, bound, as_of, graced)
                capacity += surplus(there, most, spent)
        else:
            expired = await self._delete(
                tenant_id, storage.cleanup.delete_expired, tenant_id, bound, as_of, graced, BATCH, audit_of
            )
            for tenant in tenants:
                capacity += await self._delete(
                    tenant_id, storage.cleanup.delete_surplus, tenant, bound, most, BATCH, audit_of
                )
        left = await store.read(tenant_id, storage.cleanup.count, tenant_id, bound)
        return {
            "expired_deleted": expired,
            "capacity_deleted": capacity,
            "remaining": left - (expired + capacity if dry_run else 0),
        }

    async def _delete(self, whose: str | None, transaction: Callable[..., Any], *args: Any) -> int:
        """Batch by batch, until there is nothing left to delete."""
        deleted = 0
        while events := await self._env.store.write(whose, transaction, *args):
            self._publish(events)
            deleted += len(events)
        return deleted
