"""Indexes for what maintenance and merging look up: the facts of an entity, and rules that are to be turned round."""

from tulving.storage.migrations.statements import execute

revision = "mem_008"
down_revision = "mem_007"
branch_labels = None
depends_on = None

INDEXES = (
    "CREATE INDEX ix_facts_entity ON facts (tenant_id, entity_id) WHERE entity_id IS NOT NULL",
    "CREATE INDEX ix_rules_refuted ON rules (tenant_id, id) WHERE needs_inversion",
)


def upgrade() -> None:
    execute(sqlite=INDEXES, postgres=INDEXES)
