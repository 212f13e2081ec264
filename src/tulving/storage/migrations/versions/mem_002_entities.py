"""Entities: stable identities that facts can be keyed by."""

from tulving.storage.migrations.statements import execute

revision = "mem_002"
down_revision = "mem_001"

STATEMENTS = (
    """CREATE TABLE entities (
    tenant_id TEXT NOT NULL,
    id UUID NOT NULL DEFAULT gen_random_uuid(),
    canonical_name TEXT NOT NULL,
    folded_name TEXT NOT NULL,
    entity_type TEXT NOT NULL CHECK (entity_type IN ('person', 'organization', 'place', 'other')),
    postgresql: aliases TEXT[] NOT NULL DEFAULT '{}' CHECK (array_position(aliases, NULL) IS NULL),
    sqlite: aliases TEXT NOT NULL DEFAULT '[]' CHECK (json_type(aliases) = 'array'),
    metadata JSONB NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    merged_into UUID,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, canonical_name, entity_type),
    FOREIGN KEY (tenant_id, merged_into) REFERENCES entities (tenant_id, id) DEFERRABLE)
    sqlite: STRICT""",
    "CREATE INDEX ix_entities_name ON entities (tenant_id, canonical_name)",
    "CREATE INDEX ix_entities_folded ON entities (tenant_id, folded_name)",
    "postgresql: CREATE INDEX ix_entities_aliases ON entities USING gin (aliases)",
    "postgresql: CREATE INDEX ix_entities_metadata ON entities USING gin (metadata)",
    # SQLite can't add a foreign key later, but accepts one to a table that does not exist yet.
    """postgresql: ALTER TABLE facts ADD CONSTRAINT facts_entity FOREIGN KEY (tenant_id, entity_id)
    REFERENCES entities (tenant_id, id) ON DELETE RESTRICT DEFERRABLE""",
    """CREATE UNIQUE INDEX ux_facts_entity ON facts (tenant_id, entity_id, scope, owner, predicate)
    WHERE validity = 'active' AND entity_id IS NOT NULL AND keyed""",
    "CREATE INDEX ix_facts_entity ON facts (tenant_id, entity_id) WHERE entity_id IS NOT NULL",
)


def upgrade() -> None:
    execute(STATEMENTS)
