"""Row-level security: a second wall between tenants, for the day that a statement of ours forgets its tenant.

Every transaction names its tenant in the setting `tulving.tenant_id` (`postgres._whose`). The policies show rows of
that tenant only, and none when no tenant is named, to everyone: the owner of the tables too. Only members of the
maintenance role see all tenants, and whoever raised the wall is one. `access_tokens` stays outside, because it tells
which tenant a caller belongs to. `jobs` is for maintenance alone.

Behind policies PostgreSQL reads no word index, because a full-text operator might tell of rows that it is not to show.
So the service finds words through views, which are read with the rights of who raised the wall and have the tenant in
them.
"""

from dataclasses import dataclass

from tulving.domain import intake
from tulving.storage.kinds import MEMORY_TABLES
from tulving.storage.moving import MOVED
from tulving.storage.postgres.errors import DRIVER_ERRORS, named_error
from tulving.storage.postgres.schema import VERSION_TABLE
from tulving.storage.postgres.values import Raw, quoted

WALLED = (*MOVED, "next_embeddings", "requests", "tenant_keys")
_SHARED = ("embedding_versions", "access_tokens")
_TENANT = "NULLIF(current_setting('tulving.tenant_id', true), '')"
_MINE = f"tenant_id = {_TENANT}"
STANDS = """
SELECT row_security_active('facts') AND COALESCE(has_table_privilege(to_regclass('facts_words'), 'SELECT'), false)"""
"""Whether whoever asks is behind the wall, and has its views."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Whom the wall is for. Login roles are made members of these by whoever runs the server."""

    service: str
    maintenance: str

    def __post_init__(self) -> None:
        for field in ("service", "maintenance"):
            intake.identifier(f"{field}_role", getattr(self, field), most=63)


async def raise_wall(raw: Raw, roles: Roles) -> None:
    """Make the roles, give them their rights, and force the policies; doing it again changes nothing."""
    service, maintenance = (quoted(role) for role in (roles.service, roles.maintenance))
    try:
        async with raw.transaction():
            for role in (roles.service, roles.maintenance):
                if not await raw.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", role):
                    await raw.execute(f"CREATE ROLE {quoted(role)} NOLOGIN")
            # Whoever raises it keeps the view over all tenants: migrations and indexes need it.
            await raw.execute(f"GRANT {maintenance} TO CURRENT_USER")
            schema = quoted(await raw.fetchval("SELECT current_schema()"))
            both = f"{service}, {maintenance}"
            await raw.execute(f"GRANT USAGE ON SCHEMA {schema} TO {both}")
            for table in (*WALLED, *_SHARED):
                rights = "SELECT, INSERT" if table == "memory_events" else "SELECT, INSERT, UPDATE, DELETE"
                await raw.execute(f"GRANT {rights} ON {table} TO {maintenance}")
                await raw.execute(f"GRANT {'SELECT' if table in _SHARED else rights} ON {table} TO {service}")
            await raw.execute(f"GRANT SELECT ON {VERSION_TABLE} TO {both}")
            await raw.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON jobs TO {maintenance}")
            for table in WALLED:
                await raw.execute(
                    f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY; ALTER TABLE {table} FORCE ROW LEVEL SECURITY;"
                    f"DROP POLICY IF EXISTS own_tenant ON {table}; DROP POLICY IF EXISTS every_tenant ON {table};"
                    f"CREATE POLICY own_tenant ON {table} USING ({_MINE}) WITH CHECK ({_MINE});"
                    f"CREATE POLICY every_tenant ON {table} TO {maintenance} USING (true) WITH CHECK (true)"
                )
            for table in MEMORY_TABLES:
                # Not `=`, for which the planner would read an index on the tenant beside that of the words.
                await raw.execute(
                    f"CREATE OR REPLACE VIEW {table}_words AS SELECT tenant_id, id, search_vector FROM {table}"
                    f" WHERE tenant_id IS NOT DISTINCT FROM {_TENANT}; GRANT SELECT ON {table}_words TO {both}"
                )
    except DRIVER_ERRORS as error:
        raise named_error(error) from error
