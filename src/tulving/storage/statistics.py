"""Counts of memories by kind and state, one query for each table."""

from datetime import datetime
from typing import Any

from tulving.domain.model import Kind
from tulving.domain.scope import Filter
from tulving.storage.connection import Connection
from tulving.storage.filters import visible
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
