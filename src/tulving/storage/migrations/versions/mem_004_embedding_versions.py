"""Which embedder made the vectors, sessions, and what became of each rule that was applied."""

from tulving.storage.migrations.statements import execute

revision = "mem_004"
down_revision = "mem_003"
branch_labels = None
depends_on = None

_INDEXES = (
    "CREATE UNIQUE INDEX ux_embedding_versions_active ON embedding_versions (status) WHERE status = 'active'",
    "CREATE UNIQUE INDEX ux_embedding_versions_building ON embedding_versions (status) WHERE status = 'building'",
    "CREATE INDEX ix_rule_applications_rule ON rule_applications (tenant_id, rule_id, applied_at)",
)

SQLITE = (
    """CREATE TABLE embedding_versions (
    number INTEGER PRIMARY KEY,
    model TEXT NOT NULL,
    version TEXT NOT NULL,
    dimension INTEGER NOT NULL CHECK (dimension > 0),
    status TEXT NOT NULL CHECK (status IN ('active', 'building', 'retired')),
    created_at TEXT NOT NULL) STRICT""",
    """CREATE TABLE next_embeddings (
    tenant_id TEXT NOT NULL,
    memory_type TEXT NOT NULL CHECK (memory_type IN ('episode', 'fact', 'rule')),
    memory_id TEXT NOT NULL,
    embedding_version INTEGER NOT NULL REFERENCES embedding_versions (number),
    search_text TEXT NOT NULL,
    embedding BLOB NOT NULL,
    PRIMARY KEY (tenant_id, memory_type, memory_id)) STRICT""",
    """CREATE TABLE sessions (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    project TEXT,
    status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'completed')),
    summary TEXT,
    tool_calls INTEGER NOT NULL DEFAULT 0,
    metadata TEXT NOT NULL DEFAULT '{}' CHECK (json_type(metadata) = 'object'),
    started_at TEXT NOT NULL,
    ended_at TEXT,
    PRIMARY KEY (tenant_id, id)) STRICT""",
    """CREATE TABLE rule_applications (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    rule_id TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('helpful', 'harmful')),
    applied_at TEXT NOT NULL,
    context TEXT CHECK (context IS NULL OR json_valid(context)),
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, rule_id) REFERENCES rules (tenant_id, id) ON DELETE CASCADE) STRICT""",
    *_INDEXES,
)

POSTGRES = (
    """CREATE TABLE embedding_versions (
    number INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    model TEXT NOT NULL,
    version TEXT NOT NULL,
    dimension INTEGER NOT NULL CHECK (dimension > 0),
    status TEXT NOT NULL CHECK (status IN ('active', 'building', 'retired')),
    created_at TIMESTAMPTZ NOT NULL)""",
    """CREATE TABLE next_embeddings (
    tenant_id TEXT NOT NULL,
    memory_type TEXT NOT NULL CHECK (memory_type IN ('episode', 'fact', 'rule')),
    memory_id UUID NOT NULL,
    embedding_version INTEGER NOT NULL REFERENCES embedding_versions (number),
    search_text TEXT NOT NULL,
    embedding VECTOR NOT NULL,
    PRIMARY KEY (tenant_id, memory_type, memory_id))""",
    """CREATE TABLE sessions (
    tenant_id TEXT NOT NULL,
    id UUID NOT NULL DEFAULT gen_random_uuid(),
    project TEXT,
    status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'completed')),
    summary TEXT,
    tool_calls INTEGER NOT NULL DEFAULT 0,
    metadata JSONB NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    started_at TIMESTAMPTZ NOT NULL,
    ended_at TIMESTAMPTZ,
    PRIMARY KEY (tenant_id, id))""",
    """CREATE TABLE rule_applications (
    tenant_id TEXT NOT NULL,
    id UUID NOT NULL DEFAULT gen_random_uuid(),
    rule_id UUID NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('helpful', 'harmful')),
    applied_at TIMESTAMPTZ NOT NULL,
    context JSONB,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, rule_id) REFERENCES rules (tenant_id, id) ON DELETE CASCADE DEFERRABLE)""",
    *_INDEXES,
)


def upgrade() -> None:
    execute(sqlite=SQLITE, postgres=POSTGRES)
