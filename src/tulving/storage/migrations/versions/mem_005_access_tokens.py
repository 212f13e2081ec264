"""Who may come in over a network. Of a token's secret only its hash is here."""

from tulving.storage.migrations.statements import execute

revision = "mem_005"
down_revision = "mem_004"
branch_labels = None
depends_on = None

_TABLE = """CREATE TABLE access_tokens (
    tenant_id TEXT NOT NULL,
    id {uuid} NOT NULL,
    name TEXT,
    actor TEXT,
    rights TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    created_at {time} NOT NULL,
    expires_at {time},
    revoked_at {time},
    PRIMARY KEY (tenant_id, id))"""


def upgrade() -> None:
    execute(
        sqlite=(_TABLE.format(uuid="TEXT", time="TEXT") + " STRICT",),
        postgres=(_TABLE.format(uuid="UUID", time="TIMESTAMPTZ"),),
    )
