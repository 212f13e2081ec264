"""Alembic migrations, branch label "memory". Imported only when a schema has to change."""

import io
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

_ALEMBIC = threading.Lock()


def upgrade_sqlite(
    raw: sqlite3.Connection, target: str = "memory@head", still_needed: Callable[[], bool] = lambda: True
) -> None:
    """Bring a file up to a revision in one transaction: a kill leaves it as it was.

    `still_needed` is asked under the write lock, since another process may have been faster.
    """
    engine = create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool)
    config = _config()
    (enforced,) = raw.execute("PRAGMA foreign_keys").fetchone()
    try:
        # A table that is rebuilt is dropped for a moment; inside a transaction this can't be changed.
        raw.execute("PRAGMA foreign_keys = OFF")
        # SQLAlchemy ends any transaction when it first meets a connection, so ours begins after that.
        with engine.connect() as connection:
            raw.execute("BEGIN IMMEDIATE")
            with connection.begin():
                if still_needed():
                    config.attributes["connection"] = connection
                    _upgrade(config, target)
    except DBAPIError as error:
        raise error.orig or error from error
    finally:
        raw.execute(f"PRAGMA foreign_keys = {enforced}")


def postgres_script(revision: str | None, version_table: str, target: str = "memory@head") -> str:
    """The SQL that brings a database from a revision to another, for any driver to run in one transaction."""
    script = io.StringIO()
    config = _config(script)
    config.attributes["version_table"] = version_table
    _upgrade(config, f"{revision}:{target}" if revision else target, sql=True)
    return script.getvalue()


def _upgrade(config: Config, target: str, sql: bool = False) -> None:
    """One at a time: while Alembic works, its context is that of the whole process."""
    with _ALEMBIC:
        command.upgrade(config, target, sql=sql)


def _config(output: io.StringIO | None = None) -> Config:
    config = Config(output_buffer=output)
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config
