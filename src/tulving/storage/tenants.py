"""The tenants of a store: everyone in whose name anything was ever changed in it, with what they have."""

from datetime import datetime
from typing import Any

from tulving.storage.connection import Connection
from tulving.storage.health import count_memories

_TOKENS = (
    "SELECT COUNT(*) AS total FROM access_tokens"
    " WHERE tenant_id = :tenant_id AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)"
)
_LAST_CHANGE = "SELECT occurred_at FROM memory_events WHERE tenant_id = :tenant_id ORDER BY seq DESC LIMIT 1"


def listing(conn: Connection, after: str, limit: int, now: datetime) -> list[dict[str, Any]]:
    """The tenants whose names come after one. Every change leaves an event, so the audit trail names all of them."""
    conn.check_sees_all_tenants()
    return [_described(conn, name, now) for name in _names(conn, after, limit)]


def _names(conn: Connection, after: str, limit: int) -> list[str]:
    """Distinct names by a loose index scan: one lookup per tenant, however many events each has."""
    following = "SELECT MIN(tenant_id) FROM memory_events WHERE tenant_id >"
    sql = f"""
    WITH RECURSIVE names(tenant_id) AS (
        SELECT ({following} :after)
        UNION ALL SELECT ({following} names.tenant_id) FROM names WHERE names.tenant_id IS NOT NULL
    )
    SELECT tenant_id FROM names WHERE tenant_id IS NOT NULL LIMIT :limit"""
    return [row["tenant_id"] for row in conn.fetch_all(sql, {"after": after, "limit": limit})]


def _described(conn: Connection, name: str, now: datetime) -> dict[str, Any]:
    tokens = conn.fetch_one(_TOKENS, {"tenant_id": name, "now": now})
    last = conn.fetch_one(_LAST_CHANGE, {"tenant_id": name})
    return {
        "tenant_id": name,
        "memories": count_memories(conn, name),
        "tokens": tokens["total"] if tokens else 0,
        "last_change": last["occurred_at"] if last else None,
    }
