"""The undoing of a run: what it added is retracted, what it replaced is restored, unless someone changed it since."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from tulving.domain import claims
from tulving.domain.decay import reviewed
from tulving.domain.editing import edited, forgotten, in_use, is_forgotten
from tulving.domain.events import Audit, Event
from tulving.domain.learning import Run
from tulving.domain.model import KIND_OF, Fact, Item, Rule
from tulving.domain.records import Record
from tulving.domain.scope import Address, Bound, Owner, address_of
from tulving.domain.text import found_by, search_text
from tulving.errors import InvalidInput
from tulving.storage import edits, events, facts, items, links, profiles, proposals, runs, settlements
from tulving.storage import forgotten as unwanted
from tulving.storage.connection import Connection, savepoint
from tulving.storage.rows import IndexEntry

_BY_NOBODY = ("fading", "expired", "recovered", "embedded")
"""What time and maintenance do to a memory is no reason to keep it."""
_AWAY = ("forgotten", "deleted", "retracted")
Changes = Mapping[UUID, tuple[int, str]]
"""The last thing that others did to a memory, after its place in the order of events."""


@dataclass(slots=True, repr=False)
class Undone(Record):
    """What was undone of a run: what it added, what it replaced or confirmed, and which blocks of the profile it wrote.
    `refused` says what was not undone, and why."""

    run_id: UUID
    retracted: list[UUID] = field(default_factory=list)
    restored: list[UUID] = field(default_factory=list)
    profile: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def undo(conn: Connection, run: Run, audit: Audit) -> Undone:
    """Undo a run, newest change first. Nothing is remembered as unwanted: the model was wrong, not the value."""
    run = runs.get(conn, run.tenant_id, run.id, to_change=True) or run
    _check_is_over(run, audit.now)
    undone = Undone(run.id)
    happened = events.of_run(conn, run.tenant_id, run.id)
    changed = _changed_since(conn, run, happened)
    read = {event.entity_id for event in happened if event.entity_id and event.entity_type == "episode"}
    undoing = _Undoing(conn, run, audit, undone, read)
    for event in reversed(happened):
        kind, id_ = event.entity_type, event.entity_id
        if event.event_type == "profile_updated":
            _restore_profile(conn, run, event, audit, undone)
        elif kind in ("fact", "rule") and id_ is not None:
            if reason := _objection(event, changed):
                undoing.refuse(kind, id_, reason)
            else:
                undoing.take(event, Address(run.tenant_id, kind, id_))
    for proposal in proposals.of_ids(conn, run.tenant_id, Bound(), [run.id]):
        proposals.remove(conn, proposal, "withdrawn", audit)
    settlements.mark_undone(conn, run.tenant_id, run.id, undoing.left, audit)
    if undone.retracted or undone.restored or undone.profile or not undone.refused:
        runs.change(conn, run, status="undone")
        events.append(conn, audit.event("run_undone", "run", run.id, refused=len(undone.refused)))
    return undone


def rehearse(conn: Connection, run: Run, audit: Audit) -> Undone:
    """Undo a run and roll that back: the only exact preview."""
    try:
        with savepoint(conn):
            raise _Rehearsed(undo(conn, run, audit))
    except _Rehearsed as rehearsed:
        return rehearsed.undone


class _Rehearsed(Exception):
    """The result of undoing a run, raised to roll it back."""

    def __init__(self, undone: Undone) -> None:
        self.undone = undone


def _check_is_over(run: Run, now: datetime) -> None:
    """A run whose lease is over is not coming back, even if it never said that it ended."""
    going_on = run.status == "open" and run.lease_until is not None and run.lease_until > now
    if going_on or run.status == "undone":
        problem = "is not finished yet" if going_on else "was undone before"
        raise InvalidInput("run_id", f"the run {run.id} {problem}", "a run that has ended")


def _changed_since(conn: Connection, run: Run, happened: Sequence[Event]) -> Changes:
    """What others did to the memories that a run has changed. What another run did and was undone does not count, nor
    does a conflict of this run that was reverted."""
    rows = conn.fetch_all(
        "SELECT entity_id, event_type, run_id, payload, seq FROM memory_events WHERE tenant_id = :tenant_id"
        f" AND {conn.within('entity_id', 'ids')} AND (run_id IS NULL OR run_id <> :run_id) ORDER BY seq",
        {"tenant_id": run.tenant_id, "ids": list({event.entity_id for event in happened} - {None}), "run_id": run.id},
    )
    cancelled = {(row["entity_id"], row["payload"]["run"]) for row in rows if row["payload"].get("by") == "undo"}
    changed: dict[UUID, tuple[int, str]] = {}
    for row in rows:
        what, taken_back = row["event_type"].partition("_")[2], row["payload"].get("by") in ("undo", "revert")
        if what not in _BY_NOBODY and not taken_back and (row["entity_id"], str(row["run_id"])) not in cancelled:
            changed[row["entity_id"]] = row["seq"], what
    return changed


def _objection(event: Event, changed: Changes) -> str | None:
    """Why a change must not be undone: somebody has changed the memory since, or kept the one that replaced it."""

    def since(id_: UUID | None) -> str | None:
        seq, what = changed.get(id_, (0, "")) if id_ else (0, "")
        return what if seq > (event.seq or 0) else None

    if what := since(event.entity_id):
        return f"{what.replace('_', ' ')} since"
    replaced_by = event.payload.get("superseded_by")
    what = since(UUID(replaced_by)) if replaced_by else None
    if what is None or what in _AWAY:
        return None
    return f"{replaced_by}, which replaced it, was {what.replace('_', ' ')} since"


def _restore_profile(conn: Connection, run: Run, event: Event, audit: Audit, undone: Undone) -> None:
    block, number = event.payload["block"], event.payload["number"]
    owner = Owner(run.user_id, run.household_id, run.persona_id)
    if not profiles.restore(conn, run.tenant_id, owner, block, number, audit, run_id=run.id):
        undone.refused.append(f"profile {block}: changed since")
    elif block not in undone.profile:
        undone.profile.append(block)


class _Undoing:
    """Undoes the changes of facts and rules, one by one. `read` are the episodes that the run has read; `left` is what
    stays as it is."""

    def __init__(self, conn: Connection, run: Run, audit: Audit, undone: Undone, read: set[UUID]) -> None:
        self._conn, self._run, self._audit, self._undone, self._read = conn, run, audit, undone, read
        self.left: set[UUID] = set()

    def take(self, event: Event, address: Address) -> None:
        item = items.get(self._conn, address, to_change=True)
        if not isinstance(item, Fact | Rule):
            return
        what = event.event_type.partition("_")[2]
        if what == "created" and not (is_forgotten(item) or (isinstance(item, Fact) and item.validity == "superseded")):
            self._change(item, forgotten(item, self._audit.now), "retracted")
            self._undone.retracted.append(item.id)
            self._undone.restored = [id_ for id_ in self._undone.restored if id_ != item.id]
        elif what == "edited" and in_use(item):
            self._unedit(item, event.payload["revision"])
        elif what == "confirmed" and in_use(item) and "confirmed_before" in event.payload:
            before = event.payload["confirmed_before"]
            self._reconsider(item, last_confirmed_at=before and datetime.fromisoformat(before))
            links.remove_support(self._conn, address, self._read, event.occurred_at)
            self._undone.restored += [] if item.id in self._undone.restored else [item.id]
        elif what in ("superseded", "retracted") and isinstance(item, Fact) and not in_use(item):
            noted = unwanted.noted_at(self._conn, item, self._audit.new_id) if what == "retracted" else None
            if noted is not None and noted >= event.occurred_at:  # no event tells it: the fact was out of use already
                self.refuse("fact", item.id, "forgotten since")
            else:
                self._restore(item)

    def refuse(self, kind: str, id_: UUID, problem: str) -> None:
        self.left.add(id_)
        reason = f"{kind} {id_}: {problem}"
        self._undone.refused += [] if reason in self._undone.refused else [reason]

    def _unedit(self, item: Fact | Rule, number: int) -> None:
        """What it said before comes back. It gets its vector later."""
        before = next(each for each in edits.revisions(self._conn, address_of(item)) if each.number == number)
        new = edited(item, {"content": before.content}, self._audit.now)
        edits.keep(self._conn, item, self._audit.now)
        self._change(item, new, "restored")
        edits.reindex(self._conn, new, IndexEntry(search_text(found_by(new)), None, None))
        self._undone.restored.append(item.id)

    def _restore(self, fact: Fact) -> None:
        back = replace(fact, validity="active", ended_at=None)
        self._conn.lock(claims.key(back))
        if (other := facts.holder(self._conn, back)) is not None:
            self.refuse("fact", fact.id, f"{other.id} has taken its place")
            return
        self._reconsider(fact, validity="active", ended_at=None)
        self._undone.restored.append(fact.id)

    def _reconsider(self, item: Fact | Rule, **changes: Any) -> None:
        """A memory as it was, with the state that it would have by now."""
        now = self._audit.now
        new: Fact | Rule = replace(item, **changes, status=None, updated_at=now)
        self._change(item, reviewed(new, now, now).item, "restored")

    def _change(self, old: Item, new: Item, what: str) -> None:
        items.update(self._conn, (old, new))
        kind = KIND_OF[type(old)]
        event = self._audit.event(f"{kind}_{what}", kind, old.id, by="undo", run=str(self._run.id))
        events.append(self._conn, event)
