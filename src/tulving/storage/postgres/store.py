"""The engine for many tenants and machines: PostgreSQL with pgvector, through asyncpg.

A transaction function runs in a greenlet (`waiting`) on one connection of the pool. If two writers conflict, the loser
is retried.
"""

import asyncio
from collections import ChainMap
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

import asyncpg
from asyncpg import exceptions as pg

from tulving.domain.events import Event
from tulving.errors import ConfigError, IntegrityError, MemoryClosed, StoreUnavailable
from tulving.ports import Finding
from tulving.storage.postgres.announcements import Announcements
from tulving.storage.postgres.connection import STORE_LOCK, PostgresConnection
from tulving.storage.postgres.errors import DRIVER_ERRORS, LOST, URL_FORM, Conflict, named_error
from tulving.storage.postgres.indexes import Progress, VectorIndexes, rebuild
from tulving.storage.postgres.planning import NewTables
from tulving.storage.postgres.values import ANY_POOL, OWN_POOL, Raw
from tulving.storage.postgres.waiting import run_waiting
from tulving.storage.segments import Segments

P = ParamSpec("P")
T = TypeVar("T")

MOST_TRIES = 6
CLOSE_TIMEOUT = 10.0
FIRST_PAUSE = 0.002
LONG_TRANSACTION = 600
"""Seconds after which an open transaction is reported as a problem."""


