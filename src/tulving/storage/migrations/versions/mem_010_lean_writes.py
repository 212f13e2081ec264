"""Less to write with each memory: indexes that no query needs."""

from tulving.storage.migrations.statements import execute

revision = "mem_010"
down_revision = "mem_009"
DIGEST = "57383aadd711bee2f78c88b3a99e71bbef8b2f33a09a9a8715f9ef388f57c697"
"""Digest of the SQLite schema. A wrong one only makes opening slower; a test prints the right one."""

STATEMENTS = tuple(
    f"sqlite: DROP INDEX {name}" for name in ("ix_events_type", "ix_events_time", "ix_facts_scope", "ix_facts_subject")
)


def upgrade() -> None:
    execute(STATEMENTS)
