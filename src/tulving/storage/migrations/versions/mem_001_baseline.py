"""Episodes, facts, rules and the links between them."""

from tulving.storage.migrations.statements import execute

revision = "mem_001"
down_revision = None
branch_labels = ("memory",)
depends_on = None

# `num` is the row number that the FTS5 index refers to: a plain rowid may change when the file is vacuumed.
_COMMON = """
    num INTEGER PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    content TEXT NOT NULL,
    owner TEXT NOT NULL DEFAULT '',
    user_id TEXT,
    household_id TEXT,
    persona_id TEXT,
    project TEXT,
    type TEXT,
    tags TEXT NOT NULL DEFAULT '[]' CHECK (json_type(tags) = 'array'),
    metadata TEXT NOT NULL DEFAULT '{}' CHECK (json_type(metadata) = 'object'),
    content_hash TEXT NOT NULL,
    reference_count INTEGER NOT NULL DEFAULT 0,
    last_referenced_at TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
"""
_INDEXED = """
    search_text TEXT NOT NULL,
    embedding_version INTEGER,
    embedding BLOB,
    CHECK ((embedding IS NULL) = (embedding_version IS NULL)),
    UNIQUE (tenant_id, id)
"""
_SOURCE_EPISODE = """
    source_butler TEXT,
    source_episode_id TEXT,
"""

TABLES = (
    f"""CREATE TABLE episodes ({_COMMON}
    butler TEXT NOT NULL,
    session_id TEXT,
    title TEXT,
    source TEXT,
    occurred_at TEXT,
    importance REAL NOT NULL DEFAULT 5.0 CHECK (importance BETWEEN 0 AND 10),
    consolidated INTEGER NOT NULL DEFAULT FALSE CHECK (consolidated IN (TRUE, FALSE)),
    consolidation_status TEXT NOT NULL DEFAULT 'pending'
        CHECK (consolidation_status IN ('pending', 'consolidated', 'failed', 'dead_letter')),
    consolidation_attempts INTEGER NOT NULL DEFAULT 0,
    last_consolidation_error TEXT,
    next_consolidation_retry_at TEXT,
    forgotten INTEGER NOT NULL DEFAULT FALSE CHECK (forgotten IN (TRUE, FALSE)),
    expires_at TEXT,
    {_INDEXED}) STRICT""",
    f"""CREATE TABLE facts ({_COMMON}
    subject TEXT NOT NULL,
    predicate TEXT NOT NULL,
    keyed INTEGER NOT NULL DEFAULT TRUE CHECK (keyed IN (TRUE, FALSE)),
    ref TEXT,
    entity_id TEXT,
    scope TEXT NOT NULL DEFAULT 'global',
    importance REAL NOT NULL DEFAULT 5.0 CHECK (importance BETWEEN 0 AND 10),
    confidence REAL NOT NULL DEFAULT 1.0 CHECK (confidence BETWEEN 0 AND 1),
    permanence TEXT NOT NULL DEFAULT 'standard'
        CHECK (permanence IN ('permanent', 'stable', 'standard', 'volatile', 'ephemeral')),
    decay_rate REAL NOT NULL DEFAULT 0.008 CHECK (decay_rate >= 0),
    validity TEXT NOT NULL DEFAULT 'active'
        CHECK (validity IN ('active', 'superseded', 'expired', 'retracted', 'forgotten')),
    status TEXT CHECK (status IS NULL OR status = 'fading'),
    source TEXT,
    {_SOURCE_EPISODE}
    supersedes_id TEXT,
    occurred_at TEXT,
    last_confirmed_at TEXT,
    next_review_at TEXT,
    {_INDEXED},
    FOREIGN KEY (tenant_id, source_episode_id) REFERENCES episodes (tenant_id, id),
    FOREIGN KEY (tenant_id, supersedes_id) REFERENCES facts (tenant_id, id),
    FOREIGN KEY (tenant_id, entity_id) REFERENCES entities (tenant_id, id) ON DELETE RESTRICT) STRICT""",
    f"""CREATE TABLE rules ({_COMMON}
    scope TEXT NOT NULL DEFAULT 'global',
    maturity TEXT NOT NULL DEFAULT 'candidate'
        CHECK (maturity IN ('candidate', 'established', 'proven', 'anti_pattern')),
    confidence REAL NOT NULL DEFAULT 0.5 CHECK (confidence BETWEEN 0 AND 1),
    permanence TEXT NOT NULL DEFAULT 'standard'
        CHECK (permanence IN ('permanent', 'stable', 'standard', 'volatile', 'ephemeral')),
    decay_rate REAL NOT NULL DEFAULT 0.01 CHECK (decay_rate >= 0),
    status TEXT CHECK (status IS NULL OR status = 'fading'),
    forgotten INTEGER NOT NULL DEFAULT FALSE CHECK (forgotten IN (TRUE, FALSE)),
    needs_inversion INTEGER NOT NULL DEFAULT FALSE CHECK (needs_inversion IN (TRUE, FALSE)),
    effectiveness_score REAL NOT NULL DEFAULT 0.0,
    applied_count INTEGER NOT NULL DEFAULT 0,
    success_count INTEGER NOT NULL DEFAULT 0,
    harmful_count INTEGER NOT NULL DEFAULT 0,
    {_SOURCE_EPISODE}
    last_applied_at TEXT,
    last_evaluated_at TEXT,
    last_confirmed_at TEXT,
    next_review_at TEXT,
    {_INDEXED},
    FOREIGN KEY (tenant_id, source_episode_id) REFERENCES episodes (tenant_id, id)) STRICT""",
    """CREATE TABLE memory_links (
    tenant_id TEXT NOT NULL,
    source_type TEXT NOT NULL CHECK (source_type IN ('episode', 'fact', 'rule')),
    source_id TEXT NOT NULL,
    target_type TEXT NOT NULL CHECK (target_type IN ('episode', 'fact', 'rule')),
    target_id TEXT NOT NULL,
    relation TEXT NOT NULL
        CHECK (relation IN ('derived_from', 'supports', 'contradicts', 'supersedes', 'related_to')),
    created_at TEXT NOT NULL,
    PRIMARY KEY (tenant_id, source_type, source_id, target_type, target_id)) STRICT, WITHOUT ROWID""",
)

