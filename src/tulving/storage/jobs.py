"""The `jobs` table: scheduled jobs, and the pieces of those that are divided (`domain/schedule.py`).

A process that does a job holds its row by a lease, which another one takes over when it has run out. The row of a job
stays and says how the last run went; the row of a piece is deleted when the piece is done.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from tulving.domain.events import Event
from tulving.domain.schedule import Entry
from tulving.ports import Clock
from tulving.storage import events
from tulving.storage.connection import Connection
from tulving.storage.rows import Row

_ENTRIES = "SELECT name, due_at, holder, lease_until, last_started_at, last_finished_at, last_error, result FROM jobs"
_HELD = "name = :name AND holder = :holder"
_LATER = "(jobs.due_at IS NULL OR jobs.due_at > excluded.due_at)"
_INSERT = "INSERT INTO jobs (name, due_at) VALUES (:name, :due_at) ON CONFLICT (name)"


def entries(conn: Connection) -> list[Entry]:
    return [Entry(**row) for row in conn.fetch_all(_ENTRIES + " ORDER BY name")]


def seen_by_all(conn: Connection) -> list[Entry]:
    """The entries, for a caller that must be able to see all tenants."""
    conn.check_sees_all_tenants()
    return entries(conn)


def request(conn: Connection, name: str, now: datetime, event: Event) -> None:
    """Make a job due now, unless it is due already or being done."""
    conn.check_sees_all_tenants()
    free = "(jobs.holder IS NULL OR jobs.lease_until <= excluded.due_at)"
    due = f"{_INSERT} DO UPDATE SET due_at = excluded.due_at WHERE {free} AND {_LATER}"
    if conn.execute(due, {"name": name, "due_at": now}):
        events.append(conn, event)


def enroll(conn: Connection, name: str, seen: Entry | None, due_at: datetime) -> None:
    """Set when a job is due, unless its row has changed since it was `seen`."""
    params: Row = {"name": name, "due_at": due_at}
    if seen is None:
        conn.execute(f"{_INSERT} DO NOTHING", params)
        return
    unchanged = "due_at IS NULL"
    if seen.due_at is not None:
        unchanged, params["before"] = "due_at = :before", seen.due_at
    conn.execute(f"UPDATE jobs SET due_at = :due_at WHERE name = :name AND holder IS NULL AND {unchanged}", params)


def request_pieces(conn: Connection, job: str, keys: Iterable[str], due_at: datetime) -> None:
    """Have a job done for each key. A piece that waits already keeps its place; one being done is done once more."""
    rows = [{"name": f"{job}/{key}", "due_at": due_at} for key in sorted(set(keys))]
    conn.execute_many(
        f"{_INSERT} DO UPDATE SET due_at = excluded.due_at WHERE jobs.due_at IS NULL"
        " OR (jobs.holder IS NOT NULL AND jobs.lease_until > excluded.due_at)",
        rows,
    )


def claim(
    conn: Connection,
    seen: Entry,
    jobs: Iterable[str],
    holder: str,
    clock: Clock,
    lease: timedelta,
    on_demand: bool = False,
) -> tuple[bool, datetime, Entry]:
    """Take a job or piece as it was `seen`, or `on_demand` whenever it is due, unless its turn is held.

    Returns whether it was taken, when, and the row that decided. `jobs` are all that may have pieces of the same key.
    The caller must see all tenants: a sweep that passes over some must not be recorded as done.
    """
    conn.check_sees_all_tenants()
    conn.lock(f"jobs:{seen.turn}")
    now = clock()  # not before: a lease must not run out while its transaction waits for a lock
    if on_demand:
        conn.execute(f"{_INSERT} DO NOTHING", {"name": seen.name, "due_at": None})
    names = {seen.name, *(f"{job}/{seen.key}" for job in jobs if seen.key)}
    found = conn.fetch_all(f"{_ENTRIES} WHERE {conn.within('name', 'names')}", {"names": sorted(names)})
    rows = {row["name"]: Entry(**row) for row in found}
    for row in rows.values():
        if row.held_until(now, lease):
            return False, now, row
    entry = rows.get(seen.name)
    if entry is None or not (on_demand or (entry.due_at == seen.due_at and not entry.blocked_until(now, lease))):
        return False, now, entry or seen
    conn.execute(
        "UPDATE jobs SET holder = :holder, lease_until = :until, last_started_at = :now WHERE name = :name",
        {"name": seen.name, "holder": holder, "until": now + lease, "now": now},
    )
    return True, now, entry


def renew(conn: Connection, name: str, holder: str, until: datetime) -> bool:
    """Extend a lease; False when another process has taken the job over."""
    params = {"name": name, "holder": holder, "until": until}
    return bool(conn.execute(f"UPDATE jobs SET lease_until = :until WHERE {_HELD}", params))


def finish(conn: Connection, name: str, holder: str, now: datetime, due_at: datetime | None, result: Any) -> None:
    """Record what a run did, and when the next one is due."""
    conn.execute(
        "UPDATE jobs SET holder = NULL, lease_until = NULL, due_at = :due_at, last_finished_at = :now,"
        f" last_error = NULL, result = :result WHERE {_HELD}",
        {"name": name, "holder": holder, "now": now, "due_at": due_at, "result": result},
    )


def finish_piece(conn: Connection, name: str, holder: str, as_of: datetime) -> None:
    """Delete a piece that is done, unless it was requested again since."""
    params = {"name": name, "holder": holder, "as_of": as_of}
    if not conn.execute(f"DELETE FROM jobs WHERE {_HELD} AND (due_at IS NULL OR due_at <= :as_of)", params):
        release(conn, name, holder)


def fail(
    conn: Connection,
    name: str,
    holder: str,
    now: datetime,
    due_at: datetime | None,
    error: str,
    blocked_until: datetime | None = None,
) -> None:
    """Record why a run failed, and when to try again."""
    conn.execute(
        "UPDATE jobs SET holder = NULL, lease_until = :until, due_at = :due_at, last_finished_at = :now,"
        f" last_error = :error WHERE {_HELD}",
        {"name": name, "holder": holder, "now": now, "due_at": due_at, "error": error, "until": blocked_until},
    )


def release(conn: Connection, name: str, holder: str) -> None:
    """End a lease before the job is done: it is due as before."""
    conn.execute(f"UPDATE jobs SET holder = NULL, lease_until = NULL WHERE {_HELD}", {"name": name, "holder": holder})
