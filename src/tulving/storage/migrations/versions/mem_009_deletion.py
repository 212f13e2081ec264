"""What deletion leaves behind: no guessable hash in the events, and a note of words that the keyword index still has.

`tenant_keys` is the secret that content hashes in events are keyed with. `stale_words` names the tables whose FTS5
index holds words that no row has any more; maintenance merges it and takes the name off.
"""

from tulving.storage.migrations.statements import execute

revision = "mem_009"
down_revision = "mem_008"
branch_labels = None
depends_on = None

_TABLES = {"episode": "episodes", "fact": "facts", "rule": "rules"}
_KEYS = "CREATE TABLE tenant_keys (tenant_id TEXT NOT NULL PRIMARY KEY, secret TEXT NOT NULL)"

# What an interrupted re-embedding kept of memories that were deleted since.
_ORPHANS = tuple(
    f"DELETE FROM next_embeddings WHERE memory_type = '{kind}' AND NOT EXISTS (SELECT 1 FROM {table} AS m"
    " WHERE m.tenant_id = next_embeddings.tenant_id AND m.id = next_embeddings.memory_id)"
    for kind, table in _TABLES.items()
)

# REPLACE deletes without firing the DELETE trigger, and an unset seq is -1 here.
_NO_REPLACE = """CREATE TRIGGER memory_events_no_replace BEFORE INSERT ON memory_events
    WHEN EXISTS (SELECT 1 FROM memory_events WHERE tenant_id = new.tenant_id AND id = new.id)
    OR new.seq > 0 AND EXISTS (SELECT 1 FROM memory_events WHERE seq = new.seq)
    BEGIN SELECT RAISE(ABORT, 'memory_events is append-only'); END"""
_NO_UPDATE = """CREATE TRIGGER memory_events_no_update BEFORE UPDATE ON memory_events BEGIN
    SELECT RAISE(ABORT, 'memory_events is append-only'); END"""


def _stale(table: str) -> tuple[str, ...]:
    note = f"BEGIN INSERT OR IGNORE INTO stale_words VALUES ('{table}'); END"
    return (
        f"CREATE TRIGGER {table}_words_deleted AFTER DELETE ON {table} {note}",
        f"""CREATE TRIGGER {table}_words_changed AFTER UPDATE OF search_text ON {table}
    WHEN new.search_text <> old.search_text {note}""",
        # Whatever a store in use has deleted so far.
        f"INSERT INTO stale_words SELECT '{table}' WHERE EXISTS (SELECT 1 FROM memory_events)",
    )


SQLITE = (
    f"{_KEYS} STRICT, WITHOUT ROWID",
    "DROP TRIGGER memory_events_no_update",
    """UPDATE memory_events SET payload = json_remove(payload, '$.content_hash')
    WHERE json_type(payload, '$.content_hash') IS NOT NULL""",
    _NO_UPDATE,
    _NO_REPLACE,
    "CREATE TABLE stale_words (table_name TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID",
    *(statement for table in _TABLES.values() for statement in _stale(table)),
    *_ORPHANS,
)
POSTGRES = (
    _KEYS,
    "ALTER TABLE memory_events DISABLE TRIGGER memory_events_append_only",
    "UPDATE memory_events SET payload = payload - 'content_hash' WHERE jsonb_exists(payload, 'content_hash')",
    "ALTER TABLE memory_events ENABLE TRIGGER memory_events_append_only",
    *_ORPHANS,
)


def upgrade() -> None:
    execute(sqlite=SQLITE, postgres=POSTGRES)
