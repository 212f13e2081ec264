"""The upkeep of the timeline: old episodes are archived, small segments merged, and what is past its retention deleted.

Each step is a small transaction, so that writers wait for none of them, and the next run goes on where one was killed.
"""

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated, TypedDict

from tulving import storage
from tulving.domain import intake, segments
from tulving.domain.events import Audit
from tulving.domain.segments import Contents, DamagedSegment, Segment
from tulving.errors import InvalidInput
from tulving.services.operations import operation
from tulving.services.service import Progress, Service
from tulving.storage.connection import Connection
from tulving.storage.rows import Row

log = logging.getLogger("tulving")

MOVED_AT_A_TIME = 32
PRUNED_AT_A_TIME = 200


class Rotated(TypedDict):
    """How many episodes were archived into how many segments, how many segments were merged, how many
    episodes were past their retention, and how many segments can't be read."""

    archived: int
    segments: int
    merged: int
    pruned: int
    damaged: int


class Timeline(Service):
    """Verbs on the archive of episodes."""

    @operation(
        "memory_rotate_timeline",
        http="POST /v1/timeline/rotate",
        effect="destroy",
        command="archive",
        standard=False,
        idempotent=True,
    )
    async def rotate_timeline(
        self,
        as_of: Annotated[datetime | None, "As if it were this time; a future one only with dry_run"] = None,
        dry_run: Annotated[bool, "Only count what would be archived and deleted"] = False,
        progress: Progress | None = None,
    ) -> Rotated:
        """Archive the oldest episodes that were learned from if there are more than are kept at hand, merge small
        segments of the archive, and delete episodes past their retention. The settings say how many and how old."""
        now = self._env.clock()
        as_of = intake.moment("as_of", as_of) or now
        if as_of > now and not dry_run:
            raise InvalidInput("as_of", "is in the future, and what is deleted is gone", "a past time, or a dry run")
        if not self.bound.everything:
            problem = "is that of the whole tenant, and this connection is bound to a part of it"
            raise InvalidInput("timeline", problem, "a connection to the whole tenant")
        total = Rotated(archived=0, segments=0, merged=0, pruned=0, damaged=0)
        whose = self._tenant_id
        for tenant_id in await self._read(storage.timeline.tenants) if whose is None else [whose]:
            done = await self._forecast(tenant_id, as_of) if dry_run else await self._rotate(tenant_id, as_of, progress)
            for name, number in done.items():
                total[name] += number
        if not dry_run:
            await self._write(storage.timeline.sweep)
        return total

    async def check_segments(self) -> int:
        """Read the segments that this process has not read yet, so that what is damaged is known before it is
        asked for, and a file that was put back counts again; returns how many can't be read."""
        whose, damaged = self._tenant_id, 0
        for tenant_id in await self._read(storage.timeline.tenants) if whose is None else [whose]:
            damaged += await self._check_segments(tenant_id)
        return damaged

    async def _check_segments(self, tenant_id: str, anew: bool = False) -> int:
        changed = await self._read(storage.timeline.damage, tenant_id, anew)
        if changed or await self._read(storage.timeline.is_over, tenant_id):
            await self._write(storage.timeline.record_damage, changed, self._audit_of()(tenant_id))
        return sum(each.status == "damaged" for each in await self._read(storage.timeline.listing, tenant_id))

    async def _forecast(self, tenant_id: str, as_of: datetime) -> Rotated:
        count = await self._due(tenant_id, as_of)
        retained = segments.cutoff(as_of, self._env.config.timeline.retention_days)
        pruned = 0 if retained is None else await self._read(storage.timeline.count_before, tenant_id, retained)
        parts = -(-count // self._env.config.timeline.segment_episodes)
        return Rotated(archived=count, segments=parts, merged=0, pruned=pruned, damaged=0)

    async def _rotate(self, tenant_id: str, as_of: datetime, progress: Progress | None) -> Rotated:
        damaged = await self._check_segments(tenant_id, anew=True)
        audit = self._audit_of()(tenant_id)
        await self._resume(tenant_id, audit)
        pruned = await self._prune(tenant_id, as_of)
        count, archived, made = await self._due(tenant_id, as_of), 0, 0
        while count > archived:
            most = min(count - archived, self._env.config.timeline.segment_episodes)
            rows = await self._read(storage.timeline.oldest, tenant_id, most)
            moved = await self._archive(tenant_id, rows, audit) if rows else 0
            if not moved:  # the rest was changed in the meantime
                break
            archived, made = archived + moved, made + 1
            if progress:
                progress(archived, count)
        merged = await self._merge(tenant_id, audit)
        return Rotated(archived=archived, segments=made, merged=merged, pruned=pruned, damaged=damaged)

    async def _due(self, tenant_id: str, as_of: datetime) -> int:
        """How many episodes are to be archived: those that are old, or too many."""
        config = self._env.config.timeline
        before = segments.cutoff(as_of, config.keep_days)
        at_hand, archivable, old = await self._read(storage.timeline.counts, tenant_id, before)
        return max(old, segments.surplus(at_hand, config.capacity, archivable))

    async def _archive(self, tenant_id: str, rows: Sequence[Row], audit: Audit) -> int:
        its = await self._write(storage.timelines.ensure, audit)
        segment, body = storage.timeline.packed(tenant_id, its["open_segment_id"], rows, audit.now)
        if not await self._write(storage.timeline.begin, segment, body, audit):
            return 0
        return await self._move(segment, segments.unpack(body, segment.checksum), audit)

    async def _move(self, segment: Segment, contents: Contents, audit: Audit) -> int:
        moved = 0
        for some in _some(contents):
            moved += await self._write(storage.timeline.move, segment, some, audit)
        await self._write(storage.timeline.seal, segment)
        return moved

    async def _resume(self, tenant_id: str, audit: Audit) -> None:
        """Finish what a rotation that was killed has begun."""
        for segment in await self._read(storage.timeline.listing, tenant_id):
            if segment.status == "filling":
                await self._move(segment, await self._read(_contents, segment), audit)

    async def _merge(self, tenant_id: str, audit: Audit) -> int:
        merged, most = 0, self._env.config.timeline.segment_episodes
        while run := segments.to_merge(await self._read(storage.timeline.listing, tenant_id), most):
            done = await self._write(storage.timeline.merge, run, audit.new_id(), audit.now)
            if not done:
                break
            merged += done
        return merged

    async def _prune(self, tenant_id: str, as_of: datetime) -> int:
        """Delete what happened too long ago."""
        before = segments.cutoff(as_of, self._env.config.timeline.retention_days)
        if before is None:
            return 0
        pruned, audit_of = 0, self._audit_of()

        delete = storage.cleanup.delete_old
        while deleted := await self._write(delete, tenant_id, before, PRUNED_AT_A_TIME, audit_of):
            pruned += deleted
        if pruned:
            log.info("%d episodes of %s were past their retention and are deleted", pruned, tenant_id)
        return pruned


def _contents(conn: Connection, segment: Segment) -> Contents:
    try:
        return storage.timeline.contents(conn, segment)
    except DamagedSegment:  # nothing was moved from it that is not in its rows
        return {}


def _some(contents: Contents) -> Iterator[Sequence[segments.Archived]]:
    entries = iter(contents.values())
    while some := list(islice(entries, MOVED_AT_A_TIME)):
        yield some
