"""Facts: at most one active row per key, even with concurrent writers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from tulving.domain import claims
from tulving.domain.claims import Claim
from tulving.domain.editing import differing, restated
from tulving.domain.events import Audit, Event
from tulving.domain.model import Fact, Stored
from tulving.domain.scope import Address, Bound, Filter
from tulving.errors import InvalidInput
from tulving.storage import edits, events, items, links
from tulving.storage.connection import Connection
from tulving.storage.embeddings import renumbered
from tulving.storage.filters import visible
from tulving.storage.kinds import KIND
from tulving.storage.rows import IndexEntry, Row

_ACTIVE = (
    "SELECT CAST(:place AS INTEGER) AS place, id, content_hash, ref FROM facts"
    " WHERE tenant_id = :tenant_id AND validity = 'active'"
)
_BY_ENTITY = (
    f"{_ACTIVE} AND entity_id = :entity_id AND scope = :scope AND owner = :owner AND predicate = :predicate AND keyed"
)
_BY_SUBJECT = (
    f"{_ACTIVE} AND scope = :scope AND owner = :owner AND subject = :subject AND predicate = :predicate"
    " AND entity_id IS NULL AND keyed"
)
_BY_CONTENT = f"{_ACTIVE} AND scope = :scope AND owner = :owner AND content_hash = :content_hash AND NOT keyed"
_KEPT_IN_EVENT = ("confidence", "permanence", "type", "source_episode_id", "occurred_at")
"""Columns that a revision does not keep, so the event records them. Never free text: events hold none."""
_BY_REF = "SELECT id, ref FROM facts WHERE tenant_id = :tenant_id AND ref = :ref"


def store(
    conn: Connection, offers: Sequence[tuple[Fact, IndexEntry, Mapping[str, Any]]], audit: Audit, bound: Bound
) -> list[Stored]:
    """001-017: store all offers in one transaction, in order; `claims.decide` decides on each.

    Each offer has the columns that its caller gave explicitly, which an existing fact with equal content takes over.
    """
    entries = renumbered(conn, (entry for _, entry, _ in offers))
    facts = [fact for fact, _, _ in offers]
    conn.lock(*map(claims.key, facts))
    _check_entities(conn, facts)
    items.check_sources(conn, bound, facts)
    batch = _Batch(conn, audit, facts)
    stored = [batch.take(fact, entry, given) for (fact, _, given), entry in zip(offers, entries, strict=True)]
    batch.write()
    events.append(conn, *batch.log)
    return stored


def id_of_ref(conn: Connection, tenant_id: str, ref: str) -> UUID | None:
    """The id behind a short reference such as fact_1a2b3c4d."""
    row = conn.fetch_one(_BY_REF, {"tenant_id": tenant_id, "ref": ref})
    return row["id"] if row else None


def history(
    conn: Connection, tenant_id: str, wanted: Filter, subject: str, predicate: str, now: datetime, limit: int
) -> list[Fact]:
    """All facts of a key in any state, oldest first; if there are more than the limit, the newest of them."""
    where, params = visible(conn, "fact", tenant_id, wanted, now)
    rows = conn.fetch_all(
        f"{KIND['fact'].select} WHERE {where} AND m.subject = :subject AND m.predicate = :predicate"
        " ORDER BY m.created_at DESC, m.id DESC LIMIT :limit",
        {**params, "subject": subject, "predicate": predicate, "limit": limit},
    )
    return [Fact(**row) for row in reversed(rows)]


def holder(conn: Connection, fact: Fact) -> Claim | None:
    """The active fact with the same key as this one."""
    return _current(conn, [fact]).get(claims.key(fact))


def same_content(conn: Connection, fact: Fact) -> UUID | None:
    """Another active unkeyed fact with the content of this one, if this one is unkeyed and active. The key stays
    locked, so that none can be added before the transaction ends."""
    if fact.keyed or fact.validity != "active":
        return None
    conn.lock(claims.key(fact))
    found = holder(conn, fact)
    return None if found is None or found.id == fact.id else found.id


def supersede(conn: Connection, tenant_id: str, id_: UUID, now: datetime) -> None:
    """Take a fact out of use but keep it; the caller appends the event."""
    conn.execute(
        "UPDATE facts SET validity = 'superseded', status = NULL, next_review_at = NULL, updated_at = :now"
        " WHERE tenant_id = :tenant_id AND id = :id",
        {"tenant_id": tenant_id, "id": id_, "now": now},
    )


class _Batch:
    """A batch of offers. Existing facts are looked up for all of them at once, and new rows are written together: over
    a network each statement costs a round trip."""

    def __init__(self, conn: Connection, audit: Audit, facts: Sequence[Fact]) -> None:
        self._conn, self._audit = conn, audit
        self._current = _current(conn, facts)
        self._refs = _taken_refs(conn, facts)
        self._new: dict[UUID, tuple[Fact, IndexEntry]] = {}
        self.log: list[Event] = []

    def take(self, fact: Fact, entry: IndexEntry, given: Mapping[str, Any]) -> Stored:
        current = self._current.get(claims.key(fact))
        decision = claims.decide(fact, current)
        if current is None:
            return self._store(fact, entry)
        if decision == "duplicate":
            return Stored(id=current.id, outcome="duplicate", ref=current.ref)
        if current.id in self._new:
            self.write()  # the row is about to be changed
        if decision == "confirm":
            return self._confirm(fact, current, given)
        self._supersede(fact, current)
        stored = self._store(replace(fact, supersedes_id=current.id), entry)
        return replace(stored, outcome="superseded", superseded_id=current.id)

    def write(self) -> None:
        """Insert the new rows so far. Their events are appended later, so that all events keep their order."""
        if self._new:
            items.insert(self._conn, "fact", list(self._new.values()))
            self._new.clear()

    def _store(self, fact: Fact, entry: IndexEntry) -> Stored:
        if fact.ref is not None:
            fact = replace(fact, ref=self._free_ref(fact))
        self._log(
            "fact_created",
            fact.id,
            content_hash=fact.content_hash,
            confidence=fact.confidence,
            importance=fact.importance,
            supersedes=fact.supersedes_id and str(fact.supersedes_id),
        )
        self._new[fact.id] = fact, entry
        self._current[claims.key(fact)] = Claim(fact.id, fact.content_hash, fact.ref)
        return Stored(id=fact.id, outcome="stored", ref=fact.ref)

    def _confirm(self, fact: Fact, current: Claim, given: Mapping[str, Any]) -> Stored:
        """Equal content: the fact is confirmed and takes over the given values."""
        known = items.get_to_change(self._conn, Address(fact.tenant_id, "fact", current.id))
        assert isinstance(known, Fact)
        changes = differing(known, given)
        details: dict[str, Any] = {}
        if changes:
            details["revision"] = edits.keep(self._conn, known, self._audit.now)
            details["changed"] = sorted(changes.keys() - {"decay_rate"})
            details["before"] = {name: _plain(getattr(known, name)) for name in _KEPT_IN_EVENT if name in changes}
        items.update(self._conn, (known, restated(known, changes, self._audit.now)))
        self._log("fact_confirmed", known.id, by="repetition", **details)
        return Stored(id=known.id, outcome="confirmed", ref=known.ref)

    def _supersede(self, fact: Fact, current: Claim) -> None:
        supersede(self._conn, fact.tenant_id, current.id, self._audit.now)
        links.insert(self._conn, fact.tenant_id, links.supersedes(fact.id, current.id, self._audit.now))
        self._log("fact_superseded", current.id, superseded_by=str(fact.id))

    def _free_ref(self, fact: Fact) -> str:
        """Eight hex digits collide now and then: try others until the reference is free in the tenant."""
        ref = fact.ref or ""
        while ref in self._refs or (ref != fact.ref and id_of_ref(self._conn, fact.tenant_id, ref) is not None):
            ref = f"fact_{self._audit.new_id().hex[-8:]}"
        self._refs.add(ref)
        return ref

    def _log(self, event_type: str, id_: UUID, **payload: object) -> None:
        self.log.append(self._audit.event(event_type, "fact", id_, **payload))


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, float) else str(value)


def _current(conn: Connection, facts: Sequence[Fact]) -> dict[str, Claim]:
    """The active facts with the same keys."""
    found: dict[str, Claim] = {}
    asked: dict[str, list[Row]] = {}
    for place, fact in enumerate(facts):
        by = _BY_CONTENT if not fact.keyed else _BY_SUBJECT if fact.entity_id is None else _BY_ENTITY
        params = {
            "place": place,
            "tenant_id": fact.tenant_id,
            "entity_id": fact.entity_id,
            "scope": fact.scope,
            "owner": fact.owner,
            "subject": fact.subject,
            "predicate": fact.predicate,
            "content_hash": fact.content_hash,
        }
        asked.setdefault(by, []).append(params)
    for by, rows in asked.items():
        for row in conn.fetch_for_each(by + conn.for_update, rows):
            found[claims.key(facts[row["place"]])] = Claim(row["id"], row["content_hash"], row["ref"])
    return found


def _taken_refs(conn: Connection, facts: Sequence[Fact]) -> set[str]:
    asked = [{"tenant_id": fact.tenant_id, "ref": fact.ref} for fact in facts if fact.ref is not None]
    return {row["ref"] for row in conn.fetch_for_each(_BY_REF, asked)} if asked else set()


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
