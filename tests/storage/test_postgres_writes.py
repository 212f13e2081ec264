"""Writing to PostgreSQL: vectors in binary form, many rows and their events in one statement, indexes only where they
pay."""

import json
import math
import re
from array import array
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from administration import administer
from fault_parts import DIMENSION, opened, problems
from query_plans import plan_of
from raw_sql import run_sql

from tulving import Caller, NewEpisode, NewFact, NewRule, storage
from tulving.domain.scope import Filter
from tulving.errors import EmbedderMismatch, IntegrityError
from tulving.services.memory import Memory
from tulving.settings import MemoryModuleConfig, PostgresConfig
from tulving.storage.connection import savepoint
from tulving.storage.lanes import LaneRequest
from tulving.storage.postgres import connection, planning
from tulving.storage.postgres.errors import Conflict
from tulving.testing import WordEmbedder

POOLS = ("own", "borrowed")


@asynccontextmanager
async def reached(pool: str, url: str, sent: list[str] | None = None, **parts: Any) -> AsyncIterator[Memory]:
    """A memory by way of its own pool, or of one that a host lends it; with the statements that it sends."""
    if pool == "own":
        async with opened(url, background=False, **parts) as memory:
            yield memory
        return

    noted = [] if sent is None else sent

    async def listen(raw: Any) -> None:
        raw.add_query_logger(lambda record: noted.append(record.query))

    async with (
        asyncpg.create_pool(url, min_size=1, max_size=2, init=listen) as borrowed,
        opened(borrowed, background=False, **parts) as memory,
    ):
        yield memory


def facts(count: int, start: int = 0) -> list[NewFact]:
    return [
        NewFact(subject=f"person {number}", predicate="likes", content=f"tea number {number}")
        for number in range(start, start + count)
    ]


# -- values ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 7])
async def test_both_pools_write_the_same(new_database: Callable[..., str], opened_template: str, count: int) -> None:
    """Documents, times, numbers, absent values, vectors and words."""
    written = {}
    tables = {"facts": "subject", "episodes": "content", "rules": "content", "memory_events": "seq"}
    for pool in POOLS:
        url = new_database(opened_template)
        async with reached(pool, url) as memory:
            told = {"large": 1e22, "list": [1, None, "e+5"], "text": 'a "quoted" {text}, Zoë'}
            await memory.store_facts(
                [
                    NewFact(
                        subject=f"person {n}",
                        predicate="likes",
                        content=f"tea {n}",
                        metadata=told,
                        tags=["a,b", '"c"'],
                        importance=n / 3,
                    )
                    for n in range(count)
                ]
            )
            await memory.store_episodes(
                [NewEpisode(content=f"train {n}", butler="assistant", metadata=told) for n in range(count)]
            )
            await memory.store_rules([NewRule(content=f"greet {n}", tags=["x"]) for n in range(count)])
            assert not problems(await administer(memory).verify())
        changing = "id|.*_at|entity_id|transaction_id|run_id|correlation_id|request_id"
        for table, order in tables.items():
            rows = run_sql(url, f"SELECT to_jsonb(t)::text AS row FROM {table} AS t ORDER BY {order}")
            plain = [_without(row["row"], changing) for row in rows]
            assert len(plain) == (3 * count if table == "memory_events" else count)
            written.setdefault(table, []).append(plain)
    for table, (ours, theirs) in written.items():
        assert ours == theirs, table


def _without(document: str, names: str) -> dict[str, Any]:
    row = json.loads(document)
    payload = row.get("payload")
    if payload:
        payload.pop("content_hash", None)  # keyed with the secret of the store
    return {name: value for name, value in row.items() if not re.fullmatch(names, name)}


@pytest.mark.parametrize("pool", POOLS)
async def test_the_server_refuses_a_vector_as_before(postgres_url: str, pool: str) -> None:
    async with reached(pool, postgres_url) as memory:
        stored = await memory.store_rule("greet the guests")

        def write(conn: Any, numbers: Sequence[float]) -> None:
            conn.execute(
                "UPDATE rules SET embedding = :embedding WHERE id = :id", {"id": stored.id, "embedding": numbers}
            )

        for numbers, error, said in (
            ([math.nan] * DIMENSION, IntegrityError, "NaN not allowed in vector"),
            ([math.inf] * DIMENSION, IntegrityError, "infinite value not allowed in vector"),
            ([0.5] * (DIMENSION - 1), EmbedderMismatch, f"expected {DIMENSION} dimensions, not {DIMENSION - 1}"),
        ):
            with pytest.raises(error, match=said):
                await memory._env.store.write("default", write, numbers)
        numbers = [n / 7 for n in range(DIMENSION)]
        await memory._env.store.write("default", write, numbers)

        def read(conn: Any) -> bytes:
            return conn.fetch_one(f"SELECT {conn.vector_value('embedding')} FROM rules")["embedding"]

        assert await memory._env.store.read("default", read) == array("f", numbers).tobytes()


