"""Facts that are created, updated and deleted one by one (003): their ids, their category and confidence."""

import re
from datetime import UTC
from math import nan
from uuid import UUID

import pytest
from administration import administer

from tulving import Caller, InvalidInput, NewFact, NotFound, open_memory
from tulving.domain.decay import next_review_at
from tulving.domain.model import CATEGORIES
from tulving.testing import CLOSE, SequentialIds

COLUMNS = "type predicate confidence content created_at next_review_at last_confirmed_at status".split()


def values(item, *names):
    return tuple(getattr(item, name) for name in names)


@pytest.fixture
async def note(memory):
    return (await memory.store_note("likes green tea", category="preference", confidence=0.9, tags=["t"])).id


# -- create ----------------------------------------------------------------------------------------------------


@pytest.mark.scenario("003-004")
async def test_a_new_fact_has_an_id_of_its_own_and_its_time(memory, clock, url, embedder):
    stored = await memory.store_note("likes green tea", category="preference", confidence=0.9)
    assert re.fullmatch("fact_[0-9a-f]{8}", stored.ref)
    item = await memory.get("fact", stored.ref)
    assert values(item, "id", "ref", "type", "confidence") == (stored.id, stored.ref, "preference", 0.9)
    assert (item.created_at, item.created_at.tzinfo) == (clock.now, UTC)
    async with open_memory(url, embedder=embedder, clock=clock, background=False) as again:
        assert (await again.look("fact", stored.ref)).content == "likes green tea"


