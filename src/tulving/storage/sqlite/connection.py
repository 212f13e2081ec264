"""The `Connection` of a transaction on SQLite."""

import sqlite3
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from tulving.domain.events import Event
from tulving.storage.connection import EventOrder
from tulving.storage.kinds import MEMORY_TABLES
from tulving.storage.lanes import Key, LaneRequest, Lanes
from tulving.storage.rows import Params, Row
from tulving.storage.schema import HEAD
from tulving.storage.segments import Segments
from tulving.storage.sqlite import database
from tulving.storage.sqlite.errors import DRIVER_ERRORS, named_error, named_errors
from tulving.storage.sqlite.lanes import find_lanes, read_memories
from tulving.storage.sqlite.partition import mark_import
from tulving.storage.sqlite.values import columns, decoded, encoded, encoded_values, for_each, insertion
from tulving.storage.sqlite.vectors import VectorCache
from tulving.storage.tenant_words import prefixed

ROWS_AT_A_TIME = 20
"""Of a stream: a row may have millions of characters."""
ASKED_AT_ONCE = 100
INSERTED_AT_ONCE = (128, 32, 8, 1)
"""How many rows a statement inserts. SQLite keeps each page that a statement changes as it was before, and FTS5 writes
what it has gathered when the next statement begins: for many rows in one statement both happen once."""


