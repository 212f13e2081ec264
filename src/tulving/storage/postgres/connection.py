"""The `Connection` of a transaction on PostgreSQL."""

from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

from tulving.domain.events import Event
from tulving.domain.messages import LAST
from tulving.domain.resolution import SIMILAR
from tulving.errors import StoreUnavailable
from tulving.storage.connection import EventOrder
from tulving.storage.kinds import MEMORY_TABLES
from tulving.storage.lanes import Key, LaneRequest, Lanes
from tulving.storage.postgres.arrays import New, insertion
from tulving.storage.postgres.errors import DRIVER_ERRORS, named_error
from tulving.storage.postgres.indexes import VectorIndexes
from tulving.storage.postgres.lanes import find_lanes, read_memories
from tulving.storage.postgres.planning import NewTables
from tulving.storage.postgres.values import Form, Raw, decoded
from tulving.storage.postgres.waiting import wait
from tulving.storage.rows import DOCUMENTS, Params, Row
from tulving.storage.segments import Segments
from tulving.storage.tenant_words import prefixed

ROWS_AT_A_TIME = 50
"""Of a stream: a row may have millions of characters."""
INSERTED_AT_ONCE = 1000
STORE_LOCK = 0x54554C5653544F52  # "TULVSTOR"
"""Writers hold it in shared mode; a change of what they rely on holds it exclusively."""
_OLDEST_RUNNING = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
# Below the size limit of a tsvector; a word takes its letters, its tenant's prefix and its position.
MOST_WORD_BYTES = 1_000_000
BYTES_BESIDE_A_WORD = 12


