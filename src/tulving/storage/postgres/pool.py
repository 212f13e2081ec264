"""Connection pools: our own for a URL, or one that a host lends us."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import asyncpg

from tulving.errors import ConfigError
from tulving.storage.postgres import schema
from tulving.storage.postgres.errors import DRIVER_ERRORS, URL_FORM, named_error
from tulving.storage.postgres.row_security import SECURED, Roles, enable_row_security
from tulving.storage.postgres.store import PostgresStore
from tulving.storage.postgres.values import Raw, know_vectors
from tulving.storage.schema import missing

if TYPE_CHECKING:
    from tulving.settings import PostgresConfig

STATEMENTS_KEPT = 512


async def open_postgres(url: str, config: "PostgresConfig", *, migrate: bool = True) -> PostgresStore:
    """A store with its own pool; the schema is created or migrated first."""
    try:
        urlsplit(url)
        pool = asyncpg.create_pool(
            url,
            min_size=0,
            max_size=config.pool_size,
            max_inactive_connection_lifetime=300,
            statement_cache_size=STATEMENTS_KEPT,
            timeout=config.connect_timeout,
            server_settings={
                "application_name": "tulving",
                "statement_timeout": str(int(config.statement_timeout * 1000)),
                "idle_in_transaction_session_timeout": "60000",
                "timezone": "UTC",
                "jit": "off",  # compiling costs more than it gains for searches of milliseconds
            },
            init=know_vectors,
            reset=_nothing,
        )
        await pool
    except ValueError as error:
        raise ConfigError("url", f"can't be read ({error})", URL_FORM) from error
    except DRIVER_ERRORS as error:
        raise named_error(error) from error
    store = PostgresStore(pool, exact_rows=config.exact_rows)
    return await _prepared(store, know_vectors) if migrate else store


async def migrate(
    url: str, config: "PostgresConfig", dry_run: bool, roles: tuple[str, str] | None
) -> tuple[str | None, tuple[str, ...]]:
    """The revision of a database, and those that were applied to it, or would be in a dry run."""
    wanted = Roles(*roles) if roles else None
    store = await open_postgres(url, config, migrate=False)
    try:
        async with store.connection() as raw:
            before = await schema.revision(raw)
            if dry_run:
                return before, missing(before)
            await schema.prepare(raw)
            if wanted:
                await enable_row_security(raw, wanted)
            return before, missing(before)
    except DRIVER_ERRORS as error:
        raise named_error(error) from error
    finally:
        await store.close()


async def borrow_postgres(pool: Any, config: "PostgresConfig") -> PostgresStore:
    """A store on a host's asyncpg pool, which the host closes."""
    if not isinstance(pool, asyncpg.Pool):
        raise ConfigError("url", f"is a {type(pool).__name__}", "a URL, a path or an asyncpg pool")
    return await _prepared(PostgresStore(pool, exact_rows=config.exact_rows, owned=False))


async def _nothing(connection: Any) -> None:
    """Nothing to reset: our transactions change settings only locally."""


async def _prepared(store: PostgresStore, initialise: Callable[[Raw], Awaitable[None]] = _nothing) -> PostgresStore:
    """`initialise` the connection again: the types may have been created just now."""
    try:
        async with store.connection() as raw:
            await schema.prepare(raw)
            await initialise(raw)
            store.row_security = await raw.fetchval(SECURED)
    except BaseException:
        await store.close()
        raise
    return store
