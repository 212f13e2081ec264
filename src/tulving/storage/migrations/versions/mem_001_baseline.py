"""Episodes, facts, rules and the links between them."""

from tulving.storage.migrations.statements import execute

revision = "mem_001"
down_revision = None
branch_labels = ("memory",)

TABLES = ("episodes", "facts", "rules")


def _memories(table: str, columns: str, keys: str = "") -> str:
    """The table of one kind: the common columns and its own.

    What a plain INSERT can't know (hash, search text, vector) is empty until maintenance completes the row. The
    keyword index refers to `num`, because a plain rowid may change when the file is vacuumed.
    """
    return f"""CREATE TABLE {table} (
    sqlite: num INTEGER PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    id UUID NOT NULL DEFAULT gen_random_uuid(),
    content TEXT NOT NULL,
    owner TEXT NOT NULL DEFAULT '',
    user_id TEXT,
    household_id TEXT,
    persona_id TEXT,
    project TEXT,
    session_id UUID,
    type TEXT,
    tags JSONB NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(tags) = 'array'),
    metadata JSONB NOT NULL DEFAULT '{{}}' CHECK (jsonb_typeof(metadata) = 'object'),
    content_hash TEXT,
    reference_count INTEGER NOT NULL DEFAULT 0,
    last_referenced_at TIMESTAMPTZ,
    accessed_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
{columns}
    search_text TEXT,
    postgresql: search_vector TSVECTOR GENERATED ALWAYS AS (to_tsvector('english', search_text)) STORED,
    embedding_version INTEGER,
    embedding VECTOR(384),
    CONSTRAINT {table}_embedding_version CHECK ((embedding IS NULL) = (embedding_version IS NULL)),
    {keys}
    postgresql: PRIMARY KEY (tenant_id, id))
    sqlite: UNIQUE (tenant_id, id)) STRICT"""


_CONFIDENCE = """
    permanence TEXT NOT NULL DEFAULT 'standard'
        CHECK (permanence IN ('permanent', 'stable', 'standard', 'volatile', 'ephemeral')),
    status TEXT CHECK (status = 'fading'),
    source_butler TEXT,
    source_episode_id UUID,
    last_confirmed_at TIMESTAMPTZ,
    next_review_at TIMESTAMPTZ,"""
_FROM_EPISODE = """FOREIGN KEY (tenant_id, source_episode_id) REFERENCES episodes (tenant_id, id)
        ON DELETE SET NULL (source_episode_id) DEFERRABLE,"""

# 001-056 writes `consolidated`, 004-001 the status: whichever a statement leaves unchanged follows the other.
_DIFFER = "new.consolidated <> (new.consolidation_status = 'consolidated')"
_FLAG_STATUS = "CASE WHEN new.consolidated THEN 'consolidated' ELSE 'pending' END"


def _in_step(event: str, before: str) -> str:
    by_status = f"new.consolidation_status <> {before}"
    return f"""sqlite: CREATE TRIGGER episodes_consolidated_{event.split()[0].lower()} AFTER {event} ON episodes
    WHEN {_DIFFER} BEGIN UPDATE episodes SET
    consolidated = CASE WHEN {by_status} THEN NOT new.consolidated ELSE new.consolidated END,
    consolidation_status = CASE WHEN {by_status} THEN new.consolidation_status ELSE {_FLAG_STATUS} END
    WHERE num = new.num; END"""


