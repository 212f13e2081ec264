"""Verbs about what models have taught: which runs there were, undoing them, and what waits for a person's decision."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated
from uuid import UUID

from tulving import storage
from tulving.domain import cursors, intake
from tulving.domain.events import Audit
from tulving.domain.learning import Proposal, Run
from tulving.domain.model import Fact, Item, Kind, MemoryId, Page
from tulving.domain.records import Record
from tulving.domain.scope import Address, Bound, Owner
from tulving.errors import InvalidInput, NotFound
from tulving.services.learning import Learning
from tulving.services.lessons import Decide, Learned, Lessons, read
from tulving.services.operations import operation
from tulving.services.service import PAGE_SIZES, PageCursor
from tulving.storage.connection import Connection
from tulving.storage.learning import Material
from tulving.storage.lessons import Applied
from tulving.storage.undoing import Undone

Chosen = Annotated[Sequence[MemoryId] | MemoryId, "The proposals, by their own ids or by those of their runs"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunChange(Record):
    """What a run did to one memory, and from which episodes it did that. The content is that of today; a fact is
    `about` its subject and predicate."""

    what: str
    memory_type: Kind
    memory_id: UUID
    about: str | None
    content: str | None
    sources: list[UUID] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunReport(Record):
    """A run of a model, and how much of it waits for a person: proposals that are `held`, and conflicts of what it has
    stored. If it was asked for by its id, with its changes."""

    run: Run
    held: int = 0
    conflicts_held: int = 0
    changes: list[RunChange] = field(default_factory=list)


class Reviewing(Learning):
    """Verbs for the person who answers for what is learned."""

    @operation(
        "memory_runs",
        http="GET /v1/runs",
        effect="read",
        command="runs",
        positional=("run_id",),
        answer="runs",
        standard=False,
    )
    async def runs(
        self,
        run_id: Annotated[MemoryId | None, "Only this run, with all that it changed"] = None,
        limit: Annotated[int, "How many at most, the newest first", PAGE_SIZES] = 20,
        cursor: PageCursor = None,
    ) -> Page[RunReport]:
        """List the runs of language models that learned from episodes and conversations, and what they changed."""
        limit, after = intake.whole("limit", limit, *PAGE_SIZES), cursors.read(cursor, datetime, UUID)
        mine = self.caller.tenant_id, self.bound
        held = await self._read(storage.proposals.count_held, *mine)
        conflicts = await self._read(storage.settlements.count_held, *mine)
        if run_id is not None:
            found = [await self._known_run(run_id)]
        else:
            found = await self._read(storage.runs.recent, *mine, limit + 1, after=after)
        found, next_cursor = cursors.page(found, limit, lambda run: (run.created_at, run.id))
        reports = [RunReport(run=run, held=held[run.id], conflicts_held=conflicts[run.id]) for run in found]
        if run_id is not None:
            reports = [replace(report, changes=await self._read(_changes, report.run)) for report in reports]
        return Page(items=reports, next_cursor=next_cursor)

    @operation(
        "memory_undo",
        http="POST /v1/runs/{run_id}/undo",
        effect="destroy",
        command="undo",
        positional=("run_id",),
        standard=False,
    )
    async def undo(
        self,
        run_id: Annotated[MemoryId, "The run, as memory_runs lists it"],
        dry_run: Annotated[bool, "Only tell what would be undone"] = False,
    ) -> Undone:
        """Undo a run of a language model: retract what it added and restore what it replaced.

        What somebody has changed since stays as it is, and is named.
        """
        run, audit = await self._known_run(run_id), self._audit(self._env.clock())
        return await self._write(storage.undoing.rehearse if dry_run else storage.undoing.undo, run, audit)

    @operation("memory_proposals", http="GET /v1/review", effect="review", answer="proposals", standard=False)
    async def proposals(
        self,
        limit: Annotated[int, "How many at most, the oldest first", PAGE_SIZES] = 50,
        cursor: PageCursor = None,
    ) -> Page[Proposal]:
        """List what runs would have done but a person must decide on, oldest first."""
        limit, after = intake.whole("limit", limit, *PAGE_SIZES), cursors.read(cursor, datetime, UUID)
        found = await self._read(storage.proposals.listing, self.caller.tenant_id, self.bound, limit + 1, after)
        found, next_cursor = cursors.page(found, limit, lambda each: (each.created_at, each.id))
        return Page(items=found, next_cursor=next_cursor)

    async def count_held_proposals(self) -> int:
        """How many proposals wait for a person."""
        return (await self._read(storage.proposals.count_held, self.caller.tenant_id, self.bound)).total()

    @operation("memory_accept", http="POST /v1/review/accept", effect="review", standard=False)
    async def accept(self, ids: Chosen) -> Learned:
        """Accept proposals, which then take effect. One that no longer can is listed among the errors and stays."""
        learned: Learned | None = None
        for proposal in await self._chosen(ids):
            run = await self._known_run(proposal.run_id)
            own, shown = self._owned(run), await self._read(_referred, proposal)
            offer, decide = read(proposal.action, proposal.offer), self._accepting(proposal)
            taken = await own._teach(run, [offer], shown, decide=decide)
            learned = taken if learned is None else learned + taken
        assert learned is not None
        return learned

    @operation("memory_reject", http="POST /v1/review/reject", effect="review", answer="rejected", standard=False)
    async def reject(self, ids: Chosen) -> int:
        """Drop proposals, so that no model stores the same again; returns how many."""
        chosen = await self._chosen(ids)
        unwanted = list[Item]()
        for proposal in chosen:
            run = await self._known_run(proposal.run_id)
            shown = await self._read(_referred, proposal)
            steps, _ = await self._owned(run)._steps(run, [read(proposal.action, proposal.offer)], shown, {}, True)
            unwanted += [step.item for step in steps if step.item is not None]
        audit = self._audit(self._env.clock())

        def decide(conn: Connection) -> None:
            for proposal in chosen:
                _settle(conn, proposal, "rejected", audit)
            for item in unwanted:
                storage.forgotten.note(conn, item, audit)

        await self._write(decide)
        return len(chosen)

    def _accepting(self, proposal: Proposal) -> Decide:
        """What the transaction in which a proposal takes effect does besides."""
        audit, kind = self._audit(self._env.clock()), "rule" if proposal.action == "new_rule" else "fact"

        def decide(conn: Connection, applied: Applied) -> None:
            if proposal.action == "confirmation" and not applied.counts["confirmations_made"]:
                applied.errors.append("confirmation: what it confirms is no longer in use")
            if not applied.errors:
                _settle(conn, proposal, "accepted", audit)
                for each in applied.stored:
                    if (item := storage.items.get(conn, Address(proposal.tenant_id, kind, each.id))) is not None:
                        storage.forgotten.permit(conn, item, audit.new_id)

        return decide

    async def _chosen(self, ids: Sequence[MemoryId] | MemoryId) -> list[Proposal]:
        allowed = "the ids of proposals or of their runs"
        given = [ids] if isinstance(ids, str | UUID) else intake.items("ids", ids, None, allowed)
        named = [intake.memory_id("ids", id_) for id_ in given]
        found = await self._read(storage.proposals.of_ids, self.caller.tenant_id, self.bound, named)
        covered = {each for proposal in found for each in (proposal.id, proposal.run_id)}
        for id_ in named:
            if id_ not in covered:
                raise NotFound(f"there is no proposal {id_}")
        if not found:
            raise InvalidInput("ids", "is empty", allowed)
        return found

    async def _known_run(self, run_id: MemoryId) -> Run:
        found = await self._read(storage.runs.get, self.caller.tenant_id, intake.memory_id("run_id", run_id))
        if found is None or not self._reaches(found):
            raise NotFound(f"there is no run {run_id}")
        return found

    def _reaches(self, run: Run) -> bool:
        """Whether this connection may see a run: that of its owner and of its scope, if it is bound to one."""
        return self.bound.owner.covers(run) and self.bound.scope in (None, run.butler)

    def _owned(self, run: Run) -> Lessons:
        return self._for(Owner(run.user_id, run.household_id, run.persona_id))


def _settle(conn: Connection, proposal: Proposal, decision: str, audit: Audit) -> None:
    """A person has decided; raises if another one did before."""
    if not storage.proposals.remove(conn, proposal, decision, audit):
        raise NotFound(f"the proposal {proposal.id} has been decided on")
    storage.runs.settle(conn, proposal.tenant_id, proposal.run_id)


def _changes(conn: Connection, run: Run) -> list[RunChange]:
    """Each memory that a run has changed, with the last thing that it did to it."""
    done = {
        event.entity_id: (event.entity_type, event.event_type)
        for event in storage.events.of_run(conn, run.tenant_id, run.id)
        if event.entity_type in ("fact", "rule")
    }
    changes: list[RunChange] = []
    for id_, (kind, what) in done.items():
        if id_ is None:
            continue
        address = Address(run.tenant_id, kind, id_)  # pyright: ignore[reportArgumentType]
        item = storage.items.get(conn, address)
        links = storage.links.of_item(conn, address, "outgoing", Bound())
        sources = [link.target_id for link in links if link.relation == "derived_from"]
        changes.append(
            RunChange(
                what=what.partition("_")[2],
                memory_type=address.kind,
                memory_id=id_,
                about=_about(item),
                content=item and item.content,
                sources=sources,
            )
        )
    return changes


def _about(item: Item | None) -> str | None:
    if not isinstance(item, Fact):
        return None
    return f"{item.subject} · {item.predicate}" if item.keyed else item.predicate


def _referred(conn: Connection, proposal: Proposal) -> Material:
    """What a proposal refers to, as it is now."""
    offer = proposal.offer
    targets = [offer["target_id"]] if "target_id" in offer else []
    episodes = offer.get("evidence", [])
    run = storage.runs.get(conn, proposal.tenant_id, proposal.run_id)
    assert run is not None
    return storage.learning.shown(conn, replace(run, shown={"episodes": episodes, "facts": targets, "rules": targets}))
