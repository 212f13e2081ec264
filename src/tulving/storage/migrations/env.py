"""Alembic's entry: runs on the connection it is handed, inside the caller's transaction, or writes a script."""

from alembic import context

given = context.config.attributes
if context.is_offline_mode():
    context.configure(
        dialect_name="postgresql",
        dialect_opts={"paramstyle": "named"},  # otherwise every percent sign would be doubled
        version_table=given["version_table"],
        transactional_ddl=False,  # the caller's transaction is around it all
    )
else:
    context.configure(connection=given["connection"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
