"""The tables of the workers' queue: procrastinate's own, in a schema of their own beside ours.

They hold names of tenants and of their agents, so only those have rights there who see all tenants. procrastinate does
not write down which of its migrations a database has; the schema's comment does.
"""

from importlib import resources
from typing import Any

from tulving.errors import StoreUnavailable
from tulving.storage.postgres.errors import DRIVER_ERRORS, named_error
from tulving.storage.postgres.values import Raw, quoted

_LOCK = 0x54554C5651  # "TULVQ"
_NOTE = "procrastinate "


async def name(raw: Raw) -> str:
    """Of the schema. Memories in several schemas of one database have several queues."""
    ours = await raw.fetchval("SELECT current_schema()")
    return "tulving_queue" if ours == "public" else f"{ours}_queue"[-63:]


async def prepare_for(store: Any) -> str:
    """The same as `prepare`, for a `PostgresStore`."""
    async with store.connection() as raw:
        return await prepare(raw)


async def prepare(raw: Raw) -> str:
    """See to it that the queue is there, and as new as the procrastinate that is installed; the name of its schema."""
    schema = await name(raw)
    try:
        if await _missing(raw, schema) != []:
            await _migrate(raw, schema)
        if not await raw.fetchval("SELECT has_schema_privilege($1, 'USAGE')", schema):
            raise StoreUnavailable(
                f"this database user has no right to the workers' queue (the schema {schema}); run"
                " `tulving migrate --row-security` as its owner, and take a member of the maintenance role"
            )
    except DRIVER_ERRORS as error:
        raise named_error(error) from error
    return schema


async def grant(raw: Raw, role: str) -> None:
    """Let a role work with the queue, if there is one. The role is quoted already."""
    schema = quoted(await name(raw))
    if await raw.fetchval("SELECT to_regnamespace($1)", schema) is not None:
        await raw.execute(
            f"GRANT USAGE ON SCHEMA {schema} TO {role};"
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};"
            f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}"
        )


async def _migrate(raw: Raw, schema: str) -> None:
    """By one process at a time. Each script is a transaction: what one adds to an enum, the next can use only then."""
    source = resources.files("procrastinate.sql")
    while await _missing(raw, schema) != []:
        async with raw.transaction():
            await raw.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
            await raw.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            missing = await _missing(raw, schema)
            if missing is None:
                await raw.execute(f"CREATE SCHEMA {quoted(schema)}")
                script, reached = "schema.sql", _migrations()[-1]
            elif missing:
                script, reached = f"migrations/{missing[0]}", missing[0]
            else:
                return
            await raw.execute(f"SET LOCAL search_path = {quoted(schema)}")
            await raw.execute((source / script).read_text(encoding="utf-8"))
            await raw.execute(f"COMMENT ON SCHEMA {quoted(schema)} IS '{_NOTE}{reached}'")


async def _missing(raw: Raw, schema: str) -> list[str] | None:
    """The migrations that a queue lacks; None when there is no queue."""
    found = await raw.fetchrow(
        "SELECT obj_description(oid, 'pg_namespace') AS note FROM pg_namespace WHERE nspname = $1", schema
    )
    if found is None:
        return None
    if not (found["note"] or "").startswith(_NOTE):
        raise StoreUnavailable(f"the schema {schema} of this database is not a queue of Tulving's")
    return [each for each in _migrations() if each > found["note"].removeprefix(_NOTE)]


def _migrations() -> list[str]:
    folder = resources.files("procrastinate.sql") / "migrations"
    return sorted(each.name for each in folder.iterdir() if each.name.endswith(".sql"))
