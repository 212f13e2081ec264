"""Upkeep of memories: decay, cleanup, inversion, missing vectors.

A `Memory` does it for the part of its tenant that it reaches, an `Administration` for all tenants. Each batch is its
own transaction: the next run continues an interrupted one.
"""

from collections import Counter
from datetime import datetime
from typing import Annotated, TypedDict

from tulving import storage
from tulving.domain import intake, maturity
from tulving.domain.decay import LAST_SWEEP, MAX_ENTRIES, graced_before, surplus
from tulving.domain.events import Audit
from tulving.domain.model import Item, Kind, Rule
from tulving.errors import InvalidInput, StoreBusy
from tulving.services.operations import operation
from tulving.services.service import Progress
from tulving.services.timeline import Timeline
from tulving.storage.kinds import REVIEWED
from tulving.storage.rows import IndexEntry

SWEPT_AT_A_TIME = 200
EMBEDDED_AT_A_TIME = 64
INVERTED_AT_A_TIME = 100
MOST_TRIES = 5
ENTRIES = intake.Between(0, 2**31 - 1)


class CleanedUp(TypedDict):
    """How many episodes a cleanup has deleted, and how many remain."""

    expired_deleted: int
    capacity_deleted: int
    remaining: int


class Upkeep(Timeline):
    """Verbs that a worker runs on a schedule."""

    async def run_decay_sweep(
        self, as_of: datetime | None = None, dry_run: bool = False, progress: Progress | None = None
    ) -> dict[str, int]:
        """Review all facts and rules that are due: let them fade, expire or recover.

        Nothing is due at a time before the last sweep. A dry run only counts.
        """
        as_of = min(intake.moment("as_of", as_of) or self._env.clock(), LAST_SWEEP)
        whose = self._tenant_id, self.bound
        due = await self._read(storage.reviews.count_due, *whose, as_of)
        audit_of = self._audit_of()
        counts: dict[Kind, Counter[str]] = {kind: Counter() for kind in REVIEWED}
        for kind in REVIEWED:
            if dry_run:
                counts[kind] = await self._read(storage.reviews.forecast, kind, *whose, as_of)
                continue
            while True:
                done = await self._write(storage.reviews.sweep, kind, *whose, as_of, SWEPT_AT_A_TIME, audit_of)
                if not done["checked"]:
                    break
                counts[kind] += done
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
        http="POST /v1/episodes/cleanup",
        effect="destroy",
        command="cleanup",
        idempotent=True,
        defaults={"max_entries": MAX_ENTRIES},
    )
    async def run_episode_cleanup(
        self,
        max_entries: Annotated[int | None, "How many episodes may stay", ENTRIES] = None,
        as_of: Annotated[datetime | None, "As if it were this time; a future one only with dry_run"] = None,
        dry_run: Annotated[bool, "Only count what would be deleted"] = False,
    ) -> CleanedUp:
        """Delete episodes that have expired, and the oldest that were learned from if there are too many.

        An episode that was not learned from yet is never deleted to make room, and has a grace period of some days
        after it expires.
        """
        now = self._env.clock()
        as_of = intake.moment("as_of", as_of) or now
        if as_of > now and not dry_run:
            raise InvalidInput("as_of", "is in the future, and what is deleted is gone", "a past time, or a dry run")
        configured = self._env.config.episode_max_entries
        most = intake.whole("max_entries", configured if max_entries is None else max_entries, *ENTRIES)
        graced = graced_before(as_of, self._env.config.episode_grace_days)
        whose, bound = self._tenant_id, self.bound
        # The capacity is per tenant.
        tenants = await self._read(storage.cleanup.tenants) if whose is None else [whose]
        expired = capacity = 0
        if dry_run:
            over = await self._read(storage.cleanup.count_expired, whose, bound, as_of, graced)
            expired = sum(over.values())
            for tenant in tenants:
                there = await self._read(storage.cleanup.count, tenant, bound) - over.get(tenant, 0)
                spent = await self._read(storage.cleanup.count_spent, tenant, bound, as_of, graced)
                capacity += surplus(there, most, spent)
        else:
            audit_of, batch = self._audit_of(), SWEPT_AT_A_TIME
            delete = storage.cleanup.delete_expired
            while deleted := await self._write(delete, whose, bound, as_of, graced, batch, audit_of):
                expired += deleted
            for tenant in tenants:
                delete = storage.cleanup.delete_surplus
                while deleted := await self._write(delete, tenant, bound, most, batch, audit_of):
                    capacity += deleted
        left = await self._read(storage.cleanup.count, whose, bound)
        return {
            "expired_deleted": expired,
            "capacity_deleted": capacity,
            "remaining": left - (expired + capacity if dry_run else 0),
        }

    async def invert_refuted(self) -> int:
        """Turn all refuted rules into warnings against themselves; returns how many."""
        audit_of, done, last = self._audit_of(), 0, None
        while batch := await self._read(storage.rules.refuted, self._tenant_id, self.bound, INVERTED_AT_A_TIME, last):
            for rule in batch:
                done += await self._invert(rule, audit_of(rule.tenant_id)) is not None
            last = batch[-1]
        return done

    async def count_pending(self) -> int:
        """How many memories lack a vector."""
        return await self._read(storage.embeddings.count_pending, self._tenant_id)

    async def embed_pending(self, progress: Progress | None = None) -> int:
        """Add the vectors of memories that were stored while the embedder was not ready; returns how many.

        Rows that were inserted by plain SQL are completed first, whether the embedder is ready or not.
        """
        audit_of, embedding = self._audit_of(), self._env.embedding
        while await self._read(storage.completion.waiting, self._tenant_id):
            if not await self._write(storage.completion.complete, self._tenant_id, EMBEDDED_AT_A_TIME, audit_of):
                break
        done, total = 0, await self.count_pending()
        while not embedding.embedder.unready() and embedding.version is not None:
            waiting = await self._read(storage.embeddings.pending, self._tenant_id, EMBEDDED_AT_A_TIME)
            indexed = await self._indexed(waiting)
            if not indexed:
                break
            done += await self._write(storage.embeddings.set_embeddings, indexed, audit_of)
            if progress:
                progress(done, max(done, total))
        return done

    async def _indexed(
        self, items: list[tuple[Kind, Item]], version: int | None = None
    ) -> list[tuple[Kind, Item, IndexEntry]]:
        """Memories with their index entries; empty if the embedder fails."""
        entries = await self._env.embedding.index([item for _, item in items], version)
        if any(entry.embedding is None for entry in entries):
            return []
        return [(kind, item, entry) for (kind, item), entry in zip(items, entries, strict=True)]

    async def _invert(self, rule: Rule, audit: Audit) -> Rule | None:
        """The vector is computed before the transaction, so it is computed again if reasons were added in between."""
        for _ in range(MOST_TRIES):
            if not maturity.is_refuted(rule):
                return None
            made = maturity.inverted(rule, audit.now)
            [entry] = await self._env.embedding.index([made])
            event = audit.event("rule_inverted", "rule", rule.id, content_hash=made.content_hash)
            found, final = await self._write(storage.rules.invert, made, entry, event)
            if final or found is None:
                return found
            rule = found
        raise StoreBusy(f"the rule {rule.id} was marked again during each attempt to invert it; try again")
