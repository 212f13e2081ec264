"""The engine for many tenants and machines: PostgreSQL with pgvector, through asyncpg.

A transaction function runs in a greenlet (`waiting`) on one connection of the pool. A conflict between two writers is
settled by running the loser again; what the driver reports is told in our words, and never with a password in it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

import asyncpg
from asyncpg import exceptions as pg

from tulving.domain.resolution import SIMILAR
from tulving.errors import (
    ConfigError,
    DamagedStore,
    DiskFull,
    EmbedderMismatch,
    IntegrityError,
    StoreBusy,
    StoreUnavailable,
    TulvingError,
)
from tulving.storage.connection import Finding, LaneRequest, Lanes, check
from tulving.storage.postgres_index import Progress, VectorIndexes, rebuild
from tulving.storage.postgres_lanes import find_lanes
from tulving.storage.postgres_values import Raw, decoded, encode, encoded, numbered
from tulving.storage.rows import DOCUMENTS, TABLES, Params, Row
from tulving.storage.tenant_words import prefixed
from tulving.storage.waiting import run_waiting, wait

log = logging.getLogger("tulving")
P = ParamSpec("P")
T = TypeVar("T")

ROWS_AT_A_TIME = 500
MOST_TRIES = 6
LONGEST_FAREWELL = 10.0
FIRST_PAUSE = 0.002
# What a tsvector may hold, with room to spare; a word takes its letters, its tenant's prefix and its place.
MOST_WORD_BYTES = 1_000_000
BYTES_BESIDE_A_WORD = 12


class PostgresConnection:
    """A `Connection` over asyncpg."""

    for_update = " FOR UPDATE"
    for_reference = " FOR KEY SHARE"
    merged_at_a_time = 1000

    def __init__(self, raw: Raw, indexes: VectorIndexes) -> None:
        self.raw, self.indexes = raw, indexes

    def run(self, sql: str, params: Params | None = None) -> int:
        text, names = numbered(sql)
        status = self._wait(self.raw.execute(text, *encoded(names, params)))
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    def many(self, sql: str, rows: Iterable[Params]) -> None:
        text, names = numbered(sql)
        values = [encoded(names, row) for row in rows]
        if len(values) == 1:
            self._wait(self.raw.execute(text, *values[0]))
        elif values:
            self._wait(self.raw.executemany(text, values))

    def one(self, sql: str, params: Params | None = None) -> Row | None:
        rows = self.all(sql, params)
        return rows[0] if rows else None

    def all(self, sql: str, params: Params | None = None) -> list[Row]:
        return [decoded(record) for record in self.records(sql, params)]

    def every(self, sql: str, rows: Iterable[Params]) -> list[Row]:
        text, names = numbered(sql)
        values = [encoded(names, row) for row in rows]
        if len(values) == 1:
            found = self._wait(self.raw.fetch(text, *values[0]))
        else:
            found = self._wait(self.raw.fetchmany(text, values))
        return [decoded(record) for record in found]

    def records(self, sql: str, params: Params | None = None) -> list[Any]:
        """Rows as the driver gives them."""
        text, names = numbered(sql)
        return self._wait(self.raw.fetch(text, *encoded(names, params)))

    def each(self, sql: str, params: Params | None = None) -> Iterator[Row]:
        text, names = numbered(sql)
        cursor = self._wait(self.raw.cursor(text, *encoded(names, params)))
        while rows := self._wait(cursor.fetch(ROWS_AT_A_TIME)):
            yield from map(decoded, rows)

    def within(self, column: str, parameter: str) -> str:
        return f"{column} = ANY(:{parameter})"

    def tagged(self, column: str, parameter: str) -> str:
        return f"{column} @> :{parameter}"

    def beyond_ascii(self, column: str) -> str:
        return f"{column}::text ~ '[^ -~]'"

    def alike(self, name: str, names: str, parameter: str) -> str | None:
        """By pg_trgm, where it is. What it takes for a letter beyond ASCII depends on the database's locale."""
        if not self.all(_HAS_TRIGRAMS)[0]["found"]:
            return None
        return (
            f"similarity({name}, :{parameter}) >= {SIMILAR}"
            f" OR EXISTS (SELECT 1 FROM jsonb_array_elements_text({names}) AS known (name)"
            f""" WHERE similarity(LOWER(known.name COLLATE "C"), :{parameter}) >= {SIMILAR})"""
            f" OR {self.beyond_ascii(name)} OR {self.beyond_ascii(names)}"
        )

    def lock(self, *names: str) -> None:
        self.records(
            "SELECT pg_advisory_xact_lock(hashtextextended(name, 0)) FROM unnest(:names::text[]) AS name",
            {"names": sorted({f"tulving:{name}" for name in names})},
        )

    def alone(self) -> None:
        """Every transaction that writes holds this lock together with the others (`_BEGIN_WRITE`)."""
        self.run(f"SELECT pg_advisory_xact_lock({STORE_LOCK})")

    def vector_value(self, column: str) -> str:
        return f"vector_send({column}) AS {column}"

    def check_sight(self) -> None:
        if not self.all(_SIGHT)[0]["whole"]:
            raise StoreUnavailable(
                "this database user sees one tenant at a time (row-level security); take one that is a member of the"
                " maintenance role, or name a tenant"
            )

    def vector_bytes(self, column: str) -> str:
        return f"4 * vector_dims({column})"

    def index_text(self, tenant_id: str, search_text: str) -> str:
        """A text of more words than a tsvector holds is found by as many of them as fit."""
        words: Sequence[str] = search_text.split(" ") if search_text else ()
        if not words:
            return ""
        if len(search_text) * 4 + len(words) * BYTES_BESIDE_A_WORD > MOST_WORD_BYTES:
            words = list(_fitting(dict.fromkeys(words)))
        return prefixed(tenant_id, words)

    def lanes(self, request: LaneRequest) -> Lanes:
        return find_lanes(self, request)

    def merge(self, table: str, key: Sequence[str], rows: Sequence[Row]) -> int:
        """By COPY into a table of the transaction's own, and from there what is new."""
        columns = list(rows[0])
        incoming = f"incoming_{table}"
        # Plain types, which the driver can write in binary form without being told how.
        plain = ", ".join(
            f"{name}::text" if name in DOCUMENTS else f"{name}::real[]" if name == "embedding" else name
            for name in columns
        )
        self.run(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {incoming} ON COMMIT DROP AS"
            f" SELECT 0::bigint AS place, {plain} FROM {table} LIMIT 0"
        )
        self.run(f"DELETE FROM {incoming}")
        records = [(place, *(encode(name, row[name]) for name in columns)) for place, row in enumerate(rows)]
        self._wait(self.raw.copy_records_to_table(incoming, records=records, columns=["place", *columns]))
        typed = ", ".join(
            f"{name}::jsonb" if name in DOCUMENTS else f"{name}::vector" if name == "embedding" else name
            for name in columns
        )
        return self.run(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {typed} FROM {incoming} ORDER BY place"
            f" ON CONFLICT ({', '.join(key)}) DO NOTHING"
        )

    @contextmanager
    def vectors_of(self, dimension: int) -> Iterator[None]:
        with self.indexes.of_dimension(self, dimension):
            yield

    def defer_references(self) -> None:
        self.run("SET CONSTRAINTS ALL DEFERRED")

    def verify_engine(self) -> list[Finding]:
        return [
            check("indexes", lambda: [f"{row['name']} is not valid" for row in self.all(_INVALID_INDEXES)]),
            check("constraints", lambda: [f"{row['name']} is not valid" for row in self.all(_INVALID_CONSTRAINTS)]),
            check("keyword index", self._verify_words),
        ]

    def _verify_words(self) -> Iterable[str]:
        for table in TABLES.values():
            for row in self.all(
                f"SELECT tenant_id, id FROM {table}"
                " WHERE search_vector IS DISTINCT FROM to_tsvector('english', search_text) LIMIT 20"
            ):
                yield f"{table}: the words of {row['id']} of {row['tenant_id']} are not those of its search text"

    def _wait(self, awaited: Any) -> Any:
        try:
            return wait(awaited)
        except DRIVER_ERRORS as error:
            raise named_error(error) from error


