"""The timeline of each tenant: its open segment, and what is wrong with it."""

from uuid import UUID

from tulving.domain.events import Audit
from tulving.ports import Finding
from tulving.storage import events
from tulving.storage.connection import Connection
from tulving.storage.rows import Row

WARNING, RECOVERED = "timeline_warning", "timeline_recovered"
"""The types of the events by which a timeline says that something is wrong, and that it is well again."""
THIS = "WHERE tenant_id = :tenant_id"


def find(conn: Connection, tenant_id: str) -> Row | None:
    """A tenant's timeline; None before it is first used."""
    return conn.fetch_one(
        f"SELECT open_segment_id, warning, severity, hint, updated_at FROM timelines {THIS}", {"tenant_id": tenant_id}
    )


def ensure(conn: Connection, audit: Audit) -> Row:
    """A tenant's timeline, begun at its first use."""
    if (found := find(conn, audit.caller.tenant_id)) is None:
        conn.execute(
            "INSERT INTO timelines (tenant_id, open_segment_id, updated_at) VALUES (:tenant_id, :id, :now)"
            " ON CONFLICT DO NOTHING",
            {"tenant_id": audit.caller.tenant_id, "id": audit.new_id(), "now": audit.now},
        )
        found = find(conn, audit.caller.tenant_id)
    assert found is not None
    return found


def close(conn: Connection, audit: Audit, segment_id: UUID) -> bool:
    """Close the open segment; another one is open from now on. False if this one is not the open one any more."""
    closed = conn.execute(
        f"UPDATE timelines SET open_segment_id = :next, updated_at = :now {THIS} AND open_segment_id = :id",
        {"tenant_id": audit.caller.tenant_id, "id": segment_id, "next": audit.new_id(), "now": audit.now},
    )
    return bool(closed)


def warn(conn: Connection, audit: Audit, warning: str, severity: str, hint: str) -> None:
    """000-021: something is wrong. The same warning again is not repeated."""
    if ensure(conn, audit)["warning"] != warning:
        said = {"warning": warning, "severity": severity, "hint": hint}
        _say(conn, audit, said)
        events.append(conn, audit.event(WARNING, "timeline", None, **said))


def recover(conn: Connection, audit: Audit) -> None:
    """All is well again."""
    if ensure(conn, audit)["warning"] is not None:
        _say(conn, audit, dict.fromkeys(("warning", "severity", "hint")))
        events.append(conn, audit.event(RECOVERED, "timeline", None))


def finding(conn: Connection, tenant_id: str) -> Finding:
    """What `health` says about a tenant's timeline."""
    found = find(conn, tenant_id)
    count = conn.fetch_one(
        f"SELECT COUNT(*) AS segments, COALESCE(SUM(episodes), 0) AS archived FROM timeline_segments {THIS}",
        {"tenant_id": tenant_id},
    )
    assert count is not None
    wrong = (f"{found['warning']}: {found['hint']}",) if found and found["warning"] else ()
    return Finding("timeline", wrong, f"{count['segments']} segments with {count['archived']} archived episodes")


def _say(conn: Connection, audit: Audit, said: Row) -> None:
    conn.execute(
        f"UPDATE timelines SET warning = :warning, severity = :severity, hint = :hint, updated_at = :now {THIS}",
        {**said, "tenant_id": audit.caller.tenant_id, "now": audit.now},
    )
