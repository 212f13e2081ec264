"""The append-only audit trail. `seq` is the order of changes that caches and subscribers follow."""

from alembic import op

revision = "mem_003"
down_revision = "mem_002"
branch_labels = None
depends_on = None

STATEMENTS = (
    """CREATE TABLE memory_events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    entity_type TEXT NOT NULL,
    entity_id TEXT,
    occurred_at TEXT NOT NULL,
    actor TEXT,
    request_id TEXT,
    run_id TEXT,
    payload TEXT NOT NULL DEFAULT '{}' CHECK (json_type(payload) = 'object'),
    UNIQUE (tenant_id, id)) STRICT""",
    "CREATE INDEX ix_events_seq ON memory_events (tenant_id, seq)",
    "CREATE INDEX ix_events_entity ON memory_events (tenant_id, entity_id, seq)",
    "CREATE INDEX ix_events_time ON memory_events (tenant_id, occurred_at DESC)",
    "CREATE INDEX ix_events_type ON memory_events (event_type, occurred_at DESC)",
    """CREATE TRIGGER memory_events_no_update BEFORE UPDATE ON memory_events BEGIN
    SELECT RAISE(ABORT, 'memory_events is append-only'); END""",
    """CREATE TRIGGER memory_events_no_delete BEFORE DELETE ON memory_events BEGIN
    SELECT RAISE(ABORT, 'memory_events is append-only'); END""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
