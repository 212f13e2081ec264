"""The undoing of a run: what it added is retracted, what it replaced is restored, unless someone changed it since."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from tulving.domain import claims
from tulving.domain.decay import reviewed
from tulving.domain.editing import forgotten, in_use
from tulving.domain.events import Audit, Event
from tulving.domain.learning import Run
from tulving.domain.model import KIND_OF, Fact, Item, Rule
from tulving.domain.scope import Address, Owner
from tulving.storage import events, facts, items, profiles, proposals, runs
from tulving.storage.connection import Connection

_BY_NOBODY = ("fading", "expired", "recovered", "embedded")
"""What time and maintenance do to a memory is no reason to keep it."""


@dataclass(slots=True)
class Undone:
    """What was undone of a run; `refused` says what was not, and why."""

    run_id: UUID
    retracted: list[UUID] = field(default_factory=list)
    restored: list[UUID] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def undo(conn: Connection, run: Run, audit: Audit) -> Undone:
    """Undo a run, newest change first. Nothing is remembered as unwanted: the model was wrong, not the value."""
    undone = Undone(run.id)
    happened = events.of_run(conn, run.tenant_id, run.id)
    changed = _changed_since(conn, run, happened)
    for event in reversed(happened):
        kind, id_ = event.entity_type, event.entity_id
        if event.event_type == "profile_updated":
            _restore_profile(conn, run, event, audit, undone)
        elif kind in ("fact", "rule") and id_ is not None:
            if id_ in changed:
                reason = f"{kind} {id_}: {changed[id_]} since"
                undone.refused += [reason] if reason not in undone.refused else []
            else:
                _Undoing(conn, run, audit, undone).take(event, Address(run.tenant_id, kind, id_))
    for proposal in proposals.of_ids(conn, run.tenant_id, "", [run.id]):
        proposals.remove(conn, proposal, "withdrawn", audit)
    if undone.retracted or undone.restored or not undone.refused:
        runs.change(conn, run, status="undone")
        events.append(conn, audit.event("run_undone", "run", run.id, refused=len(undone.refused)))
    return undone


def _changed_since(conn: Connection, run: Run, happened: Sequence[Event]) -> dict[UUID, str]:
    """What others did to the memories that a run has changed, after it did."""
    last = {event.entity_id: event.seq or 0 for event in happened if event.entity_id is not None}
    rows = conn.fetch_all(
        "SELECT entity_id, event_type, seq FROM memory_events WHERE tenant_id = :tenant_id"
        f" AND {conn.within('entity_id', 'ids')} AND (run_id IS NULL OR run_id <> :run_id) ORDER BY seq",
        {"tenant_id": run.tenant_id, "ids": list(last), "run_id": run.id},
    )
    changed: dict[UUID, str] = {}
    for row in rows:
        what = row["event_type"].partition("_")[2]
        if row["seq"] > last[row["entity_id"]] and what not in _BY_NOBODY:
            changed[row["entity_id"]] = what.replace("_", " ")
    return changed


def _restore_profile(conn: Connection, run: Run, event: Event, audit: Audit, undone: Undone) -> None:
    block, number = event.payload["block"], event.payload["number"]
    owner = Owner(run.user_id, run.household_id, run.persona_id)
    if not profiles.restore(conn, run.tenant_id, owner, block, number, audit, run_id=run.id):
        undone.refused.append(f"profile {block}: changed since")


class _Undoing:
    """Undoes one change of a fact or rule."""

    def __init__(self, conn: Connection, run: Run, audit: Audit, undone: Undone) -> None:
        self._conn, self._run, self._audit, self._undone = conn, run, audit, undone

    def take(self, event: Event, address: Address) -> None:
        item = items.get(self._conn, address, to_change=True)
        if not isinstance(item, Fact | Rule):
            return
        what = event.event_type.partition("_")[2]
        if what == "created" and in_use(item):
            self._change(item, forgotten(item, self._audit.now), "retracted")
            self._undone.retracted.append(item.id)
        elif what == "confirmed" and in_use(item) and "confirmed_before" in event.payload:
            before = event.payload["confirmed_before"]
            self._reconsider(item, last_confirmed_at=before and datetime.fromisoformat(before))
        elif what in ("superseded", "retracted") and isinstance(item, Fact) and not in_use(item):
            self._restore(item)

    def _restore(self, fact: Fact) -> None:
        back = replace(fact, validity="active", ended_at=None)
        self._conn.lock(claims.key(back))
        if (other := facts.holder(self._conn, back)) is not None:
            self._undone.refused.append(f"fact {fact.id}: {other.id} has taken its place")
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
