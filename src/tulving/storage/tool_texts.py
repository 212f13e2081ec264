"""How often models' texts were read for tool calls: by the protocol that was used, and why it was not ABP."""

from datetime import datetime
from typing import Any

from tulving.storage.connection import Connection

PROTOCOLS = ("abp", "vcp", "plain-text")


def count(conn: Connection, tenant_id: str, protocol: str, reason: str, now: datetime) -> None:
    """Count one text; `reason` is empty if ABP was used."""
    conn.execute(
        "INSERT INTO tool_text_counts (tenant_id, protocol, reason, texts, updated_at)"
        " VALUES (:tenant_id, :protocol, :reason, 1, :now)"
        " ON CONFLICT (tenant_id, protocol, reason)"
        " DO UPDATE SET texts = tool_text_counts.texts + 1, updated_at = excluded.updated_at",
        {"tenant_id": tenant_id, "protocol": protocol, "reason": reason, "now": now},
    )


def summary(conn: Connection, tenant_id: str) -> dict[str, dict[str, Any]]:
    """000-004: for each protocol how many of a tenant's texts were read so, and how many of them for which reason."""
    rows = conn.fetch_all(
        "SELECT protocol, reason, texts FROM tool_text_counts WHERE tenant_id = :tenant_id ORDER BY reason",
        {"tenant_id": tenant_id},
    )
    found: dict[str, dict[str, Any]] = {protocol: {"texts": 0, "fallbacks": {}} for protocol in PROTOCOLS}
    for row in rows:
        counted = found[row["protocol"]]
        counted["texts"] += row["texts"]
        if row["reason"]:
            counted["fallbacks"][row["reason"]] = row["texts"]
    return found
