"""Alembic migrations, branch label "memory". Imported only when a schema has to change."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool


def upgrade_sqlite(
    raw: sqlite3.Connection, target: str = "memory@head", still_needed: Callable[[], bool] = lambda: True
) -> None:
    """Bring a file up to a revision in one transaction: a kill leaves it as it was.

    `still_needed` is asked under the write lock, since another process may have been faster.
    """
    engine = create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    try:
        # SQLAlchemy ends any transaction when it first meets a connection, so ours begins after that.
        with engine.connect() as connection:
            raw.execute("BEGIN IMMEDIATE")
            with connection.begin():
                if still_needed():
                    config.attributes["connection"] = connection
                    command.upgrade(config, target)
    except DBAPIError as error:
        raise error.orig or error from error
