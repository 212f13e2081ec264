"""Facts: at most one active row per key, whoever writes at the same time."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from tulving.domain.events import Audit, Event
from tulving.domain.model import Fact, Stored
from tulving.errors import InvalidInput
from tulving.storage import events, items, links
from tulving.storage.connection import Connection
from tulving.storage.rows import IndexEntry, Row

_ACTIVE = "SELECT id, content_hash, ref FROM facts WHERE tenant_id = :tenant_id AND validity = 'active'"
_BY_ENTITY = (
    f"{_ACTIVE} AND entity_id = :entity_id AND scope = :scope AND owner = :owner AND predicate = :predicate AND keyed"
)
_BY_SUBJECT = (
    f"{_ACTIVE} AND scope = :scope AND owner = :owner AND subject = :subject AND predicate = :predicate"
    " AND entity_id IS NULL AND keyed"
)
_BY_CONTENT = f"{_ACTIVE} AND scope = :scope AND owner = :owner AND content_hash = :content_hash AND NOT keyed"


def store(
    conn: Connection, offers: Sequence[tuple[Fact, IndexEntry]], audit: Audit
) -> tuple[list[Stored], list[Event]]:
    """001-017: all offers in one transaction, in order. Duplicate, then confirmation, then supersession."""
    stored: list[Stored] = []
    log: list[Event] = []
    items.check_embedding_version(conn, [entry for _, entry in offers])
    conn.lock(*(_key(fact) for fact, _ in offers))
    _check_entities(conn, [fact for fact, _ in offers])
    for fact, entry in offers:
        items.check_source_episode(conn, fact.tenant_id, fact.source_episode_id)
        current = _current(conn, fact)
        if current is not None and current["content_hash"] == fact.content_hash:
            stored.append(_meet_again(conn, fact, current, audit, log))
        else:
            stored.append(_insert(conn, fact, entry, current, audit, log))
    return stored, log


def id_of_ref(conn: Connection, tenant_id: str, ref: str) -> UUID | None:
    """The id behind a short reference such as fact_1a2b3c4d."""
    row = conn.one(
        "SELECT id FROM facts WHERE tenant_id = :tenant_id AND ref = :ref", {"tenant_id": tenant_id, "ref": ref}
    )
    return row["id"] if row else None


def supersede(conn: Connection, id_: UUID, now: datetime, event: Event) -> None:
    """Take a fact out of use without losing it."""
    conn.run(
        "UPDATE facts SET validity = 'superseded', status = NULL, next_review_at = NULL, updated_at = :now"
        " WHERE tenant_id = :tenant_id AND id = :id",
        {"tenant_id": event.tenant_id, "id": id_, "now": now},
    )
    events.append(conn, event)


def _key(fact: Fact) -> str:
    """What at most one active fact may have: those who write it at the same time do so one after the other."""
    slot = (fact.entity_id or fact.subject, fact.predicate) if fact.keyed else (fact.content_hash,)
    return repr((fact.tenant_id, fact.scope, fact.owner, *map(str, slot)))


def _current(conn: Connection, fact: Fact) -> Row | None:
    if not fact.keyed:
        by = _BY_CONTENT
    elif fact.entity_id is not None:
        by = _BY_ENTITY
    else:
        by = _BY_SUBJECT
    return conn.one(
        by + conn.for_update,
        {
            "tenant_id": fact.tenant_id,
            "entity_id": fact.entity_id,
            "scope": fact.scope,
            "owner": fact.owner,
            "subject": fact.subject,
            "predicate": fact.predicate,
            "content_hash": fact.content_hash,
        },
    )


def _check_entities(conn: Connection, facts: Sequence[Fact]) -> None:
    """001-018: whom a fact is about must exist in its own tenant, and not be merged into another until it is stored."""
    wanted = [fact for fact in facts if fact.entity_id is not None]
    if not wanted:
        return
    # In the order of their ids, as a merge does.
    rows = conn.all(
        f"SELECT id, merged_into FROM entities WHERE tenant_id = :tenant_id AND {conn.within('id', 'ids')} ORDER BY id"
        + conn.for_reference,
        {"tenant_id": wanted[0].tenant_id, "ids": list({fact.entity_id for fact in wanted})},
    )
    found = {row["id"]: row["merged_into"] for row in rows}
    for fact in wanted:
        into = found.get(fact.entity_id)
        if fact.entity_id not in found or into is not None:
            problem = "does not exist" if into is None else f"was merged into {into}"
            raise InvalidInput("entity_id", f"entity {fact.entity_id} {problem}", "the id of an entity of yours")


def _meet_again(conn: Connection, fact: Fact, current: Row, audit: Audit, log: list[Event]) -> Stored:
    """The same content again: a keyed fact is confirmed, an unkeyed one skipped as it stands."""
    if not fact.keyed:
        return Stored(id=current["id"], outcome="duplicate", ref=current["ref"])
    event = audit.event("fact_confirmed", "fact", current["id"], by="repetition")
    items.confirm(conn, "fact", current["id"], audit.now, event)
    log.append(event)
    return Stored(id=current["id"], outcome="confirmed", ref=current["ref"])


def _insert(
    conn: Connection, fact: Fact, entry: IndexEntry, current: Row | None, audit: Audit, log: list[Event]
) -> Stored:
    if current is not None:
        superseded = audit.event("fact_superseded", "fact", current["id"], superseded_by=str(fact.id))
        supersede(conn, current["id"], audit.now, superseded)
        log.append(superseded)
        fact = replace(fact, supersedes_id=current["id"])
    if fact.ref is not None:
        fact = replace(fact, ref=_free_ref(conn, fact, audit))
    created = audit.event(
        "fact_created",
        "fact",
        fact.id,
        content_hash=fact.content_hash,
        confidence=fact.confidence,
        importance=fact.importance,
        supersedes=str(current["id"]) if current else None,
    )
    items.insert(conn, "fact", fact, entry, created)
    log.append(created)
    if current is None:
        return Stored(id=fact.id, outcome="stored", ref=fact.ref)
    links.insert(conn, fact.tenant_id, links.supersedes(fact.id, current["id"], audit.now))
    return Stored(id=fact.id, outcome="superseded", superseded_id=current["id"], ref=fact.ref)


def _free_ref(conn: Connection, fact: Fact, audit: Audit) -> str:
    """Eight hex digits collide now and then: take others until the tenant has no such reference."""
    ref = fact.ref or ""
    while id_of_ref(conn, fact.tenant_id, ref) is not None:
        ref = f"fact_{audit.new_id().hex[-8:]}"
    return ref
