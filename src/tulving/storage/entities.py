"""Entities that facts are about. A merged one stays as a tombstone that points to the target."""

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, replace
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

from tulving.domain import claims
from tulving.domain.editing import check_unchanged
from tulving.domain.events import Audit, Event
from tulving.domain.model import EntitiesMerged, Entity, EntityCreated, EntityReport, Fact, FactsMerged, MergePreview
from tulving.domain.resolution import NamedEntity, folded, joined_metadata, new_aliases, source_wins
from tulving.domain.scope import Bound, Filter
from tulving.domain.text import words
from tulving.errors import InvalidInput
from tulving.storage import events, facts, links
from tulving.storage.connection import Connection
from tulving.storage.filters import behind, visible
from tulving.storage.kinds import KIND
from tulving.storage.rows import Row, insert_statement

MOST_FACTS = 500
MOST_SHOWN = 100
"""How many of the facts that would move are shown before a merge."""
MOST_LETTERS = 4_000
"""How many characters of one fact are read for its words."""

_COLUMNS = tuple(field.name for field in fields(Entity))
_VALUES = attrgetter(*_COLUMNS)
_INSERT = insert_statement("entities", (*_COLUMNS, "folded_name"))
_MINE = f"SELECT {', '.join(_COLUMNS)} FROM entities WHERE tenant_id = :tenant_id"
_NAMES = "SELECT id, entity_type, canonical_name, folded_name, aliases FROM entities"
_UPDATE = """
UPDATE entities SET canonical_name = :canonical_name, folded_name = :folded_name, aliases = :aliases,
metadata = :metadata, merged_into = :merged_into, updated_at = :updated_at
WHERE tenant_id = :tenant_id AND id = :id"""
# In a Turkish locale, LOWER maps a capital I to a different letter.
_ALIASES = "LOWER(REPLACE(CAST(aliases AS TEXT), 'I', 'i'))"


def create(conn: Connection, entity: Entity, event: Event) -> EntityCreated:
    """001-062: create an entity, unless its name is taken."""
    _check_free(conn, entity)
    conn.execute(_INSERT, _params(entity))
    events.append(conn, event)
    return EntityCreated(entity_id=entity.id)


def find_or_create(conn: Connection, wanted: Sequence[Entity], audit: Audit) -> dict[str, UUID]:
    """The ids of entities by their exact names, whatever their type; of one that was merged, that of the target. Those
    that are missing are created."""
    if not wanted:
        return {}
    tenant_id, named = audit.caller.tenant_id, {entity.canonical_name: entity for entity in reversed(wanted)}
    conn.lock(*(f"entity {tenant_id} {name}" for name in named))
    rows = conn.fetch_all(
        f"{_MINE} AND {conn.within('canonical_name', 'names')} ORDER BY created_at DESC, id DESC",
        {"tenant_id": tenant_id, "names": list(named)},
    )
    found: dict[str, UUID] = {}
    for entity in sorted((Entity(**row) for row in rows), key=lambda each: each.merged_into is None):
        name, alive = entity.canonical_name, entity
        while alive.merged_into is not None and (target := get(conn, tenant_id, alive.merged_into)) is not None:
            alive = target
        found[name] = alive.id
    missing = [entity for name, entity in named.items() if name not in found]
    conn.execute_many(_INSERT, map(_params, missing))
    events.append(
        conn, *(audit.event("entity_created", "entity", each.id, aliases=len(each.aliases)) for each in missing)
    )
    return found | {entity.canonical_name: entity.id for entity in missing}


def get(conn: Connection, tenant_id: str, id_: UUID, *, to_change: bool = False) -> Entity | None:
    """One entity, merged or not."""
    row = conn.fetch_one(
        f"{_MINE} AND id = :id{conn.for_update if to_change else ''}", {"tenant_id": tenant_id, "id": id_}
    )
    return Entity(**row) if row else None


def update(
    conn: Connection,
    id_: UUID,
    canonical_name: str | None,
    aliases: Sequence[str] | None,
    metadata: Mapping[str, Any],
    event: Event,
    unchanged_since: datetime | None = None,
) -> Entity | None:
    """001-064: replace the name and the aliases if given, add to the metadata; None if there is no such entity."""
    entity = get(conn, event.tenant_id, id_, to_change=True)
    if entity is None:
        return None
    check_unchanged("the entity", entity.updated_at, unchanged_since)
    _check_alive("entity_id", entity)
    changed = replace(
        entity,
        canonical_name=entity.canonical_name if canonical_name is None else canonical_name,
        aliases=entity.aliases if aliases is None else aliases,
        metadata={**entity.metadata, **metadata},
        updated_at=event.occurred_at,
    )
    _check_free(conn, changed)
    conn.execute(_UPDATE, _params(changed))
    events.append(conn, event)
    return changed


