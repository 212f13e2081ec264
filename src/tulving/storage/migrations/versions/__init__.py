"""The revisions, in the form that Alembic reads."""
