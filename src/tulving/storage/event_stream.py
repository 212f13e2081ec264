"""Reading the audit trail forward: what has happened since a place in it, and how far each named reader has come.

Where transactions commit in another order than they number their events, a reader that only remembers the last number
would miss those of a slow transaction. So events are read in the order of transactions, up to the oldest one that is
still running (`Connection.event_order`).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tulving.domain.events import Event
from tulving.domain.messages import Context, Cursor, Message, Read, concerned, messages
from tulving.domain.model import Item, Kind
from tulving.domain.scope import Bound
from tulving.storage import timeline, timelines
from tulving.storage.connection import Connection
from tulving.storage.events import COLUMNS
from tulving.storage.filters import reach
from tulving.storage.kinds import KIND
from tulving.storage.rows import insert_statement

BATCH = 500
_EVENTS = f"seq, {', '.join(COLUMNS)} FROM memory_events WHERE tenant_id = :tenant_id"


def end(conn: Connection, tenant_id: str) -> Cursor:
    """The place after all that has been committed. What other transactions are about to commit comes after it."""
    row = conn.fetch_one(conn.event_order.end, {"tenant_id": tenant_id})
    assert row is not None
    return Cursor(row["transaction_id"], row["seq"])


def reached(conn: Connection, tenant_id: str, place: Cursor | None) -> Cursor | None:
    """A place that was given, if it may be one of this store; the end, if none was."""
    last = end(conn, tenant_id)
    if place is None:
        return last
    if place > last:
        return None
    # Where transactions have numbers, only what is older than these numbers has none.
    if place.seq and not place.transaction_id:
        unnumbered = f"{conn.event_order.transaction} = 0 AND seq >= :seq"
        sql = f"SELECT 1 AS found FROM memory_events WHERE tenant_id = :tenant_id AND {unnumbered} LIMIT 1"
        return place if conn.fetch_one(sql, {"tenant_id": tenant_id, "seq": place.seq}) else None
    return place


def since(conn: Connection, tenant_id: str, moment: datetime) -> Cursor:
    """The place before the first event of this moment or later; else the end. What can't be read yet, since an older
    transaction is still running, comes after the end."""
    order = conn.event_order
    row = conn.fetch_one(
        f"SELECT {order.transaction} AS transaction_id, seq FROM memory_events WHERE tenant_id = :tenant_id"
        f" AND occurred_at >= :moment ORDER BY {order.columns} LIMIT 1",
        {"tenant_id": tenant_id, "moment": moment},
    )
    reached = end(conn, tenant_id)
    return reached if row is None else min(reached, Cursor(row["transaction_id"], row["seq"] - 1))


def read(conn: Connection, tenant_id: str, after: Cursor, limit: int = BATCH) -> list[Read]:
    """The next events after a place, in their order."""
    order = conn.event_order
    rows = conn.fetch_all(
        f"SELECT {order.transaction} AS transaction_id, {_EVENTS} AND {order.after} ORDER BY {order.columns}"
        " LIMIT :limit",
        {"tenant_id": tenant_id, **after._asdict(), "limit": limit},
    )
    return [(Cursor(row.pop("transaction_id"), row["seq"]), Event(**row)) for row in rows]


def next_messages(
    conn: Connection, tenant_id: str, bound: Bound, topics: frozenset[str], after: Cursor
) -> tuple[list[Message], Cursor, bool]:
    """The next messages for a connection, the place that they reach, and whether more may follow at once."""
    found = read(conn, tenant_id, after)
    if not found:
        return [], after, False
    items: dict[tuple[Kind, Any], Item] = {}
    for kind, ids in concerned((event for _, event in found), topics).items():
        if ids:
            where, params = reach(kind, tenant_id, bound)
            rows = conn.fetch_all(
                f"{KIND[kind].select} WHERE {where} AND {conn.within('m.id', 'ids')}", {**params, "ids": ids}
            )
            items |= {(kind, row["id"]): KIND[kind].item(row) for row in timeline.restored(conn, rows)}
    its = timelines.find(conn, tenant_id)
    context = Context(bound, items, None if its is None else its["open_segment_id"])
    return messages(found, topics, context), found[-1][0], len(found) == BATCH


def cursor(
    conn: Connection, tenant_id: str, name: str, *, to_change: bool = False
) -> tuple[Cursor, dict[str, Any]] | None:
    """How far a reader has come, and what it has noted there; None before it begins."""
    lock = conn.for_update if to_change else ""
    row = conn.fetch_one(
        f"SELECT transaction_id, seq, counts FROM event_cursors WHERE tenant_id = :tenant_id AND name = :name{lock}",
        {"tenant_id": tenant_id, "name": name},
    )
    return None if row is None else (Cursor(row["transaction_id"], row["seq"]), row["counts"])


def begin(conn: Connection, tenant_id: str, name: str, at: Cursor, now: datetime) -> None:
    """A reader begins, unless it has already."""
    row = {"tenant_id": tenant_id, "name": name, **at._asdict(), "updated_at": now}
    conn.execute(f"{insert_statement('event_cursors', row)} ON CONFLICT DO NOTHING", row)


def move(conn: Connection, tenant_id: str, name: str, to: Cursor, state: Mapping[str, Any], now: datetime) -> None:
    """Move a reader that has been locked, with what it notes there."""
    conn.execute(
        "UPDATE event_cursors SET transaction_id = :transaction_id, seq = :seq, counts = :counts, updated_at = :now"
        " WHERE tenant_id = :tenant_id AND name = :name",
        {**to._asdict(), "tenant_id": tenant_id, "name": name, "counts": dict(state), "now": now},
    )
