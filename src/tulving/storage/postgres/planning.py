"""The planner's knowledge of a new table, which the server collects within a minute only.

Until then it takes every index for equally good and reads all facts of a tenant to find one, and a connection keeps
such a plan. So who adds the first rows has the table analyzed.
"""

from typing import TYPE_CHECKING

from tulving.storage.kinds import MEMORY_TABLES

if TYPE_CHECKING:
    from tulving.storage.postgres.connection import PostgresConnection

ENOUGH_ROWS = 100
"""So many rows of a table tell enough about it."""
_NEW = "SELECT reltuples < 0 AS new FROM pg_class WHERE oid = to_regclass(:rel)"


class NewTables:
    """Counts the rows that this process adds to each table, until they are enough."""

    def __init__(self) -> None:
        self._added = dict.fromkeys(MEMORY_TABLES, 0)

    def note(self, conn: "PostgresConnection", table: str, rows: int) -> None:
        if table not in self._added:
            return
        self._added[table] += rows
        if self._added[table] >= ENOUGH_ROWS:
            del self._added[table]
            found = conn.fetch_one(_NEW, {"rel": table})
            if found and found["new"]:
                conn.execute(f"ANALYZE (SKIP_LOCKED) {table}")  # only a warning if the table is not ours