class SqliteConnection:
    """A `Connection` over the standard driver. SQLite has one writer at a time, so nothing needs to be locked."""

    for_update = ""
    for_reference = ""
    event_order = EventOrder(
        "0",
        "seq",
        "seq > :seq",
        "SELECT 0 AS transaction_id, COALESCE(MAX(seq), 0) AS seq FROM memory_events WHERE tenant_id = :tenant_id",
    )
    merged_at_a_time = 1  # so that an error concerns one row

    def __init__(self, raw: sqlite3.Connection, vectors: VectorCache, segments: Segments | None = None) -> None:
        self.raw, self.vectors = raw, vectors
        self.segments = segments or Segments()
        self.events: list[Event] = []
        self.secrets: dict[str, str] = {}

    def execute(self, sql: str, params: Params | None = None) -> int:
        return self._execute(sql, params).rowcount

    def execute_many(self, sql: str, rows: Iterable[Params]) -> None:
        with named_errors():
            self.raw.executemany(sql, map(encoded, rows))

    def insert(self, table: str, columns: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> None:
        at = 0
        try:
            for count in INSERTED_AT_ONCE:
                statement, encode = insertion(table, columns, count)
                while at + count <= len(rows):
                    self.raw.execute(statement, [value for row in rows[at : at + count] for value in encode(row)])
                    at += count
        except DRIVER_ERRORS as error:
            raise named_error(error) from error

    def fetch_one(self, sql: str, params: Params | None = None) -> Row | None:
        rows = self.fetch_all(sql, params)
        return rows[0] if rows else None

    def fetch_now(self, sql: str, params: Params | None = None) -> Row | None:
        _, _, path = self.raw.execute("PRAGMA database_list").fetchone()
        with named_errors(), closing(database.connect(Path(path), 1.0, read_only=True)) as raw:
            return SqliteConnection(raw, self.vectors, self.segments).fetch_one(sql, params)

    def fetch_all(self, sql: str, params: Params | None = None) -> list[Row]:
        return self._fetch(sql, encoded(params) if params else ())

    def _fetch(self, sql: str, params: Any) -> list[Row]:
        try:
            cursor = self.raw.execute(sql, params)
            rows = cursor.fetchall()
        except DRIVER_ERRORS as error:
            raise named_error(error) from error
        readers = columns(column[0] for column in cursor.description) if rows else []
        return [decoded(readers, row) for row in rows]

    def fetch_for_each(self, sql: str, rows: Sequence[Params]) -> list[Row]:
        if len(rows) == 1:
            return self.fetch_all(sql, rows[0])
        found: list[Row] = []
        for at in range(0, len(rows), ASKED_AT_ONCE):
            asked = rows[at : at + ASKED_AT_ONCE]
            statement, names = for_each(sql, len(asked))
            found += self._fetch(statement, [value for row in asked for value in encoded_values(names, row)])
        return found

    def stream(self, sql: str, params: Params | None = None) -> Iterator[Row]:
        cursor = self._execute(sql, params)
        readers = columns(column[0] for column in cursor.description)
        while True:
            with named_errors():
                rows = cursor.fetchmany(ROWS_AT_A_TIME)
            if not rows:
                return
            for row in rows:
                yield decoded(readers, row)

    def tuples(self, sql: str, params: Params) -> list[tuple[Any, ...]]:
        """Raw driver rows."""
        try:
            return self.raw.execute(sql, encoded(params)).fetchall()
        except DRIVER_ERRORS as error:
            raise named_error(error) from error

    def within(self, column: str, parameter: str) -> str:
        return f"{column} IN (SELECT value FROM json_each(:{parameter}))"

    def tagged(self, column: str, parameter: str) -> str:
        return (
            f"NOT EXISTS (SELECT 1 FROM json_each(:{parameter}) AS wanted"
            f" WHERE wanted.value NOT IN (SELECT value FROM json_each({column})))"
        )

    def beyond_ascii(self, column: str) -> str:
        return f"{column} GLOB '*[^ -~]*'"

    def by_index(self, index: str) -> str:
        # Without statistics it prefers any index that begins with the tenant.
        return f" INDEXED BY {index}"

    def similar_name(self, name: str, names: str, parameter: str) -> str | None:
        return "TRUE"

    def lock(self, *names: str) -> None:
        pass

    def fetch_locked(self, names: Sequence[str], sql: str, params: Params) -> Row | None:
        return self.fetch_one(sql, params)

    def lock_store(self) -> None:
        pass

    def merge(self, table: str, key: Sequence[str], rows: Sequence[Row]) -> list[Row]:
        # Not ON CONFLICT: the append-only trigger fires first and rejects an event that exists already.
        same = " AND ".join(f"{name} = :{name}" for name in key)
        names = tuple(rows[0])
        insert = (
            f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(f':{name}' for name in names)}"
            f" WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {same})"
        )
        added = [row for row in rows if self.execute(insert, row)]
        if added and "embedding" in rows[0]:
            with named_errors():
                mark_import(self.raw)
        return added

    def vectors_of(self, dimension: int) -> AbstractContextManager[None]:
        return nullcontext()

    def vector_value(self, column: str) -> str:
        return column

    def check_sees_all_tenants(self) -> None:
        pass

    def vector_bytes(self, column: str) -> str:
        return f"LENGTH({column})"

    def index_text(self, tenant_id: str, search_text: str) -> str:
        return prefixed(tenant_id, search_text.split(" ")) if search_text else ""

    def lanes(self, request: LaneRequest) -> Lanes:
        with named_errors():
            return find_lanes(self, self.vectors, request)

    def memories(self, tenant_id: str, keys: Collection[Key]) -> dict[Key, Row]:
        return read_memories(self, tenant_id, keys)

    def defer_references(self) -> None:
        self._execute("PRAGMA defer_foreign_keys = ON", None)

    def about(self) -> dict[str, Any]:
        (journal,) = self._execute("PRAGMA journal_mode", None).fetchone()
        return {"engine": f"SQLite {sqlite3.sqlite_version}", "journal": journal}

    def engine_checks(self) -> dict[str, Callable[[], Iterable[str]]]:
        return {
            "schema": lambda: database.strange_objects(self.raw, HEAD),
            "database file": self._verify_file,
            "foreign keys": lambda: [str(row) for row in self.fetch_all("PRAGMA foreign_key_check")],
            "keyword index": self._verify_fts,
            "vector index": self._verify_cache,
        }

    def _verify_file(self) -> Iterable[str]:
        with named_errors(), self._trusting() as raw:
            return [message for (message,) in raw.execute("PRAGMA integrity_check") if message != "ok"]

    def _verify_fts(self) -> Iterable[str]:
        """FTS5 offers this check as an INSERT, so it needs a writable connection."""
        with self._trusting() as raw:
            for table in MEMORY_TABLES:
                try:
                    raw.execute(f"INSERT INTO {table}_fts ({table}_fts, rank) VALUES ('integrity-check', 1)")
                except sqlite3.DatabaseError as error:
                    yield f"{table}_fts: {error}"

    @contextmanager
    def _trusting(self) -> Iterator[sqlite3.Connection]:
        """A writable connection to the file, or to a copy if it is read-only."""
        _, _, name = self.raw.execute("PRAGMA database_list").fetchone()
        path = Path(name)
        with ExitStack() as held:
            if database.is_frozen(path):
                path = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="tulving-"))) / path.name
                with closing(sqlite3.connect(path)) as copy:
                    self.raw.backup(copy)
            yield held.enter_context(closing(database.connect(path, busy_timeout=30)))

    def _verify_cache(self) -> Iterable[str]:
        active = self.fetch_one("SELECT number, dimension FROM embedding_versions WHERE status = 'active'")
        return self.vectors.mismatches(self, active["number"], active["dimension"]) if active else []

    def _execute(self, sql: str, params: Params | None) -> sqlite3.Cursor:
        try:
            return self.raw.execute(sql, encoded(params) if params else ())
        except DRIVER_ERRORS as error:
            raise named_error(error) from error