class PostgresConnection:
    """A `Connection` over asyncpg."""

    for_update = " FOR UPDATE"
    for_reference = " FOR KEY SHARE"
    event_order = EventOrder(
        "transaction_id",
        "transaction_id, seq",
        f"(transaction_id, seq) > (:transaction_id, :seq) AND transaction_id < {_OLDEST_RUNNING}",
        f"SELECT {_OLDEST_RUNNING} - 1 AS transaction_id, {LAST} AS seq",
    )
    merged_at_a_time = 1000

    def __init__(
        self,
        raw: Raw,
        indexes: VectorIndexes,
        row_security: bool,
        secrets: MutableMapping[str, str],
        segments: Segments,
        form: Form,
        new_tables: NewTables,
    ) -> None:
        self.raw, self.indexes, self.row_security, self.secrets = raw, indexes, row_security, secrets
        self.segments = segments
        self.events: list[Event] = []
        self._form, self._new_tables = form, new_tables
        self._held: New | None = None

    def execute(self, sql: str, params: Params | None = None) -> int:
        if sql.startswith("ROLLBACK TO"):
            self._held = None
        self.flush()
        text, names = self._form.numbered(sql)
        status = self._wait(self.raw.execute(text, *self._form.encoded(names, params)))
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    def execute_many(self, sql: str, rows: Iterable[Params]) -> None:
        self.flush()
        text, names = self._form.numbered(sql)
        values = [self._form.encoded(names, row) for row in rows]
        if len(values) == 1:
            self._wait(self.raw.execute(text, *values[0]))
        elif values:
            self._wait(self.raw.executemany(text, values))

    def insert(self, table: str, columns: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> None:
        """Memories are held back until the next statement: if it inserts their events, both take one round trip."""
        if not rows:
            return
        new = (table, columns, rows)
        held, self._held = self._held, None
        if held and table == "memory_events" and self._fits(held) and self._fits(new):
            return self._insert(held, new)
        if held:
            self._insert(held)
        if table in MEMORY_TABLES:
            self._held = new
        else:
            self._insert(new)

    def flush(self) -> None:
        """Insert what is held back."""
        held, self._held = self._held, None
        if held:
            self._insert(held)

    def _fits(self, new: New) -> bool:
        return len(new[2]) <= (INSERTED_AT_ONCE if self._form.binary else 1)

    def _insert(self, *new: New) -> None:
        if all(map(self._fits, new)):
            statement, args = insertion(self._form, *new)
            self._wait(self.raw.execute(statement, *args))
            self._new_tables.note(self, new[0][0], len(new[0][2]))
            return
        ((table, columns, rows),) = new
        if self._form.binary:
            for at in range(0, len(rows), INSERTED_AT_ONCE):
                self._insert((table, columns, rows[at : at + INSERTED_AT_ONCE]))
        else:
            statement, _ = insertion(self._form, (table, columns, rows[:1]))
            self._wait(self.raw.executemany(statement, [[*map(self._form.encode, columns, row)] for row in rows]))
            self._new_tables.note(self, table, len(rows))

    def fetch_one(self, sql: str, params: Params | None = None) -> Row | None:
        rows = self.fetch_all(sql, params)
        return rows[0] if rows else None

    fetch_now = fetch_one
    """A segment is a row: none is newer than the snapshot."""

    def fetch_all(self, sql: str, params: Params | None = None) -> list[Row]:
        return [decoded(record) for record in self.records(sql, params)]

    def fetch_for_each(self, sql: str, rows: Sequence[Params]) -> list[Row]:
        if len(rows) == 1:
            return self.fetch_all(sql, rows[0])
        self.flush()
        text, names = self._form.numbered(sql)
        found = self._wait(self.raw.fetchmany(text, [self._form.encoded(names, row) for row in rows]))
        return [decoded(record) for record in found]

    def records(self, sql: str, params: Params | None = None) -> list[Any]:
        """Raw driver rows."""
        self.flush()
        text, names = self._form.numbered(sql)
        return self._wait(self.raw.fetch(text, *self._form.encoded(names, params)))

    def tuples(self, sql: str, params: Params) -> list[tuple[Any, ...]]:
        return [tuple(record) for record in self.records(sql, params)]

    def stream(self, sql: str, params: Params | None = None) -> Iterator[Row]:
        self.flush()
        text, names = self._form.numbered(sql)
        cursor = self._wait(self.raw.cursor(text, *self._form.encoded(names, params)))
        while rows := self._wait(cursor.fetch(ROWS_AT_A_TIME)):
            yield from map(decoded, rows)

    def within(self, column: str, parameter: str) -> str:
        return f"{column} = ANY(:{parameter})"

    def tagged(self, column: str, parameter: str) -> str:
        return f"{column} @> :{parameter}"

    def beyond_ascii(self, column: str) -> str:
        return f"{column}::text ~ '[^ -~]'"

    def by_index(self, index: str) -> str:
        return ""

    def similar_name(self, name: str, names: str, parameter: str) -> str | None:
        """By pg_trgm, if it is installed. Which non-ASCII characters are letters depends on the locale."""
        if not self.fetch_all(_HAS_TRIGRAMS)[0]["found"]:
            return None
        return (
            f"similarity({name}, :{parameter}) >= {SIMILAR}"
            f" OR EXISTS (SELECT 1 FROM unnest({names}) AS known (name)"
            f""" WHERE similarity(LOWER(known.name COLLATE "C"), :{parameter}) >= {SIMILAR})"""
            f" OR {self.beyond_ascii(name)} OR {self.beyond_ascii(names)}"
        )

    def lock(self, *names: str) -> None:
        self.records(_LOCK, {"names": _lock_names(names)})

    def fetch_locked(self, names: Sequence[str], sql: str, params: Params) -> Row | None:
        row = self.fetch_one(
            f"SELECT found.* FROM ({_LOCK}) AS locks LEFT JOIN ({sql}) AS found ON TRUE LIMIT 1",
            {**params, "names": _lock_names(names)},
        )
        return row if row and any(value is not None for value in row.values()) else None

    def lock_store(self) -> None:
        """Every writing transaction holds this lock in shared mode (`_BEGIN_WRITE`)."""
        self.execute(f"SELECT pg_advisory_xact_lock({STORE_LOCK})")

    def vector_value(self, column: str) -> str:
        return f"vector_send({column}) AS {column}"

    def check_sees_all_tenants(self) -> None:
        if not self.fetch_all(_SEES_ALL)[0]["whole"]:
            raise StoreUnavailable(
                "this database user sees one tenant at a time (row-level security); use one that is a member of the"
                " maintenance role, or name a tenant"
            )

    def vector_bytes(self, column: str) -> str:
        return f"4 * vector_dims({column})"

    def index_text(self, tenant_id: str, search_text: str) -> str:
        """If a tsvector can't hold all words, the text is indexed by as many as fit."""
        words: Sequence[str] = search_text.split(" ") if search_text else ()
        if not words:
            return ""
        if len(search_text) * 4 + len(words) * BYTES_BESIDE_A_WORD > MOST_WORD_BYTES:
            words = list(_fitting(dict.fromkeys(words)))
        return prefixed(tenant_id, words)

    def lanes(self, request: LaneRequest) -> Lanes:
        return find_lanes(self, request)

    def memories(self, tenant_id: str, keys: Collection[Key]) -> dict[Key, Row]:
        return read_memories(self, tenant_id, keys)

    def merge(self, table: str, key: Sequence[str], rows: Sequence[Row]) -> list[Row]:
        """By COPY into a temporary table, from which the new rows are inserted."""
        columns = list(rows[0])
        incoming = f"incoming_{table}"
        # Types that the driver can encode in binary form.
        plain = ", ".join(
            f"{name}::text" if name in DOCUMENTS else f"{name}::{self._form.vector}" if name == "embedding" else name
            for name in columns
        )
        self.execute(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {incoming} ON COMMIT DROP AS"
            f" SELECT 0::bigint AS place, {plain} FROM {table} LIMIT 0"
        )
        self.execute(f"DELETE FROM {incoming}")
        records = [(place, *(self._form.encode(name, row[name]) for name in columns)) for place, row in enumerate(rows)]
        self._wait(self.raw.copy_records_to_table(incoming, records=records, columns=["place", *columns]))
        typed = ", ".join(
            f"{name}::jsonb" if name in DOCUMENTS else f"{name}::vector" if name == "embedding" else name
            for name in columns
        )
        added = self.records(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {typed} FROM {incoming} ORDER BY place"
            f" ON CONFLICT ({', '.join(key)}) DO NOTHING RETURNING {', '.join(key)}"
        )
        given = {tuple(row[name] for name in key): row for row in reversed(rows)}  # the first of equal keys
        return [given[tuple(record)] for record in added]

    @contextmanager
    def vectors_of(self, dimension: int) -> Iterator[None]:
        with self.indexes.of_dimension(self, dimension):
            yield

    def defer_references(self) -> None:
        self.execute("SET CONSTRAINTS ALL DEFERRED")

    def about(self) -> dict[str, Any]:
        found = self.fetch_one(_ABOUT) or {}
        return {"engine": f"PostgreSQL {found.pop('server')}", **found}

    def engine_checks(self) -> dict[str, Callable[[], Iterable[str]]]:
        return {
            "indexes": lambda: [f"{row['name']} is not valid" for row in self.fetch_all(_INVALID_INDEXES)],
            "constraints": lambda: [f"{row['name']} is not valid" for row in self.fetch_all(_INVALID_CONSTRAINTS)],
            "keyword index": self._verify_words,
        }

    def _verify_words(self) -> Iterable[str]:
        for table in MEMORY_TABLES:
            for row in self.fetch_all(
                f"SELECT tenant_id, id FROM {table}"
                " WHERE search_vector IS DISTINCT FROM to_tsvector('english', search_text) LIMIT 20"
            ):
                yield f"{table}: the words of {row['id']} of {row['tenant_id']} are not those of its search text"

    def _wait(self, awaited: Any) -> Any:
        try:
            return wait(awaited)
        except DRIVER_ERRORS as error:
            raise named_error(error) from error


_ABOUT = """
SELECT split_part(current_setting('server_version'), ' ', 1) AS server,
    (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS pgvector,
    (SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass('facts')) AS row_security,
    pg_database_size(current_database()) AS bytes"""
_LOCK = "SELECT COUNT(pg_advisory_xact_lock(hashtextextended(name, 0))::text) FROM unnest(:names::text[]) AS name"
_HAS_TRIGRAMS = "SELECT to_regprocedure('similarity(text, text)') IS NOT NULL AS found"
_OURS = f"""(SELECT to_regclass(name) FROM unnest(ARRAY['{"', '".join(MEMORY_TABLES)}', 'memory_events']) AS name)"""
_INVALID_INDEXES = f"""
SELECT indexrelid::regclass::text AS name FROM pg_index WHERE indrelid IN {_OURS} AND NOT (indisvalid AND indisready)"""
_INVALID_CONSTRAINTS = f"SELECT conname AS name FROM pg_constraint WHERE conrelid IN {_OURS} AND NOT convalidated"
_SEES_ALL = """
SELECT NOT row_security_active('facts') OR EXISTS (
    SELECT 1 FROM pg_policy AS p, unnest(p.polroles) AS role WHERE p.polrelid = 'facts'::regclass
    AND pg_get_expr(p.polqual, p.polrelid) = 'true' AND (role = 0 OR pg_has_role(role, 'USAGE'))) AS whole"""


def _lock_names(names: Iterable[str]) -> list[str]:
    """In one order for all who lock them, so that nobody waits for somebody who waits for them."""
    return sorted({f"tulving:{name}" for name in names})


def _fitting(words: Iterable[str]) -> Iterator[str]:
    used = 0
    for word in words:
        used += len(word.encode()) + BYTES_BESIDE_A_WORD
        if used > MOST_WORD_BYTES:
            return
        yield word
