"""002-013: deletion of the least recently used episodes, to make room in a file."""

from collections.abc import Sequence

from tulving.domain.events import AuditOf
from tulving.storage import cleanup
from tulving.storage.connection import Connection
from tulving.storage.kinds import KIND
from tulving.storage.rows import Row

# An archived episode takes hardly any room in the file.
_AT_HAND = KIND["episode"].at_hand
_PROTECTED = (
    "(COALESCE(m.type, '') = 'decision' OR EXISTS (SELECT 1 FROM sessions AS s"
    " WHERE s.tenant_id = m.tenant_id AND s.id = m.session_id AND s.status = 'active'))"
)
_EVICTABLE = f"{_AT_HAND} AND NOT {_PROTECTED}"
AT_A_TIME = 100


def least_used(conn: Connection, room: int) -> list[Row]:
    """The least recently used episodes of all tenants that together take about so many bytes, and a whole batch."""
    conn.check_sees_all_tenants()
    vector = f"COALESCE({conn.vector_bytes('m.embedding')}, 0)"
    chosen: list[Row] = []
    for row in conn.stream(
        f"SELECT {cleanup.GIVEN}, m.accessed_at, m.consolidated,"
        # The keyword index takes about half as much as its words. The other columns take about as much as the event of
        # the deletion.
        f" LENGTH(m.content) + COALESCE(3 * LENGTH(m.search_text) / 2, 0) + {vector} AS size"
        f" FROM episodes AS m WHERE {_EVICTABLE} ORDER BY m.accessed_at, m.created_at, m.id"
    ):
        chosen.append(row)
        room -= row["size"]
        if room <= 0 and len(chosen) >= AT_A_TIME:
            break
    return chosen


def evict(conn: Connection, chosen: Sequence[Row], audit_of: AuditOf) -> list[Row]:
    """Delete those of the chosen episodes that have not been used or protected since; returns them."""
    evicted = [
        row
        for row in chosen
        if conn.fetch_one(
            "SELECT m.id FROM episodes AS m WHERE m.tenant_id = :tenant_id AND m.id = :id"
            f" AND m.accessed_at <= :accessed_at AND {_EVICTABLE}",
            row,
        )
    ]
    cleanup.delete(conn, evicted, "eviction", audit_of)
    return evicted


def count_protected(conn: Connection) -> int:
    """How many episodes at hand, of all tenants, are never evicted."""
    [row] = conn.fetch_all(f"SELECT COUNT(*) AS episodes FROM episodes AS m WHERE {_AT_HAND} AND {_PROTECTED}")
    return row["episodes"]


def is_exhausted(conn: Connection) -> bool:
    """Whether no tenant has an episode that may be evicted."""
    return not conn.fetch_all(f"SELECT m.id FROM episodes AS m WHERE {_EVICTABLE} LIMIT 1")
