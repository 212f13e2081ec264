"""Health checks of a store: what is in it, a write that leaves nothing behind, and the state of its jobs."""

from datetime import datetime
from uuid import UUID

from tulving.domain.model import KINDS, Kind
from tulving.errors import StoreUnavailable
from tulving.storage import embeddings, jobs
from tulving.storage.connection import Connection
from tulving.storage.kinds import KIND


def write(conn: Connection, tenant_id: str, id_: UUID, now: datetime) -> None:
    """Insert a row and delete it: the commit reaches the disk, but nothing changes."""
    params = {"tenant_id": tenant_id, "id": id_, "now": now}
    conn.execute("INSERT INTO sessions (tenant_id, id, started_at) VALUES (:tenant_id, :id, :now)", params)
    conn.execute("DELETE FROM sessions WHERE tenant_id = :tenant_id AND id = :id", params)


def glance(conn: Connection, tenant_id: str) -> tuple[dict[Kind, int], int]:
    """How many memories of each kind a tenant has, in any state, and how many wait for their vectors."""
    return count_memories(conn, tenant_id), embeddings.count_pending(conn, tenant_id)


def count_memories(conn: Connection, tenant_id: str) -> dict[Kind, int]:
    """How many memories of each kind a tenant has, in any state."""
    counts: dict[Kind, int] = {}
    for kind in KINDS:
        row = conn.fetch_one(
            f"SELECT COUNT(*) AS total FROM {KIND[kind].table} WHERE tenant_id = :tenant_id", {"tenant_id": tenant_id}
        )
        counts[kind] = row["total"] if row else 0
    return counts


def job_entries(conn: Connection) -> list[jobs.Entry] | None:
    """The jobs, without the pieces that some are divided into; None if only maintenance may see them."""
    try:
        conn.check_sees_all_tenants()
    except StoreUnavailable:
        return None
    return [entry for entry in jobs.entries(conn) if not entry.key]
