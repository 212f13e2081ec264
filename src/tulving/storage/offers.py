"""Memories of another program, taken in one transaction: what is known already is left as it is."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from uuid import UUID

from tulving.domain import claims
from tulving.domain.events import Audit, Event
from tulving.domain.model import Entity, Episode, Fact, Rule
from tulving.domain.scope import Bound
from tulving.storage import entities, facts, items, windows
from tulving.storage.connection import Connection
from tulving.storage.rows import IndexEntry


@dataclass(slots=True)
class Batch:
    """Memories to take. A fact may be about an entity, which is given as it would be created."""

    episodes: list[tuple[Episode, IndexEntry, Event]] = field(default_factory=list)
    facts: list[tuple[Fact, IndexEntry, Entity | None]] = field(default_factory=list)
    rules: list[tuple[Rule, IndexEntry, Event]] = field(default_factory=list)


def known(conn: Connection, tenant_id: str, ids: Collection[UUID], event_keys: Collection[str]) -> set[UUID | str]:
    """Which ids of facts and rules, and which keys of events, were ever stored. Of what was deleted, events remain."""
    found: set[UUID | str] = set()
    for table, name, values in (("memory_events", "entity_id", ids), ("episodes", "event_key", event_keys)):
        if values:
            rows = conn.fetch_all(
                f"SELECT DISTINCT {name} FROM {table} WHERE tenant_id = :tenant_id AND {conn.within(name, 'names')}",
                {"tenant_id": tenant_id, "names": list(values)},
            )
            found.update(row[name] for row in rows)
    return found


def take(conn: Connection, batch: Batch, audit: Audit, bound: Bound) -> set[UUID]:
    """Store what is new; the ids of that."""
    tenant_id = audit.caller.tenant_id
    new = {id_ for id_, is_new in windows.record(conn, batch.episodes) if is_new} if batch.episodes else set[UUID]()
    own = [item.id for item, *_ in (*batch.facts, *batch.rules)]
    conn.lock(*(f"offer {tenant_id} {id_}" for id_ in own))
    before = known(conn, tenant_id, own, ())
    if fresh := [row for row in batch.facts if row[0].id not in before]:
        ids = entities.find_or_create(conn, [entity for *_, entity in fresh if entity is not None], audit)
        about = [
            (replace(fact, entity_id=ids[each.canonical_name] if each else None), entry, {})
            for fact, entry, each in fresh
        ]
        said = _unsaid(conn, about)
        facts.store(conn, said, audit, bound)
        new.update(fact.id for fact, *_ in said)
    if rules := [row for row in batch.rules if row[0].id not in before]:
        items.store(conn, "rule", rules, bound)
        new.update(rule.id for rule, *_ in rules)
    return new


def _unsaid(conn: Connection, offers: facts.Offers) -> facts.Offers:
    """Without facts that say what is true already: to read a file again is no confirmation."""
    keys = [claims.key(fact) for fact, *_ in offers]
    conn.lock(*keys)
    last = {key: claim.content_hash for key, claim in facts.in_slots(conn, [fact for fact, *_ in offers], keys).items()}
    new: list[facts.Offered] = []
    for key, offer in zip(keys, offers, strict=True):
        if last.get(key) != offer[0].content_hash:
            last[key] = offer[0].content_hash
            new.append(offer)
    return new
