"""Semantic records are notes: saved once for each owner, with the caller's own vector where there is one."""

import math
from uuid import UUID

import pytest
from administration import administer

from tulving import InvalidInput, open_memory
from tulving.testing import CLOSE, SequentialIds

SIZE = 64
EAST = [1.0] + [0.0] * (SIZE - 1)


@pytest.mark.scenario("000-005")
async def test_a_record_is_a_note_with_what_is_known_of_it(memory, clock):
    stored = await memory.save_semantic(
        "Ada grows roses",
        user_id="ada",
        household_id="home",
        persona_id="gardener",
        importance=9.0,
        category="preference",
        confidence=0.9,
        source="conversation",
        occurred_at=clock.now,
        project="yard",
        session_id=UUID(int=700),
        tags=["roses"],
        metadata={"mood": "good"},
    )
    assert (stored.outcome, stored.ref is not None) == ("stored", True)
    fact = await memory.get("fact", stored.id)
    assert (fact.content, fact.keyed, fact.type, fact.source) == (
        "Ada grows roses",
        False,
        "preference",
        "conversation",
    )
    assert (fact.user_id, fact.household_id, fact.persona_id) == ("ada", "home", "gardener")
    assert (fact.importance, fact.confidence, fact.project) == (9.0, 0.9, "yard")
    assert (fact.session_id, fact.tags, fact.metadata) == (UUID(int=700), ["roses"], {"mood": "good"})
    assert [event.event_type for event in await memory.events("fact", stored.id)] == ["fact_created"]
    plain = await memory.get("fact", (await memory.save_semantic("It rained in March", user_id="ada")).id)
    assert (plain.importance, plain.confidence, plain.type) == (5.0, 1.0, "knowledge")
    with pytest.raises(InvalidInput, match="user_id: is missing"):
        await memory.save_semantic("Whose is this?", persona_id="gardener")


@pytest.mark.scenario("000-005")
async def test_the_same_content_of_the_same_owner_is_a_duplicate(memory, clock, embedder, config, url):
    mine = {"user_id": "ada", "household_id": "home", "persona_id": "gardener"}
    first = await memory.save_semantic("Ada grows roses", importance=9, **mine)
    async with open_memory(
        url, config=config, embedder=embedder, clock=clock, ids=SequentialIds(1000), background=False
    ) as reopened:
        again = await reopened.save_semantic("ada  GROWS roses", embedding=EAST, **mine)
    assert (again.id, again.ref, again.outcome) == (first.id, first.ref, "duplicate")
    assert (await memory.get("fact", first.id)).importance == 9.0, "importance is kept"
    assert (await memory.bind(**mine).store_note("Ada grows roses")).id == first.id, "there is one store"
    for other in mine:
        stored = await memory.save_semantic("Ada grows roses", **{**mine, other: "other"})
        assert (stored.outcome, stored.id != first.id) == ("stored", True)


@pytest.mark.scenario("000-005", "000-006")
async def test_a_vector_of_the_callers_is_used_instead_of_the_embedders(memory, embedder, sql):
    embedder.problem = "no weights yet"
    given = await memory.save_semantic("Ada grows roses", user_id="ada", embedding=[7.0] + [0.0] * (SIZE - 1))
    other = await memory.save_semantic("Bob paints boats", user_id="bob")
    (hit,) = await memory.search_similar(EAST)
    assert (hit.item.id, hit.score) == (given.id, pytest.approx(1, abs=CLOSE)), "only the direction counts"
    assert {row["id"] for row in sql("SELECT id FROM facts WHERE embedding IS NULL")} == {other.id}
    embedder.problem = None
    assert await memory.embed_pending() == 1, "it is not embedded again"
    assert (await memory.search_similar(EAST, limit=1))[0].item.id == given.id
    found = await memory.search("roses", mode="keyword")
    assert [hit.item.id for hit in found] == [given.id], "its words are indexed too"
    assert (await administer(memory).verify()).ok


async def test_a_vector_that_can_not_be_one_is_refused_and_nothing_is_saved(memory, sql):
    nan = [math.nan, *EAST[1:]]
    for vector, problem in (
        (EAST[1:], "has 63 dimensions"),
        ([*EAST, 0.0], "has 65 dimensions"),
        ([], "has 0 dimensions"),
        (nan, "not finite"),
        ([math.inf, *EAST[1:]], "not finite"),
        ([1.7e308] * SIZE, "not finite"),
        (["1"] * SIZE, "finite numbers"),
        (5, "type int"),
        ("x" * SIZE, "finite numbers"),
        ([0.0] * SIZE, "is zero"),
        ([-0.0] * SIZE, "is zero"),
    ):
        with pytest.raises(InvalidInput, match=problem) as refusal:
            await memory.save_semantic("Ada grows roses", user_id="ada", embedding=vector)
        assert refusal.value.field == "embedding" and refusal.value.allowed
    assert sql("SELECT id FROM facts") == []
    tiny = await memory.save_semantic("Ada grows roses", user_id="ada", embedding=[1e-300, *EAST[1:]])
    assert (await memory.search_similar(EAST, min_similarity=0.99))[0].item.id == tiny.id


async def test_a_repeated_request_gets_its_first_answer(memory):
    once = memory.bind(idempotency_key="k", user_id="ada")
    first = await once.save_semantic("Ada grows roses", embedding=EAST)
    assert first.outcome == "stored"
    assert await once.save_semantic("Ada grows roses", embedding=EAST) == first
    with pytest.raises(InvalidInput, match="idempotency_key"):
        await once.save_semantic("Ada grows roses", embedding=[0.0, *EAST[:-1]])
