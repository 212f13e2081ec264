"""The facts of an entity are found by an index: resolving and merging read them."""

from tulving.storage.migrations.statements import execute

revision = "mem_008"
down_revision = "mem_007"
branch_labels = None
depends_on = None

_INDEX = "CREATE INDEX ix_facts_entity ON facts (tenant_id, entity_id) WHERE entity_id IS NOT NULL"


def upgrade() -> None:
    execute(sqlite=(_INDEX,), postgres=(_INDEX,))
