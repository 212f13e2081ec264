"""The engine for many tenants and machines: PostgreSQL with pgvector, through asyncpg.

A transaction function runs in a greenlet (`waiting`) on one connection of the pool. A conflict between two writers is
settled by running the loser again.
"""

import asyncio
from collections import ChainMap
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

import asyncpg
from asyncpg import exceptions as pg

from tulving.domain.events import Event
from tulving.errors import ConfigError, IntegrityError, StoreUnavailable
from tulving.ports import Finding
from tulving.storage.postgres.connection import STORE_LOCK, PostgresConnection
from tulving.storage.postgres.errors import DRIVER_ERRORS, LOST, URL_FORM, Conflict, named_error
from tulving.storage.postgres.indexes import Progress, VectorIndexes, rebuild
from tulving.storage.postgres.values import Raw
from tulving.storage.postgres.waiting import run_waiting

P = ParamSpec("P")
T = TypeVar("T")

MOST_TRIES = 6
LONGEST_FAREWELL = 10.0
FIRST_PAUSE = 0.002
LONG_TRANSACTION = 600
"""Seconds after which a transaction that somebody has open is worth a person's look."""


class PostgresStore:
    """A pool of connections to one database. The pool is ours, or a host's that we are lent."""

    def __init__(self, pool: asyncpg.Pool, *, exact_rows: int = 10_000, owned: bool = True) -> None:
        self._pool, self._owned = pool, owned
        self._closed = False
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.indexes = VectorIndexes(exact_rows)
        self.row_security = False
        self._secrets: dict[str, str] = {}
        self.publish: Callable[[Sequence[Event]], None] = lambda events: None

    async def write(
        self, tenant_id: str | None, transaction: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a transaction function; returns once it is committed and its events are published. A transaction that
        lost a conflict is run again."""
        return await self._retried(_BEGIN_WRITE, tenant_id, transaction, *args, **kwargs)

    async def read(
        self, tenant_id: str | None, query: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a read in one snapshot. It is run again if the schema changed under it."""
        return await self._retried(_BEGIN_READ, tenant_id, query, *args, **kwargs)

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

    async def health(self) -> list[Finding]:
        """What a person who runs the memory should know about the server."""
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
                conn = PostgresConnection(raw, self.indexes, self.row_security, ChainMap(found, self._secrets))
                result = await run_waiting(transaction, conn, *args, **kwargs)
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
            self._secrets |= found  # committed by now, so they will not change
            if conn.events:
                self.publish(conn.events)
            return result

    @asynccontextmanager
    async def _begun(self, begin: str, tenant_id: str | None):
        """A connection with a transaction begun. Those that turn out to be dead are put away until one is not."""
        statement = f"{begin}; SET LOCAL {_tenant_setting(tenant_id)}"
        for left in reversed(range(self._pool.get_max_size() + 1)):
            async with self.connection() as raw:
                try:
                    await raw.execute(statement)
                except DRIVER_ERRORS as error:
                    if not left or not isinstance(error, LOST):
                        raise named_error(error) from error
                    _put_away(raw)
                    continue
                except BaseException:  # cancelled while it waited for the store's lock
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
_BEGIN_WRITE = f"BEGIN; SELECT pg_advisory_xact_lock_shared({STORE_LOCK})"
# A search is planned once per connection: planning takes as long as searching a small tenant. Such a plan takes all
# tenants for equally large, and where they are few it would read the whole table for a small one. Before version 18 a
# table that can only be read as a whole then has a price at which plans are compiled.
_BEGIN_READ = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY;"
    " SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off; SET LOCAL jit = off"
)
# Work on the whole store may take its time, and is planned each time: what it reads may have grown a thousandfold.
_WHOLE_STORE = (
    "statement_timeout = 0; SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_seqscan = DEFAULT"
)


def _tenant_setting(tenant_id: str | None) -> str:
    """The setting that row-level security reads, or those for work on the whole store."""
    if tenant_id is None:
        return _WHOLE_STORE
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
