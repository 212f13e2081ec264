"""Alembic's entry point: writes a script for PostgreSQL, which the caller runs in its own transaction."""

from alembic import context

context.configure(
    dialect_name="postgresql",
    dialect_opts={"paramstyle": "named"},  # otherwise every percent sign would be doubled
    version_table=context.config.attributes["version_table"],
    transactional_ddl=False,
)
with context.begin_transaction():
    context.run_migrations()
