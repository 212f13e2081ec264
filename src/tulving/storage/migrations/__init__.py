"""The schema as a chain of revisions. Each is a list of statements, applied by Alembic (branch label "memory") to
PostgreSQL and as plain SQL to a SQLite file, where importing Alembic would take longer than the migration."""

import io
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

from tulving.storage.migrations.statements import statements
from tulving.storage.schema import migration

_ALEMBIC = threading.Lock()
"""Alembic's context is global to the process."""


def upgrade_sqlite(raw: sqlite3.Connection, revisions: Sequence[str]) -> None:
    """Apply revisions in the caller's transaction, with a version table like Alembic's."""
    raw.execute(
        "CREATE TABLE IF NOT EXISTS alembic_version"
        " (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
    )
    for revision in revisions:
        for statement in statements("sqlite", migration(revision).STATEMENTS):
            raw.execute(statement)
        raw.execute("DELETE FROM alembic_version")
        raw.execute("INSERT INTO alembic_version VALUES (?)", (revision,))


def postgres_script(revision: str | None, version_table: str, target: str = "memory@head") -> str:
    """The SQL that migrates a database from one revision to another, for any driver to run in one transaction."""
    from alembic import command
    from alembic.config import Config

    script = io.StringIO()
    config = Config(output_buffer=script)
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["version_table"] = version_table
    with _ALEMBIC:
        command.upgrade(config, f"{revision}:{target}" if revision else target, sql=True)
    return script.getvalue()
