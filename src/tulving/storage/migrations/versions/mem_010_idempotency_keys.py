"""Answers are kept by an idempotency key of the caller's own, no longer by the id of a trace. The old ones are dropped:
they were kept for repeats only."""

from tulving.storage.migrations.statements import execute

revision = "mem_010"
down_revision = "mem_009"
branch_labels = None
depends_on = None

_SQLITE = (
    "DROP TABLE requests",
    """CREATE TABLE requests (
    tenant_id TEXT NOT NULL,
    caller TEXT NOT NULL,
    operation TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    result TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (tenant_id, caller, operation, idempotency_key)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX ix_requests_age ON requests (created_at)",
)
# The table stays, and with it the policies and rights of row-level security.
_POSTGRES = (
    "TRUNCATE requests",
    "ALTER TABLE requests RENAME COLUMN request_id TO idempotency_key",
    "ALTER TABLE requests ADD COLUMN caller TEXT NOT NULL",
    "ALTER TABLE requests DROP CONSTRAINT requests_pkey",
    "ALTER TABLE requests ADD PRIMARY KEY (tenant_id, caller, operation, idempotency_key)",
)


def upgrade() -> None:
    execute(sqlite=_SQLITE, postgres=_POSTGRES)