def candidates(
    conn: Connection, tenant_id: str, name: str, entity_type: str | None, fuzzy: bool
) -> tuple[list[NamedEntity], bool]:
    """A superset of the entities that a folded name may refer to (the domain decides what is a match), and whether it
    includes those with merely similar names."""
    # A list of names is compared as text: JSON, or an array literal with the same escapes. SQL folds the case of ASCII
    # letters only.
    inside = json.dumps(name, ensure_ascii=False)[1:-1]
    ways = [
        "folded_name LIKE :name_inside ESCAPE '!'",
        f"LENGTH(CAST(aliases AS TEXT)) > 2 AND ({_ALIASES} LIKE :inside ESCAPE '!' OR {conn.beyond_ascii('aliases')})",
    ]
    similar = conn.similar_name("folded_name", "aliases", "name") if fuzzy else None
    if similar is not None:
        ways.append(similar)
    of_type = " AND entity_type = :entity_type" if entity_type else ""
    rows = conn.fetch_all(
        f"{_NAMES} WHERE tenant_id = :tenant_id AND merged_into IS NULL{of_type} AND ({' OR '.join(ways)})",
        {
            "tenant_id": tenant_id,
            "entity_type": entity_type,
            "name": name,
            "name_inside": _containing(name),
            "inside": _containing(inside),
        },
    )
    return list(map(_named, rows)), similar is not None


def names(conn: Connection, tenant_id: str, most: int) -> list[NamedEntity]:
    """The names of entities that were not merged into others; of too many, the last changed."""
    rows = conn.fetch_all(
        f"{_NAMES} WHERE tenant_id = :tenant_id AND merged_into IS NULL ORDER BY updated_at DESC, id LIMIT :most",
        {"tenant_id": tenant_id, "most": most},
    )
    return list(map(_named, rows))


def named(conn: Connection, tenant_id: str, wanted: Sequence[str] | None = None) -> dict[UUID, Entity]:
    """The entities of exactly these names, or all, that were not merged into others."""
    which = "" if wanted is None else f" AND {conn.within('canonical_name', 'names')}"
    asked = {"tenant_id": tenant_id, **({} if wanted is None else {"names": list(wanted)})}
    rows = conn.fetch_all(f"{_MINE} AND merged_into IS NULL{which}", asked)
    return {row["id"]: Entity(**row) for row in rows}


def words_of_facts(
    conn: Connection, tenant_id: str, ids: Sequence[UUID], wanted: Filter, now: datetime
) -> dict[UUID, set[str]]:
    """001-069: the words of the newest facts about each entity, as far as the caller may see them."""
    where, params = visible(conn, "fact", tenant_id, wanted, now)
    found: dict[UUID, set[str]] = {}
    for row in conn.stream(
        "SELECT entity_id, predicate, content FROM ("
        f"SELECT m.entity_id, m.predicate, SUBSTR(m.content, 1, {MOST_LETTERS}) AS content,"
        " ROW_NUMBER() OVER (PARTITION BY m.entity_id ORDER BY m.created_at DESC, m.id) AS place"
        f" FROM facts AS m WHERE {where} AND {conn.within('m.entity_id', 'ids')}) AS newest"
        f" WHERE place <= {MOST_FACTS}",
        {**params, "ids": list(ids)},
    ):
        found.setdefault(row["entity_id"], set()).update(words(f"{row['predicate']} {row['content']}"))
    return found


def listing(
    conn: Connection,
    tenant_id: str,
    name: str | None,
    entity_type: str | None,
    bound: Bound,
    now: datetime,
    limit: int,
    after: Sequence[Any] | None,
) -> list[EntityReport]:
    """One page of the entities that were not merged into others, in the order of `resolution.place`; `after` is the
    place of the last one of the previous page."""
    beyond, place = behind(after, "folded_name", "id", comparison=">")
    where, params = f"merged_into IS NULL AND {beyond}", {"tenant_id": tenant_id, "limit": limit, **place}
    if entity_type is not None:
        where, params["entity_type"] = f"{where} AND entity_type = :entity_type", entity_type
    if name is not None:
        where += f" AND (folded_name LIKE :name ESCAPE '!' OR {_ALIASES} LIKE :name ESCAPE '!')"
        params["name"] = _containing(name)
    rows = conn.fetch_all(f"{_MINE} AND {where} ORDER BY folded_name, id LIMIT :limit", params)
    found = [Entity(**row) for row in rows]
    about = _count_facts(conn, tenant_id, bound, [entity.id for entity in found], now)
    return [EntityReport(entity=entity, facts=about.get(entity.id, 0)) for entity in found]


