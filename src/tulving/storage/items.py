"""What every kind of memory can undergo: insertion, reference, confirmation, forgetting, deletion, listing."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from tulving.domain.decay import next_review_at
from tulving.domain.events import Event
from tulving.domain.model import Fact, Item, Kind
from tulving.domain.scope import Filter
from tulving.errors import EmbedderMismatch, InvalidInput
from tulving.storage import events, links
from tulving.storage.connection import Connection
from tulving.storage.filters import visible
from tulving.storage.rows import INSERTS, SELECTED, TABLES, IndexEntry, item_params, to_item

_FORGET: dict[Kind, str] = {
    "episode": "expires_at = :now, forgotten = TRUE",
    "fact": "validity = 'retracted', status = NULL, next_review_at = NULL",
    "rule": "forgotten = TRUE, next_review_at = NULL, metadata = :metadata",
}


def insert(conn: Connection, kind: Kind, new: Sequence[tuple[Item, IndexEntry]]) -> None:
    """New rows and their index entries; their events are the caller's."""
    conn.many(
        INSERTS[kind],
        [
            {
                **item_params(kind, item),
                "search_text": conn.index_text(item.tenant_id, entry.search_text),
                "embedding": entry.embedding,
                "embedding_version": entry.embedding_version,
            }
            for item, entry in new
        ],
    )


def store(conn: Connection, kind: Kind, offers: Sequence[tuple[Item, IndexEntry, Event]]) -> list[Event]:
    """New episodes or rules, all or none; their events."""
    check_embedding_version(conn, [entry for _, entry, _ in offers])
    for item, _, _ in offers:
        check_source_episode(conn, item.tenant_id, getattr(item, "source_episode_id", None))
    insert(conn, kind, [(item, entry) for item, entry, _ in offers])
    return events.append(conn, *(event for _, _, event in offers))


def check_embedding_version(conn: Connection, entries: Iterable[IndexEntry]) -> None:
    """A vector may be written only while its embedder is the store's: another process may have re-embedded it."""
    for version in {entry.embedding_version for entry in entries if entry.embedding is not None}:
        if not conn.one(
            "SELECT 1 AS found FROM embedding_versions WHERE number = :number AND status = 'active'",
            {"number": version},
        ):
            raise EmbedderMismatch("this store was re-embedded meanwhile; open it again with its new embedder")


def check_source_episode(conn: Connection, tenant_id: str, episode_id: UUID | None) -> None:
    """Provenance must point to an episode of the same tenant."""
    if episode_id is None:
        return
    found = "SELECT 1 AS found FROM episodes WHERE tenant_id = :tenant_id AND id = :id"
    if not conn.one(found, {"tenant_id": tenant_id, "id": episode_id}):
        raise InvalidInput("source_episode_id", f"episode {episode_id} does not exist", "the id of an episode of yours")


def get(conn: Connection, tenant_id: str, kind: Kind, id_: UUID, *, to_change: bool = False) -> Item | None:
    """One memory in whatever state it is, without leaving a trace."""
    row = conn.one(
        f"SELECT {SELECTED[kind]} FROM {TABLES[kind]} AS m WHERE m.tenant_id = :tenant_id AND m.id = :id"
        + (conn.for_update if to_change else ""),
        {"tenant_id": tenant_id, "id": id_},
    )
    return to_item(kind, row) if row else None


def touch(conn: Connection, tenant_id: str, ids: dict[Kind, list[UUID]], now: datetime) -> None:
    """001-034: count one more reference for each. Not a mutation: no event."""
    for kind, of_kind in ids.items():
        conn.run(
            f"UPDATE {TABLES[kind]} SET reference_count = reference_count + 1, last_referenced_at = :now"
            f" WHERE tenant_id = :tenant_id AND {conn.within('id', 'ids')}",
            {"tenant_id": tenant_id, "now": now, "ids": of_kind},
        )


def touch_one(conn: Connection, tenant_id: str, kind: Kind, id_: UUID, now: datetime) -> Item | None:
    """001-021: one memory, with this reference already counted."""
    touch(conn, tenant_id, {kind: [id_]}, now)
    return get(conn, tenant_id, kind, id_)


def confirm(conn: Connection, kind: Kind, id_: UUID, now: datetime, event: Event) -> bool:
    """001-022: start the decay of a live fact or rule anew; False when there is none."""
    confirmed = renew(conn, event.tenant_id, kind, id_, now)
    if confirmed:
        events.append(conn, event)
    return confirmed


def renew(conn: Connection, tenant_id: str, kind: Kind, id_: UUID, now: datetime) -> bool:
    """A confirmation without its event, which is the caller's."""
    alive = "validity = 'active'" if kind == "fact" else "NOT forgotten"
    row = conn.one(
        f"SELECT confidence, decay_rate FROM {TABLES[kind]} WHERE tenant_id = :tenant_id AND id = :id AND {alive}"
        + conn.for_update,
        {"tenant_id": tenant_id, "id": id_},
    )
    if row is None:
        return False
    conn.run(
        f"UPDATE {TABLES[kind]} SET last_confirmed_at = :now, updated_at = :now, status = NULL,"
        " next_review_at = :review WHERE tenant_id = :tenant_id AND id = :id",
        {
            "tenant_id": tenant_id,
            "id": id_,
            "now": now,
            "review": next_review_at(row["confidence"], row["decay_rate"], now, now),
        },
    )
    return True


def forget(conn: Connection, kind: Kind, id_: UUID, now: datetime, event: Event) -> bool | None:
    """001-006, 001-023, 001-024: out of sight at once, but kept; False when it was before, None when there is none."""
    item = get(conn, event.tenant_id, kind, id_, to_change=True)
    if item is None:
        return None
    if item.state == "retracted" if isinstance(item, Fact) else item.forgotten:
        return False
    conn.run(
        f"UPDATE {TABLES[kind]} SET {_FORGET[kind]}, updated_at = :now WHERE tenant_id = :tenant_id AND id = :id",
        {
            "tenant_id": event.tenant_id,
            "id": id_,
            "now": now,
            **({"metadata": {**item.metadata, "forgotten": True}} if kind == "rule" else {}),
        },
    )
    events.append(conn, event)
    return True


def delete(conn: Connection, kind: Kind, id_: UUID, event: Event) -> bool:
    """Remove a memory, its links, its revisions and its vectors; the event stays, without content. On SQLite the
    keyword index gives up the words when maintenance merges it."""
    key = {"tenant_id": event.tenant_id, "id": id_}
    if not conn.run(f"DELETE FROM {TABLES[kind]} WHERE tenant_id = :tenant_id AND id = :id", key):
        return False
    links.delete_of_item(conn, event.tenant_id, kind, id_)
    for table in ("revisions", "next_embeddings"):
        conn.run(
            f"DELETE FROM {table} WHERE tenant_id = :tenant_id AND memory_type = :kind AND memory_id = :id",
            {**key, "kind": kind},
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
    rows = conn.all(
        f"SELECT {SELECTED[kind]} FROM {TABLES[kind]} AS m WHERE {where} ORDER BY m.created_at DESC, m.id LIMIT :limit",
        {**params, "limit": limit},
    )
    return [to_item(kind, row) for row in rows]
