"""How conflicts are settled, the rules for that, and how often models called tools in plain text."""

from tulving.storage.migrations.statements import execute

revision = "mem_008"
down_revision = "mem_007"
DIGEST = "0ca1faef37200bdb415025b9549e77195f03acad405a0d64364ecdff2d63794c"
"""Digest of the SQLite schema. A wrong one only makes opening slower; a test prints the right one."""

_FACT = "REFERENCES facts (tenant_id, id) ON DELETE CASCADE DEFERRABLE"

STATEMENTS = (
    # The signals name words of both facts, so a settlement goes when one of them is deleted.
    f"""CREATE TABLE settlements (
    tenant_id TEXT NOT NULL,
    id UUID NOT NULL,
    candidate_id UUID NOT NULL,
    existing_id UUID NOT NULL,
    merged_id UUID,
    owner TEXT NOT NULL DEFAULT '',
    user_id TEXT,
    household_id TEXT,
    persona_id TEXT,
    scope TEXT NOT NULL,
    project TEXT,
    outcome TEXT NOT NULL CHECK (outcome IN ('kept', 'superseded', 'merged', 'rejected', 'held')),
    action TEXT NOT NULL CHECK (action IN ('keep', 'merge', 'reject')),
    winner_id UUID,
    loser_id UUID,
    confidence DOUBLE PRECISION NOT NULL CHECK (confidence >= 0 AND confidence <= 1),
    reason TEXT NOT NULL,
    signals JSONB NOT NULL CHECK (jsonb_typeof(signals) = 'array'),
    rule TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('applied', 'held', 'reverted', 'dismissed')),
    run_id UUID,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, candidate_id) {_FACT},
    FOREIGN KEY (tenant_id, existing_id) {_FACT},
    FOREIGN KEY (tenant_id, merged_id) {_FACT})
    sqlite: STRICT""",
    "CREATE INDEX ix_settlements_age ON settlements (tenant_id, created_at DESC)",
    "CREATE INDEX ix_settlements_held ON settlements (tenant_id) WHERE status = 'held'",
    "CREATE INDEX ix_settlements_candidate ON settlements (tenant_id, candidate_id)",
    "CREATE INDEX ix_settlements_existing ON settlements (tenant_id, existing_id)",
    "CREATE INDEX ix_settlements_merged ON settlements (tenant_id, merged_id) WHERE merged_id IS NOT NULL",
    """CREATE TABLE merge_rules (
    tenant_id TEXT NOT NULL,
    rules JSONB NOT NULL CHECK (jsonb_typeof(rules) = 'array'),
    version INTEGER NOT NULL CHECK (version > 0),
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant_id))
    sqlite: STRICT""",
    """CREATE TABLE tool_text_counts (
    tenant_id TEXT NOT NULL,
    protocol TEXT NOT NULL CHECK (protocol IN ('abp', 'vcp', 'plain-text')),
    reason TEXT NOT NULL,
    texts INTEGER NOT NULL CHECK (texts > 0),
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant_id, protocol, reason))
    sqlite: STRICT, WITHOUT ROWID""",
)


def upgrade() -> None:
    execute(STATEMENTS)