def _indexed(table: str) -> tuple[str, ...]:
    """The indexes of a table of memories. Triggers keep SQLite's keyword index up to date, and its segments are merged
    early: a query looks up every word in each of them."""
    added = f"INSERT INTO {table}_fts (rowid, search_text) VALUES (new.num, new.search_text);"
    removed = f"INSERT INTO {table}_fts ({table}_fts, rowid, search_text) VALUES ('delete', old.num, old.search_text);"
    return (
        f"CREATE INDEX ix_{table}_created ON {table} (tenant_id, created_at DESC, id)",
        f"""CREATE INDEX ix_{table}_incomplete ON {table} (tenant_id, id)
    WHERE content_hash IS NULL OR search_text IS NULL""",
        f"sqlite: CREATE INDEX ix_{table}_unembedded ON {table} (num) WHERE embedding IS NULL",
        f"postgresql: CREATE INDEX ix_{table}_unembedded ON {table} (tenant_id, id) WHERE embedding IS NULL",
        f"""sqlite: CREATE VIRTUAL TABLE {table}_fts USING fts5 (
    search_text, content = '{table}', content_rowid = 'num', tokenize = 'porter unicode61 remove_diacritics 2')""",
        f"sqlite: INSERT INTO {table}_fts ({table}_fts, rank) VALUES ('automerge', 2)",
        f"sqlite: INSERT INTO {table}_fts ({table}_fts, rank) VALUES ('crisismerge', 4)",
        f"sqlite: CREATE TRIGGER {table}_fts_insert AFTER INSERT ON {table} BEGIN {added} END",
        f"sqlite: CREATE TRIGGER {table}_fts_delete AFTER DELETE ON {table} BEGIN {removed} END",
        f"""sqlite: CREATE TRIGGER {table}_fts_update AFTER UPDATE OF search_text, num ON {table}
    BEGIN {removed} {added} END""",
        # Without fastupdate, whose list of pending rows every search would have to scan.
        f"postgresql: CREATE INDEX ix_{table}_words ON {table} USING gin (search_vector) WITH (fastupdate = off)",
        f"""postgresql: CREATE INDEX ix_{table}_embedding ON {table}
    USING ivfflat (embedding vector_cosine_ops) WITH (lists = 20)""",
        # With out-of-line storage, comparing all vectors takes three times as long.
        f"postgresql: ALTER TABLE {table} ALTER COLUMN embedding SET STORAGE PLAIN",
    )


