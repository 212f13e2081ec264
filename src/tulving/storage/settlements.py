"""Settled conflicts between unkeyed facts: what a settlement changes, and how it is reverted."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, fields, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from tulving.domain.claims import key, neighbourhood
from tulving.domain.decay import reviewed
from tulving.domain.editing import confirmed, forgotten, in_use, superseded
from tulving.domain.events import Audit, Event
from tulving.domain.intake import MAX_CONTENT_BYTES
from tulving.domain.merging import content_strategy, merge
from tulving.domain.model import Fact, Link, Relation, Settlement
from tulving.domain.scope import Address, Bound
from tulving.domain.settling import Verdict, merged_fact, outcome
from tulving.domain.text import found_by, search_text
from tulving.domain.validity import start
from tulving.errors import InvalidInput
from tulving.storage import events, items, links, merge_rules, refs
from tulving.storage import forgotten as unwanted
from tulving.storage.connection import Connection
from tulving.storage.filters import behind, reach
from tulving.storage.kinds import KIND
from tulving.storage.rows import IndexEntry, insert_statement

_COLUMNS = tuple(each.name for each in fields(Settlement))
_INSERT = insert_statement("settlements", _COLUMNS)
_SELECT = f"SELECT {', '.join(f'm.{name}' for name in _COLUMNS)} FROM settlements AS m"


# -- what a settlement changes ---------------------------------------------------------------------------------


def record(conn: Connection, candidate: Fact, verdict: Verdict, audit: Audit) -> Settlement:
    """Write down how a conflict is to be settled. It is carried out next, unless it is held for a person."""
    arbitration, existing = verdict.arbitration, verdict.conflict.existing
    settlement = Settlement(
        **{name: getattr(candidate, name) for name in _OF_CANDIDATE},
        id=audit.new_id(),
        candidate_id=candidate.id,
        existing_id=existing.id,
        outcome="held" if verdict.held else outcome(arbitration.action, arbitration.loser, existing.id),
        action=arbitration.action,
        winner_id=arbitration.winner,
        loser_id=arbitration.loser,
        confidence=arbitration.confidence,
        reason=arbitration.reason,
        signals=[_plain(asdict(signal)) for signal in verdict.conflict.signals],
        rule=verdict.rule.name,
        status="held" if verdict.held else "applied",
        run_id=audit.run_id,
        created_at=audit.now,
        updated_at=audit.now,
    )
    conn.execute(_INSERT, {name: getattr(settlement, name) for name in _COLUMNS})
    events.append(conn, _event(settlement, "held" if verdict.held else "settled", audit))
    return settlement


_OF_CANDIDATE = ("tenant_id", "owner", "user_id", "household_id", "persona_id", "scope", "project")


def _plain(signal: dict[str, Any]) -> dict[str, Any]:
    return {**signal, "target_id": str(signal["target_id"])}


def carry_out(
    conn: Connection,
    settlement: Settlement,
    candidate: Fact,
    existing: Fact,
    audit: Audit,
    *,
    same: bool = False,
) -> tuple[Settlement, Fact]:
    """Change the two facts as the settlement says; both are in use. The loser is superseded, a rejected candidate is
    retracted, and a merge is a new fact derived from both: nothing is destroyed. If both say the `same`, the one that
    stays is confirmed. The second value is the fact that stands for the candidate now."""
    done = replace(settlement, status="applied", updated_at=audit.now)
    done = replace(done, outcome=outcome(done.action, done.loser_id, existing.id))
    left = candidate
    match done.outcome:
        case "superseded":
            items.update(conn, (candidate, replace(candidate, supersedes_id=existing.id)))
            _supersede(conn, existing, candidate.id, start(candidate), audit)
        case "kept":
            _supersede(conn, candidate, existing.id, start(existing), audit)
            left = existing
            if same:
                before = existing.last_confirmed_at and existing.last_confirmed_at.isoformat()
                items.update(conn, (existing, confirmed(existing, audit.now)))
                event = audit.event("fact_confirmed", "fact", existing.id, by="repetition", confirmed_before=before)
                events.append(conn, event)
        case "merged":
            left = _merge(conn, done, candidate, existing, audit)
            done = replace(done, merged_id=left.id)
        case _:
            items.update(conn, (candidate, forgotten(candidate, audit.now)))
            events.append(conn, audit.event("fact_retracted", "fact", candidate.id, by="conflict"))
    if done != settlement:
        _change(conn, done)
    return done, left


def _supersede(
    conn: Connection, fact: Fact, by: UUID, since: datetime, audit: Audit, *, relation: Relation = "supersedes"
) -> None:
    """Take a fact out of use for another one. It held until the other began to; if that was earlier, it never did."""
    items.update(conn, (fact, superseded(fact, max(since, start(fact)), audit.now)))
    link = Link(
        source_type="fact",
        source_id=by,
        target_type="fact",
        target_id=fact.id,
        relation=relation,
        created_at=audit.now,
    )
    links.insert(conn, fact.tenant_id, link)
    events.append(conn, audit.event("fact_superseded", "fact", fact.id, superseded_by=str(by)))


def _merge(conn: Connection, settlement: Settlement, candidate: Fact, existing: Fact, audit: Audit) -> Fact:
    """The new fact, or the one that says the same already. Its vector follows when it is embedded."""
    rules = merge_rules.load(conn, settlement.tenant_id)
    rule = rules.get_rule(settlement.rule) or rules.find_matching_rule(candidate, existing)  # it may be deleted by now
    similarity, priorities = _similarity(settlement), rule.arbitration.source_priorities
    result = merge(existing, candidate, rule.merge, similarity=similarity, source_priorities=priorities)
    if len(result.content.encode()) > MAX_CONTENT_BYTES:  # both together are more than a note may hold
        result = replace(result, content=candidate.content)
    merged = merged_fact(candidate, existing, result, audit.new_id(), audit.now)
    merged = replace(merged, ref=refs.free(conn, merged, refs.taken(conn, [merged]), audit.new_id))
    conn.lock(key(merged))
    known = _same_content(conn, merged, candidate, existing)
    made = known or merged
    for fact in (existing, candidate):
        _supersede(conn, fact, made.id, start(made), audit, relation="derived_from")
    if known is None:
        items.insert(conn, "fact", [(merged, IndexEntry(search_text(found_by(merged)), None, None))])
        payload = {"content_hash": merged.content_hash, "importance": merged.importance, "by": "merge"}
        events.append(conn, audit.event("fact_created", "fact", merged.id, **payload))
    return made


def to_summarize(conn: Connection, settlement: Settlement) -> tuple[Fact, Fact, Fact] | None:
    """The candidate, the known fact and what was merged of them, if a model is to write that."""
    rules = merge_rules.load(conn, settlement.tenant_id)
    rule = rules.get_rule(settlement.rule)
    ids = [id_ for id_ in (settlement.candidate_id, settlement.existing_id, settlement.merged_id) if id_ is not None]
    found = {fact.id: fact for fact in facts_of(conn, settlement.tenant_id, ids)}
    if rule is None or len(found) < 3 or rule.merge.summarize_with != "model":
        return None
    candidate, existing, merged = (found[id_] for id_ in ids)
    strategy = content_strategy(existing, candidate, rule.merge, _similarity(settlement))
    return (candidate, existing, merged) if strategy == "summarize" else None


def _similarity(settlement: Settlement) -> float | None:
    return next((signal["score"] for signal in settlement.signals if signal["kind"] == "semantic"), None)


def _same_content(conn: Connection, fact: Fact, *but: Fact) -> Fact | None:
    """Another unkeyed fact in use with this content."""
    rows = conn.fetch_all(
        f"{KIND['fact'].select} WHERE m.tenant_id = :tenant_id AND m.scope = :scope AND m.owner = :owner"
        " AND m.content_hash = :content_hash AND NOT m.keyed AND m.validity = 'active'",
        {name: getattr(fact, name) for name in ("tenant_id", "scope", "owner", "content_hash")},
    )
    others = {fact.id, *(each.id for each in but)}
    return next((Fact(**row) for row in rows if row["id"] not in others), None)


# -- what a person does with it --------------------------------------------------------------------------------


def get(conn: Connection, tenant_id: str, id_: UUID, bound: Bound, *, to_change: bool = False) -> Settlement | None:
    """A settlement that a caller may see. `to_change` locks it, and its owner's notes against being compared: a store
    verb that does that locks them first, too."""
    where, params = reach("fact", tenant_id, bound)
    query, params = f"{_SELECT} WHERE {where} AND m.id = :id", {**params, "id": id_}
    row = conn.fetch_one(query, params)
    if row is not None and to_change:
        conn.lock(neighbourhood(Settlement(**row)))
        row = conn.fetch_one(query + conn.for_update, params)
    return Settlement(**row) if row else None


def listing(
    conn: Connection,
    tenant_id: str,
    bound: Bound,
    limit: int,
    status: str | None = None,
    id_: UUID | None = None,
    after: Sequence[Any] | None = None,
) -> list[tuple[Settlement, Fact, Fact, Fact | None]]:
    """The settlements that a caller may see, or the one with this id, newest first, each with both sides and what was
    merged of them; `after` is the place of the last one of the previous page."""
    where, params = reach("fact", tenant_id, bound)
    beyond, place = behind(after, "m.created_at", "m.id")
    if id_ is not None:
        where, params["id"] = f"{where} AND m.id = :id", id_
    if status is not None:
        where, params["status"] = f"{where} AND m.status = :status", status
    rows = conn.fetch_all(
        f"{_SELECT} WHERE {where} AND {beyond} ORDER BY m.created_at DESC, m.id DESC LIMIT :limit",
        {**params, **place, "limit": limit},
    )
    found = [Settlement(**row) for row in rows]
    ids = {id_ for each in found for id_ in (each.candidate_id, each.existing_id, each.merged_id) if id_}
    facts = {fact.id: fact for fact in facts_of(conn, tenant_id, ids)}
    return [
        (each, facts[each.candidate_id], facts[each.existing_id], facts[each.merged_id] if each.merged_id else None)
        for each in found
    ]


def of_fact(conn: Connection, tenant_id: str, id_: UUID, bound: Bound) -> list[Settlement]:
    """The settlements of which a fact is a side or the result, oldest first."""
    where, params = reach("fact", tenant_id, bound)
    # Not OR, for which no index is used.
    sides = " UNION ".join(
        f"{_SELECT} WHERE {where} AND m.{column} = :id" for column in ("candidate_id", "existing_id", "merged_id")
    )
    rows = conn.fetch_all(f"{sides} ORDER BY created_at, id", {**params, "id": id_})
    return [Settlement(**row) for row in rows]


def facts_of(conn: Connection, tenant_id: str, ids: Collection[UUID]) -> list[Fact]:
    """The facts with these ids."""
    rows = conn.fetch_all(
        f"{KIND['fact'].select} WHERE m.tenant_id = :tenant_id AND {conn.within('m.id', 'ids')}",
        {"tenant_id": tenant_id, "ids": list(ids)},
    )
    return [Fact(**row) for row in rows]


def count_held(conn: Connection, tenant_id: str, bound: Bound) -> Counter[UUID | None]:
    """How many settlements that a caller may see wait for a person, by the run that proposed them."""
    where, params = reach("fact", tenant_id, bound)
    rows = conn.fetch_all(
        f"SELECT m.run_id, COUNT(*) AS waiting FROM settlements AS m WHERE {where} AND m.status = 'held'"
        " GROUP BY m.run_id",
        params,
    )
    return Counter({row["run_id"]: row["waiting"] for row in rows})


def accept(conn: Connection, settlement: Settlement, audit: Audit) -> Settlement:
    """Carry out what was held."""
    _check_status(settlement, "held")
    candidate, existing = _sides(conn, settlement)
    for fact in (candidate, existing):
        if not in_use(fact):
            raise _refused(settlement, f"the note {fact.id} is no longer in use")
    events.append(conn, _event(settlement, "accepted", audit))
    return carry_out(conn, settlement, candidate, existing, audit)[0]


def dismiss(conn: Connection, settlement: Settlement, audit: Audit) -> Settlement:
    """Leave both sides of a held settlement as they are, for good."""
    _check_status(settlement, "held")
    return _close(conn, settlement, "dismissed", audit)


def revert(conn: Connection, settlement: Settlement, audit: Audit) -> Settlement:
    """Put what the settlement took out of use back, and retract what was merged of both sides. What a person has
    forgotten since, or what another note says by now, does not come back: then nothing changes. Nor does a winner that
    was replaced or forgotten for other reasons."""
    _check_status(settlement, "applied")
    sides = _sides(conn, settlement)
    if settlement.merged_id is not None:
        merged = items.get(conn, Address(settlement.tenant_id, "fact", settlement.merged_id), to_change=True)
        if isinstance(merged, Fact) and in_use(merged) and merged.supersedes_id == settlement.existing_id:
            items.update(conn, (merged, forgotten(merged, audit.now)))
            events.append(conn, audit.event("fact_retracted", "fact", merged.id, by="revert"))
    for fact in sides:
        if fact.id != settlement.winner_id and not in_use(fact):
            _restore(conn, settlement, fact, audit)
    return _close(conn, settlement, "reverted", audit)


def mark_undone(conn: Connection, tenant_id: str, run_id: UUID, refused: Collection[UUID], audit: Audit) -> None:
    """A run was undone, and with it what it had settled, except where a side was `refused`: that can still be
    reverted."""
    rows = conn.fetch_all(
        f"{_SELECT} WHERE m.tenant_id = :tenant_id AND m.run_id = :run_id AND m.status IN ('applied', 'held')"
        f" ORDER BY m.id{conn.for_update}",
        {"tenant_id": tenant_id, "run_id": run_id},
    )
    for settlement in (Settlement(**row) for row in rows):
        if settlement.status == "held":
            dismiss(conn, settlement, audit)
        elif not {settlement.candidate_id, settlement.existing_id, settlement.merged_id}.intersection(refused):
            _close(conn, settlement, "reverted", audit)


def _restore(conn: Connection, settlement: Settlement, fact: Fact, audit: Audit) -> None:
    noted = unwanted.noted_at(conn, fact, audit.new_id)
    if noted is not None and noted >= settlement.created_at:
        raise _refused(settlement, f"the note {fact.id} was forgotten since")
    conn.lock(key(fact))
    if (other := _same_content(conn, fact)) is not None:
        raise _refused(settlement, f"the note {other.id} says the same by now")
    now = audit.now
    back = replace(fact, validity="active", status=None, ended_at=None, updated_at=now)
    items.update(conn, (fact, reviewed(back, now, now).item))
    events.append(conn, audit.event("fact_restored", "fact", fact.id, by="revert"))


def _sides(conn: Connection, settlement: Settlement) -> tuple[Fact, Fact]:
    """The candidate and the known fact, locked. Neither can have been deleted: the settlement would be too."""
    candidate, existing = (
        items.get_to_change(conn, Address(settlement.tenant_id, "fact", id_))
        for id_ in (settlement.candidate_id, settlement.existing_id)
    )
    assert isinstance(candidate, Fact)
    assert isinstance(existing, Fact)
    return candidate, existing


def _check_status(settlement: Settlement, status: str) -> None:
    if settlement.status != status:
        raise _refused(settlement, f"it is {settlement.status}", f"one that is {status}")


def _refused(
    settlement: Settlement, problem: str, allowed: str = "a conflict whose notes have not changed"
) -> InvalidInput:
    return InvalidInput("conflict_id", f"the conflict {settlement.id} can't be changed: {problem}", allowed)


def _close(
    conn: Connection, settlement: Settlement, status: Literal["reverted", "dismissed"], audit: Audit
) -> Settlement:
    done = replace(settlement, status=status, updated_at=audit.now)
    _change(conn, done)
    events.append(conn, _event(done, status, audit))
    return done


def _change(conn: Connection, settlement: Settlement) -> None:
    changed = ("status", "outcome", "merged_id", "updated_at")
    conn.execute(
        f"UPDATE settlements SET {', '.join(f'{name} = :{name}' for name in changed)} {items.THIS}",
        {name: getattr(settlement, name) for name in ("tenant_id", "id", *changed)},
    )


def _event(settlement: Settlement, what: str, audit: Audit) -> Event:
    facts = {name: str(getattr(settlement, name)) for name in ("candidate_id", "existing_id")}
    return audit.event(f"conflict_{what}", "settlement", settlement.id, **facts, outcome=settlement.outcome)