async def test_our_connections_find_the_type_in_any_schema(new_database: Callable[..., str]) -> None:
    """The first connection too, which was opened before there was a schema."""
    url = new_database()
    name = run_sql(url, "SELECT current_database() AS name")[0]["name"]
    run_sql(url, 'CREATE SCHEMA "Other place"')
    run_sql(url, 'CREATE EXTENSION vector WITH SCHEMA "Other place"')
    run_sql(url, f'ALTER DATABASE "{name}" SET search_path = public, "Other place"')
    async with opened(url, background=False) as memory:
        await memory.store_facts(facts(3))
        assert len(await memory.search("tea number 1", mode="semantic")) == 3
    async with opened(url, background=False) as memory:
        assert (await memory.search("tea number 1", mode="semantic"))[0].item.content == "tea number 1"
        assert not problems(await administer(memory).verify())


# -- many rows at once -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", POOLS)
async def test_more_rows_than_one_statement_takes(
    postgres_url: str, pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "INSERTED_AT_ONCE", 3)
    async with reached(pool, postgres_url) as memory:
        stored = await memory.store_facts(facts(8))
        found = run_sql(postgres_url, "SELECT entity_id FROM memory_events ORDER BY seq")
        assert [row["entity_id"] for row in found] == [fact.id for fact in stored], "events keep their order"
        assert len((await memory.list_memories("fact", limit=20)).items) == 8


def _rule(conn: Any, id_: UUID, content: str = "greet") -> None:
    conn.insert("rules", ("tenant_id", "id", "content"), [("default", id_, content)])


async def test_what_is_held_back_is_there_for_the_next_statement(postgres_url: str) -> None:
    ids = [uuid4(), uuid4(), uuid4()]

    def write(conn: Any) -> int:
        for id_ in ids:
            _rule(conn, id_)
        seen = conn.fetch_one("SELECT COUNT(*) AS rows FROM rules")["rows"]
        _rule(conn, uuid4())
        return seen

    async with reached("own", postgres_url) as memory:
        assert await memory._env.store.write("default", write) == 3
    assert len(run_sql(postgres_url, "SELECT 1 FROM rules")) == 4, "the last one is inserted before the commit"


async def test_a_part_that_is_rolled_back_takes_its_rows_with_it(postgres_url: str) -> None:
    first, second, third = uuid4(), uuid4(), uuid4()

    def write(conn: Any) -> None:
        _rule(conn, first)
        with pytest.raises(ValueError), savepoint(conn):
            _rule(conn, second)
            raise ValueError
        with pytest.raises(Conflict), savepoint(conn):
            _rule(conn, first, "the same id")
        _rule(conn, third)

    async with reached("own", postgres_url) as memory:
        await memory._env.store.write("default", write)
    assert {row["id"] for row in run_sql(postgres_url, "SELECT id FROM rules")} == {first, third}


# -- statistics and indexes ------------------------------------------------------------------------------------


async def test_a_new_table_is_analyzed_when_it_has_some_rows(postgres_url: str) -> None:
    """Otherwise a connection might plan to read all facts of a tenant for each one that is stored."""
    analyzed = "ANALYZE (SKIP_LOCKED) facts"
    sent: list[str] = []
    async with reached("borrowed", postgres_url, sent) as memory:
        await memory.store_facts(facts(planning.ENOUGH_ROWS - 1))
        assert analyzed not in sent
        await memory.store_fact("anna", "likes", "coffee")
        assert sent.count(analyzed) == 1
        await memory.store_facts(facts(planning.ENOUGH_ROWS, 1000))
        assert sent.count(analyzed) == 1
    assert run_sql(postgres_url, "SELECT reltuples >= 100 AS known FROM pg_class WHERE relname = 'facts'")[0]["known"]
    sent.clear()
    async with reached("borrowed", postgres_url, sent) as memory:
        await memory.store_facts(facts(planning.ENOUGH_ROWS, 2000))
    assert analyzed not in sent