INDEXES = (
    "CREATE INDEX ix_episodes_created ON episodes (tenant_id, created_at DESC, id)",
    "CREATE INDEX ix_episodes_butler ON episodes (tenant_id, butler, created_at DESC)",
    "CREATE INDEX ix_episodes_expiry ON episodes (expires_at) WHERE expires_at IS NOT NULL",
    """CREATE INDEX ix_episodes_pending ON episodes (tenant_id, butler, created_at)
    WHERE consolidation_status = 'pending'""",
    "CREATE INDEX ix_episodes_unembedded ON episodes (num) WHERE embedding IS NULL",
    "CREATE INDEX ix_facts_created ON facts (tenant_id, created_at DESC, id)",
    "CREATE INDEX ix_facts_subject ON facts (tenant_id, subject, predicate)",
    "CREATE INDEX ix_facts_scope ON facts (tenant_id, scope, validity) WHERE validity = 'active'",
    "CREATE UNIQUE INDEX ux_facts_ref ON facts (tenant_id, ref) WHERE ref IS NOT NULL",
    """CREATE UNIQUE INDEX ux_facts_subject ON facts (tenant_id, scope, owner, subject, predicate)
    WHERE validity = 'active' AND entity_id IS NULL AND keyed""",
    """CREATE UNIQUE INDEX ux_facts_entity ON facts (tenant_id, entity_id, scope, owner, predicate)
    WHERE validity = 'active' AND entity_id IS NOT NULL AND keyed""",
    """CREATE UNIQUE INDEX ux_facts_content ON facts (tenant_id, scope, owner, content_hash)
    WHERE validity = 'active' AND NOT keyed""",
    "CREATE INDEX ix_facts_review ON facts (next_review_at) WHERE next_review_at IS NOT NULL",
    "CREATE INDEX ix_facts_episode ON facts (tenant_id, source_episode_id) WHERE source_episode_id IS NOT NULL",
    "CREATE INDEX ix_facts_superseded ON facts (tenant_id, supersedes_id) WHERE supersedes_id IS NOT NULL",
    "CREATE INDEX ix_facts_unembedded ON facts (num) WHERE embedding IS NULL",
    "CREATE INDEX ix_rules_created ON rules (tenant_id, created_at DESC, id)",
    "CREATE INDEX ix_rules_scope ON rules (tenant_id, scope, maturity)",
    "CREATE INDEX ix_rules_review ON rules (next_review_at) WHERE next_review_at IS NOT NULL",
    "CREATE INDEX ix_rules_episode ON rules (tenant_id, source_episode_id) WHERE source_episode_id IS NOT NULL",
    "CREATE INDEX ix_rules_unembedded ON rules (num) WHERE embedding IS NULL",
    "CREATE INDEX ix_links_target ON memory_links (tenant_id, target_type, target_id)",
)

