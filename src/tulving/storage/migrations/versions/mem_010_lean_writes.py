"""Less to write with each memory: indexes that no query needs, and on PostgreSQL words that are indexed many rows at a
time."""

from tulving.storage.migrations.statements import execute

revision = "mem_010"
down_revision = "mem_009"
DIGEST = "57383aadd711bee2f78c88b3a99e71bbef8b2f33a09a9a8715f9ef388f57c697"
"""Digest of the SQLite schema. A wrong one only makes opening slower; a test prints the right one."""

TABLES = ("episodes", "facts", "rules")


def _lean(table: str) -> tuple[str, ...]:
    """PostgreSQL collects new words in a short list, which each search has to scan. Searches use a vector index for
    large tenants only; maintenance builds it when there is one, so one over few rows goes."""
    return (
        f"postgresql: ALTER INDEX IF EXISTS ix_{table}_words SET (fastupdate = on, gin_pending_list_limit = 256)",
        f"""postgresql: DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_class JOIN pg_am ON pg_am.oid = relam AND amname = 'ivfflat'
            WHERE pg_class.oid = to_regclass('ix_{table}_embedding'))
        AND (SELECT COUNT(*) FROM (SELECT FROM {table} LIMIT 10001) AS few) <= 10000
    THEN DROP INDEX ix_{table}_embedding; END IF; END $$""",
    )


STATEMENTS = (
    *(statement for table in TABLES for statement in _lean(table)),
    *(
        f"sqlite: DROP INDEX {name}"
        for name in ("ix_events_type", "ix_events_time", "ix_facts_scope", "ix_facts_subject")
    ),
)


def upgrade() -> None:
    execute(STATEMENTS)
