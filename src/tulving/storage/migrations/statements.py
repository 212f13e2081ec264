"""What a revision says to each engine."""

from collections.abc import Callable, Mapping, Sequence

from alembic import op


def execute(*, sqlite: Sequence[str], postgres: Sequence[str]) -> None:
    """Run the statements of the engine at hand, in the migration's transaction."""
    for statement in postgres if on_postgres() else sqlite:
        op.execute(statement)


def on_postgres() -> bool:
    return op.get_context().dialect.name == "postgresql"


def rebuild(tables: Sequence[str], edit: Callable[[str], str], new_columns: Mapping[str, str]) -> None:
    """Change what SQLite's ALTER TABLE can't: each table is made anew from its edited text and gets its rows (and for
    each new column the value of an expression), its indexes and its triggers back.

    The text is the stored one, so that columns of other revisions are kept. Foreign keys must be off.
    """
    triggers = _stored("trigger")
    for name in triggers:  # while a table is missing, those that mention it can't be read
        op.execute(f"DROP TRIGGER {name}")
    for table in tables:
        indexes = _stored("index", table)
        columns = [row[1] for row in op.get_bind().exec_driver_sql(f"PRAGMA table_info({table})")]
        definition = _stored("table", table)[table]
        op.execute(f"CREATE TABLE {table}_rebuilt {edit(definition[definition.index('(') :])}")
        op.execute(
            f"INSERT INTO {table}_rebuilt ({', '.join((*columns, *new_columns))})"
            f" SELECT {', '.join((*columns, *new_columns.values()))} FROM {table}"
        )
        op.execute(f"DROP TABLE {table}")
        op.execute(f"ALTER TABLE {table}_rebuilt RENAME TO {table}")
        for index in indexes.values():
            op.execute(index)
    for trigger in triggers.values():
        op.execute(trigger)


def _stored(kind: str, table: str | None = None) -> dict[str, str]:
    """The statements that the file keeps by name, of one table or of all."""
    rows = op.get_bind().exec_driver_sql(
        "SELECT name, sql FROM sqlite_master"
        " WHERE type = ? AND tbl_name = COALESCE(?, tbl_name) AND sql IS NOT NULL ORDER BY name",
        (kind, table),
    )
    return {name: sql for name, sql in rows}