def _count_facts(conn: Connection, tenant_id: str, bound: Bound, ids: Sequence[UUID], now: datetime) -> dict[UUID, int]:
    if not ids:
        return {}
    wanted = Filter(owner=bound.owner, project=bound.project, scope=bound.scope)
    where, params = visible(conn, "fact", tenant_id, wanted, now)
    rows = conn.fetch_all(
        f"SELECT m.entity_id, COUNT(*) AS about FROM facts AS m WHERE {where} AND {conn.within('m.entity_id', 'ids')}"
        " GROUP BY m.entity_id",
        {**params, "ids": list(ids)},
    )
    return {row["entity_id"]: row["about"] for row in rows}


def preview(conn: Connection, tenant_id: str, source_id: UUID, target_id: UUID) -> MergePreview:
    """What a merge would do. Nothing is written."""
    source = _check_alive("source_entity_id", get(conn, tenant_id, source_id), source_id)
    target = _check_alive("target_entity_id", get(conn, tenant_id, target_id), target_id)
    pairs = _pairs(_in_slots(conn, tenant_id, source_id, target_id), source_id, target_id)
    concerned = [row["id"] for pair in pairs for row in pair]
    rows = conn.fetch_all(
        f"{KIND['fact'].select} WHERE m.tenant_id = :tenant_id AND {conn.within('m.id', 'ids')}",
        {"tenant_id": tenant_id, "ids": concerned},
    )
    known = {row["id"]: Fact(**row) for row in rows}
    key = {"tenant_id": tenant_id, "id": source_id}
    counted = conn.fetch_one(
        "SELECT COUNT(*) AS moving FROM facts WHERE tenant_id = :tenant_id AND entity_id = :id", key
    )
    moving = conn.fetch_all(
        f"{KIND['fact'].select} WHERE m.tenant_id = :tenant_id AND m.entity_id = :id"
        " ORDER BY m.created_at DESC, m.id LIMIT :limit",
        {**key, "limit": MOST_SHOWN},
    )
    return MergePreview(
        source=source,
        target=target,
        aliases=new_aliases(target, source),
        superseded=[FactsMerged(stays=known[stays["id"]], superseded=known[gone["id"]]) for stays, gone in pairs],
        moving=counted["moving"] if counted else 0,
        facts=[Fact(**row) for row in moving],
    )


def merge(conn: Connection, source_id: UUID, target_id: UUID, audit: Audit) -> EntitiesMerged:
    """001-073 to 001-079: the facts and names of the source become the target's; the source points to the target."""
    tenant_id = audit.caller.tenant_id
    # Both at once, in the order of their ids, so that two merges can't deadlock.
    rows = conn.fetch_all(
        f"{_MINE} AND {conn.within('id', 'ids')} ORDER BY id{conn.for_update}",
        {"tenant_id": tenant_id, "ids": [source_id, target_id]},
    )
    found = {row["id"]: Entity(**row) for row in rows}
    source = _check_alive("source_entity_id", found.get(source_id), source_id)
    target = _check_alive("target_entity_id", found.get(target_id), target_id)
    superseded, lost = _merge_slots(conn, source_id, target_id, audit)
    moved = _repoint(conn, source_id, target_id, lost, audit)
    added = new_aliases(target, source)
    done = EntitiesMerged(
        target_entity_id=target_id,
        source_entity_id=source_id,
        facts_repointed=len(moved),
        facts_superseded=len(superseded),
        aliases_added=len(added),
    )
    joined = replace(target, aliases=[*target.aliases, *added], metadata=joined_metadata(target, source))
    tombstone = replace(source, metadata={**source.metadata, "merged_into": str(target_id)}, merged_into=target_id)
    for entity in (joined, tombstone):
        conn.execute(_UPDATE, _params(replace(entity, updated_at=audit.now)))
    event = audit.event(
        "entity_merge",
        "entity",
        target_id,
        source_entity_id=str(source_id),
        target_entity_id=str(target_id),
        facts_repointed=done.facts_repointed,
        facts_superseded=done.facts_superseded,
        aliases_added=done.aliases_added,
    )
    events.append(conn, *superseded, *moved, event)
    return done


def _repoint(conn: Connection, source_id: UUID, target_id: UUID, lost: Set[UUID], audit: Audit) -> list[Event]:
    """Move all facts of the source to the target. Returns an event for each, except for those in `lost`, which have one
    already."""
    key = {"tenant_id": audit.caller.tenant_id, "id": source_id}
    of_source = "SELECT id FROM facts WHERE tenant_id = :tenant_id AND entity_id = :id ORDER BY id"
    rows = conn.fetch_all(of_source + conn.for_update, key)
    conn.execute(
        "UPDATE facts SET entity_id = :target_id, updated_at = :now WHERE tenant_id = :tenant_id AND entity_id = :id",
        {**key, "target_id": target_id, "now": audit.now},
    )
    ends = {"source_entity_id": str(source_id), "target_entity_id": str(target_id), "by": "entity_merge"}
    return [audit.event("fact_repointed", "fact", row["id"], **ends) for row in rows if row["id"] not in lost]


