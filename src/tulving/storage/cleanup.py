"""Permanent deletion of episodes that have expired or exceed the capacity, in small batches."""

from collections.abc import Collection
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from uuid import UUID

from tulving.domain.events import AuditOf
from tulving.domain.messages import WHOSE, whose
from tulving.domain.scope import Bound
from tulving.storage import events, items, timeline
from tulving.storage.connection import Connection
from tulving.storage.filters import reach, reach_or_all
from tulving.storage.kinds import KIND
from tulving.storage.rows import Row

AT_HAND = KIND["episode"].at_hand
GIVEN = f"tenant_id, id, segment_id, {', '.join(WHOSE)}"
"""What is known of an episode that is to be deleted."""
# An episode that awaits consolidation is kept for its grace period; a forgotten one is never consolidated.
_OVER = (
    "expires_at <= :as_of AND (forgotten OR consolidation_status NOT IN ('pending', 'failed') OR expires_at <= :graced)"
)


def tenants(conn: Connection) -> list[str]:
    """The tenants that have episodes."""
    conn.check_sees_all_tenants()
    return [row["tenant_id"] for row in conn.fetch_all("SELECT DISTINCT tenant_id FROM episodes ORDER BY tenant_id")]


def count(conn: Connection, tenant_id: str | None, bound: Bound) -> int:
    """How many episodes one caller or (None) all tenants have at hand, in any state."""
    where, params = reach_or_all(conn, "episode", tenant_id, bound)
    row = conn.fetch_one(f"SELECT COUNT(*) AS episodes FROM episodes AS m WHERE {where} AND {AT_HAND}", params)
    return row["episodes"] if row else 0


def count_expired(
    conn: Connection, tenant_id: str | None, bound: Bound, as_of: datetime, graced: datetime
) -> dict[str, int]:
    """How many episodes of each tenant are due for deletion."""
    where, params = reach_or_all(conn, "episode", tenant_id, bound)
    rows = conn.fetch_all(
        f"SELECT tenant_id, COUNT(*) AS episodes FROM episodes AS m WHERE {where} AND {_OVER} GROUP BY tenant_id",
        {**params, "as_of": as_of, "graced": graced},
    )
    return {row["tenant_id"]: row["episodes"] for row in rows}


def count_spent(conn: Connection, tenant_id: str, bound: Bound, as_of: datetime, graced: datetime) -> int:
    """How many episodes may be deleted to make room, not counting the expired ones."""
    where, params = reach("episode", tenant_id, bound)
    row = conn.fetch_one(
        f"SELECT COUNT(*) AS episodes FROM episodes AS m WHERE {where} AND {AT_HAND} AND consolidated"
        f" AND NOT COALESCE({_OVER}, FALSE)",
        {**params, "as_of": as_of, "graced": graced},
    )
    return row["episodes"] if row else 0


def delete_expired(
    conn: Connection,
    tenant_id: str | None,
    bound: Bound,
    as_of: datetime,
    graced: datetime,
    limit: int,
    audit_of: AuditOf,
) -> int:
    """001-058: delete expired episodes of one caller or (None) of all tenants; returns how many."""
    where, params = reach_or_all(conn, "episode", tenant_id, bound)
    rows = conn.fetch_all(
        f"SELECT {GIVEN} FROM episodes AS m WHERE {where} AND {_OVER}"
        f" ORDER BY expires_at, tenant_id, id LIMIT :limit{conn.for_update}",
        {**params, "as_of": as_of, "graced": graced, "limit": limit},
    )
    return delete(conn, rows, "expiry", audit_of)


def delete_surplus(conn: Connection, tenant_id: str, bound: Bound, most: int, limit: int, audit_of: AuditOf) -> int:
    """001-059: delete the oldest consolidated episodes while the caller has too many; returns how many."""
    # Two concurrent cleanups would both delete the surplus.
    conn.lock(f"{tenant_id} episode cleanup")
    surplus = count(conn, tenant_id, bound) - most
    if surplus <= 0:
        return 0
    where, params = reach("episode", tenant_id, bound)
    rows = conn.fetch_all(
        f"SELECT {GIVEN} FROM episodes AS m WHERE {where} AND {AT_HAND} AND consolidated"
        f" ORDER BY created_at, id LIMIT :limit{conn.for_update}",
        {**params, "limit": min(limit, surplus)},
    )
    return delete(conn, rows, "capacity", audit_of)


def delete_old(conn: Connection, tenant_id: str, before: datetime, limit: int, audit_of: AuditOf) -> int:
    """000-018: delete the oldest episodes that happened before a moment, archived or not; returns how many."""
    dated = KIND["episode"].dated_by
    rows = conn.fetch_all(
        f"SELECT {GIVEN} FROM episodes AS m WHERE m.tenant_id = :tenant_id AND {dated} < :before"
        f" ORDER BY {dated}, m.id LIMIT :limit{conn.for_update}",
        {"tenant_id": tenant_id, "before": before, "limit": limit},
    )
    return delete(conn, rows, "retention", audit_of)


def delete(conn: Connection, rows: Collection[Row], by: str, audit_of: AuditOf) -> int:
    """Delete episodes with all that is known of them; returns how many. The events say `by` what."""
    deleted = 0
    for tenant_id, theirs in groupby(sorted(rows, key=itemgetter("tenant_id", "id")), key=itemgetter("tenant_id")):
        gone = {row["id"]: whose(row) for row in theirs}
        ids: list[UUID] = list(gone)
        conn.execute(
            f"DELETE FROM episodes WHERE tenant_id = :tenant_id AND {conn.within('id', 'ids')}",
            {"tenant_id": tenant_id, "ids": ids},
        )
        items.delete_traces(conn, tenant_id, "episode", ids)
        audit = audit_of(tenant_id)
        events.append(conn, *(audit.event("episode_deleted", "episode", id_, by=by, **gone[id_]) for id_ in ids))
        deleted += len(ids)
    timeline.emptied(conn, rows)
    return deleted