# ON DELETE SET NULL on a composite key would null the tenant too, so a trigger does it.
UNLINK = (
    """CREATE TRIGGER episodes_unlink BEFORE DELETE ON episodes BEGIN
    UPDATE facts SET source_episode_id = NULL WHERE tenant_id = old.tenant_id AND source_episode_id = old.id;
    UPDATE rules SET source_episode_id = NULL WHERE tenant_id = old.tenant_id AND source_episode_id = old.id;
    END""",
    """CREATE TRIGGER facts_unlink BEFORE DELETE ON facts BEGIN
    UPDATE facts SET supersedes_id = NULL WHERE tenant_id = old.tenant_id AND supersedes_id = old.id;
    END""",
)


def _fts(table: str) -> tuple[str, ...]:
    """The keyword index of a table, kept in step by triggers. Its segments are merged early: a query looks every
    word up in each of them."""
    added = f"INSERT INTO {table}_fts (rowid, search_text) VALUES (new.num, new.search_text);"
    removed = f"INSERT INTO {table}_fts ({table}_fts, rowid, search_text) VALUES ('delete', old.num, old.search_text);"
    return (
        f"""CREATE VIRTUAL TABLE {table}_fts USING fts5 (
        search_text, content = '{table}', content_rowid = 'num', tokenize = 'porter unicode61 remove_diacritics 2')""",
        f"INSERT INTO {table}_fts ({table}_fts, rank) VALUES ('automerge', 2)",
        f"INSERT INTO {table}_fts ({table}_fts, rank) VALUES ('crisismerge', 4)",
        f"CREATE TRIGGER {table}_fts_insert AFTER INSERT ON {table} BEGIN {added} END",
        f"CREATE TRIGGER {table}_fts_delete AFTER DELETE ON {table} BEGIN {removed} END",
        f"""CREATE TRIGGER {table}_fts_update AFTER UPDATE OF search_text, num ON {table}
        BEGIN {removed} {added} END""",
    )


# -- PostgreSQL ------------------------------------------------------------------------------------------------

_POSTGRES_COMMON = """
    tenant_id TEXT NOT NULL,
    id UUID NOT NULL DEFAULT gen_random_uuid(),
    content TEXT NOT NULL,
    owner TEXT NOT NULL DEFAULT '',
    user_id TEXT,
    household_id TEXT,
    persona_id TEXT,
    project TEXT,
    type TEXT,
    tags JSONB NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(tags) = 'array'),
    metadata JSONB NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    content_hash TEXT NOT NULL,
    reference_count INTEGER NOT NULL DEFAULT 0,
    last_referenced_at TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
"""
_POSTGRES_INDEXED = """
    search_text TEXT NOT NULL,
    search_vector TSVECTOR GENERATED ALWAYS AS (to_tsvector('english', search_text)) STORED,
    embedding_version INTEGER,
    embedding VECTOR(384),
    PRIMARY KEY (tenant_id, id)
"""
_POSTGRES_SOURCE = """
    source_butler TEXT,
    source_episode_id UUID,
    FOREIGN KEY (tenant_id, source_episode_id) REFERENCES episodes (tenant_id, id)
        ON DELETE SET NULL (source_episode_id) DEFERRABLE,
"""