async def test_a_tenant_that_the_statistics_do_not_know_is_not_read_as_a_whole(postgres_url: str) -> None:
    """A plan for its name would take it for empty, and look a fact up by whatever index leads to the tenant."""

    def explain(conn: Any) -> str:
        asked: list[tuple[str, Any]] = []
        fetch_all = conn.fetch_all
        conn.fetch_all = lambda sql, params=None: asked.append((sql, params)) or fetch_all(sql, params)
        storage.facts.holder(conn, fact)
        [(sql, params)] = asked
        text, names = conn._form.numbered(sql)
        values = ", ".join("NULL" if params[name] is None else f"'{params[name]}'" for name in names)
        conn.execute(f"PREPARE looked_up AS {text}")
        return "\n".join(row[0] for row in conn.records(f"EXPLAIN EXECUTE looked_up ({values})"))

    async with reached("own", postgres_url) as memory:
        await memory.store_facts(facts(300))
        other = memory.bind(caller=Caller("unknown"))
        fact = other._fact(NewFact(subject="ann", predicate="likes", content="tea"), other.now())
        plan = await other._write(explain)
        assert "facts_slot" in plan and "tenant_id = $" in plan, plan


def _large(exact_rows: int) -> MemoryModuleConfig:
    return MemoryModuleConfig(postgres=PostgresConfig(exact_rows=exact_rows))


def _vector_indexes(url: str) -> list[str]:
    found = run_sql(url, "SELECT indexname AS name FROM pg_indexes WHERE indexname LIKE 'ix%embedding' ORDER BY 1")
    return [row["name"] for row in found]


@pytest.mark.scenario("004-015")
async def test_maintenance_builds_a_vector_index_for_a_large_tenant(postgres_url: str) -> None:
    embedder = WordEmbedder(DIMENSION)
    async with opened(postgres_url, background=False, config=_large(700)) as memory:
        for tenant in ("one", "two"):
            await memory.bind(caller=Caller(tenant)).store_facts(facts(750))
        assert await administer(memory).reindex(only_outgrown=True) == [], "neither has over half of the table"
    async with opened(postgres_url, background=False, config=_large(10_000)) as memory:
        await memory.bind(caller=Caller("one")).store_facts(facts(100, 750))
        assert await administer(memory).reindex(only_outgrown=True) == [], "none is large"
        assert _vector_indexes(postgres_url) == []
    async with opened(postgres_url, background=False, config=_large(700)) as memory:
        assert await administer(memory).reindex(only_outgrown=True) == ["facts"]
        assert _vector_indexes(postgres_url) == ["ix_facts_embedding"]
        assert await administer(memory).reindex(only_outgrown=True) == [], "it suits its table"
    name = run_sql(postgres_url, "SELECT current_database() AS name")[0]["name"]
    run_sql(postgres_url, f"ALTER DATABASE {name} SET enable_sort = off")  # so few rows are quickly sorted
    async with opened(postgres_url, background=False, config=_large(700)) as memory:
        asked = LaneRequest(
            tenant_id="one",
            kinds=("fact",),
            filter=Filter(),
            terms=(),
            now=memory._env.clock(),
            limit=10,
            vector=list(embedder.embed("tea number 5")),
            embedding_version=1,
        )
        assert "Index Scan using ix_facts_embedding on facts" in await plan_of(memory, asked)


async def test_a_changed_dimension_does_not_index_a_small_table(postgres_url: str) -> None:
    async with opened(postgres_url, background=False) as memory:
        await memory.store_facts(facts(5))
    other = WordEmbedder(16, "another")
    async with opened(postgres_url, background=False, embedder=other, may_reembed=True) as memory:
        await administer(memory).reembed()
        assert (await memory.search("tea number 1", mode="semantic"))[0].item.content == "tea number 1"
    assert _vector_indexes(postgres_url) == []
    async with opened(postgres_url, background=False, may_reembed=True, config=_large(2)) as memory:
        await administer(memory).reembed()
    assert _vector_indexes(postgres_url) == ["ix_facts_embedding"]


async def test_maintenance_enters_pending_words_into_the_index(postgres_url: str) -> None:
    pending = "SELECT gin_clean_pending_list('ix_facts_words') AS pages"
    async with opened(postgres_url, background=False) as memory:
        await memory.store_facts(facts(50))
        assert len(await memory.search("number", mode="keyword", limit=100)) == 50, "the list is searched too"
        assert run_sql(postgres_url, pending)[0]["pages"] > 0
        await memory.store_facts(facts(50, 50))
        await administer(memory).reindex(only_outgrown=True)
        assert run_sql(postgres_url, pending)[0]["pages"] == 0
        assert len(await memory.search("number", mode="keyword", limit=100)) == 100
        assert not problems(await administer(memory).verify())
