"""Events of a user's timeline: each is recorded once, whenever and however often it arrives."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from tulving import Caller, InvalidInput, NewEpisode, open_memory
from tulving.testing import SequentialIds

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TALK = ("Talked about the garden", "conversation", NOON)


async def count(sql):
    (row,) = sql("SELECT COUNT(*) AS n FROM episodes")
    return row["n"]


@pytest.mark.scenario("000-012")
async def test_an_event_is_kept_with_what_is_known_of_it(memory, clock, sql):
    stored = await memory.record_event(
        *TALK,
        user_id="ada",
        household_id="home",
        persona_id="gardener",
        importance=9.0,
        source="Ada",
        butler="garden",
        title="Roses",
        project="yard",
        session_id=UUID(int=700),
        tags=["talk"],
        metadata={"mood": "good"},
    )
    assert (stored.outcome, stored.expires_at) == ("stored", None)
    event = await memory.get("episode", stored.id)
    assert (event.content, event.type, event.occurred_at) == TALK
    assert (event.user_id, event.household_id, event.persona_id) == ("ada", "home", "gardener")
    assert (event.importance, event.source, event.butler, event.title) == (9.0, "Ada", "garden", "Roses")
    assert (event.project, event.session_id, event.tags) == ("yard", UUID(int=700), ["talk"])
    assert (event.metadata, event.expires_at, event.created_at) == ({"mood": "good"}, None, clock.now)
    (change,) = await memory.events("episode", stored.id)
    assert (change.event_type, change.payload["importance"]) == ("episode_created", 9.0)
    assert (await memory.search("garden", mode="semantic"))[0].item.id == stored.id
    plain = await memory.get("episode", (await memory.record_event("Rang", "custom", user_id="ada")).id)
    assert (plain.butler, plain.occurred_at, plain.importance) == ("agent", clock.now, 5.0)
    butler = memory.bind(caller=Caller(actor="butler"), user_id="ada")
    assert (await butler.get("episode", (await butler.record_event("Rang twice", "custom")).id)).butler == "butler"


@pytest.mark.scenario("000-012")
async def test_the_same_event_again_is_a_duplicate(memory, clock, embedder, config, url, sql):
    first = await memory.record_event(*TALK, user_id="ada", persona_id="gardener")
    clock.advance(days=1)
    content, kind, when = TALK
    elsewhere = when.astimezone(timezone(timedelta(hours=5)))
    for said, at in ((content, when), (" talked  ABOUT the garden", elsewhere), (content, when.replace(tzinfo=None))):
        again = await memory.record_event(said, kind, at, user_id="ada", persona_id="gardener", importance=1)
        assert (again.id, again.outcome) == (first.id, "duplicate")
    assert [row["event_type"] for row in sql("SELECT event_type FROM memory_events")] == ["episode_created"]
    assert (await memory.get("episode", first.id)).importance == 5.0
    assert await memory.forget("episode", first.id)
    async with open_memory(
        url, config=config, embedder=embedder, clock=clock, ids=SequentialIds(1000), background=False
    ) as reopened:
        again = await reopened.record_event(*TALK, user_id="ada", persona_id="gardener")
    assert (again.id, again.outcome) == (first.id, "duplicate")
    assert len(await memory.query_window(user_id="ada")) == 0, "what was forgotten stays forgotten"
    assert await memory.delete("episode", first.id)
    assert (await memory.record_event(*TALK, user_id="ada", persona_id="gardener")).outcome == "stored"


@pytest.mark.scenario("000-012")
async def test_another_event_is_no_duplicate(memory, sql):
    content, kind, when = TALK
    mine = {"user_id": "ada", "household_id": "home", "persona_id": "gardener"}
    ids = {(await memory.record_event(*TALK, **mine)).id}
    for other in ("user_id", "household_id", "persona_id"):
        ids.add((await memory.record_event(*TALK, **{**mine, other: "other"})).id)
    ids.add((await memory.record_event(content, "task", when, **mine)).id)
    ids.add((await memory.record_event(content, kind, when + timedelta(microseconds=1), **mine)).id)
    ids.add((await memory.record_event(f"{content}.", kind, when, **mine)).id)
    another = memory.bind(caller=Caller(tenant_id="other"))
    ids.add((await another.record_event(*TALK, **mine)).id)
    ids.add((await memory.store_episode(content, butler="b", type=kind, occurred_at=when)).id)
    ids.add((await memory.store_episode(content, butler="b", type=kind, occurred_at=when)).id)
    assert len(ids) == await count(sql) == 10


@pytest.mark.scenario("000-012")
async def test_an_event_that_several_record_at_once_is_kept_once(url, clock, embedder, config):
    """In two stores over one database, and in the opposite order, so that they meet."""
    offers = [NewEpisode(content=f"event {n}", butler="b", type="task", occurred_at=NOON) for n in range(12)]
    ways = (offers, offers[::-1])
    opened = [
        open_memory(url, config=config, embedder=embedder, clock=clock, ids=SequentialIds(start), background=False)
        for start in (1, 10_000)
    ]
    async with opened[0] as one, opened[1] as other:
        batches = [memory.record_events(way, user_id="ada") for memory, way in zip((one, other), ways, strict=True)]
        singles = [
            memory.record_event(offer.content, "task", NOON, user_id="ada")
            for way in ways
            for memory, offer in zip((one, other) * 6, way, strict=True)
        ]
        done = await asyncio.gather(*batches, *singles)
        window = await one.query_window(user_id="ada", since=NOON, top_k=100)
    kept = {event.content: event.id for event in window}
    assert len(kept) == len(window) == 12
    said = [offer.content for way in (*ways, *ways) for offer in way]
    stored = [each for answer in done for each in (answer if isinstance(answer, list) else [answer])]
    assert [each.id for each in stored] == [kept[content] for content in said]
    assert sum(each.outcome == "stored" for each in stored) == 12


async def test_a_batch_is_recorded_as_a_whole(memory, sql):
    offers = [NewEpisode(content=content, butler="b", type="task", occurred_at=NOON) for content in ("a", "b", "A")]
    first, second, again = await memory.record_events(offers, user_id="ada")
    assert [each.outcome for each in (first, second, again)] == ["stored", "stored", "duplicate"]
    assert first.id == again.id != second.id
    untyped = NewEpisode(content="c", butler="b")
    with pytest.raises(InvalidInput, match="type"):
        await memory.record_events([NewEpisode(content="d", butler="b", type="task"), untyped], user_id="ada")
    with pytest.raises(InvalidInput, match="user_id"):
        await memory.record_events(offers)
    assert await memory.record_events([], user_id="ada") == []
    assert await count(sql) == 2


@pytest.mark.scenario("000-012", "000-014")
async def test_an_owner_narrows_what_the_connection_is_bound_to_and_never_widens_it(memory, sql):
    with pytest.raises(InvalidInput, match="user_id: is missing"):
        await memory.record_event(*TALK, household_id="home", persona_id="gardener")
    ada = memory.bind(user_id="ada", household_id="home")
    for other in ({"user_id": "bob"}, {"household_id": "next door"}, {"user_id": ""}, {"persona_id": "a\x00"}):
        for verb, given in (
            ("record_event", {"content": "x", "event_type": "task"}),
            ("save_semantic", {"content": "x"}),
            ("query_window", {}),
            ("search_similar", {"query": "x"}),
        ):
            with pytest.raises(InvalidInput) as refusal:
                await getattr(ada, verb)(**given, **other)
            assert refusal.value.field == next(iter(other))
    assert await count(sql) == 0
    stored = await ada.record_event(*TALK, user_id="ada", persona_id="gardener")
    event = await memory.get("episode", stored.id)
    assert (event.user_id, event.household_id, event.persona_id) == ("ada", "home", "gardener")
    assert event.owner == "4:home|3:ada|8:gardener"
    for part in ({"scope": "garden"}, {"scope": "kitchen"}, {"project": "yard"}):
        mine = memory.bind(user_id="ada", **part)
        assert [(await mine.record_event(*TALK)).outcome for _ in range(2)] == ["stored", "duplicate"], part
        assert len(await mine.query_window(since=NOON)) == 1, "what others have recorded it can't read"


async def test_a_repeated_request_gets_its_first_answer(memory):
    once = memory.bind(idempotency_key="k")
    first = await once.record_event(*TALK, user_id="ada")
    assert await once.record_event(*TALK, user_id="ada") == first
    with pytest.raises(InvalidInput, match="idempotency_key"):
        await once.record_event(*TALK, user_id="bob")
