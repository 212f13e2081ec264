"""Search by similarity alone: thresholds, windows and contexts apply before the limit, and what they cost is told."""

import math
from datetime import timedelta

import pytest

from tulving import Caller, InvalidInput
from tulving.settings import ConflictsConfig, MemoryModuleConfig
from tulving.testing import CLOSE

SIZE = 64


@pytest.fixture
def config() -> MemoryModuleConfig:
    """The vectors here are alike on purpose."""
    return MemoryModuleConfig(conflicts=ConflictsConfig(enabled=False))


def at(similarity: float) -> list[float]:
    """A vector of this similarity to the query."""
    return [similarity, math.sqrt(1 - similarity**2)] + [0.0] * (SIZE - 2)


QUERY = at(1.0)


async def save(memory, similarities, **given):
    """Save a record for each similarity; its content is its name."""
    for content, similarity in similarities.items():
        await memory.save_semantic(content, embedding=at(similarity), **{"user_id": "ada", **given})


def contents(found):
    return [hit.item.content for hit in found]


@pytest.mark.scenario("000-006")
async def test_the_nearest_come_first_with_score_and_source(memory):
    await save(memory, {"alpha": 0.9, "gamma": -0.2, "beta": 0.5}, source="conversation", metadata={"turn": 7})
    found = await memory.search_similar(QUERY, limit=2)
    assert contents(found) == ["alpha", "beta"]
    assert [hit.score for hit in found] == pytest.approx([0.9, 0.5], abs=CLOSE)
    assert (found[0].item.source, found[0].item.metadata) == ("conversation", {"turn": 7})
    assert (found.matched_count, found.filtered_count, found.filtered) == (2, 0, {})
    assert contents(await memory.search_similar(QUERY)) == ["alpha", "beta", "gamma"]


@pytest.mark.scenario("000-006", "000-008")
async def test_a_context_is_searched_alone(memory):
    """As small as it is beside others: filters apply before the limit."""
    await save(memory, {f"noise {n}": 0.99 for n in range(40)}, user_id="crowd")
    await save(memory, {"alpha": 0.3}, persona_id="gardener")
    await save(memory, {"beta": 0.8}, persona_id="cook", household_id="home")
    await save(memory.bind(caller=Caller(tenant_id="other")), {"another tenant": 0.99}, persona_id="gardener")
    for asked, expected in (
        ({"persona_id": "gardener"}, ["alpha"]),
        ({"user_id": "ada"}, ["beta"]),
        ({"household_id": "home"}, ["beta"]),
        ({"user_id": "ada", "persona_id": "gardener", "household_id": "home"}, []),
    ):
        assert contents(await memory.search_similar(QUERY, limit=1, **asked)) == expected
        assert contents(await memory.bind(**asked).search_similar(QUERY, limit=1)) == expected
    assert len(await memory.search_similar(QUERY, user_id="ada", limit=1000)) == 2


@pytest.mark.scenario("000-007")
async def test_a_threshold_drops_and_counts_what_is_less_similar(memory):
    await save(memory, {"alpha": 0.9, "edge": 0.6, "beta": 0.59, "gamma": -0.5})
    found = await memory.search_similar(QUERY, min_similarity=0.6)
    assert contents(found) == ["alpha", "edge"], "what is exactly as similar counts"
    assert (found.matched_count, found.filtered_count, found.filtered) == (2, 2, {"below_similarity": 2})
    nothing = await memory.search_similar(QUERY, min_similarity=0.95, limit=3)
    assert (contents(nothing), nothing.matched_count, nothing.filtered) == ([], 0, {"below_similarity": 3})
    everything = await memory.search_similar(QUERY, min_similarity=-1)
    assert (everything.matched_count, everything.filtered) == (4, {"below_similarity": 0})
    nobody = await memory.search_similar(QUERY, min_similarity=0.1, user_id="nobody")
    assert (nobody.matched_count, nobody.filtered_count) == (0, 0), "there is nothing to find"


@pytest.mark.scenario("000-007")
async def test_a_window_drops_and_counts_what_is_outside(memory, clock):
    day = timedelta(days=1)
    for content, similarity, age in (("old", 0.9, 7), ("edge", 0.8, 1), ("new", 0.7, 0), ("far", 0.1, 9)):
        await save(memory, {content: similarity}, occurred_at=clock.now - age * day)
    recent = await memory.search_similar(QUERY, since=clock.now - day)
    assert contents(recent) == ["edge", "new"]
    assert (recent.matched_count, recent.filtered) == (2, {"outside_window": 2})
    both = await memory.search_similar(QUERY, since=clock.now - day, min_similarity=0.75)
    assert (contents(both), both.filtered_count) == (["edge"], 2)
    assert both.filtered == {"below_similarity": 1, "outside_window": 1}
    earlier = await memory.search_similar(QUERY, until=clock.now - day, limit=1)
    assert (contents(earlier), earlier.filtered) == (["old"], {"outside_window": 0}), "nothing nearer is outside"
    oldest = await memory.search_similar(QUERY, until=clock.now - 6 * day)
    assert (contents(oldest), oldest.filtered) == (["old", "far"], {"outside_window": 2})
    newest = await memory.search_similar(QUERY, since=clock.now, limit=2)
    assert (contents(newest), newest.filtered) == (["new"], {"outside_window": 2}), "both would have come first"
    with pytest.raises(InvalidInput, match="until"):
        await memory.search_similar(QUERY, since=clock.now, until=clock.now)


async def test_other_filters_apply_before_the_limit(memory):
    await save(memory, {"alpha": 0.9}, category="goal", project="yard", tags=["x"])
    await save(memory, {f"noise {n}": 0.99 for n in range(10)})
    await memory.record_event("beta", "task", user_id="ada")
    for asked in ({"type": "goal"}, {"project": "yard"}, {"tags": ["x"]}):
        assert contents(await memory.search_similar(QUERY, limit=1, **asked)) == ["alpha"]
    assert contents(await memory.search_similar(QUERY, types=["episode"])) == ["beta"]


async def test_words_are_searched_by_their_vector(memory, embedder):
    await memory.save_semantic("green tea", user_id="ada")
    await memory.record_event("black coffee", "task", user_id="ada")
    by_words = await memory.search_similar(query="black  coffee\n", min_similarity=0.5)
    assert by_words.hits == (await memory.search_similar(embedder.embed("black coffee"), min_similarity=0.5)).hits
    assert contents(by_words) == ["black coffee"]
    assert len(await memory.search_similar(query=" ")) == 0
    embedder.problem = "no weights yet"
    unready = await memory.search_similar(query="black coffee")
    assert (unready.hits, unready.warning) == ([], "no weights yet")
    for wrong, field in (
        ({}, "embedding"),
        ({"embedding": QUERY, "query": "tea"}, "embedding"),
        ({"query": 5}, "query"),
        *(({"embedding": QUERY, "min_similarity": least}, "min_similarity") for least in (1.01, -1.01, "0.5", True)),
    ):
        with pytest.raises(InvalidInput) as refusal:
            await memory.search_similar(**wrong)
        assert refusal.value.field == field
