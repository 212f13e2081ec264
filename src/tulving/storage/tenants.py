"""The tenants of a store: everybody who has ever changed anything in it, with what they have."""

from datetime import datetime
from typing import Any

from tulving.domain.model import KINDS
from tulving.storage.connection import Connection
from tulving.storage.kinds import KIND
from tulving.storage.rows import Row

_LAST = (
    "SELECT occurred_at FROM memory_events WHERE tenant_id = :tenant_id ORDER BY seq DESC LIMIT 1"  # the latest change
)


def listing(conn: Connection, after: str, limit: int, now: datetime) -> list[dict[str, Any]]:
    """The tenants whose names come after one. Every change leaves an event, so that no tenant is without."""
    conn.check_sees_all_tenants()
    return [_described(conn, {"tenant_id": name, "now": now}) for name in _names(conn, after, limit)]


def _names(conn: Connection, after: str, limit: int) -> list[str]:
    """From name to name along the index, and so in its order: a trail of a million events has few names."""
    following = "SELECT MIN(tenant_id) FROM memory_events WHERE tenant_id >"
    sql = f"""
    WITH RECURSIVE names(tenant_id) AS (
        SELECT ({following} :after)
        UNION ALL SELECT ({following} names.tenant_id) FROM names WHERE names.tenant_id IS NOT NULL
    )
    SELECT tenant_id FROM names WHERE tenant_id IS NOT NULL LIMIT :limit"""
    return [row["tenant_id"] for row in conn.fetch_all(sql, {"after": after, "limit": limit})]


def _described(conn: Connection, params: Row) -> dict[str, Any]:
    tenant = {"tenant_id": params["tenant_id"]}
    memories = {kind: _count(conn, f"{KIND[kind].table} WHERE tenant_id = :tenant_id", tenant) for kind in KINDS}
    usable = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)"
    tokens = _count(conn, f"access_tokens WHERE tenant_id = :tenant_id AND {usable}", params)
    last = conn.fetch_one(_LAST, tenant)
    return {**tenant, "memories": memories, "tokens": tokens, "last_change": last["occurred_at"] if last else None}


def _count(conn: Connection, rows: str, params: Row) -> int:
    found = conn.fetch_one(f"SELECT COUNT(*) AS total FROM {rows}", params)
    return found["total"] if found else 0
