"""Verbs about conflicts between notes: how they were settled, and what a person does about it."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated
from uuid import UUID

from tulving import storage
from tulving.domain import cursors, intake, prompts
from tulving.domain.editing import in_use
from tulving.domain.events import Audit
from tulving.domain.model import SETTLEMENT_STATUSES, Fact, MemoryId, Page, Settlement
from tulving.domain.records import Record
from tulving.domain.scope import GLOBAL, Owner, address_of
from tulving.domain.text import content_hash
from tulving.errors import InvalidInput, ModelUnavailable, NotFound, UnusableAnswer
from tulving.services.learning import instructions
from tulving.services.model import LanguageModel
from tulving.services.operations import operation
from tulving.services.runs import Runs
from tulving.services.service import PAGE_SIZES, PageCursor
from tulving.storage.connection import Connection

log = logging.getLogger("tulving")

STATUSES = intake.OneOf(SETTLEMENT_STATUSES)
LONGEST_SUMMARY = 2
"""How many times as long as both notes what a model makes of them may be."""
REWRITTEN = "notes_rewritten"
"""What a run that only rewrites a merged note counts."""

ConflictId = Annotated[MemoryId, "The conflict, as memory_conflicts lists it"]
Change = Callable[[Connection, Settlement, Audit], Settlement]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ConflictReport(Record):
    """A conflict with both sides as they are today, and what was merged of them."""

    settlement: Settlement
    candidate: Fact
    existing: Fact
    merged: Fact | None = None


class Conflicts(Runs):
    """Verbs about conflicts between notes."""

    @operation("memory_conflicts", http="GET /v1/conflicts", effect="read", answer="conflicts", standard=False)
    async def conflicts(
        self,
        status: Annotated[str | None, "Only those with this status", STATUSES] = None,
        limit: Annotated[int, "How many at most, the newest first", PAGE_SIZES] = 20,
        cursor: PageCursor = None,
    ) -> Page[ConflictReport]:
        """List the conflicts between notes: both sides, which one won or what was merged of them, and why."""
        if status is not None:
            intake.one_of("status", status, SETTLEMENT_STATUSES)
        limit, after = intake.whole("limit", limit, *PAGE_SIZES), cursors.read(cursor, datetime, UUID)
        tenant_id, bound = self.caller.tenant_id, self.bound
        found = await self._read(storage.settlements.listing, tenant_id, bound, limit + 1, status, after=after)
        found, next_cursor = cursors.page(found, limit, lambda each: (each[0].created_at, each[0].id))
        return Page(items=[_report(*each) for each in found], next_cursor=next_cursor)

    async def count_held_conflicts(self) -> int:
        """How many conflicts wait for a person."""
        return (await self._read(storage.settlements.count_held, self.caller.tenant_id, self.bound)).total()

    @operation(
        "memory_conflict", http="GET /v1/conflicts/{conflict_id}", effect="read", answer="conflict", standard=False
    )
    async def conflict(self, conflict_id: ConflictId) -> ConflictReport | None:
        """Read one conflict with both sides as they are today; nothing if there is none."""
        id_ = intake.memory_id("conflict_id", conflict_id)
        found = await self._read(storage.settlements.listing, self.caller.tenant_id, self.bound, 1, id_=id_)
        return _report(*found[0]) if found else None

    @operation("memory_revert_conflict", http="POST /v1/conflicts/{conflict_id}/revert", effect="write", standard=False)
    async def revert_conflict(self, conflict_id: ConflictId) -> Settlement:
        """Put both sides of a settled conflict back into use, and retract what was merged of them."""
        return await self._settled(conflict_id, storage.settlements.revert)

    @operation(
        "memory_accept_conflict", http="POST /v1/conflicts/{conflict_id}/accept", effect="review", standard=False
    )
    async def accept_conflict(self, conflict_id: ConflictId) -> Settlement:
        """Settle a conflict that was held, as it was proposed."""
        settled = await self._settled(conflict_id, storage.settlements.accept)
        await self._finish_merges([settled])
        return settled

    @operation(
        "memory_dismiss_conflict", http="POST /v1/conflicts/{conflict_id}/dismiss", effect="review", standard=False
    )
    async def dismiss_conflict(self, conflict_id: ConflictId) -> Settlement:
        """Leave both sides of a conflict that was held in use."""
        return await self._settled(conflict_id, storage.settlements.dismiss)

    async def _finish_merges(self, merges: Sequence[Settlement], run_id: UUID | None = None) -> None:
        """000-032: where the merge rule wants it so, the model writes what was merged. If it fails, that stays as it
        was made of the words of both sides."""
        model = self._env.model
        for settlement in merges if model is not None else ():
            report = await self._read(storage.settlements.to_summarize, settlement)
            if report is not None and model is not None:
                try:
                    await self._summarize(model, *report, run_id)
                except (ModelUnavailable, InvalidInput) as error:
                    log.warning("the summary of the merged note %s stays as it is: %s", settlement.merged_id, error)
        await super()._finish_merges(merges, run_id)

    async def _summarize(
        self, model: LanguageModel, candidate: Fact, existing: Fact, merged: Fact, run_id: UUID | None
    ) -> None:
        """Let the model write a merged note. That is a part of the run that has merged it, and else a run of its own;
        what it costs always is."""
        shown = max(len(candidate.content), len(existing.content)) <= prompts.LONGEST_TEXT
        if problem := model.unready() or (None if shown else "a note is too long for a prompt"):
            raise ModelUnavailable(problem)
        owner = Owner(merged.user_id, merged.household_id, merged.persona_id)
        butler = None if merged.scope == GLOBAL else merged.scope
        run = replace(self._new_run("extraction", butler, model.name, owner), counts={REWRITTEN: 0})
        await self._write(storage.runs.begin, run)
        async with self._closing(run):
            prompt = prompts.merging(instructions("merging"), existing, candidate)
            content = self._content(self._screened(run, {"content": await self._ask(run, model, prompt)})["content"])
            if len(content) > LONGEST_SUMMARY * (len(candidate.content) + len(existing.content)):
                raise UnusableAnswer(f"the answer of {model.name} is much longer than both notes")
            reworded = replace(merged, content=content, content_hash=content_hash(content))
            audit = Audit(self.caller, self._env.clock(), self._env.ids, run_id or run.id)

            def rewrite(conn: Connection) -> None:
                known = storage.items.get(conn, address_of(merged), to_change=True)
                if not isinstance(known, Fact) or not in_use(known) or known.content != merged.content:
                    raise UnusableAnswer("the note has changed since the model was asked")
                if storage.forgotten.is_unwanted(conn, reworded, audit.new_id):
                    raise UnusableAnswer(f"the answer of {model.name} is what a person has forgotten")
                storage.edits.edit(conn, address_of(merged), {"content": content}, None, audit)
                storage.runs.change(conn, run, counts={REWRITTEN: 1})

            await self._write(rewrite)

    async def _settled(self, conflict_id: MemoryId, change: Change) -> Settlement:
        id_, audit = intake.memory_id("conflict_id", conflict_id), self._audit(self._env.clock())

        def decide(conn: Connection) -> Settlement:
            found = storage.settlements.get(conn, self.caller.tenant_id, id_, self.bound, to_change=True)
            if found is None or self.bound.scope not in (None, found.scope):  # a global note belongs to others too
                raise NotFound(f"there is no conflict {id_}" + ("" if found is None else " that you may change"))
            return change(conn, found, audit)

        return await self._write(decide)


def _report(settlement: Settlement, candidate: Fact, existing: Fact, merged: Fact | None) -> ConflictReport:
    return ConflictReport(settlement=settlement, candidate=candidate, existing=existing, merged=merged)
