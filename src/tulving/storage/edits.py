"""Edits: the old version of a memory becomes a revision, and its index entry is renewed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from tulving.domain.editing import Revision, check_unchanged, edited
from tulving.domain.events import Audit
from tulving.domain.model import Episode, Fact, Item
from tulving.domain.scope import Address, address_of
from tulving.domain.text import content_hash, found_by, search_text
from tulving.errors import InvalidInput
from tulving.storage import events, items, timeline
from tulving.storage.connection import Connection
from tulving.storage.embeddings import renumbered
from tulving.storage.kinds import table_of
from tulving.storage.rows import IndexEntry, Row, insert_statement

Revised = TypeVar("Revised", bound=Item)
EDITABLE = ("content", "tags", "importance", "type", "confidence")
_KEPT_IN_EVENT = ("type", "confidence")
"""A revision does not keep them, so the event does."""
_KEEP = insert_statement(
    "revisions", "tenant_id memory_type memory_id number content tags metadata importance created_at".split()
)
_OF_MEMORY = "tenant_id = :tenant_id AND memory_type = :memory_type AND memory_id = :memory_id"


def edit(
    conn: Connection,
    address: Address,
    changes: Mapping[str, Any],
    entry: IndexEntry | None,
    audit: Audit,
    unchanged_since: datetime | None = None,
) -> Item:
    """Change a memory and keep its old version. Changes without effect leave no trace.

    `entry` is given if the memory is to be found by other words. If it does not fit, because something else was changed
    at the same time, the memory gets its vector later.
    """
    item = items.get_to_change(conn, address)
    check_unchanged(f"the {address.kind}", item.updated_at, unchanged_since)
    if edited(item, changes, audit.now) is item:
        return item
    if isinstance(item, Episode):
        item = timeline.bring_back(conn, item, audit)
    new = edited(item, changes, audit.now)
    _check_unique(conn, new)
    number = keep(conn, item, audit.now)
    items.update(conn, (item, new))
    if found_by(new) != found_by(item):
        words = search_text(found_by(new))
        reindex(conn, new, entry if entry is not None and entry.search_text == words else IndexEntry(words, None, None))
    differing = [name for name in EDITABLE if getattr(new, name, None) != getattr(item, name, None)]
    details: Row = {"revision": number, "changed": differing, "content_hash": new.content_hash}
    if before := {name: getattr(item, name) for name in _KEPT_IN_EVENT if name in differing}:
        details["before"] = before
    events.append(conn, audit.event(f"{address.kind}_edited", address.kind, item.id, **details))
    return new


def revisions(conn: Connection, address: Address) -> list[Revision]:
    """What a memory was before each of its edits, oldest first."""
    rows = conn.fetch_all(
        f"SELECT number, content, tags, metadata, importance, created_at FROM revisions WHERE {_OF_MEMORY}"
        " ORDER BY number",
        _key(address),
    )
    return [Revision(**row) for row in rows]


def as_of(conn: Connection, found: Sequence[Revised], moment: datetime) -> list[Revised]:
    """Memories of one tenant as they were at a moment: as the first edit after it found them."""
    if not found:
        return []
    rows = conn.fetch_all(
        "SELECT memory_id, content, tags, metadata, importance FROM revisions AS r WHERE tenant_id = :tenant_id"
        f" AND {conn.within('memory_id', 'ids')} AND number = (SELECT MIN(number) FROM revisions"
        " WHERE tenant_id = r.tenant_id AND memory_type = r.memory_type AND memory_id = r.memory_id"
        " AND created_at > :moment)",
        {"tenant_id": found[0].tenant_id, "ids": [item.id for item in found], "moment": moment},
    )
    before = {row.pop("memory_id"): row for row in rows}
    return [_revised(item, before[item.id]) if item.id in before else item for item in found]


def _revised(item: Revised, before: Row) -> Revised:
    known = {name: value for name, value in before.items() if hasattr(item, name)}
    return replace(item, **known, content_hash=content_hash(before["content"]))


def reindex(conn: Connection, item: Item, entry: IndexEntry) -> None:
    """Index a memory by its new content. What a re-embedding in progress made of the old content is discarded."""
    (entry,) = renumbered(conn, [entry])
    conn.execute(
        f"UPDATE {table_of(item).table} SET search_text = :search_text, embedding = :embedding,"
        f" embedding_version = :version {items.THIS}",
        {
            "tenant_id": item.tenant_id,
            "id": item.id,
            "search_text": conn.index_text(item.tenant_id, entry.search_text),
            "embedding": entry.embedding,
            "version": entry.embedding_version,
        },
    )
    conn.execute(f"DELETE FROM next_embeddings WHERE {_OF_MEMORY}", _key(address_of(item)))


def keep(conn: Connection, item: Item, now: datetime) -> int:
    """Save a memory that is about to be changed as a revision; returns its number."""
    key = _key(address_of(item))
    last = conn.fetch_one(f"SELECT COALESCE(MAX(number), 0) AS number FROM revisions WHERE {_OF_MEMORY}", key)
    number = (last["number"] if last else 0) + 1
    kept = {name: getattr(item, name, None) for name in ("content", "tags", "metadata", "importance")}
    conn.execute(_KEEP, {**key, **kept, "number": number, "created_at": now})
    return number


def _check_unique(conn: Connection, item: Item) -> None:
    """Raise if another active unkeyed fact has the same content: content is what identifies unkeyed facts."""
    if not isinstance(item, Fact) or item.keyed or item.validity != "active":
        return
    same = conn.fetch_one(
        "SELECT id, ref FROM facts WHERE tenant_id = :tenant_id AND scope = :scope AND owner = :owner"
        " AND content_hash = :content_hash AND validity = 'active' AND NOT keyed AND id <> :id",
        table_of(item).params(item),
    )
    if same is not None:
        problem = f"the fact {same['ref'] or same['id']} says this already"
        raise InvalidInput("content", problem, "other words, or delete one of the two")


def _key(address: Address) -> Row:
    return {"tenant_id": address.tenant_id, "memory_type": address.kind, "memory_id": address.id}
