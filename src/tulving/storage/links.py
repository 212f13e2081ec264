"""Provenance: directed edges between memories of one tenant."""

from collections.abc import Iterable
from dataclasses import asdict, fields
from datetime import datetime
from uuid import UUID

from tulving.domain.events import Event
from tulving.domain.model import KINDS, Direction, Kind, Link, Relation
from tulving.domain.scope import Address, Bound
from tulving.errors import InvalidInput
from tulving.storage import events
from tulving.storage.connection import Connection
from tulving.storage.filters import reachable
from tulving.storage.kinds import KIND
from tulving.storage.rows import insert_statement

_COLUMNS = [field.name for field in fields(Link)]
_INSERT = f"{insert_statement('memory_links', ('tenant_id', *_COLUMNS))} ON CONFLICT DO NOTHING"
_OUTGOING = "source_type = :kind AND source_id = :id"
_INCOMING = "target_type = :kind AND target_id = :id"
_SIDES: dict[Direction, tuple[str, ...]] = {
    "outgoing": (_OUTGOING,),
    "incoming": (_INCOMING,),
    "both": (_OUTGOING, _INCOMING),
}


def insert(conn: Connection, tenant_id: str, link: Link) -> bool:
    """Add an edge; False if it exists already. The caller appends the event."""
    return bool(conn.execute(_INSERT, {"tenant_id": tenant_id, **asdict(link)}))


def create(conn: Connection, source: Address, target: Address, relation: Relation, event: Event) -> bool:
    """001-020, 001-110: link two existing memories; False if the link exists already."""
    for field, end in (("source_id", source), ("target_id", target)):
        if not conn.fetch_one(
            f"SELECT 1 AS found FROM {KIND[end.kind].table} WHERE tenant_id = :tenant_id AND id = :id",
            {"tenant_id": end.tenant_id, "id": end.id},
        ):
            raise InvalidInput(field, f"there is no {end.kind} {end.id}", f"the id of one of your {end.kind}s")
    link = Link(
        source_type=source.kind,
        source_id=source.id,
        target_type=target.kind,
        target_id=target.id,
        relation=relation,
        created_at=event.occurred_at,
    )
    added = insert(conn, source.tenant_id, link)
    if added:
        events.append(conn, event)
    return added


def of_item(conn: Connection, address: Address, direction: Direction, bound: Bound) -> list[Link]:
    """001-109: the edges between one memory and others that the caller may read, oldest first."""
    # Not OR, for which no index is used: it would read all links of the tenant.
    sides = " UNION ".join(
        f"SELECT {', '.join(_COLUMNS)} FROM memory_links WHERE tenant_id = :tenant_id AND {side}"
        for side in _SIDES[direction]
    )
    rows = conn.fetch_all(
        f"{sides} ORDER BY created_at, source_id, target_id",
        {"tenant_id": address.tenant_id, "kind": address.kind, "id": address.id},
    )
    found = [Link(**row) for row in rows]
    if bound.everything:
        return found
    ends = {end for link in found for end in _ends(link)}
    known = {
        (kind, id_)
        for kind in KINDS
        for id_ in reachable(conn, kind, address.tenant_id, bound, {id_ for of_kind, id_ in ends if of_kind == kind})
    }
    return [link for link in found if known.issuperset(_ends(link))]


def remove_support(conn: Connection, address: Address, episodes: Iterable[UUID], created_at: datetime) -> None:
    """Take back that these episodes support a memory, if that was said at this time."""
    conn.execute(
        f"DELETE FROM memory_links WHERE tenant_id = :tenant_id AND {_INCOMING} AND relation = 'supports'"
        f" AND source_type = 'episode' AND {conn.within('source_id', 'episodes')} AND created_at = :created_at",
        {
            "tenant_id": address.tenant_id,
            "kind": address.kind,
            "id": address.id,
            "episodes": list(episodes),
            "created_at": created_at,
        },
    )


def has_source(conn: Connection, address: Address) -> bool:
    """Whether a memory was derived from, or is supported by, something that is still there and not forgotten."""
    return _kept(conn, address.tenant_id, _sources(conn, address.tenant_id, (address.kind, address.id)))


def derived_alone(conn: Connection, address: Address) -> list[Address]:
    """What models learned from this memory and from nothing else: not what also has another source that is not
    forgotten, or that an episode supports; and what was learned from that, in turn."""
    alone, found = {(address.kind, address.id)}, list[Address]()
    waiting = [address]
    while waiting:
        source = waiting.pop()
        for link in of_item(conn, source, "incoming", Bound()):
            end: tuple[Kind, UUID] = link.source_type, link.source_id
            others = _sources(conn, address.tenant_id, end) - alone
            if link.relation == "derived_from" and end not in alone and not _kept(conn, address.tenant_id, others):
                alone.add(end)
                found.append(Address(address.tenant_id, *end))
                waiting.append(found[-1])
    return found


def _sources(conn: Connection, tenant_id: str, end: tuple[Kind, UUID]) -> set[tuple[Kind, UUID]]:
    known = of_item(conn, Address(tenant_id, *end), "both", Bound())
    derived = [_ends(link) for link in known if link.relation == "derived_from"]
    supported = [_ends(link) for link in known if link.relation == "supports"]
    return {target for source, target in derived if source == end} | {
        source for source, target in supported if target == end
    }


def _kept(conn: Connection, tenant_id: str, ends: set[tuple[Kind, UUID]]) -> bool:
    """Whether one of these memories has not been forgotten."""
    return any(
        conn.fetch_one(
            f"SELECT 1 AS found FROM {KIND[kind].table} AS m WHERE m.tenant_id = :tenant_id AND m.id = :id"
            f" AND {KIND[kind].kept}",
            {"tenant_id": tenant_id, "id": id_},
        )
        for kind, id_ in ends
    )


def _ends(link: Link) -> tuple[tuple[Kind, UUID], tuple[Kind, UUID]]:
    return (link.source_type, link.source_id), (link.target_type, link.target_id)


def supersedes(new_id: UUID, old_id: UUID, now: datetime) -> Link:
    """The edge from a fact to the one that it replaced."""
    relation: Relation = "supersedes"
    return Link(
        source_type="fact", source_id=new_id, target_type="fact", target_id=old_id, relation=relation, created_at=now
    )