@pytest.mark.scenario("003-004")
async def test_two_facts_never_share_an_id(url, embedder, clock):
    """The ids of this memory end with the same digits, of which the short one is made."""

    class Colliding(SequentialIds):
        def __call__(self) -> UUID:
            number = super().__call__().int
            return UUID(int=(number << 64) + number // 20)

    async with open_memory(url, embedder=embedder, clock=clock, ids=Colliding(), background=False) as memory:
        stored = await memory.store_facts([NewFact(content=f"n{n}") for n in range(9)])
        stored += [await memory.store_note(f"m{n}") for n in range(9)]
        assert len({each.ref for each in stored}) == len({each.id for each in stored}) == 18
        for each in stored:
            assert (await memory.look("fact", each.ref)).id == each.id


# -- update ----------------------------------------------------------------------------------------------------


@pytest.mark.scenario("003-007")
async def test_only_the_given_fields_change(memory, clock, note):
    before = await memory.look("fact", note)
    clock.advance(days=3)
    changed = await memory.edit("fact", note, category="goal")
    assert changed == await memory.look("fact", note)
    assert values(changed, "type", "predicate", "folded_predicate") == ("goal", "goal", "goal")
    kept = "id ref content content_hash confidence tags created_at last_confirmed_at next_review_at".split()
    assert values(changed, *kept) == values(before, *kept)
    changed = await memory.edit("fact", before.ref, confidence=0.4)
    assert values(changed, "confidence", "type", "content", "created_at") == (
        *(0.4, "goal", "likes green tea"),
        before.created_at,
    )
    changed = await memory.edit("fact", note, content="wants to row")
    assert values(changed, "content", "confidence", "type", "tags", "created_at") == (
        *("wants to row", 0.4, "goal", ["t"]),
        before.created_at,
    )
    assert [each.content for each in await memory.revisions("fact", note)] == ["likes green tea"] * 3
    assert (await administer(memory).verify()).ok


@pytest.mark.scenario("003-007")
async def test_all_fields_at_once(memory, clock, note):
    clock.advance(days=3)
    changed = await memory.edit("fact", note, content="wants to row", category="goal", confidence=0.8)
    assert values(changed, *COLUMNS) == (
        *("goal", "goal", 0.8, "wants to row"),
        *((await memory.look("fact", note)).created_at, next_review_at(0.8, 0.008, clock.now, clock.now)),
        *(clock.now, None),
    )
    [revision] = await memory.revisions("fact", note)
    assert revision.content == "likes green tea"


@pytest.mark.scenario("003-007")
async def test_the_event_has_what_the_revision_has_not(memory, note):
    await memory.edit("fact", note, category="goal", confidence=0.25, importance=7)
    event = (await memory.events("fact", note))[-1]
    assert (event.event_type, event.payload["changed"]) == ("fact_edited", ["importance", "type", "confidence"])
    assert event.payload["before"] == {"type": "preference", "confidence": 0.9}
    await memory.edit("fact", note, tags=[])
    assert "before" not in (await memory.events("fact", note))[-1].payload


@pytest.mark.scenario("003-007")
async def test_what_changes_nothing_leaves_no_trace(memory, clock, note):
    before = await memory.look("fact", note)
    clock.advance(days=3)
    assert await memory.edit("fact", note, category="preference", confidence=0.9) == before
    assert await memory.revisions("fact", note) == []
    assert len(await memory.events("fact", note)) == 1


@pytest.mark.scenario("003-007")
async def test_an_unkeyed_fact_is_found_by_its_new_category(memory, note, embedder):
    await memory.edit("fact", note, category="goal")
    assert [hit.item.id for hit in await memory.search("goal", mode="keyword")] == [note]
    assert len(await memory.search("preference", mode="keyword")) == 0
    (hit,) = await memory.search_similar(embedder.embed("user goal likes green tea"))
    assert hit.parts["similarity"] == pytest.approx(1.0, abs=CLOSE)
    assert [each.id for each in (await memory.list_memories("fact", type="goal")).items] == [note]
    assert (await memory.list_memories("fact", type="preference")).items == []


@pytest.mark.scenario("003-007")
async def test_a_keyed_fact_keeps_its_key(memory, embedder):
    id_ = (await memory.store_fact("Anna", "Likes", "tea", category="preference")).id
    embedder.error = RuntimeError("not to be asked")
    changed = await memory.edit("fact", id_, category="goal", confidence=0.5)
    assert values(changed, "type", "predicate", "folded_predicate") == ("goal", "Likes", "likes")
    embedder.error = None
    assert (await memory.store_fact("Anna", "likes", "tea")).outcome == "confirmed"


@pytest.mark.scenario("003-007")
@pytest.mark.parametrize("confidence", [0, 0.0, 1, 1.0, 0.5])
async def test_every_confidence_from_0_to_1_is_one(memory, note, confidence):
    assert (await memory.edit("fact", note, confidence=confidence)).confidence == float(confidence)
    assert (await memory.look("fact", note)).confidence == float(confidence)


@pytest.mark.scenario("003-007")
@pytest.mark.parametrize("category", CATEGORIES)
async def test_every_category_is_one(memory, note, category):
    assert (await memory.edit("fact", note, category=category)).type == category


@pytest.mark.scenario("003-007")
@pytest.mark.parametrize(
    ("given", "field"),
    [
        *(({"confidence": wrong}, "confidence") for wrong in (nan, True, "high", 1.0001, -0.0001, [1], 10**400)),
        *(({"category": wrong}, "category") for wrong in ("gossip", "Goal", "", 5, ["goal"])),
        ({"content": "new words", "confidence": 2}, "confidence"),
        ({"confidence": 0.5, "category": "gossip"}, "category"),
        ({}, "content"),
    ],
)
async def test_bad_input_changes_nothing(memory, note, sql, given, field):
    before = sql("SELECT * FROM facts")
    with pytest.raises(InvalidInput) as refused:
        await memory.edit("fact", note, **given)
    assert refused.value.field == field
    assert sql("SELECT * FROM facts") == before
    assert await memory.revisions("fact", note) == []


@pytest.mark.scenario("003-007")
@pytest.mark.parametrize("given", [{"category": "goal"}, {"confidence": 0.5}])
async def test_only_a_fact_has_them(memory, given):
    stored = {
        "rule": (await memory.store_rule("serve tea")).id,
        "episode": (await memory.store_episode("had tea", butler="b")).id,
    }
    for kind, id_ in stored.items():
        before = await memory.look(kind, id_)
        with pytest.raises(InvalidInput, match="for facts only") as refused:
            await memory.edit(kind, id_, **given)
        assert refused.value.field in given
        assert await memory.look(kind, id_) == before


@pytest.mark.scenario("003-007")
async def test_a_fact_that_is_believed_more_fades_later(memory, clock, note):
    clock.advance(days=170)
    assert (await memory.run_decay_sweep())["facts_fading"] == 0
    await memory.edit("fact", note, confidence=0.6)
    assert (await memory.look("fact", note)).next_review_at == clock.now, "it is due at once"
    assert (await memory.run_decay_sweep())["facts_fading"] == 1
    more = await memory.edit("fact", note, confidence=1.0)
    assert (more.state, more.last_confirmed_at) == ("active", more.created_at)
    assert more.next_review_at == next_review_at(1.0, 0.008, more.created_at, clock.now) > clock.now
    assert (await memory.search("green tea"))[0].item.id == note
    await memory.edit("fact", note, confidence=0.65)
    await memory.run_decay_sweep()
    still = await memory.edit("fact", note, confidence=0.66)
    assert (still.state, still.next_review_at) == ("fading", clock.now), "not enough to recover; the sweep decides"
    clock.advance(days=30)
    assert (await memory.run_decay_sweep())["facts_checked"] == 1
    assert (await administer(memory).verify()).ok


@pytest.mark.scenario("003-007")
async def test_a_permanent_fact_is_never_due(memory):
    id_ = (await memory.store_note("born in Porto", permanence="permanent")).id
    changed = await memory.edit("fact", id_, confidence=0.01)
    assert values(changed, "next_review_at", "state") == (None, "active")


async def test_what_is_out_of_use_stays_so(memory, note):
    await memory.forget("fact", note)
    changed = await memory.edit("fact", note, category="goal", confidence=0.3)
    assert values(changed, "state", "next_review_at", "type", "confidence") == ("retracted", None, "goal", 0.3)
    assert await memory.profile() == ""


async def test_words_and_category_that_are_changed_at_once_are_both_indexed(memory, note, embedder, monkeypatch):
    """An index entry that was made from the old words must not be stored for the new ones."""
    really = memory._env.embedding.index

    async def index(*args):
        made = await really(*args)
        monkeypatch.setattr(memory._env.embedding, "index", really)
        await memory.edit("fact", note, content="black coffee")
        return made

    monkeypatch.setattr(memory._env.embedding, "index", index)
    await memory.edit("fact", note, category="goal")
    assert values(await memory.look("fact", note), "content", "type") == ("black coffee", "goal")
    assert [hit.item.id for hit in await memory.search("goal coffee", mode="keyword")] == [note]
    assert len(await memory.search("green", mode="keyword")) == 0
    assert await memory.count_pending() == 1
    await memory.embed_pending()
    (hit,) = await memory.search_similar(embedder.embed("user goal black coffee"))
    assert hit.parts["similarity"] == pytest.approx(1.0, abs=CLOSE)
    assert (await administer(memory).verify()).ok


@pytest.mark.scenario("003-007")
@pytest.mark.parametrize("given", [{"category": "goal"}, {"confidence": 0.5}])
async def test_an_unknown_fact_is_a_key_error(memory, given):
    theirs = (await memory.bind(caller=Caller("other")).store_note("their tea")).id
    for id_ in (UUID(int=404), "fact_00000000", theirs):
        with pytest.raises(KeyError, match="there is no fact"):
            await memory.edit("fact", id_, **given)


# -- delete ----------------------------------------------------------------------------------------------------


@pytest.mark.scenario("003-005")
@pytest.mark.parametrize("by", ["id", "text", "ref"])
async def test_a_fact_is_deleted_by_any_of_its_ids(memory, sql, url, embedder, note, by):
    other = (await memory.store_note("stays")).id
    item = await memory.look("fact", note)
    assert await memory.delete("fact", {"id": item.id, "text": str(item.id), "ref": item.ref}[by]) is True
    assert await memory.get("fact", note) is await memory.get("fact", item.ref) is None
    assert [row["id"] for row in sql("SELECT id FROM facts")] == [other]
    async with open_memory(url, embedder=embedder, background=False) as again:
        assert await again.look("fact", note) is None
    assert await memory.profile() == "Facts:\n- [knowledge | 1.00] stays"


@pytest.mark.scenario("003-006")
async def test_deleting_what_is_not_there_is_a_key_error(memory, note, sql):
    ref = (await memory.look("fact", note)).ref
    await memory.delete("fact", ref)
    elsewhere = memory.bind(caller=Caller("other"))
    theirs = await elsewhere.store_note("their tea")
    annas = await memory.bind(user_id="anna").store_note("tea of Anna")
    bob = memory.bind(user_id="bob")
    unknown = (UUID(int=404), str(UUID(int=404)), "fact_00000000")
    for who, ids in ((memory, (*unknown, note, ref, theirs.id, theirs.ref)), (bob, (annas.id, annas.ref))):
        for id_ in ids:
            with pytest.raises(KeyError, match=f"there is no fact {id_}") as refused:
                await who.delete("fact", id_)
            assert isinstance(refused.value, NotFound)
    assert {row["content"] for row in sql("SELECT content FROM facts")} == {"their tea", "tea of Anna"}
