"""Counts of memories by kind and state, one query for each table."""

from datetime import datetime
from typing import Any

from tulving.domain.model import KINDS, Kind
from tulving.domain.scope import Bound, Filter
from tulving.storage.connection import Connection
from tulving.storage.filters import reach, visible
from tulving.storage.kinds import KIND


def count(conn: Connection, tenant_id: str, kind: Kind, wanted: Filter, now: datetime) -> dict[str, Any]:
    """001-093 to 001-096: the counts of a kind; for episodes also when the oldest unconsolidated one was created."""
    where, params = visible(conn, kind, tenant_id, wanted, now)
    pending = f"m.embedding IS NULL AND {KIND[kind].at_hand}"
    states = {**KIND[kind].states, **KIND[kind].further, "pending_vectors": pending}
    # The suffix keeps a count from being decoded as a flag: values are decoded by column name.
    chosen = [f"COUNT(*) FILTER (WHERE {condition}) AS {state}_count" for state, condition in states.items()]
    if kind == "episode":
        # Named so that it is decoded as a time.
        chosen.append(f"MIN(m.created_at) FILTER (WHERE {states['unconsolidated']}) AS created_at")
    row = conn.fetch_one(
        f"SELECT COUNT(*) AS total, {', '.join(chosen)} FROM {KIND[kind].table} AS m WHERE {where}", params
    )
    return {name.removesuffix("_count"): value for name, value in (row or {}).items()}


def beginning(conn: Connection, tenant_id: str, bound: Bound) -> datetime | None:
    """The earliest time from which a caller may read a memory."""
    found: list[datetime] = []
    for kind in KINDS:
        where, params = reach(kind, tenant_id, bound)
        # Named so that it is decoded as a time.
        row = conn.fetch_one(
            f"SELECT MIN({KIND[kind].dated_by}) AS created_at FROM {KIND[kind].table} AS m"
            f" WHERE {where} AND {KIND[kind].kept}",
            params,
        )
        if row and row["created_at"] is not None:
            found.append(row["created_at"])
    return min(found, default=None)
