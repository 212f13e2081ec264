"""Entities with the facts about them."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from tulving.domain.model import Entity, Fact
from tulving.domain.scope import Filter
from tulving.storage import entities
from tulving.storage.connection import Connection
from tulving.storage.filters import visible
from tulving.storage.kinds import KIND


def read(
    conn: Connection, tenant_id: str, wanted: Filter, now: datetime, names: Sequence[str] | None = None
) -> list[tuple[Entity, list[Fact]]]:
    """The entities that facts in use are about, or those of these names, with these facts; the oldest first."""
    where, params = visible(conn, "fact", tenant_id, wanted, now)
    known = entities.named(conn, tenant_id, names)
    found: dict[UUID, list[Fact]] = {}
    if names is not None:
        where, params = f"{where} AND {conn.within('m.entity_id', 'ids')}", {**params, "ids": [*known]}
    rows = conn.stream(
        f"{KIND['fact'].select} WHERE {where} AND m.entity_id IS NOT NULL ORDER BY m.created_at, m.id", params
    )
    for row in rows:
        found.setdefault(row["entity_id"], []).append(Fact(**row))
    return [(known[id_], facts) for id_, facts in found.items() if id_ in known]
