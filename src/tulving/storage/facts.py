"""Facts: at most one active row per slot, even with concurrent writers, and the earlier ones in order of time."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from tulving.domain import claims, intake, settling
from tulving.domain.claims import Claim
from tulving.domain.conflicts import detect
from tulving.domain.editing import differing, in_use, restated, split, superseded
from tulving.domain.events import Audit, AuditOf, Event
from tulving.domain.model import Fact, Stored
from tulving.domain.routing import BRIDGE
from tulving.domain.scope import Address, Bound, Filter, address_of
from tulving.domain.text import found_by, search_text
from tulving.domain.validity import as_it_was, latest, redated, start
from tulving.errors import InvalidInput
from tulving.settings import ConflictsConfig
from tulving.storage import edits, events, items, links, merge_rules, neighbours, refs, settlements
from tulving.storage.connection import Connection
from tulving.storage.embeddings import renumbered
from tulving.storage.filters import behind, visible
from tulving.storage.kinds import KIND
from tulving.storage.rows import IndexEntry, Row

# A fact that was inserted by plain SQL has no folded names until it is completed; then its own are compared.
_SUBJECT = "COALESCE(folded_subject, subject) IN (:folded_subject, :subject)"
_PREDICATE = "COALESCE(folded_predicate, predicate) IN (:folded_predicate, :predicate)"
_SLOT = "tenant_id = :tenant_id AND scope = :scope AND owner = :owner AND id <> :id"
_BY_ENTITY = f"{_SLOT} AND entity_id = :entity_id AND {_PREDICATE} AND keyed"
_BY_SUBJECT = f"{_SLOT} AND {_SUBJECT} AND {_PREDICATE} AND entity_id IS NULL AND keyed"
_BY_CONTENT = f"{_SLOT} AND content_hash = :content_hash AND NOT keyed"
_CLAIM = f"CAST(:place AS INTEGER) AS place, folded_predicate, {', '.join(Claim.__slots__)}"
_SINCE = "COALESCE(occurred_at, created_at)"
Offered = tuple[Fact, IndexEntry, Mapping[str, Any]]
"""A new fact with its index entry, and the columns that the caller gave explicitly, which an existing fact with equal
content takes over."""
Offers = Sequence[Offered]
_KEPT_IN_EVENT = ("confidence", "permanence", "type", "source_episode_id", "occurred_at", "restated_at")
"""Columns that a revision does not keep, so the event records them. Never free text: events hold none."""


def store(
    conn: Connection, offers: Offers, audit: Audit, bound: Bound, conflicts: ConflictsConfig | None = None
) -> list[Stored]:
    """001-017: store all offers in one transaction, in order; `claims.decide` decides on each. Unless `conflicts` is
    None, unkeyed ones are compared with others, and `settling.verdict` decides on those in conflict."""
    [stored] = store_each(conn, [(offers, audit, bound, conflicts)])
    return stored


def store_each(
    conn: Connection, calls: Sequence[tuple[Offers, Audit, Bound, ConflictsConfig | None]]
) -> list[list[Stored]]:
    """Several calls of `store` with the same statements."""
    facts = [fact for offers, *_ in calls for fact, _, _ in offers]
    compared = [
        claims.neighbourhood(fact)
        for offers, _, _, conflicts in calls
        for fact, _, _ in offers
        if conflicts is not None and conflicts.enabled and not fact.keyed
    ]
    keys = [claims.key(fact) for fact in facts]
    entries = iter(renumbered(conn, (entry for offers, *_ in calls for _, entry, _ in offers), [*keys, *compared]))
    for offers, _, bound, _ in calls:
        theirs = [fact for fact, _, _ in offers]
        _check_entities(conn, theirs)
        items.check_sources(conn, bound, theirs)
    batch = _Batch(conn, facts, keys)
    stored: list[list[Stored]] = []
    for offers, audit, _, conflicts in calls:
        batch.begin(audit, conflicts if compared else None)
        stored.append([batch.take(fact, next(entries), given) for fact, _, given in offers])
    batch.finish()
    return stored


def rival(
    conn: Connection, fact: Fact, entry: IndexEntry, conflicts: ConflictsConfig, audit: Audit
) -> settling.Verdict | None:
    """How a conflict of an unkeyed fact with a known one would be settled; None if it has none."""
    found = detect(fact, neighbours.find(conn, fact, entry, conflicts, audit), conflicts)
    if not found:
        return None
    rules = merge_rules.load(conn, fact.tenant_id)
    return settling.verdict(fact, found, conflicts, rules, by_model=audit.run_id is not None)


def history(
    conn: Connection,
    tenant_id: str,
    wanted: Filter,
    subject: str,
    predicate: str,
    now: datetime,
    limit: int,
    after: Sequence[Any] | None = None,
) -> list[Fact]:
    """The facts of a subject and predicate in any spelling, the last one that became true first; `after` is the place
    of the last one of the previous page."""
    where, params = visible(conn, "fact", tenant_id, wanted, now)
    beyond, place = behind(after, _SINCE, "m.created_at", "m.id")
    rows = conn.fetch_all(
        f"{KIND['fact'].select} WHERE {where} AND {_SUBJECT} AND {_PREDICATE} AND {beyond}"
        f" ORDER BY {_SINCE} DESC, m.created_at DESC, m.id DESC LIMIT :limit",
        {**params, **place, **_names(subject, predicate), "limit": limit},
    )
    found = [Fact(**row) for row in rows]
    if wanted.as_of is None:
        return found
    return [as_it_was(fact, wanted.as_of) for fact in edits.as_of(conn, found, wanted.as_of)]


def holder(conn: Connection, fact: Fact) -> Claim | None:
    """The active fact with the same key as this one."""
    key = claims.key(fact)
    return in_slots(conn, [fact], [key]).get(key)


def same_content(conn: Connection, fact: Fact) -> Claim | None:
    """Another active unkeyed fact with the content of this one, if this one is unkeyed and active. The key stays
    locked, so that none can be added before the transaction ends."""
    if fact.keyed or fact.validity != "active":
        return None
    conn.lock(claims.key(fact))
    return holder(conn, fact)


def settle(conn: Connection, unsettled: Sequence[Fact], audit_of: AuditOf) -> None:
    """Give facts that were stored without them their folded names. Where that puts two active facts into one slot, the
    older one is superseded."""
    active = [fact for fact in unsettled if fact.keyed and fact.validity == "active"]
    keys = [claims.key(fact) for fact in active]
    conn.lock(*keys)
    current = in_slots(conn, active, keys)
    rivals = {address_of(fact) for fact in active}
    for fact in unsettled:
        if address_of(fact) in rivals:
            mine, key = claims.claim(fact), claims.key(fact)
            other = current.get(key, mine)
            stays = current[key] = claims.newer(mine, other)
            if other.id != mine.id:
                audit, gone = audit_of(fact.tenant_id), mine if stays is other else other
                rivals.discard(replace(address_of(fact), id=gone.id))
                supersede(conn, fact.tenant_id, gone.id, stays.since, audit.now)
                links.insert(conn, fact.tenant_id, links.supersedes(stays.id, gone.id, audit.now))
                events.append(conn, audit.event("fact_superseded", "fact", gone.id, superseded_by=str(stays.id)))
        conn.execute(
            "UPDATE facts SET folded_subject = :folded_subject, folded_predicate = :folded_predicate"
            " WHERE tenant_id = :tenant_id AND id = :id",
            {"tenant_id": fact.tenant_id, "id": fact.id, **_indexable(fact)},
        )


def supersede(conn: Connection, tenant_id: str, id_: UUID, ended_at: datetime, now: datetime) -> None:
    """Take a fact out of use but keep it; the caller appends the event."""
    conn.execute(
        "UPDATE facts SET validity = 'superseded', status = NULL, next_review_at = NULL, ended_at = :ended_at,"
        " updated_at = :now WHERE tenant_id = :tenant_id AND id = :id",
        {"tenant_id": tenant_id, "id": id_, "ended_at": ended_at, "now": now},
    )


class _Batch:
    """A batch of offers. Existing facts are looked up for all of them at once, and new rows are written together: over
    a network each statement costs a round trip."""

    _audit: Audit
    _conflicts: ConflictsConfig | None
    _key: str
    """Of the offer that is being taken."""

    def __init__(self, conn: Connection, facts: Sequence[Fact], keys: list[str]) -> None:
        self._conn, self._facts, self._keys = conn, facts, keys
        self._current = in_slots(conn, facts, keys)
        self._refs = refs.taken(conn, facts)
        self._new: dict[UUID, tuple[Fact, IndexEntry]] = {}
        self._events: list[Event] = []

    def begin(self, audit: Audit, conflicts: ConflictsConfig | None) -> None:
        """The offers that follow are from this caller."""
        self._audit, self._conflicts = audit, conflicts

    def take(self, fact: Fact, entry: IndexEntry, given: Mapping[str, Any]) -> Stored:
        self._key = claims.key(fact)
        current = self._current.get(self._key)
        decision = claims.decide(fact, current)
        if current is None:
            return self._store(fact, entry) if fact.keyed or self._conflicts is None else self._compare(fact, entry)
        if decision == "duplicate":
            self._vouch(current)
            return Stored(id=current.id, outcome="duplicate", ref=current.ref)
        if current.id in self._new or decision in ("antedate", "outdated"):
            self.write()  # the row is about to be changed, or rows of the slot are about to be read
        if decision == "confirm":
            return self._confirm(fact, current, given)
        if decision != "supersede":
            return self._place(fact, entry, given, current)
        self._supersede(fact, current)
        stored = self._store(replace(fact, supersedes_id=current.id), entry)
        return replace(stored, outcome="superseded", superseded_id=current.id)

    def _vouch(self, current: Claim) -> None:
        """Whoever stores what the bridge has made of an episode says it too: it no longer depends on the episode."""
        if self._audit.caller.actor != BRIDGE:
            this = {"tenant_id": self._audit.caller.tenant_id, "id": current.id}
            self._conn.execute("DELETE FROM bridged_facts WHERE tenant_id = :tenant_id AND fact_id = :id", this)

    def write(self) -> None:
        """Insert the new rows so far. Their events are appended later, so that all events keep their order."""
        if self._new:
            items.insert(self._conn, "fact", list(self._new.values()))
            self._new.clear()

    def finish(self) -> None:
        """Insert the rest, and append the events."""
        self.write()
        events.append(self._conn, *self._events)
        self._events.clear()

    def _compare(self, fact: Fact, entry: IndexEntry) -> Stored:
        """Store an unkeyed fact; if it is in conflict with a known one, that is settled at once or held."""
        assert self._conflicts is not None
        self.finish()  # the facts of this batch are known by now
        while (verdict := rival(self._conn, fact, entry, self._conflicts, self._audit)) is not None:
            known = items.get(self._conn, address_of(verdict.conflict.existing), to_change=True)
            if isinstance(known, Fact) and in_use(known) and known.content == verdict.conflict.existing.content:
                return self._settle(fact, entry, known, verdict)
        return self._store(fact, entry)

    def _settle(self, fact: Fact, entry: IndexEntry, known: Fact, verdict: settling.Verdict) -> Stored:
        stored = self._store(fact, entry)
        self.finish()
        left = fact = replace(fact, ref=stored.ref)
        settlement = settlements.record(self._conn, fact, verdict, self._audit)
        if not verdict.held:
            same = verdict.conflict.same
            settlement, left = settlements.carry_out(self._conn, settlement, fact, known, self._audit, same=same)
            self._current = in_slots(self._conn, self._facts, self._keys)
        replaced = known.id if settlement.outcome in ("superseded", "merged") else None
        return replace(
            stored, id=left.id, ref=left.ref, outcome=settlement.outcome, superseded_id=replaced, conflict=settlement
        )

    def _store(self, fact: Fact, entry: IndexEntry) -> Stored:
        if fact.ref is not None:
            ref = refs.free(self._conn, fact, self._refs, self._audit.new_id)
            fact = fact if ref == fact.ref else replace(fact, ref=ref)
            self._refs.add(ref)
        self._add(fact, entry)
        self._current[self._key] = claims.claim(fact)
        return Stored(id=fact.id, outcome="stored", ref=fact.ref)

    def _add(self, fact: Fact, entry: IndexEntry) -> None:
        self._log(
            "fact_created",
            fact.id,
            content_hash=fact.content_hash,
            confidence=fact.confidence,
            importance=fact.importance,
            supersedes=fact.supersedes_id and str(fact.supersedes_id),
        )
        self._new[fact.id] = fact, entry

    def _confirm(self, fact: Fact, current: Claim, given: Mapping[str, Any]) -> Stored:
        """Equal content: the fact is confirmed and takes over the given values."""
        known = self._known(current)
        dates = redated(known, fact.occurred_at) if fact.occurred_at else {}
        changes = differing(known, {name: value for name, value in given.items() if name != "occurred_at"} | dates)
        details: dict[str, Any] = {}
        if changes:
            details["revision"] = edits.keep(self._conn, known, self._audit.now)
            details["changed"] = sorted(changes.keys() - {"decay_rate"})
            details["before"] = {name: _plain(getattr(known, name)) for name in _KEPT_IN_EVENT if name in changes}
        new = restated(known, changes, self._audit.now)
        items.update(self._conn, (known, new))
        self._log("fact_confirmed", known.id, by="repetition", **details)
        if "occurred_at" in dates:
            self._make_room(new, self._around(new)[0])
        self._current[self._key] = claims.claim(new)
        return Stored(id=known.id, outcome="confirmed", ref=known.ref)

    def _supersede(self, fact: Fact, current: Claim) -> None:
        supersede(self._conn, fact.tenant_id, current.id, start(fact), self._audit.now)
        self._replaced(fact.id, current.id)

    def _place(self, fact: Fact, entry: IndexEntry, given: Mapping[str, Any], current: Claim) -> Stored:
        """A fact that is dated before the current one: it belongs between those that were true before and after it."""
        before, after = self._around(fact)
        same = claims.continued(fact, before, after)
        if same is not None and same.id == current.id:
            return self._confirm(fact, current, given)
        late = Stored(id=fact.id, outcome="outdated", superseded_by=current.id)
        if same is not None:
            self._redate(same, start(fact))
            return replace(late, id=same.id)
        after = self._make_room(fact, before) or after
        assert after is not None
        self._add(superseded(fact, start(after), self._audit.now), entry)
        self._replaced(current.id, fact.id)
        return late

    def _around(self, fact: Fact) -> tuple[Fact | None, Fact | None]:
        """The other fact of the slot that held when this one became true, and the next one. Rows of other origin may
        overlap: then the active one counts."""
        before = f"{_SINCE} <= :since ORDER BY m.validity = 'active' DESC, {_SINCE} DESC, m.created_at DESC, m.id DESC"
        return self._first(fact, before), self._first(fact, f"{_SINCE} > :since ORDER BY {_SINCE}, m.created_at, m.id")

    def _first(self, fact: Fact, condition: str) -> Fact | None:
        row = self._conn.fetch_one(
            f"{KIND['fact'].select} WHERE {_slot(fact)} AND {KIND['fact'].kept} AND (m.ended_at IS NULL"
            f" OR m.ended_at > :since AND m.ended_at > {_SINCE}) AND {condition} LIMIT 1{self._conn.for_update}",
            {**_slot_params(fact), "since": start(fact)},
        )
        return None if row is None else Fact(**row)

    def _make_room(self, fact: Fact, before: Fact | None) -> Fact | None:
        """What held when this fact became true ends then. If it was stated again for a later time, its earlier part
        becomes a fact of its own; the rest is returned."""
        if before is None:
            return None
        now = self._audit.now
        if latest(before) <= start(fact):
            items.update(self._conn, (before, superseded(before, start(fact), now)))
            self._replaced(fact.id, before.id)
            return None
        earlier, later = split(before, start(fact), self._audit.new_id(), now)
        items.update(self._conn, (before, later))
        self._log("fact_split", before.id, earlier=str(earlier.id))
        self._add(earlier, IndexEntry(search_text(found_by(earlier)), None, None))
        self._replaced(fact.id, earlier.id)
        if later.validity == "active":
            self._current[self._key] = claims.claim(later)
        return later

    def _redate(self, known: Fact, stated: datetime) -> None:
        """A fact of the past is stated again, for another time."""
        dates = redated(known, stated)
        if dates:
            new = replace(known, **dates, updated_at=self._audit.now)
            items.update(self._conn, (known, new))
            before = {name: _plain(getattr(known, name)) for name in dates}
            self._log("fact_restated", known.id, before=before)
            self._make_room(new, self._around(new)[0])

    def _replaced(self, new_id: UUID, old_id: UUID) -> None:
        tenant_id = self._audit.caller.tenant_id
        links.insert(self._conn, tenant_id, links.supersedes(new_id, old_id, self._audit.now))
        self._log("fact_superseded", old_id, superseded_by=str(new_id))

    def _known(self, current: Claim) -> Fact:
        known = items.get_to_change(self._conn, Address(self._audit.caller.tenant_id, "fact", current.id))
        assert isinstance(known, Fact)
        return known

    def _log(self, event_type: str, id_: UUID, **payload: object) -> None:
        self._events.append(self._audit.event(event_type, "fact", id_, **payload))


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, float) else str(value)


def in_slots(conn: Connection, facts: Sequence[Fact], keys: list[str]) -> dict[str, Claim]:
    """The other active facts with the same keys."""
    found: dict[str, Claim] = {}
    asked: dict[str, list[Row]] = {}
    for place, fact in enumerate(facts):
        asked.setdefault(_slot(fact), []).append({**_slot_params(fact), "place": place})
    for slot, rows in asked.items():
        active = f"SELECT {_CLAIM} FROM facts WHERE {slot} AND validity = 'active'{conn.for_update}"
        for row in conn.fetch_for_each(active, rows):
            key, folded = keys[row.pop("place")], row.pop("folded_predicate")
            if key not in found or folded is not None:  # a plain row beside it does not have the slot
                found[key] = Claim(**row)
    return found


def _slot(fact: Fact) -> str:
    """The condition for the other facts with the same key."""
    return _BY_CONTENT if not fact.keyed else _BY_SUBJECT if fact.entity_id is None else _BY_ENTITY


def _slot_params(fact: Fact) -> Row:
    names = ("tenant_id", "id", "entity_id", "scope", "owner", "content_hash")
    return {**{name: getattr(fact, name) for name in names}, **_names(fact.subject, fact.predicate)}


def _indexable(fact: Fact) -> Row:
    """The folded names of a fact, or its own if those are too long for an index: some letters fold to many."""
    names = _names(fact.subject, fact.predicate)
    try:
        intake.key(
            "subject", fact.tenant_id, fact.scope, fact.owner, names["folded_subject"], names["folded_predicate"]
        )
    except InvalidInput:
        return {"folded_subject": fact.subject, "folded_predicate": fact.predicate}
    return names


def _names(subject: str, predicate: str) -> Row:
    return {
        "subject": subject,
        "predicate": predicate,
        "folded_subject": claims.folded(subject),
        "folded_predicate": claims.folded(predicate),
    }


def _check_entities(conn: Connection, facts: Sequence[Fact]) -> None:
    """001-018: the entity of a fact must exist in its tenant, and must not be merged before the fact is stored."""
    wanted = [fact for fact in facts if fact.entity_id is not None]
    if not wanted:
        return
    # In the order of their ids, like a merge, to avoid deadlocks.
    rows = conn.fetch_all(
        f"SELECT id, merged_into FROM entities WHERE tenant_id = :tenant_id AND {conn.within('id', 'ids')} ORDER BY id"
        + conn.for_reference,
        {"tenant_id": wanted[0].tenant_id, "ids": list({fact.entity_id for fact in wanted})},
    )
    found = {row["id"]: row["merged_into"] for row in rows}
    for fact in wanted:
        into = found.get(fact.entity_id)
        if fact.entity_id not in found or into is not None:
            problem = "does not exist" if into is None else f"was merged into {into}"
            raise InvalidInput("entity_id", f"entity {fact.entity_id} {problem}", "the id of one of your entities")
