"""The schema in a PostgreSQL database: the first process creates or migrates it, the others wait.

The database may be a host's own, with other tables and its own Alembic history, so we use a separate version table.
"""

import logging

from tulving.errors import IntegrityError, StoreUnavailable
from tulving.storage.postgres.errors import DRIVER_ERRORS, named_error
from tulving.storage.postgres.values import Raw
from tulving.storage.schema import HEAD, known, missing

log = logging.getLogger("tulving")

VERSION_TABLE = "alembic_version_memory"
OLDEST_SERVER = 15
OLDEST_PGVECTOR = (0, 8)
SAFE_PGVECTOR = (0, 8, 2)
OPTIONAL = ("uuid-ossp", "pg_trgm")
_LOCK = 0x54554C56  # "TULV"

_MISSING = (
    "this PostgreSQL server does not have pgvector, which Tulving needs: install it on the server (Debian, Ubuntu:"
    " `apt install postgresql-{major}-pgvector`; Docker: the image pgvector/pgvector:pg{major}; managed services offer"
    " it as the extension `vector`) and start again"
)
_FORBIDDEN = (
    "the extension `vector` is not in this database and this user may not create it: have an administrator run"
    " CREATE EXTENSION vector; in it, once ({said})"
)


async def prepare(raw: Raw) -> None:
    """Bring the database to this version's schema."""
    major = raw.get_server_version().major
    if major < OLDEST_SERVER:
        raise IntegrityError(f"PostgreSQL {major} is too old; Tulving needs {OLDEST_SERVER} or newer")
    try:
        if await revision(raw) != HEAD:
            await migrate(raw)
        await _check_pgvector(raw)
    except DRIVER_ERRORS as error:
        raise named_error(error) from error


async def revision(raw: Raw) -> str | None:
    """The revision of the database; None if it has no Tulving schema."""
    found = None
    # Via pg_class: to_regclass alone would not see what was committed while we waited for the lock.
    if await raw.fetchval("SELECT oid FROM pg_class WHERE oid = to_regclass($1)", VERSION_TABLE) is not None:
        found = await raw.fetchval(f"SELECT version_num FROM {VERSION_TABLE}")
    return None if found is None else known("the database", found)


async def migrate(raw: Raw) -> tuple[str, ...]:
    """Apply the missing revisions in one transaction. Of several concurrent processes one does it."""
    async with raw.transaction():
        await raw.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
        await raw.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        found = await revision(raw)
        todo = missing(found)
        if not todo:
            return ()
        await _create_extensions(raw)
        from tulving.storage.migrations import postgres_script

        await raw.execute(postgres_script(found, VERSION_TABLE))
        log.info("migrated the database from %s to %s", found, HEAD)
        return todo


async def _create_extensions(raw: Raw) -> None:
    """001-102: `vector` is required; the others are created if the server has them and allows it."""
    import asyncpg

    rows = await raw.fetch("SELECT name, installed_version FROM pg_available_extensions")
    offered = {row["name"]: row["installed_version"] for row in rows}
    if "vector" not in offered:
        raise StoreUnavailable(_MISSING.format(major=raw.get_server_version().major))
    for name in ("vector", *OPTIONAL):
        if name not in offered or offered[name] is not None:
            continue
        try:
            async with raw.transaction():
                await raw.execute(f'CREATE EXTENSION IF NOT EXISTS "{name}" WITH SCHEMA public')
        except asyncpg.PostgresError as error:
            if name == "vector":
                raise StoreUnavailable(_FORBIDDEN.format(said=error)) from error
            log.warning("the extension %s could not be created: %s", name, error)


async def _check_pgvector(raw: Raw) -> None:
    found = await raw.fetchval("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    if found is None:
        raise StoreUnavailable(_FORBIDDEN.format(said="it was dropped"))
    if await raw.fetchval("SELECT to_regtype('vector')") is None:
        raise StoreUnavailable("the extension `vector` is in a schema that is not in the search_path; add it there")
    version = tuple(int(part) for part in found.split(".") if part.isdigit())
    if version < OLDEST_PGVECTOR:
        raise IntegrityError(
            f"pgvector {found} is too old: Tulving needs 0.8 or newer; install it and run ALTER EXTENSION vector UPDATE"
        )
    if version < SAFE_PGVECTOR:
        log.warning("pgvector %s has a known defect (CVE-2026-3172); 0.8.2 or newer is advised", found)
