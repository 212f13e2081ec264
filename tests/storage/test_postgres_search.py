"""Candidates on PostgreSQL: as many as asked for while there are any, the nearest first, from one statement."""

import asyncio
import math
import random
from array import array
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg
import pytest
from administration import administer
from fault_parts import opened, problems
from postgres_server import Server
from query_plans import plan_of
from raw_sql import in_thread, run_sql

from tulving.bootstrap import open_memory
from tulving.domain.model import KINDS, Kind
from tulving.domain.scope import Filter
from tulving.domain.text import content_hash
from tulving.services.memory import Memory
from tulving.services.search import POOL
from tulving.settings import MemoryModuleConfig, PostgresConfig
from tulving.storage import embeddings
from tulving.storage.kinds import KIND, MEMORY_TABLES
from tulving.storage.lanes import LaneRequest
from tulving.storage.postgres import indexes
from tulving.storage.tenant_words import prefixed
from tulving.testing import CLOSE, ManualClock, WordEmbedder

pytestmark = pytest.mark.xdist_group("crowded")  # so that one process of the tests fills the crowded database

SIZE = 16
NOW = datetime(2026, 1, 1, tzinfo=UTC)
COUNTS: dict[str, dict[Kind, int]] = {
    "large": {"fact": 6000, "episode": 400, "rule": 60},
    "small": {"fact": 50, "episode": 50, "rule": 20},
}
FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "scope": {"scope": "kitchen"},
    "type": {"type": "decision"},
    "project": {"project": "p3"},
    "tags": {"tags": ["seven", "rare"]},
    "since": {"since": NOW - timedelta(days=20)},
    "until": {"until": NOW - timedelta(days=90)},
    "window": {"since": NOW - timedelta(days=40), "until": NOW - timedelta(days=30)},
    "all of them": {"scope": "kitchen", "project": "p3", "since": NOW - timedelta(days=50)},
    "nobody": {"project": "none at all"},
}


class NoEmbedder(WordEmbedder):
    """Knows the vectors of no text: the tests bring their own."""

    def __init__(self) -> None:
        super().__init__(SIZE, "given")


@dataclass(frozen=True)
class Kept:
    """A memory as the test knows it."""

    kind: Kind
    id: UUID
    tenant: str
    number: int
    vector: array
    created_at: datetime

    @property
    def scope(self) -> str:
        return "kitchen" if self.number % 10 == 4 else "global" if self.number % 3 else "hall"

    @property
    def owner(self) -> str | None:
        return "ann" if self.number % 8 == 4 else None

    @property
    def columns(self) -> dict[str, Any]:
        own: dict[Kind, dict[str, Any]] = {
            "fact": {"subject": f"s{self.number}", "predicate": "p", "scope": self.scope, "decay_rate": 0.0},
            "episode": {"butler": self.scope, "expires_at": None},
            "rule": {"scope": self.scope, "decay_rate": 0.0},
        }
        words = ["common", f"word{self.number}", "even" if self.number % 2 == 0 else "odd"]
        return own[self.kind] | {
            "tenant_id": self.tenant,
            "id": self.id,
            "content": f"content {self.number}",
            "content_hash": content_hash(f"content {self.number}"),
            "search_text": prefixed(self.tenant, words),
            "project": f"p{self.number % 25}",
            "type": "decision" if self.number % 12 == 5 else None,
            "tags": '["seven", "rare"]' if self.number % 49 == 7 else '["seven"]' if self.number % 7 == 0 else "[]",
            "user_id": self.owner,
            "created_at": self.created_at,
            "updated_at": self.created_at,
            "embedding_version": 1,
            "embedding": self.vector,
        }

    def passes(self, wanted: dict[str, Any]) -> bool:
        """The same filter, by hand."""
        if "scope" in wanted and self.scope not in ({"kitchen"} if self.kind == "episode" else {"kitchen", "global"}):
            return False
        if "type" in wanted and self.number % 12 != 5:
            return False
        if "project" in wanted and f"p{self.number % 25}" != wanted["project"]:
            return False
        if "tags" in wanted and self.number % 49 != 7:
            return False
        since, until = wanted.get("since", NOW - timedelta(days=9999)), wanted.get("until", NOW)
        return since <= self.created_at < until


