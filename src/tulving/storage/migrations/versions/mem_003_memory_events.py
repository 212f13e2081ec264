"""The append-only audit trail. `seq` is the order of changes that caches and subscribers follow."""

from tulving.storage.migrations.statements import execute

revision = "mem_003"
down_revision = "mem_002"

_REFUSED = "BEGIN SELECT RAISE(ABORT, 'memory_events is append-only'); END"

STATEMENTS = (
    """CREATE TABLE memory_events (
    postgresql: seq BIGINT GENERATED ALWAYS AS IDENTITY,
    sqlite: seq INTEGER PRIMARY KEY AUTOINCREMENT,
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
    postgresql: PRIMARY KEY (tenant_id, id))
    sqlite: UNIQUE (tenant_id, id)) STRICT""",
    "CREATE INDEX ix_events_seq ON memory_events (tenant_id, seq)",
    "CREATE INDEX ix_events_entity ON memory_events (tenant_id, entity_id, seq)",
    "CREATE INDEX ix_events_time ON memory_events (tenant_id, occurred_at DESC)",
    "CREATE INDEX ix_events_type ON memory_events (event_type, occurred_at DESC)",
    f"sqlite: CREATE TRIGGER memory_events_no_update BEFORE UPDATE ON memory_events {_REFUSED}",
    f"sqlite: CREATE TRIGGER memory_events_no_delete BEFORE DELETE ON memory_events {_REFUSED}",
    # REPLACE deletes without firing the DELETE trigger, and an unset seq is -1 here.
    f"""sqlite: CREATE TRIGGER memory_events_no_replace BEFORE INSERT ON memory_events
    WHEN EXISTS (SELECT 1 FROM memory_events WHERE tenant_id = new.tenant_id AND id = new.id)
    OR new.seq > 0 AND EXISTS (SELECT 1 FROM memory_events WHERE seq = new.seq)
    {_REFUSED}""",
    """postgresql: CREATE FUNCTION memory_events_append_only() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'memory_events is append-only' USING ERRCODE = 'integrity_constraint_violation'; END $$""",
    """postgresql: CREATE TRIGGER memory_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON memory_events
    FOR EACH STATEMENT EXECUTE FUNCTION memory_events_append_only()""",
)


def upgrade() -> None:
    execute(STATEMENTS)
