"""Whatever a test did to a store on PostgreSQL, the next one gets a store as new."""

import asyncpg
import pytest

from tulving import open_memory
from tulving.testing import SequentialIds, WordEmbedder


async def remember(url: str, embedder: WordEmbedder) -> list[tuple]:
    """What is in a store after a first fact was stored."""
    async with open_memory(url, embedder=embedder, ids=SequentialIds(), background=False) as memory:
        await memory.store_fact("user", "likes", "tea")
    raw = await asyncpg.connect(url)
    rows = await raw.fetch("SELECT seq, event_type, (SELECT max(number) FROM embedding_versions) FROM memory_events")
    await raw.close()
    return [tuple(row) for row in rows]


async def test_an_emptied_store_is_as_new(postgres_stores, embedder):
    url = postgres_stores.take()
    first = await remember(url, embedder)
    left_open = await asyncpg.connect(url)
    await left_open.execute("BEGIN; LOCK TABLE facts; SELECT pg_advisory_lock(1)")
    postgres_stores.give_back(url)
    again = postgres_stores.take()
    assert again == url or url not in postgres_stores._stores  # one that has grown too large is dropped
    assert await remember(again, embedder) == first and len(first) == 1
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
        await left_open.execute("SELECT 1")
    left_open.terminate()
    postgres_stores.give_back(again)


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE other (id int)",
        "DROP INDEX ix_events_time",
        "ALTER TABLE rules ALTER COLUMN embedding TYPE vector(3)",
        "ALTER TABLE facts DISABLE TRIGGER ALL",
        "ALTER TABLE facts ENABLE ROW LEVEL SECURITY",
        "GRANT SELECT ON facts TO public",
        "GRANT CREATE ON SCHEMA public TO public",
        "ALTER DATABASE {} SET work_mem = '1MB'",
        "ALTER DATABASE {} CONNECTION LIMIT 7",
        "GRANT CREATE ON DATABASE {} TO public",
        "COMMENT ON INDEX ix_events_time IS 'x'",
        "CREATE OR REPLACE FUNCTION memory_events_append_only() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'",
        "DROP EXTENSION vector CASCADE",
        "DELETE FROM alembic_version_memory",
        "ANALYZE embedding_versions",
        "INSERT INTO sessions (tenant_id, id, started_at) SELECT 't', gen_random_uuid(), now()"
        " FROM generate_series(1, 2001)",
    ],
)
async def test_a_store_with_another_change_is_not_used_again(postgres_stores, embedder, change):
    url = postgres_stores.take()
    await remember(url, embedder)
    raw = await asyncpg.connect(url)
    await raw.execute(change.format(f'"{await raw.fetchval("SELECT current_database()")}"'))
    await raw.close()
    postgres_stores.give_back(url)
    other = postgres_stores.take()
    assert other != url
    postgres_stores.give_back(other)