class PostgresStore:
    """A pool of connections to one database: our own, or one that a host lends us."""

    def __init__(self, pool: asyncpg.Pool, *, exact_rows: int = 10_000, owned: bool = True) -> None:
        self._pool, self._owned = pool, owned
        self._form = OWN_POOL if owned else ANY_POOL
        self._closed = False
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.indexes = VectorIndexes(exact_rows)
        self.segments = Segments()
        self._new_tables = NewTables()
        self.row_security = False
        self._secrets: dict[str, str] = {}
        self.publish: Callable[[Sequence[Event]], None] = lambda events: None
        self._announcements = Announcements(self.connection, may_listen=pool.get_max_size() > 1)

    async def write(
        self, tenant_id: str | None, transaction: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a transaction function; returns after its commit, when its events are published. A transaction that
        loses a conflict is retried."""
        return await self._retried(_BEGIN_WRITE, tenant_id, transaction, *args, **kwargs)

    async def read(
        self, tenant_id: str | None, query: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a read in one snapshot. It is retried if the schema changes while it runs."""
        return await self._retried(_BEGIN_READ, tenant_id, query, *args, **kwargs)

    look_up = read

    async def reindex(
        self, method: str | None = None, *, only_outgrown: bool = False, progress: Progress | None = None
    ) -> list[str]:
        """Rebuild the vector indexes beside the old ones, which serve until then; returns the tables that got one."""
        async with AsyncExitStack() as held:
            raw = await held.enter_async_context(self.connection())
            # Waiting for a second connection could deadlock with another caller that does the same.
            free = self._pool.get_max_size() - self._pool.get_size() + self._pool.get_idle_size()
            watched = progress is not None and free > 0
            watcher = await held.enter_async_context(self.connection()) if watched else None
            try:
                return await rebuild(raw, watcher, method, only_outgrown, progress, self.indexes.exact_rows)
            except DRIVER_ERRORS as error:
                raise named_error(error) from error
            finally:
                self.indexes.forget()

    async def identity(self) -> tuple[Any, ...]:
        """Identifies the store, no matter through which host or user it is reached."""
        async with self.connection() as raw:
            return tuple(await raw.fetchrow(_IDENTITY))

    async def used_bytes(self) -> int | None:
        """None: the server's disk is its operator's affair."""
        return None

    async def ready(self) -> None:
        """At once: the server has its indexes."""

    async def health(self) -> list[Finding]:
        """What an operator should know about the server."""
        try:
            async with self.connection() as raw:
                row = await raw.fetchrow(_HEALTH)
        except DRIVER_ERRORS as error:
            raise named_error(error) from error
        seconds = int(row["oldest"] or 0)
        held = f"process {row['pid']} has had one open for {seconds} s: until it ends, deleted rows stay on the disk"
        return [
            Finding("server", note=f"PostgreSQL {row['server']}, pgvector {row['pgvector']}"),
            Finding("oldest transaction", (held,) if seconds > LONG_TRANSACTION else (), f"{seconds} s"),
        ]

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` when a process has changed something; returns what ends this."""
        return self._announcements.listen(wake)

    async def close(self) -> None:
        """Finish running calls, then close the connections."""
        await self._announcements.close()
        self._closed = True
        try:
            # Not the pool's own wait: it would close a connection that a waiting call has just acquired.
            await asyncio.wait_for(self._idle.wait(), CLOSE_TIMEOUT)
            if self._owned:
                await asyncio.wait_for(self._pool.close(), CLOSE_TIMEOUT)
        except (TimeoutError, *DRIVER_ERRORS):
            if self._owned:
                self._pool.terminate()

    @asynccontextmanager
    async def connection(self):
        """A connection of the pool, without a transaction."""
        if self._closed:
            raise MemoryClosed
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
        except (ValueError, OverflowError) as error:  # the driver parses the URL when it first connects
            if isinstance(error, UnicodeError):
                raise named_error(error) from error
            raise ConfigError("url", f"can't be read ({error})", URL_FORM) from error
        except DRIVER_ERRORS as error:
            raise named_error(error) from error

    async def _retried(
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
        found: dict[str, str] = {}
        async with self._begun(begin, tenant_id) as raw:
            try:
                conn = PostgresConnection(
                    raw,
                    self.indexes,
                    self.row_security,
                    ChainMap(found, self._secrets),
                    self.segments,
                    self._form,
                    self._new_tables,
                )
                result = await run_waiting(_whole, conn, transaction, *args, **kwargs)
            except BaseException as error:
                await _roll_back(raw)
                if isinstance(error.__cause__, pg.InvalidCachedStatementError):
                    await raw.reload_schema_state()  # the driver's cursors keep an invalid statement
                raise
            try:
                ended = await raw.execute("COMMIT")
            except LOST as error:
                raise StoreUnavailable(
                    "the connection was lost during a commit: check whether the change was made before you repeat it"
                ) from error
            except DRIVER_ERRORS as error:
                await _roll_back(raw)
                raise named_error(error) from error
            except BaseException:
                await _roll_back(raw)
                raise
            if ended != "COMMIT":
                raise IntegrityError("the server rolled back a change, because one of its statements had failed")
            self._secrets |= found  # committed, so they will not change
            if conn.events:
                self._announcements.announce()
                self.publish(conn.events)
            return result

    @asynccontextmanager
    async def _begun(self, begin: str, tenant_id: str | None):
        """A connection on which a transaction has begun. Dead connections are discarded until one works."""
        statement = f"{begin}; SET LOCAL {_tenant_setting(tenant_id)}"
        for left in reversed(range(self._pool.get_max_size() + 1)):
            async with self.connection() as raw:
                try:
                    await raw.execute(statement)
                except DRIVER_ERRORS as error:
                    if not left or not isinstance(error, LOST):
                        raise named_error(error) from error
                    _discard(raw)
                    continue
                except BaseException:  # cancelled while waiting for the store's lock
                    await _roll_back(raw)
                    raise
                yield raw
                return


_IDENTITY = """
SELECT pg_postmaster_start_time(), oid::bigint, 'facts'::regclass::oid::bigint FROM pg_database
WHERE datname = current_database()"""
_HEALTH = """
SELECT current_setting('server_version') AS server,
    (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS pgvector, oldest.pid, oldest.seconds AS oldest
FROM (SELECT 1) AS one LEFT JOIN (
    SELECT pid, EXTRACT(EPOCH FROM now() - xact_start)::float8 AS seconds FROM pg_stat_activity
    WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
    ORDER BY xact_start LIMIT 1) AS oldest ON TRUE"""
# A plan for the values at hand takes a tenant that the statistics do not know yet for an empty one, for which any index
# will do: a bulk load would read all of the tenant's facts for each new one.
_BEGIN_WRITE = (
    f"BEGIN; SELECT pg_advisory_xact_lock_shared({STORE_LOCK}); SET LOCAL plan_cache_mode = force_generic_plan"
)
# A search is planned once per connection, because planning takes as long as searching a small tenant. A generic plan
# assumes tenants of equal size; with few tenants it would scan the whole table for a small one, hence no seqscan.
# Before version 18 the penalty for an unavoidable seqscan is high enough to trigger JIT, hence no JIT.
_BEGIN_READ = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY;"
    " SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off; SET LOCAL jit = off"
)
# Work on the whole store has no time limit and is planned each time: the tables may have grown a thousandfold.
_WHOLE_STORE = (
    "statement_timeout = 0; SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_seqscan = DEFAULT"
)


def _tenant_setting(tenant_id: str | None) -> str:
    """The setting for row-level security, or the settings for work on the whole store."""
    if tenant_id is None:
        return _WHOLE_STORE
    quoted = tenant_id.replace("\\", "\\\\").replace("'", "''")
    return f"tulving.tenant_id = E'{quoted}'"  # E: independent of standard_conforming_strings


def _whole(
    conn: PostgresConnection, transaction: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    result = transaction(conn, *args, **kwargs)
    conn.flush()
    return result


async def _roll_back(raw: Raw) -> None:
    try:
        await raw.execute("ROLLBACK")
    except BaseException as error:
        _discard(raw)
        if isinstance(error, asyncio.CancelledError):  # who is cancelled must not go on because of another error
            raise


def _discard(raw: Raw) -> None:
    """Make the pool replace a connection. A broken one may have left the pool already."""
    with suppress(Exception):
        raw.terminate()
