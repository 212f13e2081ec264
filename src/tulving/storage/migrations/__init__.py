"""Alembic migrations, branch label "memory". Imported only when a schema has to change."""

import sqlite3
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool


def upgrade_sqlite(raw: sqlite3.Connection, target: str = "memory@head") -> None:
    """Bring a file up to a revision in one transaction: the one already begun, or a new one."""
    if not raw.in_transaction:
        raw.execute("BEGIN IMMEDIATE")
    engine = create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    try:
        with engine.begin() as config.attributes["connection"]:
            command.upgrade(config, target)
    except DBAPIError as error:
        raise error.orig or error from error