STATEMENTS = (
    "postgresql: CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public",
    _memories(
        "episodes",
        """
    butler TEXT NOT NULL,
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
    expires_at TIMESTAMPTZ DEFAULT now() + INTERVAL '7 days',""",
    ),
    _memories(
        "facts",
        f"""{_CONFIDENCE}
    subject TEXT NOT NULL,
    predicate TEXT NOT NULL,
    keyed BOOLEAN NOT NULL DEFAULT TRUE,
    ref TEXT,
    entity_id UUID,
    scope TEXT NOT NULL DEFAULT 'global',
    importance DOUBLE PRECISION NOT NULL DEFAULT 5.0 CHECK (importance BETWEEN 0 AND 10),
    confidence DOUBLE PRECISION NOT NULL DEFAULT 1.0 CHECK (confidence BETWEEN 0 AND 1),
    decay_rate DOUBLE PRECISION NOT NULL DEFAULT 0.008 CHECK (decay_rate >= 0),
    validity TEXT NOT NULL DEFAULT 'active'
        CHECK (validity IN ('active', 'superseded', 'expired', 'retracted', 'forgotten')),
    source TEXT,
    supersedes_id UUID,
    occurred_at TIMESTAMPTZ,""",
        f"""{_FROM_EPISODE}
    FOREIGN KEY (tenant_id, supersedes_id) REFERENCES facts (tenant_id, id)
        ON DELETE SET NULL (supersedes_id) DEFERRABLE,
    sqlite: FOREIGN KEY (tenant_id, entity_id) REFERENCES entities (tenant_id, id) ON DELETE RESTRICT,""",
    ),
    _memories(
        "rules",
        f"""{_CONFIDENCE}
    scope TEXT NOT NULL DEFAULT 'global',
    maturity TEXT NOT NULL DEFAULT 'candidate'
        CHECK (maturity IN ('candidate', 'established', 'proven', 'anti_pattern')),
    confidence DOUBLE PRECISION NOT NULL DEFAULT 0.5 CHECK (confidence BETWEEN 0 AND 1),
    decay_rate DOUBLE PRECISION NOT NULL DEFAULT 0.01 CHECK (decay_rate >= 0),
    forgotten BOOLEAN NOT NULL DEFAULT FALSE,
    needs_inversion BOOLEAN NOT NULL DEFAULT FALSE,
    effectiveness_score DOUBLE PRECISION NOT NULL DEFAULT 0.0,
    applied_count INTEGER NOT NULL DEFAULT 0,
    success_count INTEGER NOT NULL DEFAULT 0,
    harmful_count INTEGER NOT NULL DEFAULT 0,
    last_applied_at TIMESTAMPTZ,
    last_evaluated_at TIMESTAMPTZ,""",
        _FROM_EPISODE,
    ),
    """CREATE TABLE memory_links (
    tenant_id TEXT NOT NULL,
    source_type TEXT NOT NULL CHECK (source_type IN ('episode', 'fact', 'rule')),
    source_id UUID NOT NULL,
    target_type TEXT NOT NULL CHECK (target_type IN ('episode', 'fact', 'rule')),
    target_id UUID NOT NULL,
    relation TEXT NOT NULL
        CHECK (relation IN ('derived_from', 'supports', 'contradicts', 'supersedes', 'related_to')),
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, source_type, source_id, target_type, target_id))
    sqlite: STRICT, WITHOUT ROWID""",
    "CREATE INDEX ix_episodes_butler ON episodes (tenant_id, butler, created_at DESC)",
    "CREATE INDEX ix_episodes_expiry ON episodes (expires_at) WHERE expires_at IS NOT NULL",
    """CREATE INDEX ix_episodes_pending ON episodes (tenant_id, butler, created_at)
    WHERE consolidation_status = 'pending'""",
    "CREATE INDEX ix_facts_subject ON facts (tenant_id, subject, predicate)",
    "CREATE INDEX ix_facts_scope ON facts (tenant_id, scope, validity) WHERE validity = 'active'",
    "CREATE UNIQUE INDEX ux_facts_ref ON facts (tenant_id, ref) WHERE ref IS NOT NULL",
    """CREATE UNIQUE INDEX ux_facts_subject ON facts (tenant_id, scope, owner, subject, predicate)
    WHERE validity = 'active' AND entity_id IS NULL AND keyed""",
    """CREATE UNIQUE INDEX ux_facts_content ON facts (tenant_id, scope, owner, content_hash)
    WHERE validity = 'active' AND NOT keyed""",
    """CREATE INDEX ix_facts_review ON facts (COALESCE(next_review_at, created_at))
    WHERE decay_rate > 0 AND validity = 'active'""",
    "CREATE INDEX ix_facts_episode ON facts (tenant_id, source_episode_id) WHERE source_episode_id IS NOT NULL",
    "CREATE INDEX ix_facts_superseded ON facts (tenant_id, supersedes_id) WHERE supersedes_id IS NOT NULL",
    "postgresql: CREATE INDEX ix_facts_tags ON facts USING gin (tags)",
    "CREATE INDEX ix_rules_scope ON rules (tenant_id, scope, maturity)",
    """CREATE INDEX ix_rules_review ON rules (COALESCE(next_review_at, created_at))
    WHERE decay_rate > 0 AND NOT forgotten AND maturity <> 'anti_pattern'""",
    "CREATE INDEX ix_rules_episode ON rules (tenant_id, source_episode_id) WHERE source_episode_id IS NOT NULL",
    "CREATE INDEX ix_rules_refuted ON rules (tenant_id, id) WHERE needs_inversion",
    "CREATE INDEX ix_links_target ON memory_links (tenant_id, target_type, target_id)",
    *(statement for table in TABLES for statement in _indexed(table)),
    """sqlite: CREATE TRIGGER episodes_unlink BEFORE DELETE ON episodes BEGIN
    UPDATE facts SET source_episode_id = NULL WHERE tenant_id = old.tenant_id AND source_episode_id = old.id;
    UPDATE rules SET source_episode_id = NULL WHERE tenant_id = old.tenant_id AND source_episode_id = old.id;
    END""",
    """sqlite: CREATE TRIGGER facts_unlink BEFORE DELETE ON facts BEGIN
    UPDATE facts SET supersedes_id = NULL WHERE tenant_id = old.tenant_id AND supersedes_id = old.id;
    END""",
    _in_step("INSERT", "'pending'"),
    _in_step("UPDATE OF consolidated, consolidation_status", "old.consolidation_status"),
    f"""postgresql: CREATE FUNCTION episodes_consolidated() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF new.consolidation_status <> COALESCE(old.consolidation_status, 'pending') THEN
        new.consolidated := NOT new.consolidated;
    ELSE
        new.consolidation_status := {_FLAG_STATUS};
    END IF;
    RETURN new; END $$""",
    f"""postgresql: CREATE TRIGGER episodes_consolidated
    BEFORE INSERT OR UPDATE OF consolidated, consolidation_status ON episodes
    FOR EACH ROW WHEN ({_DIFFER}) EXECUTE FUNCTION episodes_consolidated()""",
)


def upgrade() -> None:
    execute(STATEMENTS)
