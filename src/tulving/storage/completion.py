"""Rows that were inserted by plain SQL (004-001): they get what the database can't make of their words."""

from collections.abc import Callable
from dataclasses import replace

from tulving.domain.completion import completed
from tulving.domain.events import Audit, Event
from tulving.domain.model import KINDS, Fact, Item, Kind
from tulving.domain.text import found_by, search_text
from tulving.storage import edits, events, facts
from tulving.storage.connection import Connection
from tulving.storage.rows import COLUMNS, SELECTED, TABLES, to_item

_INCOMPLETE = "m.content_hash IS NULL OR m.search_text IS NULL"
_COMPLETED = ("content_hash", "type", "last_confirmed_at", "next_review_at")


def waiting(conn: Connection) -> bool:
    """Whether any tenant has a row to complete."""
    return any(
        conn.fetch_one(f"SELECT 1 AS found FROM {TABLES[kind]} AS m WHERE {_INCOMPLETE} LIMIT 1") for kind in KINDS
    )


def complete(conn: Connection, limit: int, audit_of: Callable[[str], Audit]) -> list[Event]:
    """Complete some rows of each kind, of any tenant; the events of their creation."""
    happened: list[Event] = []
    for kind in KINDS:
        rows = conn.fetch_all(
            f"SELECT {SELECTED[kind]} FROM {TABLES[kind]} AS m WHERE {_INCOMPLETE}"
            f" ORDER BY m.tenant_id, m.id LIMIT :limit{conn.for_update}",
            {"limit": limit},
        )
        for row in rows:
            happened += _complete(conn, kind, to_item(kind, row), audit_of(row["tenant_id"]))
    events.append(conn, *happened)
    return happened


def _complete(conn: Connection, kind: Kind, item: Item, audit: Audit) -> list[Event]:
    happened = [audit.event(f"{kind}_created", kind, item.id, by="insert")]
    item = completed(item, audit.now)
    if isinstance(item, Fact) and (same := facts.same_content(conn, item)) is not None:
        # Of two that say the same, one is in use: the one that was completed first.
        facts.supersede(conn, item.tenant_id, item.id, audit.now)
        item = replace(item, next_review_at=None)
        happened.append(audit.event("fact_superseded", kind, item.id, superseded_by=str(same)))
    edits.update(conn, kind, item, [name for name in _COMPLETED if name in COLUMNS[kind]])
    conn.execute(
        f"UPDATE {TABLES[kind]} SET search_text = :search_text WHERE tenant_id = :tenant_id AND id = :id",
        {
            "tenant_id": item.tenant_id,
            "id": item.id,
            "search_text": conn.index_text(item.tenant_id, search_text(found_by(item))),
        },
    )
    return happened
