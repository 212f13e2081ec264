"""Work that is done on a schedule: when each job is due, who is doing it, and how the last run went.

Whoever does a job holds its row by a lease. One who dies lets it expire, and another takes over. A row may also stand
for a piece of a job that is divided: `job/key`. It goes when the piece is done, and pieces of one key take turns.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tulving.storage.connection import Connection
from tulving.storage.rows import Row

# A lease that ends later than this many leases from now was written under a wrong clock.
BELIEVABLE = 10


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the table."""

    name: str
    due_at: datetime | None = None
    holder: str | None = None
    lease_until: datetime | None = None
    last_started_at: datetime | None = None
    last_finished_at: datetime | None = None
    last_error: str | None = None
    result: Any = None

    @property
    def key(self) -> str:
        """Whose piece it is; empty for a job."""
        return self.name.partition("/")[2]

    def held(self, now: datetime, lease: timedelta) -> bool:
        until = self.lease_until
        return self.holder is not None and until is not None and now < until <= now + BELIEVABLE * lease


_ALL = "SELECT name, due_at, holder, lease_until, last_started_at, last_finished_at, last_error, result FROM jobs"
_HELD = "name = :name AND holder = :holder"


def entries(conn: Connection) -> list[Entry]:
    return [Entry(**row) for row in conn.fetch_all(_ALL + " ORDER BY name")]


def enroll(conn: Connection, name: str, seen: Entry | None, due_at: datetime) -> None:
    """Say when a job is due, unless somebody else did since it was `seen`."""
    params: Row = {"name": name, "due_at": due_at}
    if seen is None:
        conn.execute("INSERT INTO jobs (name, due_at) VALUES (:name, :due_at) ON CONFLICT (name) DO NOTHING", params)
        return
    unchanged = "due_at IS NULL"
    if seen.due_at is not None:
        unchanged, params["before"] = "due_at = :before", seen.due_at
    conn.execute(f"UPDATE jobs SET due_at = :due_at WHERE name = :name AND holder IS NULL AND {unchanged}", params)


def ask(conn: Connection, name: str, due_at: datetime) -> None:
    """Ask for a piece of work. One that waits already is not asked for twice; one that is being done, is done again."""
    conn.execute(
        "INSERT INTO jobs (name, due_at) VALUES (:name, :due_at) ON CONFLICT (name) DO UPDATE"
        " SET due_at = excluded.due_at WHERE jobs.due_at IS NULL OR jobs.holder IS NOT NULL",
        {"name": name, "due_at": due_at},
    )


def claim(
    conn: Connection, name: str, holder: str, now: datetime, lease: timedelta, asked: bool = False
) -> tuple[bool, Entry]:
    """Take a job that is due (or, if somebody asked, one that is not) and that nobody else holds.

    Whether it was taken, and its row. Only who sees all tenants may: a sweep that is blind to some would be no sweep.
    """
    conn.check_sees_all_tenants()
    entry = Entry(name)
    conn.lock(f"jobs:{entry.key or name}")
    if asked:
        conn.execute("INSERT INTO jobs (name) VALUES (:name) ON CONFLICT (name) DO NOTHING", {"name": name})
    rows = {each.name: each for each in entries(conn)}
    if (entry := rows.get(name)) is None:
        return False, Entry(name)
    others = [entry, *(each for each in rows.values() if entry.key and each.key == entry.key)]
    for other in others:
        if other.holder != holder and other.held(now, lease):
            return False, other
    if not asked and (entry.due_at is None or entry.due_at > now):
        return False, entry
    conn.execute(
        "UPDATE jobs SET holder = :holder, lease_until = :until, last_started_at = :now WHERE name = :name",
        {"name": name, "holder": holder, "until": now + lease, "now": now},
    )
    return True, entry


def renew(conn: Connection, name: str, holder: str, until: datetime) -> bool:
    """Keep a job; False when another one has taken it over."""
    params = {"name": name, "holder": holder, "until": until}
    return bool(conn.execute(f"UPDATE jobs SET lease_until = :until WHERE {_HELD}", params))


def finish(conn: Connection, name: str, holder: str, now: datetime, due_at: datetime | None, result: Any) -> None:
    """Put down what a run did, and when the next one is due."""
    conn.execute(
        "UPDATE jobs SET holder = NULL, lease_until = NULL, due_at = :due_at, last_finished_at = :now,"
        f" last_error = NULL, result = :result WHERE {_HELD}",
        {"name": name, "holder": holder, "now": now, "due_at": due_at, "result": result},
    )


def finish_piece(conn: Connection, name: str, holder: str, as_of: datetime) -> None:
    """A piece that is done leaves no row, unless it was asked for again meanwhile."""
    params = {"name": name, "holder": holder, "as_of": as_of}
    if not conn.execute(f"DELETE FROM jobs WHERE {_HELD} AND (due_at IS NULL OR due_at <= :as_of)", params):
        release(conn, name, holder)


def fail(conn: Connection, name: str, holder: str, now: datetime, due_at: datetime | None, error: str) -> None:
    """Put down why a run failed, and when to try again."""
    conn.execute(
        "UPDATE jobs SET holder = NULL, lease_until = NULL, due_at = :due_at, last_finished_at = :now,"
        f" last_error = :error WHERE {_HELD}",
        {"name": name, "holder": holder, "now": now, "due_at": due_at, "error": error},
    )


def release(conn: Connection, name: str, holder: str) -> None:
    """Give a job back undone: it is due as before."""
    conn.execute(f"UPDATE jobs SET holder = NULL, lease_until = NULL WHERE {_HELD}", {"name": name, "holder": holder})
