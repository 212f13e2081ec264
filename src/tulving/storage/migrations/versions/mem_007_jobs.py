"""The work that is done on a schedule: when each job is due, who is doing it, and how the last run went."""

from tulving.storage.migrations.statements import execute

revision = "mem_007"
down_revision = "mem_006"
branch_labels = None
depends_on = None

_JOBS = """CREATE TABLE jobs (
    name TEXT NOT NULL PRIMARY KEY,
    due_at {time},
    holder TEXT,
    lease_until {time},
    last_started_at {time},
    last_finished_at {time},
    last_error TEXT,
    result {json})"""


def upgrade() -> None:
    execute(
        sqlite=(_JOBS.format(time="TEXT", json="TEXT") + " STRICT",),
        postgres=(_JOBS.format(time="TIMESTAMPTZ", json="JSONB"),),
    )
