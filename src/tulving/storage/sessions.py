"""Sessions: begun, ended, listed with what was made in them, and closed where nobody has ended them."""

from collections.abc import Collection, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any
from uuid import UUID

from tulving.domain.events import AuditOf, Event
from tulving.domain.model import Kind, Session, SessionStatus
from tulving.domain.scope import Bound
from tulving.storage import events
from tulving.storage.connection import Connection
from tulving.storage.filters import behind, reach, reach_or_all
from tulving.storage.items import THIS
from tulving.storage.kinds import KIND
from tulving.storage.rows import Row, insert_statement

_COLUMNS = tuple(each.name for each in fields(Session))
_INSERT = insert_statement("sessions", _COLUMNS)
_SELECT = f"SELECT {', '.join(f'm.{name}' for name in _COLUMNS)} FROM sessions AS m"
_MADE = " UNION ALL ".join(
    f"SELECT created_at FROM {kind.table} WHERE tenant_id = m.tenant_id AND session_id = m.id" for kind in KIND.values()
)
_LAST = f"COALESCE((SELECT MAX(made.created_at) FROM ({_MADE}) AS made), m.started_at)"
"""When something last happened in a session."""
_IDLE = f"m.status = 'active' AND m.started_at <= :before AND {_LAST} <= :before"


def start(conn: Connection, session: Session, event: Event) -> Session:
    """Begin a session."""
    conn.execute(_INSERT, {name: getattr(session, name) for name in _COLUMNS})
    events.append(conn, event)
    return session


def get(conn: Connection, tenant_id: str, id_: UUID, bound: Bound, *, to_change: bool = False) -> Session | None:
    """A session; None if there is none that the caller may see. `to_change` locks it until the transaction ends."""
    where, params = _reach(tenant_id, bound)
    lock = conn.for_update if to_change else ""
    row = conn.fetch_one(f"{_SELECT} WHERE {where} AND m.id = :id{lock}", {**params, "id": id_})
    return Session(**row) if row else None


def of_ids(conn: Connection, tenant_id: str, bound: Bound, ids: Collection[UUID]) -> list[Session]:
    """Those of these sessions that a caller may see."""
    where, params = _reach(tenant_id, bound)
    rows = conn.fetch_all(f"{_SELECT} WHERE {where} AND {conn.within('m.id', 'ids')}", {**params, "ids": list(ids)})
    return [Session(**row) for row in rows]


def end(conn: Connection, session: Session, event: Event) -> Session:
    """Write how a session, as it was read and locked, has ended."""
    ended = ("status", "ended_at", "summary", "tool_calls", "metadata")
    assigned = ", ".join(f"{name} = :{name}" for name in ended)
    values = {name: getattr(session, name) for name in ("tenant_id", "id", *ended)}
    conn.execute(f"UPDATE sessions SET {assigned} {THIS}", values)
    events.append(conn, event)
    return session


def listing(
    conn: Connection,
    tenant_id: str,
    bound: Bound,
    limit: int,
    status: SessionStatus | None,
    project: str | None,
    after: Sequence[Any] | None,
) -> list[Session]:
    """The sessions that a caller may see, newest first; `after` is the place of the last one of the previous page."""
    where, params = _reach(tenant_id, bound)
    beyond, place = behind(after, "m.started_at", "m.id")
    for name, value in (("status", status), ("of_project", project)):
        if value is not None:
            where += f" AND m.{name.removeprefix('of_')} = :{name}"
            params[name] = value
    rows = conn.fetch_all(
        f"{_SELECT} WHERE {where} AND {beyond} ORDER BY m.started_at DESC, m.id DESC LIMIT :limit",
        {**params, **place, "limit": limit},
    )
    return [Session(**row) for row in rows]


def count_memories(conn: Connection, tenant_id: str, bound: Bound, ids: Sequence[UUID]) -> dict[UUID, dict[Kind, int]]:
    """How many memories of each kind were made in each session, without those that were forgotten."""
    counts: dict[UUID, dict[Kind, int]] = {id_: dict.fromkeys(KIND, 0) for id_ in ids}
    for kind, table in KIND.items():
        where, params = reach(kind, tenant_id, bound)
        rows = conn.fetch_all(
            f"SELECT m.session_id, COUNT(*) AS found FROM {table.table} AS m"
            f" WHERE {where} AND {table.kept} AND {conn.within('m.session_id', 'ids')} GROUP BY m.session_id",
            {**params, "ids": list(ids)},
        )
        for row in rows:
            counts[row["session_id"]][kind] = row["found"]
    return counts


def count_idle(conn: Connection, tenant_id: str | None, bound: Bound, before: datetime) -> int:
    """How many active sessions have had no memory since a time."""
    where, params = reach_or_all(conn, "episode", tenant_id, bound)
    row = conn.fetch_one(
        f"SELECT COUNT(*) AS idle FROM sessions AS m WHERE {where} AND {_IDLE}", {**params, "before": before}
    )
    return row["idle"] if row else 0


def abandon_idle(
    conn: Connection, tenant_id: str | None, bound: Bound, before: datetime, limit: int, audit_of: AuditOf
) -> int:
    """Close active sessions that have had no memory since a time, as of their last memory; returns how many."""
    where, params = reach_or_all(conn, "episode", tenant_id, bound)
    rows = conn.fetch_all(
        f"SELECT m.tenant_id, m.id, {_LAST} AS last_at FROM sessions AS m WHERE {where} AND {_IDLE}"
        f" ORDER BY m.tenant_id, m.id LIMIT :limit{conn.for_update}",
        {**params, "before": before, "limit": limit},
    )
    conn.execute_many(f"UPDATE sessions SET status = 'abandoned', ended_at = :last_at {THIS}", rows)
    for row in rows:
        events.append(conn, audit_of(row["tenant_id"]).event("session_abandoned", "session", row["id"]))
    return len(rows)


def _reach(tenant_id: str, bound: Bound) -> tuple[str, Row]:
    """A session is reached as an episode is: its scope is its butler."""
    return reach("episode", tenant_id, bound)