POSTGRES_TABLES = (
    f"""CREATE TABLE episodes ({_POSTGRES_COMMON}
    butler TEXT NOT NULL,
    session_id UUID,
    title TEXT,
    source TEXT,
    occurred_at TIMESTAMPTZ,
    importance DOUBLE PRECISION NOT NULL DEFAULT 5.0 CHECK (importance BETWEEN 0 AND 10),
    consolidated BOOLEAN NOT NULL DEFAULT FALSE,
    consolidation_status TEXT NOT NULL DEFAULT 'pending'
        CHECK (consolidation_status IN ('pending', 'consolidated', 'failed', 'dead_letter')),
    consolidation_attempts INTEGER NOT NULL DEFAULT 0,
    last_consolidation_error TEXT,
    next_consolidation_retry_at TIMESTAMPTZ,
    forgotten BOOLEAN NOT NULL DEFAULT FALSE,
    expires_at TIMESTAMPTZ DEFAULT now() + INTERVAL '7 days',
    {_POSTGRES_INDEXED})""",
    f"""CREATE TABLE facts ({_POSTGRES_COMMON}
    subject TEXT NOT NULL,
    predicate TEXT NOT NULL,
    keyed BOOLEAN NOT NULL DEFAULT TRUE,
    ref TEXT,
    entity_id UUID,
    scope TEXT NOT NULL DEFAULT 'global',
    importance DOUBLE PRECISION NOT NULL DEFAULT 5.0 CHECK (importance BETWEEN 0 AND 10),
    confidence DOUBLE PRECISION NOT NULL DEFAULT 1.0 CHECK (confidence BETWEEN 0 AND 1),
    permanence TEXT NOT NULL DEFAULT 'standard'
        CHECK (permanence IN ('permanent', 'stable', 'standard', 'volatile', 'ephemeral')),
    decay_rate DOUBLE PRECISION NOT NULL DEFAULT 0.008 CHECK (decay_rate >= 0),
    validity TEXT NOT NULL DEFAULT 'active'
        CHECK (validity IN ('active', 'superseded', 'expired', 'retracted', 'forgotten')),
    status TEXT CHECK (status = 'fading'),
    source TEXT,
    {_POSTGRES_SOURCE}
    supersedes_id UUID,
    occurred_at TIMESTAMPTZ,
    last_confirmed_at TIMESTAMPTZ,
    next_review_at TIMESTAMPTZ,
    {_POSTGRES_INDEXED},
    FOREIGN KEY (tenant_id, supersedes_id) REFERENCES facts (tenant_id, id)
        ON DELETE SET NULL (supersedes_id) DEFERRABLE)""",
    f"""CREATE TABLE rules ({_POSTGRES_COMMON}
    scope TEXT NOT NULL DEFAULT 'global',
    maturity TEXT NOT NULL DEFAULT 'candidate'
        CHECK (maturity IN ('candidate', 'established', 'proven', 'anti_pattern')),
    confidence DOUBLE PRECISION NOT NULL DEFAULT 0.5 CHECK (confidence BETWEEN 0 AND 1),
    permanence TEXT NOT NULL DEFAULT 'standard'
        CHECK (permanence IN ('permanent', 'stable', 'standard', 'volatile', 'ephemeral')),
    decay_rate DOUBLE PRECISION NOT NULL DEFAULT 0.01 CHECK (decay_rate >= 0),
    status TEXT CHECK (status = 'fading'),
    forgotten BOOLEAN NOT NULL DEFAULT FALSE,
    needs_inversion BOOLEAN NOT NULL DEFAULT FALSE,
    effectiveness_score DOUBLE PRECISION NOT NULL DEFAULT 0.0,
    applied_count INTEGER NOT NULL DEFAULT 0,
    success_count INTEGER NOT NULL DEFAULT 0,
    harmful_count INTEGER NOT NULL DEFAULT 0,
    {_POSTGRES_SOURCE}
    last_applied_at TIMESTAMPTZ,
    last_evaluated_at TIMESTAMPTZ,
    last_confirmed_at TIMESTAMPTZ,
    next_review_at TIMESTAMPTZ,
    {_POSTGRES_INDEXED})""",
    """CREATE TABLE memory_links (
    tenant_id TEXT NOT NULL,
    source_type TEXT NOT NULL CHECK (source_type IN ('episode', 'fact', 'rule')),
    source_id UUID NOT NULL,
    target_type TEXT NOT NULL CHECK (target_type IN ('episode', 'fact', 'rule')),
    target_id UUID NOT NULL,
    relation TEXT NOT NULL
        CHECK (relation IN ('derived_from', 'supports', 'contradicts', 'supersedes', 'related_to')),
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, source_type, source_id, target_type, target_id))""",
)

POSTGRES_INDEXES = tuple(
    # The row number is SQLite's: what waits for a vector is found by tenant here. The keys of entities come with them.
    index.replace("(num)", "(tenant_id, id)")
    for index in INDEXES
    if "ux_facts_entity" not in index
)


def _vectors_and_words(table: str) -> tuple[str, ...]:
    """Vectors stay in the row: out of line, comparing them all takes three times as long."""
    return (
        f"ALTER TABLE {table} ALTER COLUMN embedding SET STORAGE PLAIN",
        f"""ALTER TABLE {table} ADD CONSTRAINT {table}_embedding_version
        CHECK ((embedding IS NULL) = (embedding_version IS NULL))""",
        # Without fastupdate: new rows would wait in a list that every search has to read from end to end.
        f"CREATE INDEX ix_{table}_words ON {table} USING gin (search_vector) WITH (fastupdate = off)",
        f"CREATE INDEX ix_{table}_embedding ON {table} USING ivfflat (embedding vector_cosine_ops) WITH (lists = 20)",
    )


POSTGRES = (
    "CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public",
    *POSTGRES_TABLES,
    *POSTGRES_INDEXES,
    "CREATE INDEX ix_facts_tags ON facts USING gin (tags)",
    *_vectors_and_words("episodes"),
    *_vectors_and_words("facts"),
    *_vectors_and_words("rules"),
)


def upgrade() -> None:
    execute(
        sqlite=(*TABLES, *INDEXES, *UNLINK, *_fts("episodes"), *_fts("facts"), *_fts("rules")),
        postgres=POSTGRES,
    )
