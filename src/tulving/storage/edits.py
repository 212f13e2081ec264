"""Memories put into other words: what one was before becomes a revision, and what it is found by is renewed."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tulving.domain.editing import Revision, edited
from tulving.domain.events import Audit, Event
from tulving.domain.model import Fact, Item, Kind
from tulving.domain.scope import Address
from tulving.errors import InvalidInput
from tulving.storage import events, items
from tulving.storage.connection import Connection
from tulving.storage.maintenance import renumbered
from tulving.storage.rows import COLUMNS, TABLES, IndexEntry, insert_statement, item_params

EDITABLE = ("content", "tags", "importance")
_CHANGED = (*EDITABLE, "content_hash", "updated_at", "last_confirmed_at", "validity", "status", "next_review_at")
_REVISED = "tenant_id memory_type memory_id number content tags metadata importance created_at".split()
_KEEP = insert_statement("revisions", tuple(_REVISED))
_OF_MEMORY = "tenant_id = :tenant_id AND memory_type = :kind AND memory_id = :id"


def edit(
    conn: Connection, address: Address, changes: Mapping[str, Any], entry: IndexEntry | None, audit: Audit
) -> tuple[Item | None, list[Event]]:
    """Change a memory and keep what it was; None when there is none. `entry` comes with new content only.

    Changes that change nothing leave no trace.
    """
    kind = address.kind
    item = items.get(conn, address, to_change=True)
    if item is None:
        return None, []
    new = edited(item, changes, audit.now)
    if new is item:
        return item, []
    _check_unique(conn, new)
    number = keep(conn, kind, item, audit.now)
    update(conn, kind, new, [name for name in _CHANGED if name in COLUMNS[kind]])
    if entry is not None and new.content != item.content:
        reindex(conn, kind, new, entry)
    differing = [name for name in EDITABLE if getattr(new, name, None) != getattr(item, name, None)]
    event = audit.event(
        f"{kind}_edited", kind, item.id, revision=number, changed=differing, content_hash=new.content_hash
    )
    return new, events.append(conn, event)


def revisions(conn: Connection, address: Address) -> list[Revision]:
    """What a memory was before each of its edits, oldest first."""
    rows = conn.fetch_all(
        f"SELECT number, content, tags, metadata, importance, created_at FROM revisions WHERE {_OF_MEMORY}"
        " ORDER BY number",
        {"tenant_id": address.tenant_id, "kind": address.kind, "id": address.id},
    )
    return [Revision(**row) for row in rows]


def update(conn: Connection, kind: Kind, item: Item, columns: Sequence[str]) -> None:
    """Write some columns of a memory that is held for it. Its event is the caller's."""
    conn.execute(
        f"UPDATE {TABLES[kind]} SET {', '.join(f'{name} = :{name}' for name in columns)}"
        " WHERE tenant_id = :tenant_id AND id = :id",
        item_params(kind, item),
    )


def reindex(conn: Connection, kind: Kind, item: Item, entry: IndexEntry) -> None:
    """Let a memory be found by its new words. What a re-embedding under way made of the old ones is void."""
    (entry,) = renumbered(conn, [entry])
    key = {"tenant_id": item.tenant_id, "kind": kind, "id": item.id}
    conn.execute(
        f"UPDATE {TABLES[kind]} SET search_text = :search_text, embedding = :embedding,"
        " embedding_version = :version WHERE tenant_id = :tenant_id AND id = :id",
        {
            **key,
            "search_text": conn.index_text(item.tenant_id, entry.search_text),
            "embedding": entry.embedding,
            "version": entry.embedding_version,
        },
    )
    conn.execute(f"DELETE FROM next_embeddings WHERE {_OF_MEMORY}", key)


def keep(conn: Connection, kind: Kind, item: Item, now: datetime) -> int:
    """Make a revision of a memory that is about to be changed; its number."""
    key = {"tenant_id": item.tenant_id, "kind": kind, "id": item.id}
    last = conn.fetch_one(f"SELECT COALESCE(MAX(number), 0) AS number FROM revisions WHERE {_OF_MEMORY}", key)
    number = (last["number"] if last else 0) + 1
    conn.execute(
        _KEEP,
        {
            "tenant_id": item.tenant_id,
            "memory_type": kind,
            "memory_id": item.id,
            "number": number,
            "content": item.content,
            "tags": item.tags,
            "metadata": item.metadata,
            "importance": getattr(item, "importance", None),
            "created_at": now,
        },
    )
    return number


def _check_unique(conn: Connection, item: Item) -> None:
    """An unkeyed fact is known by what it says, so that two in use can't say the same."""
    if not isinstance(item, Fact) or item.keyed or item.validity != "active":
        return
    same = conn.fetch_one(
        "SELECT id, ref FROM facts WHERE tenant_id = :tenant_id AND scope = :scope AND owner = :owner"
        " AND content_hash = :content_hash AND validity = 'active' AND NOT keyed AND id <> :id",
        item_params("fact", item),
    )
    if same is not None:
        problem = f"the fact {same['ref'] or same['id']} says this already"
        raise InvalidInput("content", problem, "other words, or delete one of the two")
