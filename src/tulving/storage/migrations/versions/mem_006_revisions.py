"""What a memory said before it was edited, and the answers to requests that may be repeated."""

from tulving.storage.migrations.statements import execute

revision = "mem_006"
down_revision = "mem_005"
branch_labels = None
depends_on = None

_REVISIONS = """CREATE TABLE revisions (
    tenant_id TEXT NOT NULL,
    memory_type TEXT NOT NULL CHECK (memory_type IN ('episode', 'fact', 'rule')),
    memory_id {uuid} NOT NULL,
    number INTEGER NOT NULL CHECK (number > 0),
    content TEXT NOT NULL,
    tags {json} NOT NULL,
    metadata {json} NOT NULL,
    importance {real},
    created_at {time} NOT NULL,
    PRIMARY KEY (tenant_id, memory_type, memory_id, number))"""
_REQUESTS = """CREATE TABLE requests (
    tenant_id TEXT NOT NULL,
    request_id TEXT NOT NULL,
    operation TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    result {json} NOT NULL,
    created_at {time} NOT NULL,
    PRIMARY KEY (tenant_id, request_id, operation))"""
_AGE = "CREATE INDEX ix_requests_age ON requests (created_at)"


def upgrade() -> None:
    sqlite = {"uuid": "TEXT", "time": "TEXT", "json": "TEXT", "real": "REAL"}
    postgres = {"uuid": "UUID", "time": "TIMESTAMPTZ", "json": "JSONB", "real": "DOUBLE PRECISION"}
    execute(
        sqlite=(*(table.format(**sqlite) + " STRICT, WITHOUT ROWID" for table in (_REVISIONS, _REQUESTS)), _AGE),
        postgres=(*(table.format(**postgres) for table in (_REVISIONS, _REQUESTS)), _AGE),
    )
