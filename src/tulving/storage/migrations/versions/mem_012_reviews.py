"""Reviews of what was inserted without a time for one, warnings that do not decay, and one word for retracted facts."""

from tulving.storage.migrations.statements import execute

revision = "mem_012"
down_revision = "mem_011"
branch_labels = None
depends_on = None

STATEMENTS = (
    "DROP INDEX IF EXISTS ix_facts_review",
    "DROP INDEX IF EXISTS ix_rules_review",
    """CREATE INDEX ix_facts_review ON facts (COALESCE(next_review_at, created_at))
    WHERE decay_rate > 0 AND validity = 'active'""",
    """CREATE INDEX ix_rules_review ON rules (COALESCE(next_review_at, created_at))
    WHERE decay_rate > 0 AND NOT forgotten AND maturity <> 'anti_pattern'""",
    """UPDATE rules SET permanence = 'permanent', decay_rate = 0, status = NULL, next_review_at = NULL
    WHERE maturity = 'anti_pattern'""",
    "UPDATE facts SET validity = 'retracted' WHERE validity = 'forgotten'",
)


def upgrade() -> None:
    execute(sqlite=STATEMENTS, postgres=STATEMENTS)
