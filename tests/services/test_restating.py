"""A fact that is stored again with equal content: it is confirmed, and what was said of it this time is taken over."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from administration import administer

from tulving import InvalidInput, NewFact, open_memory
from tulving.settings import MemoryModuleConfig, ScheduleConfig
from tulving.testing import SequentialIds

LONG_AGO = datetime(2020, 5, 1, tzinfo=UTC)


@pytest.fixture
def config() -> MemoryModuleConfig:
    return MemoryModuleConfig(schedule=ScheduleConfig(background=False))


async def first(memory, **given):
    return (await memory.store_fact("user", "likes", "tea", **given)).id


GIVEN = [
    ({"importance": 9}, {"importance": 9.0}),
    ({"importance": 0}, {"importance": 0.0}),
    ({"importance": 5.0}, {"importance": 5.0}),
    ({"permanence": "permanent"}, {"permanence": "permanent", "decay_rate": 0.0, "next_review_at": None}),
    ({"permanence": "standard"}, {"permanence": "standard", "decay_rate": 0.008}),
    ({"confidence": 0.4}, {"confidence": 0.4}),
    ({"tags": ["x"]}, {"tags": ["x"]}),
    ({"tags": []}, {"tags": []}),
    ({"metadata": {"b": 2}}, {"metadata": {"b": 2}}),
    ({"metadata": {}}, {"metadata": {}}),
    ({"category": "goal"}, {"type": "goal"}),
    ({"project": "atlas"}, {"project": "atlas"}),
    ({"source": "Ann"}, {"source": "Ann"}),
    ({"source_butler": "b"}, {"source_butler": "b"}),
    ({"occurred_at": LONG_AGO}, {"occurred_at": LONG_AGO, "restated_at": LONG_AGO + timedelta(days=1)}),
    ({"occurred_at": LONG_AGO + timedelta(days=2)}, {"restated_at": LONG_AGO + timedelta(days=2)}),
]
BEFORE = {
    "importance": 7,
    "permanence": "stable",
    "confidence": 0.9,
    "tags": ["old"],
    "metadata": {"a": 1},
    "category": "preference",
    "project": "borealis",
    "source": "Bob",
    "source_butler": "a",
    "occurred_at": LONG_AGO + timedelta(days=1),
}
MOVED = {"last_confirmed_at", "updated_at", "next_review_at", "reference_count", "last_referenced_at", "accessed_at"}


def columns(item):
    return {name: getattr(item, name) for name in {each.name for each in fields(item)}} | {"tags": list(item.tags)}


@pytest.mark.scenario("001-014", "004-003", "004-013")
@pytest.mark.parametrize(("given", "expected"), GIVEN, ids=str)
async def test_what_is_given_explicitly_is_taken_over_and_the_rest_stays(memory, clock, given, expected):
    id_ = await first(memory, **BEFORE)
    before = await memory.get("fact", id_)
    clock.advance(days=30)
    again = await memory.store_fact("user", "likes", " TEA ", **given)
    assert (again.id, again.outcome, again.superseded_id) == (id_, "confirmed", None)
    after = await memory.get("fact", id_)
    assert after.last_confirmed_at == after.updated_at == clock.now
    for name, value in expected.items():
        assert getattr(after, name) == value, name
    kept = columns(before), MOVED | expected.keys()
    assert {n: columns(after)[n] for n in kept[0] if n not in kept[1]} == {
        n: columns(before)[n] for n in kept[0] if n not in kept[1]
    }
    [revision] = await memory.revisions("fact", id_)
    assert (revision.number, revision.content, revision.importance) == (1, "tea", 7.0)
    assert (list(revision.tags), revision.metadata, revision.created_at) == (["old"], {"a": 1}, clock.now)
    confirmed = (await memory.events("fact", id_))[-1]
    assert (confirmed.event_type, confirmed.payload["by"], confirmed.payload["revision"]) == (
        "fact_confirmed",
        "repetition",
        1,
    )
    assert confirmed.payload["changed"] == sorted({*expected} - {"decay_rate", "next_review_at"})
    assert (await administer(memory).verify()).ok


async def test_the_event_tells_what_was_believed_before(memory):
    episode = (await memory.store_episode("Anna said so", butler="b")).id
    given = {"confidence": 0.9, "permanence": "stable", "category": "goal", "source_episode_id": episode}
    id_ = await first(memory, **given, source="a letter")
    changed = {"confidence": 0.4, "permanence": "volatile", "category": "context", "occurred_at": LONG_AGO}
    await first(memory, **changed, source="another letter")
    confirmed = (await memory.events("fact", id_))[-1]
    before = {"confidence": 0.9, "permanence": "stable", "type": "goal", "occurred_at": None, "restated_at": None}
    assert confirmed.payload["before"] == before
    later = (await memory.store_episode("Ben said so", butler="b")).id
    await first(memory, source_episode_id=later, occurred_at=LONG_AGO + timedelta(days=1))
    confirmed = (await memory.events("fact", id_))[-1]
    assert confirmed.payload["before"] == {"source_episode_id": str(episode)}, "it was true at both times already"
    await first(memory, occurred_at=memory.now() + timedelta(days=1))
    confirmed = (await memory.events("fact", id_))[-1]
    assert confirmed.payload["before"] == {"restated_at": str(memory.now())}
    assert (await memory.get("fact", id_)).occurred_at == LONG_AGO
    assert "letter" not in str(confirmed.payload), "events hold no words"


@pytest.mark.parametrize("given", [{}, {"importance": 7}, {"tags": ["old"], "metadata": {"a": 1}, "confidence": 0.9}])
async def test_what_changes_nothing_only_confirms(memory, clock, given):
    id_ = await first(memory, **BEFORE)
    clock.advance(days=30)
    await first(memory, **given)
    after = await memory.get("fact", id_)
    assert (after.last_confirmed_at, after.importance, list(after.tags)) == (clock.now, 7.0, ["old"])
    assert await memory.revisions("fact", id_) == []
    assert [event.payload for event in await memory.events("fact", id_)][1:] == [{"by": "repetition"}]


async def test_the_next_review_follows_what_is_believed_now(memory, clock):
    """The pinned times: 0.4 at 0.1 a day begins to fade after 6.9 days; at 0.008 after 86.6."""
    id_ = await first(memory)
    clock.advance(days=10)
    await first(memory, confidence=0.4, permanence="ephemeral")
    review = (await memory.get("fact", id_)).next_review_at
    assert review - clock.now == pytest.approx(timedelta(days=6.931), abs=timedelta(days=0.01))
    await first(memory, permanence="standard")
    review = (await memory.get("fact", id_)).next_review_at
    assert review - clock.now == pytest.approx(timedelta(days=86.64), abs=timedelta(days=0.01))
    await first(memory, permanence="permanent")
    assert (await memory.get("fact", id_)).next_review_at is None
    assert len(await memory.revisions("fact", id_)) == 3


async def test_one_batch_may_say_the_same_several_times(memory):
    def tea(**given):
        return NewFact(subject="user", predicate="likes", content="tea", **given)

    stored = await memory.store_facts([tea(importance=3, tags=["a"]), tea(importance=9), tea(), tea(tags=["b", "c"])])
    assert [answer.outcome for answer in stored] == ["stored", "confirmed", "confirmed", "confirmed"]
    fact = await memory.get("fact", stored[0].id)
    assert (fact.importance, list(fact.tags)) == (9.0, ["b", "c"])
    revisions = await memory.revisions("fact", fact.id)
    assert [(each.importance, list(each.tags)) for each in revisions] == [(3.0, ["a"]), (9.0, ["a"])]
    changed = [event.payload.get("changed") for event in await memory.events("fact", fact.id)]
    assert changed == [None, ["importance"], None, ["tags"]]


async def test_a_fact_about_an_entity_is_restated_too(memory):
    entity = (await memory.create_entity("Anna", "person")).entity_id
    stored = await memory.store_fact("Anna", "lives_in", "Rome", entity_id=entity)
    again = await memory.store_fact("A. Smith", "lives_in", "rome", entity_id=entity, importance=9)
    assert (again.id, again.outcome) == (stored.id, "confirmed")
    fact = await memory.get("fact", stored.id)
    assert (fact.subject, fact.content, fact.importance) == ("Anna", "Rome", 9.0)


async def test_provenance_is_taken_over_if_it_exists(memory):
    id_ = await first(memory)
    episode = (await memory.store_episode("Anna said so", butler="b")).id
    with pytest.raises(InvalidInput, match="source_episode_id"):
        await first(memory, source_episode_id=UUID(int=77), importance=9)
    assert (await memory.get("fact", id_)).importance == 5.0
    await first(memory, source_episode_id=episode)
    assert (await memory.get("fact", id_)).source_episode_id == episode


@pytest.mark.scenario("003-004")
async def test_a_note_that_is_there_already_stays_untouched(memory, clock, sql):
    stored = await memory.store_note("The user takes the train")
    before = sql("SELECT * FROM facts")
    clock.advance(days=1)
    again = await memory.store_note("the USER takes the train", importance=9, tags=["x"], confidence=0.1)
    assert (again.id, again.outcome) == (stored.id, "duplicate")
    offer = NewFact(content="The user takes the train", metadata={"a": 1}, permanence="permanent")
    assert (await memory.store_facts([offer]))[0].outcome == "duplicate"
    assert sql("SELECT * FROM facts") == before
    assert len(sql("SELECT 1 FROM memory_events")) == 1
    assert sql("SELECT 1 FROM revisions") == []


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"importance": 10.1}, "importance"),
        ({"confidence": -0.1}, "confidence"),
        ({"permanence": "eternal"}, "permanence"),
        ({"permanence": ""}, "permanence"),
        ({"category": "gossip"}, "category"),
        ({"tags": "x"}, "tags"),
    ],
)
async def test_a_bad_repetition_changes_nothing(memory, sql, given, field):
    id_ = await first(memory, **BEFORE)
    before = sql("SELECT * FROM facts")
    with pytest.raises(InvalidInput) as refused:
        await first(memory, **given)
    assert refused.value.field == field
    assert sql("SELECT * FROM facts") == before
    assert len(await memory.events("fact", id_)) == 1


async def test_what_is_left_out_of_a_new_fact_is_the_default(memory):
    id_ = await first(memory, importance=None, permanence=None, confidence=None, tags=None)
    fact = await memory.get("fact", id_)
    assert (fact.importance, fact.permanence, fact.decay_rate, fact.confidence) == (5.0, "standard", 0.008, 1.0)


async def test_repetitions_at_the_same_time_all_leave_their_revision(memory, url, clock, embedder):
    import asyncio

    id_ = await first(memory, importance=0)
    ids = SequentialIds(10**9)
    async with open_memory(url, embedder=embedder, clock=clock, ids=ids, background=False) as second:
        values = [number / 2 for number in range(1, 17)]
        stores = [first(each, importance=value) for each, value in zip((memory, second) * 8, values, strict=True)]
        assert set(await asyncio.gather(*stores)) == {id_}
    revisions = await memory.revisions("fact", id_)
    assert [each.number for each in revisions] == list(range(1, 17))
    assert {each.importance for each in revisions} | {(await memory.get("fact", id_)).importance} == {0.0, *values}
