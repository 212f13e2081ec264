"""Row-level security: tenants stay isolated even if one of our statements lacks its tenant condition.

Every transaction names its tenant in the setting `tulving.tenant_id` (`store._tenant_setting`). The policies show only
rows of that tenant, and none when no tenant is set; they also apply to the owner of the tables. Only members of the
maintenance role see all tenants; the user who enables row-level security becomes one. `access_tokens` has no policy,
because it is read to find out which tenant a caller belongs to. `jobs` is accessible to the maintenance role only.

Under policies PostgreSQL does not use the full-text index, because full-text operators are not leakproof. So the
service finds words through views that filter by tenant and are read with the rights of the user who enabled row-level
security.
"""

from dataclasses import dataclass

from tulving.domain import intake
from tulving.storage.kinds import MEMORY_TABLES
from tulving.storage.moving import MOVED
from tulving.storage.postgres.errors import DRIVER_ERRORS, named_error
from tulving.storage.postgres.schema import VERSION_TABLE
from tulving.storage.postgres.values import Raw, quoted

SECURED_TABLES = (
    *MOVED,
    *"next_embeddings requests tenant_keys forgotten_values tool_text_counts".split(),
    *"timelines timeline_segments event_cursors".split(),
)
_SHARED = ("embedding_versions", "access_tokens")
_TENANT = "NULLIF(current_setting('tulving.tenant_id', true), '')"
_MINE = f"tenant_id = {_TENANT}"
SECURED = """
SELECT row_security_active('facts') AND COALESCE(has_table_privilege(to_regclass('facts_words'), 'SELECT'), false)"""
"""Whether the policies apply to the current user and the views are there to use."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The roles that the policies and grants are for. The administrator makes login roles members of them."""

    service: str
    maintenance: str

    def __post_init__(self) -> None:
        for field in ("service", "maintenance"):
            intake.identifier(f"{field}_role", getattr(self, field), most=63)


async def enable_row_security(raw: Raw, roles: Roles) -> None:
    """Create the roles, grant their rights and force the policies. Idempotent."""
    service, maintenance = (quoted(role) for role in (roles.service, roles.maintenance))
    try:
        async with raw.transaction():
            for role in (roles.service, roles.maintenance):
                if not await raw.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", role):
                    await raw.execute(f"CREATE ROLE {quoted(role)} NOLOGIN")
            # First: GRANT changes what ANALYZE, which holds a table, changes too, and autovacuum gives way only here.
            await raw.execute(f"LOCK TABLE {', '.join(SECURED_TABLES)} IN ACCESS EXCLUSIVE MODE")
            # Migrations and index builds run as this user and must still see all tenants.
            await raw.execute(f"GRANT {maintenance} TO CURRENT_USER")
            schema = quoted(await raw.fetchval("SELECT current_schema()"))
            both = f"{service}, {maintenance}"
            await raw.execute(f"GRANT USAGE ON SCHEMA {schema} TO {both}")
            for table in (*SECURED_TABLES, *_SHARED):
                rights = "SELECT, INSERT" if table == "memory_events" else "SELECT, INSERT, UPDATE, DELETE"
                await raw.execute(f"GRANT {rights} ON {table} TO {maintenance}")
                await raw.execute(f"GRANT {'SELECT' if table in _SHARED else rights} ON {table} TO {service}")
            await raw.execute(f"GRANT SELECT ON {VERSION_TABLE} TO {both}")
            await raw.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON jobs TO {maintenance}")
            for table in SECURED_TABLES:
                await raw.execute(
                    f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY; ALTER TABLE {table} FORCE ROW LEVEL SECURITY;"
                    f"DROP POLICY IF EXISTS own_tenant ON {table}; DROP POLICY IF EXISTS every_tenant ON {table};"
                    f"CREATE POLICY own_tenant ON {table} USING ({_MINE}) WITH CHECK ({_MINE});"
                    f"CREATE POLICY every_tenant ON {table} TO {maintenance} USING (true) WITH CHECK (true)"
                )
            for table in MEMORY_TABLES:
                # Not `=`: the planner would read an index on the tenant in addition to the full-text index.
                await raw.execute(
                    f"CREATE OR REPLACE VIEW {table}_words AS SELECT tenant_id, id, search_vector FROM {table}"
                    f" WHERE tenant_id IS NOT DISTINCT FROM {_TENANT}; GRANT SELECT ON {table}_words TO {both}"
                )
    except DRIVER_ERRORS as error:
        raise named_error(error) from error
