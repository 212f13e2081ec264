"""The two lanes of a search: what each executes, and how they are joined."""

from uuid import UUID

import pytest
from raw_sql import run_sql

from tulving import MemoryModuleConfig, NewFact, RetrievalConfig
from tulving.domain.ranking import rrf_score
from tulving.domain.scope import Filter
from tulving.services.search import POOL
from tulving.storage.lanes import LaneRequest
from tulving.storage.tenant_words import prefixed

KINDS = ("episode", "fact", "rule")
LITERAL = pytest.mark.parametrize("config", [MemoryModuleConfig(retrieval=RetrievalConfig(fusion="rrf"))], ids=["rrf"])


async def in_both_lanes(memory, embedder):
    """A rule that is found by its words alone and one that is found by its meaning alone."""
    embedder.problem = "not ready"
    by_words = (await memory.store_rule("alpha beta gamma")).id
    embedder.problem = None
    vector = embedder.embed("alpha beta")
    embedder.embed_batch = lambda texts: [vector for _ in texts]
    by_meaning = (await memory.store_rule("omega psi")).id
    del embedder.embed_batch
    return by_words, by_meaning


@LITERAL
@pytest.mark.scenario("002-011", "001-030")
async def test_both_lanes_contribute_to_a_hybrid_search(memory, embedder):
    by_words, by_meaning = await in_both_lanes(memory, embedder)
    found = {hit.item.id: hit for hit in await memory.search("alpha beta", types=["rule"], limit=5)}
    assert (found[by_words].parts["semantic_rank"], found[by_words].parts["keyword_rank"]) == (6, 1)
    assert (found[by_meaning].parts["semantic_rank"], found[by_meaning].parts["keyword_rank"]) == (1, 6)
    for mode, only in (("keyword", by_words), ("semantic", by_meaning)):
        assert [hit.item.id for hit in await memory.search("alpha beta", types=["rule"], mode=mode)] == [only]


@pytest.mark.scenario("002-011")
async def test_both_lanes_see_one_snapshot(memory, embedder, clock, url):
    """What another process changes while a query runs is seen by neither lane, and by both of the next query."""
    by_words, by_meaning = await in_both_lanes(memory, embedder)
    request = LaneRequest(
        tenant_id="default",
        kinds=("rule",),
        filter=Filter(),
        now=clock.now,
        limit=5,
        terms=("alpha", "beta"),
        vector=embedder.embed("alpha beta"),
        embedding_version=1,
    )

    def seen(conn):
        lanes = conn.lanes(request)
        return [{UUID(str(id_)) for _, id_ in lane} for lane in (lanes.keyword, lanes.semantic)]

    def look(conn):
        before = seen(conn)
        run_sql(url, "UPDATE rules SET forgotten = TRUE")
        return before, seen(conn)

    before, after = await memory._env.store.read("default", look)
    assert before == after == [{by_words}, {by_meaning}]
    assert await memory._env.store.read("default", seen) == [set(), set()]


@LITERAL
@pytest.mark.scenario("001-030")
async def test_the_lanes_of_several_kinds_are_joined_before_they_are_fused(memory, embedder):
    """A lane that misses a candidate counts as the rank after the last of all kinds together."""
    embedder.problem = "not ready"
    await memory.store_facts([NewFact(subject="user", predicate=f"p{n}", content="alpha beta") for n in range(3)])
    await memory.store_episode("alpha and something else", butler="b")
    embedder.problem = None
    await memory.store_rule("alpha beta")
    limit = 5
    found = await memory.search("alpha beta", types=list(KINDS), limit=limit)
    pool = limit * len(KINDS)
    assert {hit.memory_type for hit in found} == set(KINDS)
    assert sorted(hit.parts["keyword_rank"] for hit in found) == [1, 2, 3, 4, 5], "one lane, whatever the kind"
    for hit in found:
        assert hit.parts["semantic_rank"] == (1 if hit.memory_type == "rule" else pool + 1)
        assert hit.parts["rrf_score"] == hit.score == rrf_score(hit.parts["semantic_rank"], hit.parts["keyword_rank"])
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    one = await memory.search("alpha beta", types=["fact"], limit=limit)
    assert {hit.parts["semantic_rank"] for hit in one} == {limit + 1}, "for one kind it is the formula to the letter"


@pytest.mark.scenario("001-030", "002-011")
async def test_the_ranks_of_both_lanes_are_told_whatever_the_order_comes_from(memory, embedder):
    """A lane that misses a candidate counts as the rank after the last that the pool has room for."""
    by_words, by_meaning = await in_both_lanes(memory, embedder)
    found = {hit.item.id: hit for hit in await memory.search("alpha beta", types=["rule"], limit=5)}
    beyond = POOL + 1
    assert (found[by_words].parts["semantic_rank"], found[by_words].parts["keyword_rank"]) == (beyond, 1)
    assert (found[by_meaning].parts["semantic_rank"], found[by_meaning].parts["keyword_rank"]) == (1, beyond)
    for hit in found.values():
        assert hit.parts["rrf_score"] == rrf_score(hit.parts["semantic_rank"], hit.parts["keyword_rank"])
        assert hit.score == hit.parts["relevance"]


POSTGRES_BY_HAND = """
SELECT id, (search_vector @@ plainto_tsquery('english', ?))::int AS complete, ts_rank(search_vector,
    replace(plainto_tsquery('english', ?)::text, '&', '|')::tsquery, 33) AS rank FROM facts"""
SQLITE_BY_HAND = """
SELECT m.id, m.num IN (SELECT rowid FROM facts_fts WHERE facts_fts MATCH ?) AS complete,
    -bm25(facts_fts) / (1 - bm25(facts_fts)) AS rank
FROM facts_fts JOIN facts AS m ON m.num = facts_fts.rowid WHERE facts_fts MATCH ?"""


@pytest.mark.scenario("001-029", "002-004")
async def test_the_rank_is_that_of_the_engines_own_text_search(memory, sql, engine):
    for number, content in enumerate(["green tea", "green green grass", "tea " * 9, "a cup of green tea and milk"]):
        await memory.store_fact("user", f"note_{number}", content)
    await memory.store_fact("user", "other", "coffee")
    found = await memory.search("green tea", mode="keyword")
    words = prefixed("default", ["green", "tea"])
    if engine == "postgres":
        rows = sql(POSTGRES_BY_HAND, words, words)
    else:
        first, second = words.split(" ")
        rows = sql(SQLITE_BY_HAND, f'"{first}" AND "{second}"', f'"{first}" OR "{second}"')
    by_hand = {row["id"]: row["complete"] + row["rank"] for row in rows if row["rank"]}
    assert {hit.item.id: pytest.approx(hit.parts["rank"]) for hit in found} == by_hand
    assert len(found) == 4
    assert [hit.parts["rank"] for hit in found] == sorted(by_hand.values(), reverse=True)


@pytest.mark.scenario("001-029")
async def test_a_query_in_free_form_is_never_syntax(memory):
    stored = await memory.store_fact("user", "likes", "green tea")
    for query in ("green & !tea", "tea:*", '"green" OR (', "tea' --", "NEAR(green tea)", "-tea", "green <-> tea \\"):
        assert [hit.item.id for hit in await memory.search(query, mode="keyword")] == [stored.id], query
    for nothing in ("", "  ", "&|!()", "\x00"):
        assert len(await memory.search(nothing, mode="keyword")) == 0