_HAS_TRIGRAMS = "SELECT to_regprocedure('similarity(text, text)') IS NOT NULL AS found"
_OURS = f"""(SELECT to_regclass(name) FROM unnest(ARRAY['{"', '".join(TABLES.values())}', 'memory_events']) AS name)"""
_INVALID_INDEXES = f"""
SELECT indexrelid::regclass::text AS name FROM pg_index WHERE indrelid IN {_OURS} AND NOT (indisvalid AND indisready)"""
_INVALID_CONSTRAINTS = f"SELECT conname AS name FROM pg_constraint WHERE conrelid IN {_OURS} AND NOT convalidated"


_SIGHT = """
SELECT NOT row_security_active('facts') OR EXISTS (
    SELECT 1 FROM pg_policy AS p, unnest(p.polroles) AS role WHERE p.polrelid = 'facts'::regclass
    AND pg_get_expr(p.polqual, p.polrelid) = 'true' AND (role = 0 OR pg_has_role(role, 'USAGE'))) AS whole"""
_IDENTITY = """
SELECT pg_postmaster_start_time(), oid::bigint, 'facts'::regclass::oid::bigint FROM pg_database
WHERE datname = current_database()"""


def _fitting(words: Iterable[str]) -> Iterator[str]:
    used = 0
    for word in words:
        used += len(word.encode()) + BYTES_BESIDE_A_WORD
        if used > MOST_WORD_BYTES:
            return
        yield word


