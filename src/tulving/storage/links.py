"""Provenance: directed edges between memories of one tenant."""

from datetime import datetime
from uuid import UUID

from tulving.domain.events import Event
from tulving.domain.model import Direction, Kind, Link, Relation
from tulving.errors import InvalidInput
from tulving.storage import events
from tulving.storage.connection import Connection
from tulving.storage.rows import TABLES

_INSERT = """
INSERT INTO memory_links (tenant_id, source_type, source_id, target_type, target_id, relation, created_at)
VALUES (:tenant_id, :source_type, :source_id, :target_type, :target_id, :relation, :created_at)
ON CONFLICT DO NOTHING"""
_COLUMNS = "source_type, source_id, target_type, target_id, relation, created_at"
_OUTGOING = "source_type = :kind AND source_id = :id"
_INCOMING = "target_type = :kind AND target_id = :id"
_SIDES: dict[Direction, tuple[str, ...]] = {
    "outgoing": (_OUTGOING,),
    "incoming": (_INCOMING,),
    "both": (_OUTGOING, _INCOMING),
}


def insert(conn: Connection, tenant_id: str, link: Link) -> bool:
    """Add an edge; False when it is there already. Its audit event is the caller's."""
    return bool(
        conn.run(
            _INSERT,
            {
                "tenant_id": tenant_id,
                "source_type": link.source_type,
                "source_id": link.source_id,
                "target_type": link.target_type,
                "target_id": link.target_id,
                "relation": link.relation,
                "created_at": link.created_at,
            },
        )
    )


def create(conn: Connection, link: Link, event: Event) -> bool:
    """001-020, 001-110: an edge between two memories that exist; doing it again is no error."""
    ends: tuple[tuple[str, Kind, UUID], ...] = (
        ("source_id", link.source_type, link.source_id),
        ("target_id", link.target_type, link.target_id),
    )
    for field, kind, id_ in ends:
        if not conn.one(
            f"SELECT 1 AS found FROM {TABLES[kind]} WHERE tenant_id = :tenant_id AND id = :id",
            {"tenant_id": event.tenant_id, "id": id_},
        ):
            raise InvalidInput(field, f"there is no {kind} {id_}", f"the id of a {kind} of yours")
    added = insert(conn, event.tenant_id, link)
    if added:
        events.append(conn, event)
    return added


def of_item(conn: Connection, tenant_id: str, kind: Kind, id_: UUID, direction: Direction) -> list[Link]:
    """001-109: the edges at one memory, oldest first."""
    # Not OR, which no index serves: it would read all links of the tenant.
    sides = " UNION ".join(
        f"SELECT {_COLUMNS} FROM memory_links WHERE tenant_id = :tenant_id AND {side}" for side in _SIDES[direction]
    )
    rows = conn.all(
        f"{sides} ORDER BY created_at, source_id, target_id", {"tenant_id": tenant_id, "kind": kind, "id": id_}
    )
    return [Link(**row) for row in rows]


def delete_of_item(conn: Connection, tenant_id: str, kind: Kind, id_: UUID) -> None:
    """All edges at one memory."""
    for side in _SIDES["both"]:
        conn.run(
            f"DELETE FROM memory_links WHERE tenant_id = :tenant_id AND {side}",
            {"tenant_id": tenant_id, "kind": kind, "id": id_},
        )


def supersedes(new_id: UUID, old_id: UUID, now: datetime) -> Link:
    """The edge that a replaced fact leaves behind."""
    relation: Relation = "supersedes"
    return Link(
        source_type="fact", source_id=new_id, target_type="fact", target_id=old_id, relation=relation, created_at=now
    )
