"""What a search needs to know about conversations: the turns of a session in order, and who speaks."""

from tulving.storage.migrations.statements import execute

revision = "mem_006"
down_revision = "mem_005"
DIGEST = "49db977c307a2c71ef1a786f4be210d8dc1585b49d5e3d9c9d53da0ccefc783a"
"""Digest of the SQLite schema. A wrong one only makes opening slower; a test prints the right one."""

STATEMENTS = (
    """CREATE INDEX ix_episodes_session ON episodes
    (tenant_id, session_id, (COALESCE(occurred_at, created_at)), created_at, id) WHERE session_id IS NOT NULL""",
    """CREATE INDEX ix_episodes_source ON episodes (tenant_id, source)
    WHERE source IS NOT NULL AND NOT forgotten""",
)


def upgrade() -> None:
    execute(STATEMENTS)
