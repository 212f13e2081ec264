"""The append-only audit trail. `seq` is the order of changes that caches and subscribers follow."""

from tulving.storage.migrations.statements import execute

revision = "mem_003"
down_revision = "mem_002"
branch_labels = None
depends_on = None

_INDEXES = (
    "CREATE INDEX ix_events_seq ON memory_events (tenant_id, seq)",
    "CREATE INDEX ix_events_entity ON memory_events (tenant_id, entity_id, seq)",
    "CREATE INDEX ix_events_time ON memory_events (tenant_id, occurred_at DESC)",
    "CREATE INDEX ix_events_type ON memory_events (event_type, occurred_at DESC)",
)

SQLITE = (
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
    *_INDEXES,
    """CREATE TRIGGER memory_events_no_update BEFORE UPDATE ON memory_events BEGIN
    SELECT RAISE(ABORT, 'memory_events is append-only'); END""",
    """CREATE TRIGGER memory_events_no_delete BEFORE DELETE ON memory_events BEGIN
    SELECT RAISE(ABORT, 'memory_events is append-only'); END""",
)


POSTGRES = (
    """CREATE TABLE memory_events (
    seq BIGINT GENERATED ALWAYS AS IDENTITY,
    tenant_id TEXT NOT NULL,
    id UUID NOT NULL DEFAULT gen_random_uuid(),
    event_type TEXT NOT NULL,
    entity_type TEXT NOT NULL,
    entity_id UUID,
    occurred_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    actor TEXT,
    request_id TEXT,
    run_id UUID,
    payload JSONB NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(payload) = 'object'),
    PRIMARY KEY (tenant_id, id))""",
    *_INDEXES,
    """CREATE FUNCTION memory_events_append_only() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'memory_events is append-only' USING ERRCODE = 'integrity_constraint_violation'; END $$""",
    """CREATE TRIGGER memory_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON memory_events
    FOR EACH STATEMENT EXECUTE FUNCTION memory_events_append_only()""",
)


def upgrade() -> None:
    execute(sqlite=SQLITE, postgres=POSTGRES)
