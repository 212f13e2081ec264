"""A memory can be inserted with nothing but its words; when each was last accessed; aliases as an array.

What the database can't make of the words (their hash, the search text, the vector) stays empty until maintenance
completes the row.
"""

from tulving.storage.migrations.statements import execute, on_postgres, rebuild

revision = "mem_011"
down_revision = "mem_010"
branch_labels = None
depends_on = None

TABLES = ("episodes", "facts", "rules")
ACCESSED = "COALESCE(last_referenced_at, created_at)"


def _time(*shift: str) -> str:
    """The moment of the insertion in the form that times are stored in."""
    arguments = ", ".join(f"'{part}'" for part in ("%Y-%m-%dT%H:%M:%f000+00:00", "now", *shift))
    return f"DEFAULT (strftime({arguments}))"


# A random UUID of version 4.
_ID = """DEFAULT (lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-'
        || substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))))"""
_EDITS = {
    "    id TEXT NOT NULL,": f"    id TEXT NOT NULL {_ID},",
    "content_hash TEXT NOT NULL,": "content_hash TEXT,",
    "search_text TEXT NOT NULL,": "search_text TEXT,",
    "created_at TEXT NOT NULL,": f"created_at TEXT NOT NULL {_time()},",
    "updated_at TEXT NOT NULL,": f"updated_at TEXT NOT NULL {_time()},",
    "last_referenced_at TEXT,": f"last_referenced_at TEXT,\n    accessed_at TEXT NOT NULL {_time()},",
    "expires_at TEXT,": f"expires_at TEXT {_time('+7 days')},",
}
_INCOMPLETE = tuple(
    f"CREATE INDEX ix_{table}_incomplete ON {table} (tenant_id, id) WHERE content_hash IS NULL OR search_text IS NULL"
    for table in TABLES
)

# Imports did not look into the list: what is not a text there is made one, as the conversion below does.
_TEXTS = """UPDATE entities SET aliases = (SELECT json_group_array(value || '') FROM json_each(aliases)
    WHERE type <> 'null') WHERE EXISTS (SELECT 1 FROM json_each(aliases) WHERE type <> 'text')"""
# Changing a column's type takes an expression without a query of its own, but it may call a function that has one.
_ALIASES = (
    """CREATE FUNCTION pg_temp.texts(list JSONB) RETURNS TEXT[] LANGUAGE sql AS
    $$ SELECT COALESCE(array_agg(name ORDER BY place), '{}')
    FROM jsonb_array_elements_text(list) WITH ORDINALITY AS known (name, place) WHERE name IS NOT NULL $$""",
    "DROP INDEX ix_entities_aliases",
    """ALTER TABLE entities DROP CONSTRAINT entities_aliases_check, ALTER COLUMN aliases DROP DEFAULT,
    ALTER COLUMN aliases TYPE TEXT[] USING pg_temp.texts(aliases), ALTER COLUMN aliases SET DEFAULT '{}',
    ADD CONSTRAINT entities_aliases_check CHECK (array_position(aliases, NULL) IS NULL)""",
    "CREATE INDEX ix_entities_aliases ON entities USING gin (aliases)",
    "DROP FUNCTION pg_temp.texts(JSONB)",
)


def _relaxed(table: str) -> tuple[str, ...]:
    return (
        f"""ALTER TABLE {table} ALTER COLUMN content_hash DROP NOT NULL, ALTER COLUMN search_text DROP NOT NULL,
        ADD COLUMN accessed_at TIMESTAMPTZ NOT NULL DEFAULT now()""",
        f"UPDATE {table} SET accessed_at = {ACCESSED}",
    )


POSTGRES = (*(statement for table in TABLES for statement in _relaxed(table)), *_ALIASES)


def _edited(definition: str) -> str:
    for old, new in _EDITS.items():
        definition = definition.replace(old, new)
    return definition


def upgrade() -> None:
    if not on_postgres():
        rebuild(TABLES, _edited, {"accessed_at": ACCESSED})
    execute(sqlite=(*_INCOMPLETE, _TEXTS), postgres=(*POSTGRES, *_INCOMPLETE))
