"""What a revision says to each engine."""

from collections.abc import Sequence

from alembic import op


def execute(*, sqlite: Sequence[str], postgres: Sequence[str]) -> None:
    """Run the statements of the engine at hand, in the migration's transaction."""
    for statement in postgres if op.get_context().dialect.name == "postgresql" else sqlite:
        op.execute(statement)
