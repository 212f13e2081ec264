"""How much there is of everything, by the state it is in: one query for each table."""

from datetime import datetime
from typing import Any

from tulving.domain.model import KINDS, Kind
from tulving.domain.scope import Filter
from tulving.storage.connection import Connection
from tulving.storage.filters import visible
from tulving.storage.kinds import KIND


def count(conn: Connection, tenant_id: str, wanted: dict[Kind, Filter], now: datetime) -> dict[Kind, dict[str, Any]]:
    """001-093 to 001-096: the counts of each kind; of episodes also since when the oldest has waited."""
    counts: dict[Kind, dict[str, Any]] = {}
    for kind in KINDS:
        where, params = visible(conn, kind, tenant_id, wanted[kind], now)
        states = {**KIND[kind].states, **KIND[kind].further, "pending_vectors": "m.embedding IS NULL"}
        # A name tells how a value is read, and some of these are names of flags.
        chosen = [f"COUNT(*) FILTER (WHERE {condition}) AS {state}_count" for state, condition in states.items()]
        if kind == "episode":
            # Named like a time, to be read as one.
            chosen.append(f"MIN(m.created_at) FILTER (WHERE {states['unconsolidated']}) AS created_at")
        row = conn.fetch_one(
            f"SELECT COUNT(*) AS total, {', '.join(chosen)} FROM {KIND[kind].table} AS m WHERE {where}", params
        )
        counts[kind] = {name.removesuffix("_count"): value for name, value in (row or {}).items()}
    return counts
