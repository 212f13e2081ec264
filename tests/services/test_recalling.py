"""Recall: what it covers, that it does not lift its own hits again, and that others' references count."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from tulving import Caller, InvalidInput, MemoryModuleConfig, NewEpisode, NewFact, RetrievalConfig, open_memory
from tulving.services import references

TOPICS = "garden river bread music winter letter bridge candle copper silver forest island market window".split()


def ids(found):
    return [hit.item.id for hit in found]


async def everyday(memory, clock):
    """Facts and episodes on a few topics, many of each."""
    await memory.store_facts(
        [NewFact(subject=f"s{n}", predicate="note", content=f"{TOPICS[n % 14]} detail{n}") for n in range(70)]
    )
    await memory.store_episodes(
        [
            NewEpisode(content=f"{TOPICS[n % 14]} event{n}", butler="b", occurred_at=clock.now - timedelta(hours=n))
            for n in range(70)
        ]
    )


async def test_recall_covers_all_kinds_unless_some_are_asked_for(memory):
    stored = {
        "episode": (await memory.store_episode("green tea was served", butler="b")).id,
        "fact": (await memory.store_fact("tea", "is", "green")).id,
        "rule": (await memory.store_rule("serve green tea")).id,
    }
    assert set(ids(await memory.recall("green tea"))) == set(stored.values())
    assert set(ids(await memory.recall("green tea", types=[]))) == set(stored.values())
    for kind, id_ in stored.items():
        assert ids(await memory.recall("green tea", types=[kind])) == [id_]


async def test_two_hundred_recalls_do_not_collapse_onto_a_few(memory, clock):
    await everyday(memory, clock)
    recalled, searched = Counter(), Counter()
    for n in range(200):
        query = f"{TOPICS[n % 14]} {('detail', 'event')[n % 2]}{n % 70}"
        clock.advance(minutes=1)
        recalled.update(ids(await memory.recall(query, limit=3)))
        searched.update(ids(await memory.search(query, limit=3)))
        await memory.settle()
    assert len(searched) > 90 and len(recalled) > 0.85 * len(searched)
    assert max(recalled.values()) <= 2 * max(searched.values()), "and nothing comes back in every answer"


async def test_a_repeated_recall_has_the_same_order(memory, clock):
    await everyday(memory, clock)
    first = await memory.recall("music in the winter", limit=20)
    for _ in range(20):
        clock.advance(seconds=1)
        again = await memory.recall("music in the winter", limit=20)
        assert ids(again) == ids(first)
        await memory.settle()
    assert {hit.item.reference_count for hit in again} == {21}, "each one is counted all the same"
    (row,) = [await memory.look("fact", hit.item.id) for hit in again if hit.memory_type == "fact"][:1]
    assert (row.reference_count, row.last_referenced_at) == (21, clock.now)


async def test_what_was_recalled_is_not_lifted_above_the_rest(memory, clock):
    for n in range(5):
        await memory.store_fact(f"s{n}", "likes", "green tea")
        clock.advance(minutes=1)
    (first,) = await memory.recall("green tea", limit=1)
    await memory.settle()
    found = await memory.recall("green tea")
    assert {hit.parts["recency"] for hit in found} == {0.0}
    assert ids(found)[0] == first.item.id, "by the same rule as before"


async def test_reading_a_memory_lifts_it(memory, clock):
    """A person who looks something up refers to it; a recall only shows it."""
    old, _ = [(await memory.store_fact(f"s{n}", "likes", "green tea")).id for n in range(2)]
    await memory.store_fact("s3", "likes", "green tea")
    await memory.recall("green tea")
    await memory.settle()
    clock.advance(minutes=1)
    await memory.get("fact", old)
    await memory.settle()
    found = await memory.recall("green tea")
    assert found[0].item.id == old and found[0].parts["recency"] > 0.99
    assert {hit.parts["recency"] for hit in found.hits[1:]} == {0.0}


async def test_a_reference_by_another_process_lifts_a_memory(memory, url, clock, embedder):
    first, second = [(await memory.store_fact(f"s{n}", "likes", "green tea")).id for n in range(2)]
    clock.advance(days=1)
    await memory.recall("green tea")
    await memory.settle()
    clock.advance(days=1)
    async with open_memory(url, embedder=embedder, clock=clock, background=False) as another:
        found = {hit.item.id: hit for hit in await another.recall("green tea", limit=1)}
        ((lifted, hit),) = found.items()
        assert hit.parts["recency"] == pytest.approx(0.5 ** (1 / 7))
        await another.settle()
    left = second if lifted == first else first
    clock.advance(days=7)
    again = {hit.item.id: hit.parts["recency"] for hit in await memory.recall("green tea")}
    assert again == {lifted: pytest.approx(0.5), left: 0.0}


async def test_a_context_does_not_lift_what_it_shows_either(memory, clock):
    await memory.store_fact("tea", "is", "green")
    await memory.context("green tea", butler="b")
    await memory.settle()
    (hit,) = await memory.recall("green tea")
    assert (hit.parts["recency"], hit.item.reference_count) == (0.0, 2)


async def test_recalls_of_one_tenant_are_nothing_to_another(memory, clock):
    mine, theirs = memory.bind(caller=Caller("north")), memory.bind(caller=Caller("south"))
    for each in (mine, theirs):
        await each.store_fact("tea", "is", "green")
    await mine.recall("green tea")
    await mine.settle()
    (hit,) = await theirs.recall("green tea")
    assert (hit.item.reference_count, hit.parts["recency"]) == (1, 0.0)


async def test_only_so_many_recalls_are_known(memory, clock, monkeypatch):
    monkeypatch.setattr(references, "MOST_RECALLED", 3)
    await memory.store_facts([NewFact(subject=f"s{n}", predicate="is", content="green tea") for n in range(5)])
    await memory.recall("green tea")
    await memory.settle()
    found = await memory.recall("green tea")
    assert sorted(hit.parts["recency"] for hit in found) == [0.0, 0.0, 0.0, 1.0, 1.0]


async def test_an_episode_is_as_recent_as_it_happened(memory, clock):
    for days in (0, 7, 70):
        await memory.store_episode("green tea", butler="b", occurred_at=clock.now - timedelta(days=days))
    found = await memory.recall("green tea")
    assert [hit.parts["recency"] for hit in found] == pytest.approx([1.0, 0.5, 0.5**10])


async def test_since_and_until(memory, clock):
    day = datetime(2025, 5, 1, tzinfo=UTC)
    for n in range(4):
        await memory.store_episode("green tea", butler="b", occurred_at=day + timedelta(days=n))
        await memory.store_fact(f"s{n}", "is", "green tea", occurred_at=day + timedelta(days=n))
    since, until = day + timedelta(days=1), day + timedelta(days=3)
    found = await memory.recall("green tea", since=since, until=until)
    assert sorted(hit.item.occurred_at.day for hit in found) == [2, 2, 3, 3]
    only = await memory.recall("green tea", since=since, until=until, types=["fact"])
    assert sorted(hit.item.occurred_at.day for hit in only) == [2, 3]
    assert len(await memory.recall("green tea", since=day + timedelta(days=4))) == 0
    assert len(await memory.recall("green tea", until=day)) == 0
    for name in ("since", "until", "as_of"):
        with pytest.raises(InvalidInput) as refused:
            await memory.recall("green tea", **{name: "yesterday"})
        assert refused.value.field == name


async def test_the_first_of_a_recall_may_come_from_deep_in_the_pool(memory):
    """The pool is as deep whatever the limit: what matters most is not cut off before it is weighed."""
    await memory.store_facts([NewFact(subject=f"s{n}", predicate="is", content="green tea") for n in range(40)])
    vital = await memory.store_fact("allergy", "is", "green tea and milk", importance=10)
    assert ids(await memory.recall("green tea", limit=1)) == [vital.id]


@pytest.mark.parametrize("config", [MemoryModuleConfig(retrieval=RetrievalConfig(fusion="rrf"))])
async def test_recall_by_ranks_alone_covers_the_same(memory, clock):
    await everyday(memory, clock)
    found = await memory.recall("music in the winter", limit=20)
    assert {hit.memory_type for hit in found} == {"episode", "fact"}
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
