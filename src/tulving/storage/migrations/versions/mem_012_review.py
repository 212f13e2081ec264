"""The review queue is read page by page, in the order of its index."""

from tulving.storage.migrations.statements import execute

revision = "mem_012"
down_revision = "mem_011"
DIGEST = "83cbac671054ed44fccb39bf8ded4f2b3caedf59a785cee077d675ad87e0dc83"
"""Digest of the SQLite schema. A wrong one only makes opening slower; a test prints the right one."""

STATEMENTS = ("CREATE INDEX ix_proposals_age ON proposals (tenant_id, created_at, id)",)


def upgrade() -> None:
    execute(STATEMENTS)
