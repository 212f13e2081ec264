"""Entities: stable identities that facts can be keyed by."""

from alembic import op

revision = "mem_002"
down_revision = "mem_001"
branch_labels = None
depends_on = None

STATEMENTS = (
    """CREATE TABLE entities (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    canonical_name TEXT NOT NULL,
    folded_name TEXT NOT NULL,
    entity_type TEXT NOT NULL CHECK (entity_type IN ('person', 'organization', 'place', 'other')),
    aliases TEXT NOT NULL DEFAULT '[]' CHECK (json_type(aliases) = 'array'),
    metadata TEXT NOT NULL DEFAULT '{}' CHECK (json_type(metadata) = 'object'),
    merged_into TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, canonical_name, entity_type),
    FOREIGN KEY (tenant_id, merged_into) REFERENCES entities (tenant_id, id)) STRICT""",
    "CREATE INDEX ix_entities_name ON entities (tenant_id, canonical_name)",
    "CREATE INDEX ix_entities_folded ON entities (tenant_id, folded_name)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
