"""Words that many memories have: above a bound, not every match is scored (ADR 0042)."""

import random
from itertools import combinations

import pytest

from tulving import Caller, NewEpisode, NewFact
from tulving.storage.sqlite import lanes, store

BOUND = 60
LIMIT = 5
WORDS = "anna garden river letter violin bridge".split()


def text(number, chance):
    """Words of which the first are the most common, and one that no other text has."""
    common = [word for at, word in enumerate(WORDS) if chance.random() < 0.7 / (at + 1)]
    return " ".join((*common, f"unique{number}", *(f"filler{n}" for n in range(chance.randint(0, 9)))))


@pytest.fixture
async def many(memory, path, clock):
    """More memories than the bound. The later ones come first among equals, though the index does not know it."""
    chance = random.Random(3)
    for number in range(5 * BOUND):
        clock.advance(days=chance.choice([0, 1]))
        await memory.store_episode(text(number, chance), "agent")
    return memory


async def found(memory, query, **more):
    hits = await memory.search(query, mode="keyword", types=["episode"], limit=LIMIT, **more)
    return [(hit.item.content, hit.parts["rank"]) for hit in hits]


QUERIES = ["unique7", "bridge", "anna", "anna garden", "anna unique9", "anna river bridge", " ".join(WORDS)]


async def test_below_the_bound_every_match_is_scored(many, monkeypatch):
    expected = {query: await found(many, query) for query in QUERIES}
    monkeypatch.setattr(lanes, "SCORED", 4 * BOUND)  # fewer than there are rows, more than have any of the words
    monkeypatch.setattr(lanes._KindSearch, "_worthy", lambda *_: "")
    assert {query: await found(many, query) for query in QUERIES} == expected


async def test_above_the_bound_the_best_are_the_same(many, monkeypatch):
    """Those with a rare word, or with two of the common ones, are all scored, by all their words."""
    expected = {query: await found(many, query) for query in QUERIES}
    monkeypatch.setattr(lanes, "SCORED", BOUND)
    for query in QUERIES:
        bounded = await found(many, query)
        assert bounded == await found(many, query), f"{query}: always the same"
        if query not in ("anna", "anna garden"):
            assert [rank for _, rank in bounded] == [rank for _, rank in expected[query]], query


async def test_of_those_with_a_common_word_only_the_newest_are_scored(many, monkeypatch):
    monkeypatch.setattr(lanes, "SCORED", BOUND)
    newest = [item.content for item in (await many.list_memories("episode", limit=200)).items]
    having = [content for content in newest if "anna" in content.split()][:BOUND]
    assert {content for content, _ in await found(many, "anna")} <= set(having)
    assert len(await found(many, "anna")) == LIMIT


async def test_a_filter_does_not_make_matches_disappear(many, monkeypatch, clock):
    """The newest with a common word are of another project; those of this one are found all the same."""
    await many.bind(project="roof").store_episodes([NewEpisode(content=f"anna tile {n}", butler="b") for n in range(3)])
    await many.store_episodes([NewEpisode(content=f"anna door {n}", butler="agent") for n in range(2 * BOUND)])
    monkeypatch.setattr(lanes, "SCORED", BOUND)
    assert len(await found(many, "anna", project="roof")) == 3
    assert len(await found(many, "anna unique3", project="roof")) == 3


async def test_another_tenant_changes_nothing(many, monkeypatch):
    """Neither its words nor how many it has count, except for the constant that BM25 weighs all words with."""
    monkeypatch.setattr(lanes, "SCORED", BOUND)
    before = [[content for content, _ in await found(many, query)] for query in QUERIES]
    chance = random.Random(4)
    other = many.bind(caller=Caller("other"))
    await other.store_episodes([NewEpisode(content=text(n, chance), butler="b") for n in range(4 * BOUND)])
    assert [[content for content, _ in await found(many, query)] for query in QUERIES] == before


async def test_few_memories_are_not_counted_by_their_words(memory, path, monkeypatch):
    """What finds out which words are common costs small tenants nothing."""
    monkeypatch.setattr(lanes._KindSearch, "_counts", None)
    for pair in combinations(WORDS, 2):
        await memory.store_rule(" ".join(pair))
    assert len(await memory.search("anna garden")) == len(await memory.search("anna garden", mode="keyword")) > 0


async def test_kinds_without_memories_are_not_searched(memory, path, monkeypatch):
    searched: list[str] = []
    keyword = lanes._KindSearch.keyword
    monkeypatch.setattr(
        lanes._KindSearch, "keyword", lambda self, many: searched.append(self._kind) or keyword(self, many)
    )
    await memory.store_rule("anna likes the garden")
    for mode in ("hybrid", "keyword"):
        assert len(await memory.search("anna garden", mode=mode)) == 1
    assert searched == ["rule", "rule"]


async def test_maintenance_merges_many_segments_step_by_step(memory, path, monkeypatch, sql):
    """A search looks up each word in each segment. Nobody waits for more than one step."""
    monkeypatch.setattr(store, "MERGED_AT_A_TIME", 4)
    monkeypatch.setattr(store, "MOST_SEGMENTS", 1)
    chance = random.Random(5)
    offers = [NewEpisode(content=text(number, chance), butler="agent") for number in range(600)]
    for size in (500, 80, 13, 4, 2, 1):
        taken, offers = offers[:size], offers[size:]
        await memory.store_episodes(taken)
    count = "SELECT COUNT(DISTINCT segid) AS segments FROM episodes_fts_idx"
    before = await found(memory, "anna unique7")
    [row] = sql(count)
    assert row["segments"] > store.MOST_SEGMENTS
    seen: list[str] = []
    memory._env.store._writer.raw.set_trace_callback(seen.append)
    await memory._env.store.reindex(only_outgrown=True)
    assert sum("'merge'" in statement for statement in seen) > 1
    assert sum(statement == "COMMIT" for statement in seen) > sum("'merge'" in statement for statement in seen)
    assert sql(count) == [{"segments": 1}]
    assert await found(memory, "anna unique7") == before
    seen.clear()
    await memory._env.store.reindex(only_outgrown=True)
    assert not any("'merge'" in statement for statement in seen), "it is left alone now"


async def test_a_recall_reads_what_it_returns(memory, path, monkeypatch):
    read = []
    memories = "tulving.storage.sqlite.connection.read_memories"
    monkeypatch.setattr(
        memories, lambda conn, tenant, keys: read.append(len(keys)) or lanes.read_memories(conn, tenant, keys)
    )
    await memory.store_facts([NewFact(subject="anna", predicate=f"p{n}", content=f"garden {n}") for n in range(40)])
    assert len(await memory.recall("garden", limit=3)) == 3
    assert read == [3]