def _merge_slots(conn: Connection, source_id: UUID, target_id: UUID, audit: Audit) -> tuple[list[Event], set[UUID]]:
    """Where both have a fact in the same slot, one supersedes the other. Returns an event for each pair, and the
    facts of the source that lost."""
    tenant_id = audit.caller.tenant_id
    rows = _in_slots(conn, tenant_id, source_id, target_id, conn.for_update)
    happened: list[Event] = []
    lost: set[UUID] = set()
    for winner, loser in _pairs(rows, source_id, target_id):
        if loser["entity_id"] == source_id:
            lost.add(loser["id"])
        event = audit.event("fact_superseded", "fact", loser["id"], superseded_by=str(winner["id"]), by="entity_merge")
        ended_at = winner["occurred_at"] or winner["created_at"]
        facts.supersede(conn, tenant_id, loser["id"], ended_at, audit.now)
        # An earlier predecessor is kept; the link records this one.
        conn.execute(
            "UPDATE facts SET supersedes_id = COALESCE(supersedes_id, :supersedes_id), updated_at = :now"
            " WHERE tenant_id = :tenant_id AND id = :id",
            {"tenant_id": tenant_id, "id": winner["id"], "supersedes_id": loser["id"], "now": audit.now},
        )
        links.insert(conn, tenant_id, links.supersedes(winner["id"], loser["id"], audit.now))
        happened.append(event)
    return happened, lost


def _in_slots(conn: Connection, tenant_id: str, source_id: UUID, target_id: UUID, lock: str = "") -> list[Row]:
    """The facts in use that are about one of two entities."""
    return conn.fetch_all(
        "SELECT id, entity_id, scope, owner, predicate, confidence, occurred_at, created_at FROM facts"
        " WHERE tenant_id = :tenant_id"
        f" AND {conn.within('entity_id', 'ids')} AND validity = 'active' AND keyed ORDER BY id{lock}",
        {"tenant_id": tenant_id, "ids": [source_id, target_id]},
    )


def _pairs(rows: Sequence[Row], source_id: UUID, target_id: UUID) -> list[tuple[Row, Row]]:
    """The pairs of facts in the same slot: the one that stays, and the one that it supersedes."""
    theirs = {_slot(row): row for row in rows if row["entity_id"] == target_id}
    pairs: list[tuple[Row, Row]] = []
    for mine in rows:
        if mine["entity_id"] == source_id and (other := theirs.get(_slot(mine))) is not None:
            won = source_wins(mine["confidence"], other["confidence"])
            pairs.append((mine, other) if won else (other, mine))
    return pairs


def _slot(row: Row) -> tuple[str, str, str]:
    return row["scope"], row["owner"], claims.folded(row["predicate"])


def _check_alive(field: str, entity: Entity | None, id_: UUID | None = None) -> Entity:
    if entity is None:
        raise InvalidInput(field, f"there is no entity {id_}", "the id of one of your entities")
    if entity.merged_into is not None:
        problem = f"the entity {entity.id} was merged into {entity.merged_into}"
        raise InvalidInput(field, problem, "an entity that was not merged into another")
    return entity


def _check_free(conn: Connection, entity: Entity) -> None:
    other = conn.fetch_one(
        f"{_MINE} AND canonical_name = :canonical_name AND entity_type = :entity_type AND id <> :id", _params(entity)
    )
    if other is None:
        return
    into = f", which was merged into {other['merged_into']}" if other["merged_into"] else ""
    problem = f"there is already an entity of that name and type ({entity.entity_type}): {other['id']}{into}"
    raise InvalidInput("canonical_name", problem, "another name, or that entity")


def _named(row: Row) -> NamedEntity:
    return NamedEntity(row["id"], row["entity_type"], row["canonical_name"], row["folded_name"], row["aliases"])


def _params(entity: Entity) -> Row:
    params = dict(zip(_COLUMNS, _VALUES(entity), strict=True))
    return {**params, "aliases": list(entity.aliases), "folded_name": folded(entity.canonical_name)}


def _containing(text: str) -> str:
    """A LIKE pattern for texts that contain this one, with its wildcards escaped."""
    return "%" + "".join(f"!{letter}" if letter in "!%_" else letter for letter in text) + "%"
