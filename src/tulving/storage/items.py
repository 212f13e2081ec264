"""What every kind of memory can undergo: insertion, reference, forgetting, deletion, listing."""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from uuid import UUID

from tulving.domain.events import Event
from tulving.domain.model import Episode, Fact, Item, Kind
from tulving.domain.scope import Address, Bound, Filter
from tulving.errors import InvalidInput
from tulving.storage import events, links
from tulving.storage.connection import Connection
from tulving.storage.filters import reachable, visible
from tulving.storage.maintenance import renumbered
from tulving.storage.rows import INSERTS, SELECTED, TABLES, IndexEntry, Row, item_params, to_item

Reference = tuple[Kind, UUID, int, datetime]
"""A memory by its kind and id, how often it was referred to, and when last."""
_FORGET: dict[Kind, str] = {
    "episode": "expires_at = :now, forgotten = TRUE",
    "fact": "validity = 'retracted', status = NULL, next_review_at = NULL",
    "rule": "forgotten = TRUE, next_review_at = NULL, metadata = :metadata",
}


def insert(conn: Connection, kind: Kind, new: Sequence[tuple[Item, IndexEntry]]) -> None:
    """New rows and their index entries; their events are the caller's."""
    conn.execute_many(
        INSERTS[kind],
        [
            {
                **item_params(kind, item),
                "accessed_at": item.accessed_at or item.created_at,
                "search_text": conn.index_text(item.tenant_id, entry.search_text),
                "embedding": entry.embedding,
                "embedding_version": entry.embedding_version,
            }
            for item, entry in new
        ],
    )


def store(conn: Connection, kind: Kind, offers: Sequence[tuple[Item, IndexEntry, Event]], bound: Bound) -> list[Event]:
    """New episodes or rules, all or none; their events."""
    entries = renumbered(conn, (entry for _, entry, _ in offers))
    check_sources(conn, bound, [item for item, _, _ in offers])
    insert(conn, kind, [(item, entry) for (item, _, _), entry in zip(offers, entries, strict=True)])
    return events.append(conn, *(event for _, _, event in offers))


def check_sources(conn: Connection, bound: Bound, new: Sequence[Item]) -> None:
    """Provenance must point to episodes that its caller may read; any other is refused as if it did not exist."""
    sources = [item.source_episode_id for item in new if not isinstance(item, Episode)]
    cited = [id_ for id_ in sources if id_ is not None]
    known = reachable(conn, "episode", new[0].tenant_id, bound, cited) if cited else set()
    for id_ in cited:
        if id_ not in known:
            problem = f"episode {id_} does not exist"
            raise InvalidInput("source_episode_id", problem, "the id of an episode of yours")


def get(conn: Connection, address: Address, *, to_change: bool = False) -> Item | None:
    """One memory in whatever state it is, without leaving a trace."""
    kind = address.kind
    row = conn.fetch_one(
        f"SELECT {SELECTED[kind]} FROM {TABLES[kind]} AS m WHERE m.tenant_id = :tenant_id AND m.id = :id"
        + (conn.for_update if to_change else ""),
        _key(address),
    )
    return to_item(kind, row) if row else None


def locate(conn: Connection, tenant_id: str, kind: Kind, name: UUID | str, bound: Bound) -> Item | None:
    """The memory that a caller means by an id or a short reference; None when there is none that it may read."""
    column = "id" if isinstance(name, UUID) else "ref"
    row = conn.fetch_one(
        f"SELECT {SELECTED[kind]} FROM {TABLES[kind]} AS m WHERE m.tenant_id = :tenant_id AND m.{column} = :{column}",
        {"tenant_id": tenant_id, column: name},
    )
    item = to_item(kind, row) if row else None
    return item if item is not None and bound.covers(item) else None


def touch(conn: Connection, tenant_id: str, references: Sequence[Reference]) -> None:
    """001-021, 001-034: count references, one row after the other in the order given. Not a mutation: no event."""
    for kind, of_kind in groupby(references, key=itemgetter(0)):
        conn.execute_many(
            f"UPDATE {TABLES[kind]} SET reference_count = reference_count + :count,"
            " last_referenced_at = CASE WHEN last_referenced_at > :last THEN last_referenced_at ELSE :last END,"
            " accessed_at = CASE WHEN accessed_at > :last THEN accessed_at ELSE :last END"
            " WHERE tenant_id = :tenant_id AND id = :id",
            [{"tenant_id": tenant_id, "id": id_, "count": count, "last": last} for _, id_, count, last in of_kind],
        )


def forget(conn: Connection, address: Address, now: datetime, event: Event) -> bool | None:
    """001-006, 001-023, 001-024: out of sight at once, but kept; False when it was before, None when there is none."""
    kind = address.kind
    item = get(conn, address, to_change=True)
    if item is None:
        return None
    if item.state == "retracted" if isinstance(item, Fact) else item.forgotten:
        return False
    conn.execute(
        f"UPDATE {TABLES[kind]} SET {_FORGET[kind]}, updated_at = :now WHERE tenant_id = :tenant_id AND id = :id",
        {
            **_key(address),
            "now": now,
            **({"metadata": {**item.metadata, "forgotten": True}} if kind == "rule" else {}),
        },
    )
    events.append(conn, event)
    return True


def delete(conn: Connection, address: Address, event: Event) -> bool:
    """Remove a memory, its links, its revisions and its vectors; the event stays, without content. On SQLite the
    keyword index gives up the words when maintenance merges it."""
    if not conn.execute(f"DELETE FROM {TABLES[address.kind]} WHERE tenant_id = :tenant_id AND id = :id", _key(address)):
        return False
    links.delete_of_item(conn, address)
    for table in ("revisions", "next_embeddings"):
        conn.execute(
            f"DELETE FROM {table} WHERE tenant_id = :tenant_id AND memory_type = :kind AND memory_id = :id",
            {**_key(address), "kind": address.kind},
        )
    events.append(conn, event)
    return True


def listing(
    conn: Connection,
    tenant_id: str,
    kind: Kind,
    wanted: Filter,
    now: datetime,
    limit: int,
    after: tuple[datetime, UUID] | None,
) -> list[Item]:
    """Newest first; `after` is the last row of the page before."""
    where, params = visible(conn, kind, tenant_id, wanted, now)
    if after is not None:
        where += " AND (m.created_at < :after_time OR m.created_at = :after_time AND m.id > :after_id)"
        params |= {"after_time": after[0], "after_id": after[1]}
    rows = conn.fetch_all(
        f"SELECT {SELECTED[kind]} FROM {TABLES[kind]} AS m WHERE {where} ORDER BY m.created_at DESC, m.id LIMIT :limit",
        {**params, "limit": limit},
    )
    return [to_item(kind, row) for row in rows]


def _key(address: Address) -> Row:
    return {"tenant_id": address.tenant_id, "id": address.id}
