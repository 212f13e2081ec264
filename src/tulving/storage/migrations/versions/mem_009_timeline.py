"""Recorded events and their archive, sessions of an owner, and what the bridge from episodes to facts has done."""

from tulving.storage.migrations.statements import execute

revision = "mem_009"
down_revision = "mem_008"
DIGEST = "f931e95cc24bd50b5d02448765fde17a8ceed3e329244b3fa755225da9079ed4"
"""Digest of the SQLite schema. A wrong one only makes opening slower; a test prints the right one."""

STATEMENTS = (
    # An episode with a segment is archived: its content lies there.
    "ALTER TABLE episodes ADD COLUMN event_key TEXT",
    "ALTER TABLE episodes ADD COLUMN segment_id UUID",
    "CREATE UNIQUE INDEX ux_episodes_event ON episodes (tenant_id, event_key) WHERE event_key IS NOT NULL",
    "CREATE INDEX ix_episodes_segment ON episodes (tenant_id, segment_id, id) WHERE segment_id IS NOT NULL",
    # With the user, so that a window of one skips the episodes of the others.
    "CREATE INDEX ix_episodes_time ON episodes (tenant_id, (COALESCE(occurred_at, created_at)) DESC, id, user_id)",
    "DROP INDEX ix_episodes_unembedded",
    "sqlite: CREATE INDEX ix_episodes_unembedded ON episodes (num) WHERE embedding IS NULL AND segment_id IS NULL",
    """postgresql: CREATE INDEX ix_episodes_unembedded ON episodes (tenant_id, id)
    WHERE embedding IS NULL AND segment_id IS NULL""",
    # The manifest. Without a body the segment is a file.
    """CREATE TABLE timeline_segments (
    tenant_id TEXT NOT NULL,
    id UUID NOT NULL,
    generation INTEGER NOT NULL CHECK (generation > 0),
    status TEXT NOT NULL CHECK (status IN ('filling', 'sealed', 'damaged')),
    episodes INTEGER NOT NULL CHECK (episodes >= 0),
    size BIGINT NOT NULL CHECK (size >= 0),
    checksum TEXT NOT NULL,
    first_at TIMESTAMPTZ NOT NULL,
    last_at TIMESTAMPTZ NOT NULL,
    problem TEXT,
    body BYTEA,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant_id, id))
    sqlite: STRICT""",
    # Compressed already.
    "postgresql: ALTER TABLE timeline_segments ALTER COLUMN body SET STORAGE EXTERNAL",
    """CREATE TABLE timelines (
    tenant_id TEXT NOT NULL,
    open_segment_id UUID NOT NULL,
    warning TEXT,
    severity TEXT CHECK (severity IN ('warning', 'critical')),
    hint TEXT,
    updated_at TIMESTAMPTZ NOT NULL,
    CHECK ((warning IS NULL) = (severity IS NULL)),
    PRIMARY KEY (tenant_id))
    sqlite: STRICT""",
    # How far a reader of the audit events has come. On PostgreSQL transactions commit in another order than they
    # number their events, so a reader follows the transactions.
    """CREATE TABLE event_cursors (
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    transaction_id BIGINT NOT NULL DEFAULT 0,
    seq BIGINT NOT NULL DEFAULT 0,
    counts JSONB NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(counts) = 'object'),
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant_id, name))
    sqlite: STRICT, WITHOUT ROWID""",
    "postgresql: ALTER TABLE memory_events ADD COLUMN transaction_id BIGINT NOT NULL DEFAULT 0",
    """postgresql: ALTER TABLE memory_events ALTER COLUMN transaction_id
    SET DEFAULT pg_current_xact_id()::text::bigint""",
    "postgresql: CREATE INDEX ix_events_transaction ON memory_events (tenant_id, transaction_id, seq)",
    # Outlives the episode: its deletion concerns the facts that were made from it.
    """CREATE TABLE bridged_facts (
    tenant_id TEXT NOT NULL,
    episode_id UUID NOT NULL,
    fact_id UUID NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant_id, episode_id, fact_id),
    FOREIGN KEY (tenant_id, fact_id) REFERENCES facts (tenant_id, id) ON DELETE CASCADE DEFERRABLE)
    sqlite: STRICT, WITHOUT ROWID""",
    "CREATE INDEX ix_bridged_facts_fact ON bridged_facts (tenant_id, fact_id)",
    "ALTER TABLE sessions ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
    *(f"ALTER TABLE sessions ADD COLUMN {name} TEXT" for name in ("user_id", "household_id", "persona_id", "butler")),
    "CREATE INDEX ix_sessions_started ON sessions (tenant_id, started_at DESC, id)",
    "CREATE INDEX ix_sessions_active ON sessions (tenant_id, started_at) WHERE status = 'active'",
    "CREATE INDEX ix_facts_session ON facts (tenant_id, session_id) WHERE session_id IS NOT NULL",
    "CREATE INDEX ix_rules_session ON rules (tenant_id, session_id) WHERE session_id IS NOT NULL",
)


def upgrade() -> None:
    execute(STATEMENTS)