class Conflict(IntegrityError):
    """Two writers met. The loser may be run again; when that has not helped, it is an error like another."""


class ConnectionLost(StoreUnavailable):
    """The connection broke or could not be made."""


class PostgresStore:
    """A pool of connections to one database. The pool is ours, or a host's that we are lent."""

    def __init__(self, pool: asyncpg.Pool, *, exact_rows: int = 10_000, owned: bool = True) -> None:
        self._pool, self._owned = pool, owned
        self._closed = False
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.indexes = VectorIndexes(exact_rows)

    async def write(
        self, tenant_id: str | None, transaction: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a transaction function; returns once it is committed. One that lost a conflict is run again."""
        return await self._settle(_BEGIN_WRITE, tenant_id, transaction, *args, **kwargs)

    async def read(
        self, tenant_id: str | None, query: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a read in one snapshot. It is run again if the schema changed under it."""
        return await self._settle(_BEGIN_READ, tenant_id, query, *args, **kwargs)

    async def reindex(
        self, method: str | None = None, *, only_outgrown: bool = False, progress: Progress | None = None
    ) -> list[str]:
        """Build the vector indexes anew beside the old ones, which serve until then; the tables that got one."""
        async with AsyncExitStack() as held:
            raw = await held.enter_async_context(self.connection())
            # One that has to be waited for might be held by another who waits like us.
            free = self._pool.get_max_size() - self._pool.get_size() + self._pool.get_idle_size()
            watched = progress is not None and free > 0
            watcher = await held.enter_async_context(self.connection()) if watched else None
            try:
                return await rebuild(raw, watcher, method, only_outgrown, progress)
            except DRIVER_ERRORS as error:
                raise named_error(error) from error
            finally:
                self.indexes.forget()

    async def identity(self) -> tuple[Any, ...]:
        """What no other store has, by whatever host or user this one is reached."""
        async with self.connection() as raw:
            return tuple(await raw.fetchrow(_IDENTITY))

    async def close(self) -> None:
        """Finish what runs, then let go of the connections."""
        self._closed = True
        try:
            # Not the pool's own wait: it would close a connection that it has just given to a waiting call.
            await asyncio.wait_for(self._idle.wait(), LONGEST_FAREWELL)
            if self._owned:
                await asyncio.wait_for(self._pool.close(), LONGEST_FAREWELL)
        except (TimeoutError, *DRIVER_ERRORS):
            if self._owned:
                self._pool.terminate()

    @asynccontextmanager
    async def connection(self):
        """A connection of the pool, outside any transaction of ours."""
        if self._closed:
            raise StoreUnavailable("this memory was closed")
        self._calls += 1
        self._idle.clear()
        try:
            raw = await self._acquired()
            try:
                yield raw
            finally:
                with suppress(*DRIVER_ERRORS):
                    await self._pool.release(raw)
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    async def _acquired(self) -> Raw:
        try:
            return await self._pool.acquire()
        except (ValueError, OverflowError) as error:  # the driver reads the URL when it first connects
            if isinstance(error, UnicodeError):
                raise named_error(error) from error
            raise ConfigError("url", f"can't be read ({error})", URL_FORM) from error
        except DRIVER_ERRORS as error:
            raise named_error(error) from error

    async def _settle(
        self,
        begin: str,
        tenant_id: str | None,
        transaction: Callable[Concatenate[Any, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        for tries in range(1, MOST_TRIES):
            try:
                return await self._transact(begin, tenant_id, transaction, *args, **kwargs)
            except Conflict:
                await asyncio.sleep(FIRST_PAUSE * 2**tries)
        return await self._transact(begin, tenant_id, transaction, *args, **kwargs)

    async def _transact(
        self,
        begin: str,
        tenant_id: str | None,
        transaction: Callable[Concatenate[Any, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        async with self._begun(begin, tenant_id) as raw:
            try:
                result = await run_waiting(transaction, PostgresConnection(raw, self.indexes), *args, **kwargs)
            except BaseException as error:
                await _roll_back(raw)
                if isinstance(error.__cause__, pg.InvalidCachedStatementError):
                    await raw.reload_schema_state()  # the driver's cursors keep a statement that is no longer valid
                raise
            try:
                ended = await raw.execute("COMMIT")
            except LOST as error:
                raise StoreUnavailable(
                    "the connection broke while a change was being committed: look whether it was before doing it again"
                ) from error
            except DRIVER_ERRORS as error:
                await _roll_back(raw)
                raise named_error(error) from error
            except BaseException:
                await _roll_back(raw)
                raise
            if ended != "COMMIT":
                raise IntegrityError("a change was undone by the server, because one of its statements had failed")
            return result

    @asynccontextmanager
    async def _begun(self, begin: str, tenant_id: str | None):
        """A connection with a transaction begun. Those that turn out to be dead are put away until one is not."""
        statement = f"{begin}; SET LOCAL {_whose(tenant_id)}"
        for left in reversed(range(self._pool.get_max_size() + 1)):
            async with self.connection() as raw:
                try:
                    await raw.execute(statement)
                except DRIVER_ERRORS as error:
                    if not left or not isinstance(error, LOST):
                        raise named_error(error) from error
                    _put_away(raw)
                    continue
                yield raw
                return


STORE_LOCK = 0x54554C5653544F52  # "TULVSTOR"
_BEGIN_WRITE = f"BEGIN; SELECT pg_advisory_xact_lock_shared({STORE_LOCK})"
# A search is planned once per connection: planning takes as long as searching a small tenant.
_BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL plan_cache_mode = force_generic_plan"


def _whose(tenant_id: str | None) -> str:
    """The setting that row-level security reads. Work on the whole store may take its time, and is planned each time:
    what it reads may have grown a thousandfold since the last."""
    if tenant_id is None:
        return "statement_timeout = 0; SET LOCAL plan_cache_mode = force_custom_plan"
    quoted = tenant_id.replace("\\", "\\\\").replace("'", "''")
    return f"tulving.tenant_id = E'{quoted}'"  # E: whatever the server takes a backslash for


async def _roll_back(raw: Raw) -> None:
    try:
        await raw.execute("ROLLBACK")
    except BaseException:
        _put_away(raw)


def _put_away(raw: Raw) -> None:
    """Let the pool make another one instead. One that broke may have left it already."""
    with suppress(Exception):
        raw.terminate()


URL_FORM = "postgresql://user@host:5432/database"
LOST = (
    ConnectionError,
    pg.PostgresConnectionError,
    pg.InterfaceError,
    pg.InternalClientError,
    pg.AdminShutdownError,
    pg.CrashShutdownError,
    pg.CannotConnectNowError,
)
DRIVER_ERRORS = (
    pg.PostgresError,
    pg.InterfaceError,
    pg.InternalClientError,
    OSError,
    TimeoutError,
    UnicodeError,
    OverflowError,
)
CONFLICTS = (
    pg.SerializationError,
    pg.DeadlockDetectedError,
    pg.UniqueViolationError,
    pg.InvalidCachedStatementError,
)


def named_error(error: Exception) -> TulvingError:
    """The driver's error in our words."""
    if isinstance(error, TulvingError):
        return error
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    if isinstance(error, pg.ClientConfigurationError):
        return ConfigError("url", f"can't be read ({said})", URL_FORM)
    if isinstance(error, CONFLICTS):
        return Conflict(f"the store refused a change that would break it ({said})")
    if isinstance(error, pg.InvalidAuthorizationSpecificationError | pg.InvalidCatalogNameError):
        return StoreUnavailable(f"PostgreSQL does not let us in ({said}); look at the user, password and database")
    if isinstance(error, pg.InsufficientPrivilegeError):
        return StoreUnavailable(f"this database user lacks a right ({said}); docs/deploy-postgres.md lists the rights")
    if isinstance(error, pg.DiskFullError):
        return DiskFull(f"the server has no room to write ({said}); nothing was stored")
    if isinstance(error, pg.QueryCanceledError | pg.LockNotAvailableError):
        return StoreBusy(f"the server took too long ({said}); try again, or raise postgres.statement_timeout")
    if isinstance(error, pg.ReadOnlySQLTransactionError):
        return StoreUnavailable(f"this server is read only ({said}); write to the primary")
    if isinstance(error, pg.TooManyConnectionsError):
        return StoreBusy(f"the server has no free connection ({said}); lower postgres.pool_size")
    if isinstance(error, pg.DataCorruptedError | pg.IndexCorruptedError):
        return DamagedStore(f"the database is damaged ({said})")
    if isinstance(error, pg.UndefinedTableError | pg.UndefinedColumnError):
        return DamagedStore(f"the database lacks what this version needs ({said}); run `tulving migrate`")
    if isinstance(error, pg.DataError) and "dimensions" in said:
        return EmbedderMismatch(f"this store was re-embedded meanwhile ({said}); open it again with its new embedder")
    if isinstance(error, TimeoutError):
        return ConnectionLost("PostgreSQL did not answer in time; is the server running and reachable?")
    if isinstance(error, LOST) or (isinstance(error, OSError) and not isinstance(error, UnicodeError)):
        return ConnectionLost(f"can't reach PostgreSQL ({said}); is the server running?")
    return IntegrityError(f"the store refused a value or a change ({said})")
