"""What a store needs besides its memories: embedders, sessions, uses of rules, revisions, idempotent requests, jobs,
access tokens and secrets."""

from tulving.storage.migrations.statements import execute

revision = "mem_004"
down_revision = "mem_003"
DIGEST = "467db0dd5c59f9866826279749e1b711f1e6ee2fbf069108eaa981d4ea48881d"
"""Digest of the SQLite schema. A wrong one only makes opening slower; a test prints the right one."""


def _stale(table: str) -> tuple[str, ...]:
    note = f"BEGIN INSERT OR IGNORE INTO stale_words VALUES ('{table}'); END"
    return (
        f"sqlite: CREATE TRIGGER {table}_words_deleted AFTER DELETE ON {table} {note}",
        f"""sqlite: CREATE TRIGGER {table}_words_changed AFTER UPDATE OF search_text ON {table}
    WHEN new.search_text <> old.search_text {note}""",
    )


STATEMENTS = (
    """CREATE TABLE embedding_versions (
    number INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    model TEXT NOT NULL,
    version TEXT NOT NULL,
    dimension INTEGER NOT NULL CHECK (dimension > 0),
    status TEXT NOT NULL CHECK (status IN ('active', 'building', 'retired')),
    created_at TIMESTAMPTZ NOT NULL)
    sqlite: STRICT""",
    """CREATE TABLE next_embeddings (
    tenant_id TEXT NOT NULL,
    memory_type TEXT NOT NULL CHECK (memory_type IN ('episode', 'fact', 'rule')),
    memory_id UUID NOT NULL,
    embedding_version INTEGER NOT NULL REFERENCES embedding_versions (number),
    search_text TEXT NOT NULL,
    embedding VECTOR NOT NULL,
    PRIMARY KEY (tenant_id, memory_type, memory_id))
    sqlite: STRICT""",
    """CREATE TABLE sessions (
    tenant_id TEXT NOT NULL,
    id UUID NOT NULL DEFAULT gen_random_uuid(),
    project TEXT,
    status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'completed', 'abandoned')),
    summary TEXT,
    tool_calls INTEGER NOT NULL DEFAULT 0,
    metadata JSONB NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    started_at TIMESTAMPTZ NOT NULL,
    ended_at TIMESTAMPTZ,
    PRIMARY KEY (tenant_id, id))
    sqlite: STRICT""",
    """CREATE TABLE rule_applications (
    tenant_id TEXT NOT NULL,
    id UUID NOT NULL DEFAULT gen_random_uuid(),
    rule_id UUID NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('helpful', 'harmful')),
    applied_at TIMESTAMPTZ NOT NULL,
    postgresql: context JSONB,
    sqlite: context TEXT CHECK (context IS NULL OR json_valid(context)),
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, rule_id) REFERENCES rules (tenant_id, id) ON DELETE CASCADE DEFERRABLE)
    sqlite: STRICT""",
    """CREATE TABLE revisions (
    tenant_id TEXT NOT NULL,
    memory_type TEXT NOT NULL CHECK (memory_type IN ('episode', 'fact', 'rule')),
    memory_id UUID NOT NULL,
    number INTEGER NOT NULL CHECK (number > 0),
    content TEXT NOT NULL,
    tags JSONB NOT NULL,
    metadata JSONB NOT NULL,
    importance DOUBLE PRECISION,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant_id, memory_type, memory_id, number))
    sqlite: STRICT, WITHOUT ROWID""",
    """CREATE TABLE requests (
    tenant_id TEXT NOT NULL,
    caller TEXT NOT NULL,
    operation TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    result JSONB NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant_id, caller, operation, idempotency_key))
    sqlite: STRICT, WITHOUT ROWID""",
    """CREATE TABLE jobs (
    name TEXT NOT NULL PRIMARY KEY,
    due_at TIMESTAMPTZ,
    holder TEXT,
    lease_until TIMESTAMPTZ,
    last_started_at TIMESTAMPTZ,
    last_finished_at TIMESTAMPTZ,
    last_error TEXT,
    result JSONB)
    sqlite: STRICT""",
    # Only the hash of a token's secret is stored.
    """CREATE TABLE access_tokens (
    tenant_id TEXT NOT NULL,
    id UUID NOT NULL,
    name TEXT,
    actor TEXT,
    rights TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ,
    revoked_at TIMESTAMPTZ,
    PRIMARY KEY (tenant_id, id))
    sqlite: STRICT""",
    # The keys of content hashes in events.
    """CREATE TABLE tenant_keys (tenant_id TEXT NOT NULL PRIMARY KEY, secret TEXT NOT NULL)
    sqlite: STRICT, WITHOUT ROWID""",
    # The tables whose FTS5 index still holds deleted words, until maintenance merges it.
    "sqlite: CREATE TABLE stale_words (table_name TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID",
    "CREATE UNIQUE INDEX ux_embedding_versions_active ON embedding_versions (status) WHERE status = 'active'",
    "CREATE UNIQUE INDEX ux_embedding_versions_building ON embedding_versions (status) WHERE status = 'building'",
    "CREATE INDEX ix_rule_applications_rule ON rule_applications (tenant_id, rule_id, applied_at)",
    "CREATE INDEX ix_requests_age ON requests (created_at)",
    *(statement for table in ("episodes", "facts", "rules") for statement in _stale(table)),
)


def upgrade() -> None:
    execute(STATEMENTS)
