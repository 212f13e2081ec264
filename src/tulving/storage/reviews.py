"""The decay sweep: what is due for a review is looked at again, whosever it is, a small batch at a time."""

from collections.abc import Callable
from datetime import datetime

from tulving.domain.decay import review
from tulving.domain.events import Audit, Event
from tulving.domain.model import Fact, Kind, Rule
from tulving.storage import events
from tulving.storage.connection import Connection
from tulving.storage.rows import SELECTED, TABLES, Row, to_item

_DUE: dict[Kind, str] = {
    "fact": "m.validity = 'active'",
    "rule": "NOT m.forgotten AND m.maturity <> 'anti_pattern'",
}
_EXPIRE: dict[Kind, str] = {
    "fact": "UPDATE facts SET validity = 'expired', status = NULL, next_review_at = NULL, updated_at = :now",
    "rule": "UPDATE rules SET forgotten = TRUE, status = NULL, next_review_at = NULL, updated_at = :now,"
    " metadata = :metadata",
}
TRANSITIONS = ("fading", "expired", "recovered")


def sweep(
    conn: Connection, kind: Kind, as_of: datetime, limit: int, audit_of: Callable[[str], Audit]
) -> tuple[dict[str, int], list[Event]]:
    """Review the memories that are due the longest: how many were looked at and what became of them, with the events.

    Each is due no more afterwards, so that the next batch goes on behind it. Two sweeps at once share the work: a row
    that the other one holds is waited for, and is then due no more.
    """
    rows = conn.all(
        f"SELECT {SELECTED[kind]} FROM {TABLES[kind]} AS m WHERE m.next_review_at <= :as_of AND {_DUE[kind]}"
        f" ORDER BY m.next_review_at LIMIT :limit{conn.for_update}",
        {"as_of": as_of, "limit": limit},
    )
    counts = {"checked": len(rows), **dict.fromkeys(TRANSITIONS, 0)}
    happened: list[Event] = []
    for row in rows:
        item = to_item(kind, row)
        assert isinstance(item, Fact | Rule)
        became, event = _review(conn, kind, item, as_of, audit_of(item.tenant_id))
        if became is not None:
            counts[became] += 1
        if event is not None:
            happened.append(event)
    return counts, happened


def _review(
    conn: Connection, kind: Kind, item: Fact | Rule, now: datetime, audit: Audit
) -> tuple[str | None, Event | None]:
    standing = review(item.confidence, item.decay_rate, item.last_confirmed_at or item.created_at, now)
    mine = " WHERE tenant_id = :tenant_id AND id = :id"
    params: Row = {"tenant_id": item.tenant_id, "id": item.id, "now": now}
    if standing.state == "expired":
        if kind == "rule":
            params["metadata"] = {**item.metadata, "forgotten": True}
        conn.run(_EXPIRE[kind] + mine, params)
        became = "expired"
    else:
        status = "fading" if standing.state == "fading" else None
        conn.run(
            f"UPDATE {TABLES[kind]} SET status = :status, next_review_at = :review{mine}",
            {**params, "status": status, "review": standing.next_review_at},
        )
        if status == item.status:
            return None, None
        became = "fading" if status else "recovered"
    event = audit.event(f"{kind}_{became}", kind, item.id, by="decay")
    events.append(conn, event)
    return became, event