def similarity(one: Any, other: Any) -> float:
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))


def make_rows() -> list[Kept]:
    """Clusters of vectors; each tenant's in other places, so that a scan of the nearest meets the other's rows."""
    chance = random.Random(7)
    centres = [[chance.gauss(0, 1) for _ in range(SIZE)] for _ in range(40)]
    rows: list[Kept] = []
    for tenant, counts in COUNTS.items():
        for kind, count in counts.items():
            for number in range(count):
                centre = chance.choice(centres if tenant == "large" else centres[:3])
                vector = array("f", (part + chance.gauss(0, 0.4) for part in centre))
                created = NOW - timedelta(minutes=1 + number * 170_000 // count)
                rows.append(Kept(kind, UUID(int=len(rows) + 1), tenant, number, vector, created))
    return rows


ROWS = make_rows()
BY_ID = {kept.id: kept for kept in ROWS}
QUERIES = [array("f", (random.Random(n).gauss(0, 1) for _ in range(SIZE))) for n in range(4)]
QUERIES += [array("f", (part + 0.01 for part in kept.vector)) for kept in ROWS[10:6000:1200]]
"""Some in the middle of nowhere, some near the large tenant's."""


def nearest(query: array, tenant: str, kinds: Any = ("fact",), wanted: dict[str, Any] | None = None) -> list[Kept]:
    """All that match, best first, by comparing each."""
    rows = [kept for kept in ROWS if kept.tenant == tenant and kept.kind in kinds and kept.passes(wanted or {})]
    return sorted(rows, key=lambda kept: -similarity(query, kept.vector))


def as_near(query: array, found: list[UUID], expected: list[Kept]) -> bool:
    """Whether each is as similar as the one expected in its place; those that are equally near may change places."""
    similarities = [similarity(query, BY_ID[id_].vector) for id_ in found]
    wanted = [similarity(query, kept.vector) for kept in expected]
    return len(set(found)) == len(found) and similarities == pytest.approx(wanted, abs=CLOSE)


async def fill(url: str, rows: list[Kept]) -> None:
    raw = await asyncpg.connect(url)
    for kind in KINDS:
        records = [kept.columns for kept in rows if kept.kind == kind]
        names = list(records[0])
        types = {"embedding": "::real[]::vector", "tags": "::text::jsonb"}
        values = ", ".join(f"${place}{types.get(name, '')}" for place, name in enumerate(names, 1))
        await raw.executemany(
            f"INSERT INTO {KIND[kind].table} ({', '.join(names)}) VALUES ({values})",
            [list(record.values()) for record in records],
        )
        await raw.execute(
            "INSERT INTO memory_events (tenant_id, event_type, entity_type, entity_id)"
            f" SELECT tenant_id, '{kind}_created', '{kind}', id FROM {KIND[kind].table}"
        )
    await raw.close()


@asynccontextmanager
async def large(url: Any, exact_rows: int = 10) -> AsyncIterator[Memory]:
    """A memory that takes any tenant of more rows than this for a large one."""
    config = MemoryModuleConfig(postgres=PostgresConfig(exact_rows=exact_rows))
    opening = open_memory(
        url, config=config, embedder=NoEmbedder(), clock=ManualClock(NOW), tenant="large", background=False
    )
    async with opening as memory:
        yield memory


@pytest.fixture(scope="module")
def crowded(postgres: Server, postgres_template: str) -> Iterator[str]:
    """A small tenant beside a large one, with an index that was made on the empty table, as older versions did. To be
    copied."""

    async def make() -> str:
        url = await postgres.create_database(template=postgres_template)
        async with large(url):
            pass
        raw = await asyncpg.connect(url)
        for table in MEMORY_TABLES:
            await raw.execute(indexes.building(table, "ivfflat", 0, SIZE)[1])
        await raw.close()
        await fill(url, ROWS)
        return url

    url = in_thread(make())
    yield url
    in_thread(postgres.drop_database(url))


@pytest.fixture(scope="module")
def indexed(postgres: Server, crowded: str) -> Iterator[Callable[[str], str]]:
    """The crowded database with the indexes that a test wants; one of each for all tests. Not changed by them."""
    made: dict[str, str] = {}

    async def make(how: str) -> str:
        url = await postgres.create_database(template=crowded)
        async with large(url) as memory:
            if how in indexes.METHODS:
                assert await administer(memory).reindex(how) == list(MEMORY_TABLES)
        if how == "analyzed":
            raw = await asyncpg.connect(url)
            await raw.execute("ANALYZE")
            await raw.close()
        return url

    def get(how: str) -> str:
        return made.setdefault(how, made[how] if how in made else in_thread(make(how)))

    yield get
    for url in made.values():
        in_thread(postgres.drop_database(url))


def of_tenant(memory: Memory, tenant: str) -> Memory:
    return memory.bind(caller=type(memory.caller)(tenant))


def request(query: array, tenant: str = "large", limit: int = 10, **wanted: Any) -> LaneRequest:
    given = {name: tuple(value) if name == "tags" else value for name, value in wanted.items()}
    return LaneRequest(
        tenant_id=tenant,
        kinds=("fact",),
        filter=Filter(**given),
        now=NOW,
        limit=limit,
        vector=query.tolist(),
        embedding_version=1,
    )


async def candidates(memory: Memory, asked: LaneRequest, statements: list[str] | None = None) -> list[UUID]:
    """The ids of the semantic lane, best first; with what was asked of the server."""

    def ask(conn: Any) -> list[UUID]:
        records = conn.records

        def noted(sql: str, params: Any = None) -> Any:
            if statements is not None:
                statements.append(sql)
            return records(sql, params)

        conn.records = noted
        return [id_ for _, id_ in conn.lanes(asked).semantic]

    return await memory._env.store.read(asked.tenant_id, ask)


# -- never fewer than asked for --------------------------------------------------------------------------------

HOW = {
    "exact": ("as it was made", 100_000),
    "on the empty table": ("as it was made", 10),
    "on the empty table, analyzed": ("analyzed", 10),
    "ivfflat": ("ivfflat", 10),
    "hnsw": ("hnsw", 10),
}


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """The index is used for every tenant, also where it would not be worth while."""
    if how != "exact":
        monkeypatch.setattr(indexes, "suits", lambda method, *rows: method is not None)


@pytest.mark.parametrize("how", HOW)
async def test_a_small_tenant_beside_a_large_one_gets_all_it_asks_for(
    indexed: Callable[[str], str], forced: None, how: str
) -> None:
    """And so does the large one, whatever the filter, whatever the index."""
    which, exact_rows = HOW[how]
    asked = 0
    async with large(indexed(which), exact_rows) as memory:
        for name, wanted in FILTERS.items():
            for tenant in COUNTS:
                expected = {kept.id for kept in nearest(QUERIES[0], tenant, wanted=wanted)}
                for query, limit in ((QUERIES[0], 10), (QUERIES[4], 10), (QUERIES[4], 200), (QUERIES[1], 1000)):
                    found = await candidates(memory, request(query, tenant, limit, **wanted))
                    assert len(found) == min(limit, len(expected)), f"{name} of {tenant}, {limit}"
                    assert len(set(found)) == len(found) and expected.issuperset(found), f"{name} of {tenant}"
                    asked += bool(expected)
    assert asked > 60


@pytest.mark.parametrize("how", HOW)
async def test_the_verbs_get_all_they_ask_for(indexed: Callable[[str], str], forced: None, how: str) -> None:
    which, exact_rows = HOW[how]
    async with large(indexed(which), exact_rows) as memory:
        for tenant, counts in COUNTS.items():
            mine = of_tenant(memory, tenant)
            for types in (["fact"], ["rule", "episode"], list(KINDS)):
                every = sum(counts[kind] for kind in types)
                found = await mine.search_similar(QUERIES[4].tolist(), types=types, limit=150, min_confidence=0)
                assert len(found) == min(150, every)
                assert [hit.parts["similarity"] for hit in found] == sorted(
                    (hit.parts["similarity"] for hit in found), reverse=True
                )
                for mode in ("keyword", "semantic", "hybrid"):
                    found = await mine.search("common", types=types, mode=mode, limit=150, min_confidence=0)
                    assert len(found) == min(150, every), f"{mode} for {types} of {tenant}"
            ann = mine.bind(user_id="ann")
            theirs = sum(kept.owner == "ann" for kept in ROWS if kept.tenant == tenant and kept.kind == "fact")
            found = await ann.search_similar(QUERIES[4].tolist(), types=["fact"], limit=1000, min_confidence=0)
            assert len(found) == theirs and {hit.item.user_id for hit in found} == {"ann"}


@pytest.mark.parametrize("how", ["ivfflat"])
async def test_a_memory_that_waits_for_its_vector_is_not_near_to_anything(
    new_database: Callable[..., str], crowded: str, forced: None, how: str
) -> None:
    """Also where the filter is so narrow that the server compares rows instead of reading the index."""
    url = new_database(crowded)
    run_sql(url, "UPDATE facts SET embedding = NULL, embedding_version = NULL WHERE project = 'p3' AND subject < 's5'")
    run_sql(url, "ANALYZE facts")
    waiting = {row["id"] for row in run_sql(url, "SELECT id FROM facts WHERE embedding IS NULL")}
    assert 100 < len(waiting) < 200
    async with large(url) as memory:
        for wanted in ({"project": "p3"}, {}):
            for limit in (10, 200, 1000):
                found = await candidates(memory, request(QUERIES[0], limit=limit, **wanted))
                assert not waiting.intersection(found), f"{wanted}, {limit}"


# -- which path is taken ---------------------------------------------------------------------------------------


@pytest.mark.scenario("004-015")
@pytest.mark.parametrize("method", indexes.METHODS)
async def test_a_large_tenant_is_searched_by_the_index(
    indexed: Callable[[str], str], postgres: Server, method: str
) -> None:
    """One that has nearly the whole table."""
    async with large(indexed(method)) as memory:
        plan = await plan_of(memory, request(QUERIES[0]))
    assert "Index Scan using ix_facts_embedding on facts" in plan, plan
    definition = run_sql(indexed(method), "SELECT pg_get_indexdef('ix_facts_embedding'::regclass) AS text")
    assert f"USING {method} (embedding vector_cosine_ops)" in definition[0]["text"]


async def test_a_small_tenant_is_compared_row_by_row(indexed: Callable[[str], str]) -> None:
    async with large(indexed("ivfflat"), exact_rows=100) as memory:
        plan = await plan_of(memory, request(QUERIES[0], "small"))
        assert "ix_facts_embedding" not in plan, plan
        assert "ix_facts_embedding" in await plan_of(memory, request(QUERIES[0], "large"))
    async with large(indexed("ivfflat"), exact_rows=10_000) as memory:
        assert "ix_facts_embedding" not in await plan_of(memory, request(QUERIES[0], "large"))


async def test_a_search_does_not_read_the_rows_of_other_tenants(indexed: Callable[[str], str]) -> None:
    """Of two tenants, a plan that takes them for equally large would read the whole table."""

    def look(conn: Any) -> int:
        conn.lanes(replace(request(QUERIES[0], "small"), terms=("tea", "box")))
        return conn.fetch_one("SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = 'facts'")["seq_scan"]

    async with large(indexed("ivfflat"), exact_rows=100) as memory:
        assert await memory._env.store.read("small", look) == 0


async def test_by_ivfflat_a_tenant_of_a_small_part_is_compared_row_by_row(indexed: Callable[[str], str]) -> None:
    """It has more rows than are compared otherwise, but the index would pass over a hundred times as many."""
    async with large(indexed("ivfflat"), exact_rows=10) as memory:
        assert "ix_facts_embedding" not in await plan_of(memory, request(QUERIES[0], "small"))
    async with large(indexed("hnsw"), exact_rows=10) as memory:
        statements: list[str] = []
        await candidates(memory, request(QUERIES[0], "small"), statements)
        assert any("ORDER BY m.embedding <=>" in sql for sql in statements)


async def test_what_was_set_for_a_search_ends_with_it(indexed: Callable[[str], str]) -> None:
    settings = "SELECT current_setting('ivfflat.probes') AS probes, current_setting('hnsw.ef_search') AS ef"
    async with asyncpg.create_pool(indexed("ivfflat"), min_size=1, max_size=1) as pool, large(pool) as memory:
        await pool.execute("LOAD 'vector'")
        before = await pool.fetchrow(settings)
        inside: list[Any] = []

        def look(conn: Any) -> None:
            conn.lanes(request(QUERIES[0]))
            inside.extend(conn.records(settings))

        await memory._env.store.read("large", look)
        assert int(inside[0]["probes"]) >= 20 and int(inside[0]["ef"]) >= 100
        assert await pool.fetchrow(settings) == before


# -- the right ones --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tenant", COUNTS)
async def test_the_exact_path_gives_what_comparing_each_row_gives(indexed: Callable[[str], str], tenant: str) -> None:
    async with large(indexed("as it was made"), exact_rows=100_000) as memory:
        mine = of_tenant(memory, tenant)
        for wanted in FILTERS.values():
            for query in QUERIES[::3]:
                expected = nearest(query, tenant, wanted=wanted)[:20]
                found = await candidates(memory, request(query, tenant, 20, **wanted))
                assert as_near(query, found, expected)
        for types in (["fact", "rule"], list(KINDS)):
            expected = nearest(QUERIES[5], tenant, types)[:30]
            hits = await mine.search_similar(QUERIES[5].tolist(), types=types, limit=30, min_confidence=0)
            assert as_near(QUERIES[5], [hit.item.id for hit in hits], expected)
            for hit in hits:
                kept = BY_ID[hit.item.id]
                assert hit.memory_type == kept.kind
                assert hit.parts["similarity"] == pytest.approx(similarity(QUERIES[5], kept.vector), abs=CLOSE)


@pytest.mark.parametrize("method", indexes.METHODS)
async def test_an_index_gives_nearly_what_comparing_each_row_gives(indexed: Callable[[str], str], method: str) -> None:
    right = 0
    async with large(indexed(method)) as memory:
        for query in QUERIES:
            found = await candidates(memory, request(query))
            expected = {kept.id for kept in nearest(query, "large")[:10]}
            right += len(expected.intersection(found))
            scores = [similarity(query, BY_ID[id_].vector) for id_ in found]
            assert scores == pytest.approx(sorted(scores, reverse=True), abs=CLOSE), "best first"
    assert right / (10 * len(QUERIES)) >= 0.9


async def test_the_any_word_match_fills_up_behind_the_all_word_matches(indexed: Callable[[str], str]) -> None:
    async with large(indexed("as it was made")) as memory:
        small = of_tenant(memory, "small")
        found = await small.search("common word7 odd", types=["fact"], mode="keyword", limit=50, min_confidence=0)
        assert len(found) == 50, "every one has a word of these"
        assert found[0].item.content == "content 7", "one has them all"
        assert all(hit.item.subject[1:] in {str(n) for n in range(1, 50, 2)} for hit in found[1:25]), "then two"


EQUAL = [1.0] + [0.0] * (SIZE - 1)


class GivenVectors(NoEmbedder):
    """The vector of a text that says which one it wants."""

    def embed(self, text: str | None) -> list[float]:
        return [0.0] * SIZE if text and "nothing" in text else EQUAL


@pytest.mark.parametrize("exact_rows", [0, 10_000], ids=["by index", "exact"])
async def test_of_equals_the_newer_come_first_then_the_lower_ids(
    new_database: Callable[..., str], postgres_template: str, exact_rows: int
) -> None:
    config = MemoryModuleConfig(postgres=PostgresConfig(exact_rows=exact_rows))
    ids = map(lambda number: UUID(int=number), random.Random(3).sample(range(1, 1 << 40), 200))
    clock = ManualClock()
    opening = opened(
        new_database(postgres_template), config=config, embedder=GivenVectors(), clock=clock, ids=lambda: next(ids)
    )
    async with opening as memory:
        stored, newest_first = [], []
        for number in range(60):
            clock.advance(minutes=(0, 1, -10)[number % 3])
            stored.append((await memory.store_rule(f"rule {number}")).id)
            newest_first.append(-clock.now.timestamp())
        expected = [id_ for _, id_ in sorted(zip(newest_first, stored, strict=True))]
        for limit in (60, 100):
            found = await memory.search_similar(EQUAL, types=["rule"], limit=limit, min_confidence=0)
            assert [hit.item.id for hit in found] == expected
        if exact_rows:
            found = await memory.search_similar(EQUAL, types=["rule"], limit=7, min_confidence=0)
            assert [hit.item.id for hit in found] == expected[:7]


@pytest.mark.parametrize("exact_rows", [0, 10_000], ids=["by index", "exact"])
async def test_a_vector_without_direction_is_near_to_nothing_and_not_lost(
    new_database: Callable[..., str], postgres_template: str, exact_rows: int
) -> None:
    config = MemoryModuleConfig(postgres=PostgresConfig(exact_rows=exact_rows))
    opening = opened(new_database(postgres_template), config=config, embedder=GivenVectors(), background=False)
    async with opening as memory:
        some = [(await memory.store_rule(f"rule {n}")).id for n in range(3)]
        none = [(await memory.store_rule(f"nothing {n}")).id for n in range(3)]
        await administer(memory).reindex()
        found = await memory.search_similar(EQUAL, types=["rule"], limit=10, min_confidence=0)
        assert [hit.parts["similarity"] for hit in found] == pytest.approx([1, 1, 1, 0, 0, 0], abs=CLOSE)
        assert {hit.item.id for hit in found[:3]} == set(some)
        assert {hit.item.id for hit in found[3:]} == set(none)
        assert len(await memory.search_similar([0.0] * SIZE, types=["rule"], min_confidence=0)) == 0
        found = await memory.search("nothing", types=["rule"], min_confidence=0)
        assert {hit.item.id for hit in found} == set(none), "by words they are found"
        assert not problems(await administer(memory).verify())


@pytest.mark.parametrize("method", indexes.METHODS)
async def test_what_an_index_leaves_out_is_found_by_comparing(
    new_database: Callable[..., str], indexed: Callable[[str], str], method: str
) -> None:
    """No index has vectors without direction. Here the server reads the index whatever it costs."""
    url = new_database(indexed(method))
    database = run_sql(url, "SELECT current_database() AS name")[0]["name"]
    run_sql(
        url, "UPDATE facts SET embedding = array_fill(0, ARRAY[16])::vector WHERE project = 'p3' AND subject < 's5'"
    )
    for way in ("seqscan", "sort", "bitmapscan", "indexonlyscan"):
        run_sql(url, f"ALTER DATABASE {database} SET enable_{way} = off")
    async with large(url) as memory:
        expected = {kept.id for kept in nearest(QUERIES[0], "large", wanted=FILTERS["project"])}
        statements: list[str] = []
        found = await candidates(memory, request(QUERIES[0], limit=len(expected), project="p3"), statements)
        assert set(found) == expected
        asked = [sql for sql in statements if " UNION ALL " in sql]
        assert len(asked) == 2 and "ORDER BY m.embedding <=>" in asked[0] and "ORDER BY score DESC" in asked[1]


@pytest.mark.parametrize("method", [None, *indexes.METHODS])
async def test_a_rebuilt_index_knows_all_rows(
    new_database: Callable[..., str], crowded: str, method: str | None
) -> None:
    """Searches are answered while it is built, and no temporary index is left."""
    url = new_database(crowded)
    async with large(url) as memory:
        steps: list[tuple[str, int, int]] = []
        assert await administer(memory).reindex(method, progress=lambda *step: steps.append(step)) == list(
            MEMORY_TABLES
        )
        assert steps[-1] == ("rules", 80, 80)
        assert len(await candidates(memory, request(QUERIES[0], limit=100))) == 100
        assert not problems(await administer(memory).verify())
    names = {row["name"] for row in run_sql(url, "SELECT indexname AS name FROM pg_indexes WHERE tablename = 'facts'")}
    assert "ix_facts_embedding" in names and not [name for name in names if "next" in name]
    if method != "hnsw":
        lists = math.isqrt(sum(counts["fact"] for counts in COUNTS.values()))
        definition = run_sql(url, "SELECT pg_get_indexdef('ix_facts_embedding'::regclass) AS text")[0]["text"]
        assert f"lists='{lists}'" in definition


async def test_an_index_is_built_with_the_room_that_it_needs(
    new_database: Callable[..., str], crowded: str, postgres_template: str
) -> None:
    """However little the server gives by itself; and only for as long."""
    url, fewer = new_database(crowded), new_database(postgres_template)
    for each in (url, fewer):
        run_sql(each, f"ALTER DATABASE \"{urlsplit(each).path.lstrip('/')}\" SET maintenance_work_mem = '1MB'")
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, large(pool) as memory:
        assert await administer(memory).reindex("ivfflat") == list(MEMORY_TABLES)
        assert await pool.fetchval("SHOW maintenance_work_mem") == "1MB"
    async with large(fewer):
        await fill(fewer, ROWS[::6])
    async with open_memory(fewer, embedder=WordEmbedder(2000, "wide"), may_reembed=True, background=False) as memory:
        await administer(memory).reembed()
        assert not problems(await administer(memory).verify())


async def test_an_index_is_built_without_parallel_workers_where_they_are_not_safe(
    new_database: Callable[..., str], crowded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = await asyncpg.connect(new_database(crowded))
    setting = "SHOW max_parallel_maintenance_workers"
    before = await raw.fetchval(setting)
    assert before != "0"
    for safe, expected in (((0, 8, 0), before), ((0, 99), "0")):
        monkeypatch.setattr(indexes, "SAFE_PGVECTOR", safe)
        async with raw.transaction():
            await raw.execute("DROP INDEX ix_rules_embedding")
            for statement in indexes.building("rules", "hnsw", 80, SIZE):
                await raw.execute(statement)
            assert await raw.fetchval(setting) == expected
        assert await raw.fetchval(setting) == before
    await raw.close()


async def test_a_conversion_does_not_compare_each_memory_with_each_vector(
    new_database: Callable[..., str], crowded: str
) -> None:
    """The time that a batch takes must not grow with what was converted before."""
    url = new_database(crowded)
    embedder = WordEmbedder(SIZE, "another")
    async with opened(url, embedder=embedder, may_reembed=True, background=False) as memory:
        await administer(memory)._write(embeddings.begin_reembedding, embedder, NOW)
        for kind in ("episode", "fact"):
            run_sql(
                url,
                "INSERT INTO next_embeddings"
                " (tenant_id, memory_type, memory_id, embedding_version, search_text, embedding)"
                f" SELECT tenant_id, '{kind}', id, 2, search_text, embedding FROM {KIND[kind].table}"
                " ORDER BY id LIMIT 3000",
            )

        def explain(conn: Any) -> list[str]:
            asked: list[tuple[str, Any]] = []
            fetch = conn.fetch_all
            conn.fetch_all = lambda sql, params=None: asked.append((sql, params)) or fetch(sql, params)
            embeddings.unconverted(conn, 64)
            (of_facts,) = [(sql, params) for sql, params in asked if " facts AS m" in sql]
            return [row[0] for row in conn.records(f"EXPLAIN ANALYZE {of_facts[0]}", of_facts[1])]

        plan = await administer(memory)._read(explain)
    removed = [int(line.rpartition(":")[2]) for line in plan if "Rows Removed by" in line]
    assert sum(removed) < 20_000, "\n".join(plan)


# -- one statement ---------------------------------------------------------------------------------------------


@asynccontextmanager
async def watched(url: str, **parts: Any) -> AsyncIterator[tuple[Memory, list[str]]]:
    """A memory on one connection, and every statement that it sends."""
    sent: list[str] = []

    async def listen(connection: Any) -> None:
        connection.add_query_logger(lambda record: sent.append(" ".join(record.query.split())))

    pool = asyncpg.create_pool(url, min_size=1, max_size=1, init=listen, reset=listen_to_nothing)
    async with pool, large(pool, **parts) as memory:
        yield memory, sent


async def listen_to_nothing(connection: Any) -> None:
    """So that the pool itself sends nothing."""


@pytest.mark.scenario("001-029", "002-011")
@pytest.mark.parametrize("exact_rows", [POOL, 100_000], ids=["by index", "exact"])
async def test_a_hybrid_search_is_one_statement_for_the_candidates(
    indexed: Callable[[str], str], exact_rows: int
) -> None:
    async with watched(indexed("ivfflat"), exact_rows=exact_rows) as (memory, sent):
        await memory.search("common word7", limit=10)  # now it knows how large the tenant is
        sent.clear()
        found = await memory.search("common word7", types=list(KINDS), limit=10)
        assert len(found) == 10
        candidates, memories = [sql for sql in sent if " FROM facts" in sql]
        assert candidates.startswith("WITH ") and memories.startswith("SELECT 'episode', ROW(")
        assert "plainto_tsquery('english', $" in candidates and candidates.count("ts_rank(") == 3
        assert candidates.count(" UNION ALL ") == 6, "two lanes of three kinds, and the embedder"
        begun = max(at for at, sql in enumerate(sent) if sql.startswith("BEGIN"))
        assert sent[begun].startswith("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        looked_up = [sql for sql in sent[begun + 1 :] if "memory_events" not in sql]  # the known names are checked too
        assert looked_up[-3:] == [candidates, memories, "COMMIT"], sent
        assert len(looked_up) == (4 if exact_rows == POOL else 3), sent


async def test_a_fact_takes_few_statements(new_database: Callable[..., str], opened_template: str) -> None:
    """Begin, lock with the embedder, look, insert with the event, commit: a round trip each."""
    sent: list[str] = []

    async def listen(connection: Any) -> None:
        connection.add_query_logger(lambda record: sent.append(" ".join(record.query.split())))

    url = new_database(opened_template)
    pool = asyncpg.create_pool(url, min_size=1, max_size=1, init=listen, reset=listen_to_nothing)
    async with pool, opened(pool, background=False) as memory:
        await memory.store_fact("user", "likes", "coffee")  # now the driver knows our types
        sent.clear()
        await memory.store_fact("anna", "likes", "tea")
        statements = [sql for sql in sent if "pg_notify" not in sql]  # sent after the commit, for several at once
        assert len(statements) <= 5, sent
        assert statements[-1] == "COMMIT"
        sent.clear()
        await memory.store_episode("The train was late.", "assistant")
        assert len([sql for sql in sent if "pg_notify" not in sql]) <= 4, sent


async def test_two_who_recall_the_same_in_another_order_do_not_deadlock(
    new_database: Callable[..., str], postgres_template: str
) -> None:
    """While the first row is locked, no counting transaction holds the second."""
    url = new_database(postgres_template)
    async with opened(url, embedder=WordEmbedder(), background=False) as memory:
        await meet_in_another_order(memory, url)


async def meet_in_another_order(memory: Memory, url: str) -> None:
    fact = (await memory.store_fact("tea", "kind", "green", importance=1)).id
    rule = (await memory.store_rule("offer green tea kind")).id
    raw = await asyncpg.connect(url)
    await raw.execute("BEGIN")
    await raw.execute("SELECT 1 FROM facts WHERE id = $1 FOR UPDATE", fact)
    found = await memory.recall("offer green tea kind")
    assert [hit.item.id for hit in found] == [rule, fact], "the rule comes first, and is counted last"
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    while not await raw.fetchval(waiting):
        await asyncio.sleep(0.01)
    await raw.execute("SET LOCAL lock_timeout = '10s'")
    await raw.execute("SELECT 1 FROM rules WHERE id = $1 FOR UPDATE", rule)
    await raw.execute("COMMIT")
    await raw.close()
    await memory.settle()
    for kind, id_ in (("fact", fact), ("rule", rule)):
        assert (await memory.look(kind, id_)).reference_count == 1
