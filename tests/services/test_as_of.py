"""Search, recall and context as of a past day."""

from datetime import UTC, datetime, timedelta

import pytest

from tulving import InvalidInput
from tulving.testing import ManualClock


def year(number):
    return datetime(number, 1, 1, tzinfo=UTC)


@pytest.fixture
def clock():
    return ManualClock(year(2026))


async def contents(memory, query, as_of, **more):
    """What each verb shows; they agree."""
    found = {hit.item.content for hit in await memory.search(query, as_of=as_of, **more)}
    assert {hit.item.content for hit in await memory.recall(query, as_of=as_of, **more)} == found
    block = await memory.context(query, butler="b", as_of=as_of)
    assert all(content in block for content in found), (found, block)
    return found


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "keyword"])
async def test_a_superseded_fact_is_found_in_its_time(memory, mode):
    for content, since in (("Rome", 2018), ("Oslo", 2022)):
        await memory.store_fact("Anna", "lives in", content, occurred_at=year(since))

    async def found(moment):
        hits = await memory.search("where does Anna lives in", as_of=moment, mode=mode)
        return [(hit.item.content, hit.item.state, hit.item.ended_at) for hit in hits]

    assert await found(None) == await found(year(2023)) == [("Oslo", "active", None)]
    assert await found(year(2019)) == [("Rome", "active", None)], "as it was then"
    assert await found(year(2022) - timedelta(microseconds=1)) == [("Rome", "active", None)]
    assert await found(year(2022)) == [("Oslo", "active", None)]
    assert await found(year(2017)) == []


async def test_every_verb_answers_as_of_a_day(memory):
    for content, since in (("Rome", 2018), ("Oslo", 2022)):
        await memory.store_fact("Anna", "lives in", content, occurred_at=year(since))
        await memory.store_episode(f"Anna moved to {content}", butler="b", occurred_at=year(since), type="note")
    assert await contents(memory, "Anna moved lives", year(2017)) == set()
    assert await contents(memory, "Anna moved lives", year(2019)) == {"Rome", "Anna moved to Rome"}
    now = await contents(memory, "Anna moved lives", None, types=["fact"])
    assert now == {"Oslo"}
    block = await memory.context("Anna moved lives", butler="b", as_of=year(2019))
    assert "Oslo" not in block


async def test_a_memory_reads_as_it_did_before_its_edit(memory, clock):
    stored = {
        "fact": (await memory.store_fact("Anna", "likes", "green tea")).id,
        "rule": (await memory.store_rule("serve green tea")).id,
        "episode": (await memory.store_episode("green tea was served", butler="b", type="note")).id,
    }
    before = clock.now
    clock.advance(days=1)
    for kind, id_ in stored.items():
        await memory.edit(kind, id_, content=f"green coffee for {kind}")
    clock.advance(days=1)
    assert await contents(memory, "green", before) == {"green tea", "serve green tea", "green tea was served"}
    assert await contents(memory, "green", None) == {f"green coffee for {kind}" for kind in stored}


async def test_the_closest_of_the_past_reads_as_it_did_too(memory, clock):
    fact = (await memory.store_fact("Anna", "likes", "green tea")).id
    before = clock.now
    clock.advance(days=1)
    await memory.edit("fact", fact, content="green coffee")
    found = await memory.search("green wall", as_of=before, min_relevance=1)
    assert found.hits == [] and found.closest.item.content == "green tea"


@pytest.mark.parametrize("how", ["forget", "delete"])
async def test_what_was_forgotten_is_shown_as_of_no_day(memory, clock, how):
    stored = {
        "fact": (await memory.store_fact("Anna", "likes", "green tea")).id,
        "rule": (await memory.store_rule("serve green tea")).id,
        "episode": (await memory.store_episode("green tea was served", butler="b", type="note")).id,
    }
    before = clock.now
    clock.advance(days=1)
    assert len(await contents(memory, "green tea", before)) == 3
    for kind, id_ in stored.items():
        await getattr(memory, how)(kind, id_)
    for moment in (before, clock.now, clock.now + timedelta(days=9)):
        assert await contents(memory, "green tea", moment) == set()
        assert (await memory.search("green tea", as_of=moment, min_relevance=1)).closest is None


async def test_filters_and_the_future(memory, clock):
    await memory.store_fact("Anna", "likes", "green tea", occurred_at=year(2018), tags=["x"], project="atlas")
    await memory.store_fact("Bob", "likes", "green tea", occurred_at=year(2019))
    day = year(2020)
    assert len(await memory.search("green tea", as_of=day)) == 2
    assert len(await memory.search("green tea", as_of=day, tags=["x"])) == 1
    assert len(await memory.search("green tea", as_of=day, project="atlas")) == 1
    assert len(await memory.search("green tea", as_of=day, since=year(2019))) == 1
    assert len(await memory.search("green tea", as_of=day, until=year(2019))) == 1
    assert len(await memory.bind(user_id="ann").search("green tea", as_of=day)) == 0
    assert len(await memory.search("green tea", as_of=year(9999))) == 2
    assert len(await memory.search("green tea", as_of=year(1))) == 0


async def test_what_is_newer_is_so_only_if_it_was_known_then(memory):
    for content, since in (("green tea", 2018), ("black coffee", 2022)):
        said = f"my favourite drink is {content}"
        await memory.store_episode(said, butler="b", source="Anna", occurred_at=year(since), type="note")
    query = "what is the favourite drink of Anna"
    assert [hit.newer is None for hit in await memory.search(query)].count(False) == 1
    (hit,) = await memory.search(query, as_of=year(2020))
    assert (hit.item.content, hit.newer) == ("my favourite drink is green tea", None)
    assert "green tea" in await memory.context(query, butler="b", as_of=year(2020))


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("bad", ["2020-01-01", 5, datetime(2020, 1, 1)])
@pytest.mark.parametrize("verb", ["search", "recall", "context"])
async def test_a_bad_day_is_refused_by_name(memory, verb, bad):
    if isinstance(bad, datetime):
        bad = bad.date()
    with pytest.raises(InvalidInput) as refused:
        await getattr(memory, verb)("tea", as_of=bad, **({"butler": "b"} if verb == "context" else {}))
    assert refused.value.field == "as_of"
