"""What language models have taught: their runs, what waits for a person, profiles, and what must not come back."""

from tulving.storage.migrations.statements import execute

revision = "mem_007"
down_revision = "mem_006"
DIGEST = "81d38bf7d54b7be79beab301b928e949d521ea5b2fdd802c5296fe46777daf98"
"""Digest of the SQLite schema. A wrong one only makes opening slower; a test prints the right one."""

_OWNER = """owner TEXT NOT NULL DEFAULT '',
    user_id TEXT,
    household_id TEXT,
    persona_id TEXT,"""

STATEMENTS = (
    "ALTER TABLE facts ADD COLUMN run_id UUID",
    "ALTER TABLE rules ADD COLUMN run_id UUID",
    "CREATE INDEX ix_facts_learned ON facts (tenant_id, owner) WHERE run_id IS NOT NULL AND validity = 'active'",
    "CREATE INDEX ix_events_run ON memory_events (tenant_id, run_id, seq) WHERE run_id IS NOT NULL",
    f"""CREATE TABLE learning_runs (
    tenant_id TEXT NOT NULL,
    id UUID NOT NULL,
    job TEXT NOT NULL CHECK (job IN ('consolidation', 'extraction')),
    butler TEXT,
    {_OWNER}
    actor TEXT,
    model TEXT,
    status TEXT NOT NULL CHECK (status IN ('open', 'done', 'held', 'failed', 'undone')),
    lease_until TIMESTAMPTZ,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    shown JSONB NOT NULL CHECK (jsonb_typeof(shown) = 'object'),
    counts JSONB NOT NULL CHECK (jsonb_typeof(counts) = 'object'),
    last_error TEXT,
    created_at TIMESTAMPTZ NOT NULL,
    finished_at TIMESTAMPTZ,
    PRIMARY KEY (tenant_id, id))
    sqlite: STRICT""",
    "CREATE INDEX ix_learning_runs_age ON learning_runs (tenant_id, created_at DESC)",
    "CREATE INDEX ix_learning_runs_open ON learning_runs (tenant_id) WHERE status = 'open'",
    """CREATE TABLE proposals (
    tenant_id TEXT NOT NULL,
    id UUID NOT NULL,
    run_id UUID NOT NULL,
    owner TEXT NOT NULL DEFAULT '',
    action TEXT NOT NULL CHECK (action IN ('new_fact', 'updated_fact', 'new_rule', 'confirmation')),
    offer JSONB NOT NULL CHECK (jsonb_typeof(offer) = 'object'),
    reason TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES learning_runs (tenant_id, id) ON DELETE CASCADE DEFERRABLE)
    sqlite: STRICT""",
    f"""CREATE TABLE profile_blocks (
    tenant_id TEXT NOT NULL,
    {_OWNER}
    block TEXT NOT NULL CHECK (block IN ('work', 'personal', 'topOfMind', 'recent', 'earlier', 'background')),
    number INTEGER NOT NULL CHECK (number > 0),
    content TEXT NOT NULL,
    run_id UUID,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant_id, owner, block, number))
    sqlite: STRICT""",
    # Keyed hashes of values that a person has forgotten: no model may store them again.
    """CREATE TABLE forgotten_values (
    tenant_id TEXT NOT NULL,
    hash TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant_id, hash))
    sqlite: STRICT, WITHOUT ROWID""",
)


def upgrade() -> None:
    execute(STATEMENTS)
