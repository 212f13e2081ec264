"""Memories of another program: each is taken once, in order, and nothing that is known is confirmed by it."""

import pytest

from tulving import InvalidInput
from tulving.domain.model import NewEpisode, NewFact, NewRule
from tulving.domain.offers import Offer


def fact(
    content: str, key: str | None = "1", predicate: str | None = "lives in", entity: bool = False, **more
) -> Offer:
    subject = None if predicate is None else "Ann"
    memory = NewFact(subject=subject, predicate=predicate, content=content, **more)
    return Offer(memory=memory, key=key, entity_type="person" if entity else None, origin={"id": key})


def episode(content: str, key: str) -> Offer:
    return Offer(memory=NewEpisode(content=content, butler="b", type="conversation"), key=key)


async def take(memory, *offers: Offer, **how) -> list[bool]:
    return [each.is_new for each in await memory.take_offers(offers, source="elsewhere", **how)]


async def contents(memory, kind: str = "fact", **which) -> list[str]:
    return [item.content for item in (await memory.list_memories(kind, **which)).items]


async def test_all_kinds_are_taken_once(memory):
    rule = Offer(memory=NewRule(content="ask first"), key="r")
    offers = [episode("hello", "e"), fact("Bath"), rule, fact("a note", "n", None)]
    assert await take(memory, *offers) == [True] * 4
    assert await take(memory, *offers) == [False] * 4
    for kind, content in (("episode", ["hello"]), ("fact", ["a note", "Bath"]), ("rule", ["ask first"])):
        assert await contents(memory, kind) == content
    [stored] = (await memory.list_memories("episode")).items
    assert (stored.metadata["imported"], stored.expires_at) == ({"from": "elsewhere"}, None)


async def test_to_take_again_is_no_confirmation(memory, clock):
    await take(memory, fact("Bath"))
    [before] = (await memory.list_memories("fact")).items
    clock.advance(days=3)
    assert await take(memory, fact("Bath"), fact("Bath", key="another")) == [False, False]
    [after] = (await memory.list_memories("fact")).items
    assert after == before
    assert [event.event_type for event in await memory.events("fact", after.id)] == ["fact_created"]


async def test_what_a_person_has_changed_stays(memory):
    """Whatever became of a memory, it is not brought back by reading the file again."""
    await take(memory, fact("Bath"), fact("blue", "2", "colour"), fact("tea", "3", "drink"), episode("hello", "e"))
    ids = {item.content: item.id for item in (await memory.list_memories("fact")).items}
    await memory.store_fact("Ann", "lives in", "Leeds")
    await memory.forget("fact", ids["blue"])
    await memory.delete("fact", ids["tea"])
    await memory.forget("episode", (await memory.list_memories("episode")).items[0].id)
    again = [fact("Bath"), fact("blue", "2", "colour"), fact("tea", "3", "drink"), episode("hello", "e")]
    assert await take(memory, *again) == [False] * 4
    assert await contents(memory) == ["Leeds"]
    assert await contents(memory, "episode") == []


async def test_a_record_that_changed_replaces_what_it_was(memory):
    await take(memory, fact("Bath"))
    assert await take(memory, fact("Leeds")) == [True]
    assert await contents(memory) == ["Leeds"]
    assert await contents(memory, state="superseded") == ["Bath"]


async def test_repetitions_in_one_batch(memory):
    values = ("Bath", "Bath", "Leeds", "Bath")
    offers = [fact(value, key=str(place)) for place, value in enumerate(values)]
    assert await take(memory, *offers) == [True, False, True, True]
    assert await contents(memory) == ["Bath"]


async def test_they_keep_their_order(memory):
    await take(memory, *(fact(f"note {number}", str(number), None) for number in range(30)))
    assert await contents(memory) == [f"note {number}" for number in reversed(range(30))]


async def test_similar_notes_are_not_settled(memory):
    notes = ["The sauna is open on Mondays", "The sauna is not open on Mondays"]
    assert await take(memory, *(fact(note, note, None) for note in notes)) == [True, True]
    assert await contents(memory) == notes[::-1]


async def test_entities_are_found_or_created(memory):
    known = await memory.create_entity("Ann", "other")
    bob = Offer(memory=NewFact(subject="Bob", predicate="is", content="tall"), entity_type="person")
    await take(memory, fact("Bath", entity=True), bob, bob)
    of = {item.subject: item.entity_id for item in (await memory.list_memories("fact")).items}
    assert of["Ann"] == known.entity_id
    created = await memory.get_entity(of["Bob"])
    assert (created.canonical_name, created.entity_type) == ("Bob", "person")


async def test_an_entity_that_was_merged_means_its_target(memory):
    ann, anna = [(await memory.create_entity(name, "person")).entity_id for name in ("Ann", "Anna Smith")]
    await memory.merge_entities(ann, anna)
    await take(memory, fact("Bath", entity=True))
    [stored] = (await memory.list_memories("fact")).items
    assert stored.entity_id == anna


async def test_owners(memory):
    theirs = [Offer(memory=NewFact(content="likes tea"), key="1", user_id=user) for user in ("ann", "bob", "ann")]
    assert await take(memory, *theirs) == [True, True, False]
    assert await contents(memory.bind(user_id="ann")) == ["likes tea"]
    [taken] = await memory.bind(user_id="bob").take_offers(theirs[:1], source="elsewhere")
    assert "bound to" in taken.problem


async def test_bad_ones_are_refused_and_the_others_taken(memory):
    bad = [fact(""), fact("<private>x</private>"), fact("x", predicate="a\x00b"), fact("x", confidence=2)]
    bad += [fact("x", metadata={"a": float("nan")}), Offer(memory=NewFact(content="x", subject="only"))]
    taken = await memory.take_offers([*bad, fact("Bath")], source="elsewhere")
    assert [each.problem is not None for each in taken] == [True] * len(bad) + [False]
    assert await contents(memory) == ["Bath"]
    with pytest.raises(InvalidInput):
        await memory.take_offers([fact("York", "2"), fact("")], source="elsewhere", strict=True)
    assert await contents(memory) == ["Bath"]


async def test_content_that_is_hard_to_keep(memory):
    long = "word " * 200_000
    assert (
        await take(memory, episode("nul \x00 and \ud83d half", "1"), episode(long, "2"), episode("ü🙂", "\ud83d"))
        == [True] * 3
    )
    assert sum(map(len, await contents(memory, "episode"))) > 900_000


async def test_a_dry_run_changes_nothing(memory):
    await take(memory, fact("Bath"))
    offers = [fact("Bath"), fact("tea", "2", "drink", entity=True), episode("hello", "e"), fact("")]
    taken = await memory.take_offers(offers, source="elsewhere", dry_run=True)
    assert [(each.is_new, each.problem is None) for each in taken] == [
        (False, True),
        (True, True),
        (True, True),
        (False, False),
    ]
    assert (await contents(memory), await contents(memory, "episode")) == (["Bath"], [])
    assert await memory.resolve_entity("Ann") == []


async def test_what_is_taken_is_found(memory):
    await take(memory, episode("The ferry to Orkney leaves at noon", "1"), fact("Stromness", predicate="ferry port"))
    found = {hit.item.content for hit in await memory.recall("When does the ferry leave?")}
    assert "The ferry to Orkney leaves at noon" in found
    assert await memory.count_pending() == 0
