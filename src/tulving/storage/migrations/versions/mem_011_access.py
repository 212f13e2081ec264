"""Limits of access tokens, and for whom a run of a language model spends its tokens."""

from tulving.storage.migrations.statements import execute

revision = "mem_011"
down_revision = "mem_010"
DIGEST = "245abdd89f3d9ad05df1c1017bec12d14bad9576eb6ec536cbd59dd62eafd90c"
"""Digest of the SQLite schema. A wrong one only makes opening slower; a test prints the right one."""

STATEMENTS = (
    "ALTER TABLE access_tokens ADD COLUMN requests_per_minute INTEGER",
    "ALTER TABLE access_tokens ADD COLUMN model_tokens_per_day BIGINT",
    "ALTER TABLE access_tokens ADD COLUMN largest_body BIGINT",
    "ALTER TABLE learning_runs ADD COLUMN spender TEXT",
)


def upgrade() -> None:
    execute(STATEMENTS)
