"""An edit that tells which version it is meant for: nobody's change is overwritten unread."""

import asyncio

import pytest

from tulving import Memory
from tulving.errors import ChangedSince, InvalidInput
from tulving.testing import ManualClock


async def test_an_edit_of_a_version_that_is_no_longer_there_changes_nothing(memory: Memory, clock: ManualClock):
    fact = await memory.store_fact("Anna", "color", "green")
    read = await memory.look("fact", fact.id)
    assert read is not None
    clock.advance(seconds=1)
    first = await memory.edit("fact", fact.id, content="blue", unchanged_since=read.updated_at)
    clock.advance(seconds=1)
    with pytest.raises(ChangedSince, match="Read it again"):
        await memory.edit("fact", fact.id, content="red", unchanged_since=read.updated_at)
    kept = await memory.look("fact", fact.id)
    assert kept == first and kept is not None and kept.content == "blue"
    assert len(await memory.revisions("fact", fact.id)) == 1
    again = await memory.edit("fact", fact.id, content="red", unchanged_since=kept.updated_at)
    assert again.content == "red"
    with pytest.raises(InvalidInput, match="unchanged_since"):
        await memory.edit("fact", fact.id, content="grey", unchanged_since="yesterday")  # pyright: ignore


async def test_the_same_holds_for_entities_and_blocks_of_a_profile(memory: Memory, clock: ManualClock):
    made = await memory.create_entity("Anna", "person")
    entity = await memory.get_entity(made.entity_id)
    assert entity is not None
    clock.advance(seconds=1)
    await memory.update_entity(made.entity_id, aliases=["Ann"], unchanged_since=entity.updated_at)
    with pytest.raises(ChangedSince):
        await memory.update_entity(made.entity_id, aliases=["Bo"], unchanged_since=entity.updated_at)
    assert (await memory.get_entity(made.entity_id)).aliases == ["Ann"]  # pyright: ignore

    assert await memory.profile_block("work") is None
    with pytest.raises(ChangedSince, match="the block work is gone"):
        await memory.set_profile("work", "a baker", unchanged_since=clock())
    await memory.set_profile("work", "a baker")
    block = await memory.profile_block("work")
    assert block is not None and (block.content, block.number) == ("a baker", 1)
    clock.advance(seconds=1)
    assert await memory.set_profile("work", "a smith", unchanged_since=block.created_at)
    with pytest.raises(ChangedSince):
        await memory.set_profile("work", "a baker", unchanged_since=block.created_at)
    assert await memory.profile_blocks() == {"work": "a smith"}


async def test_of_many_edits_at_once_of_one_version_one_succeeds(memory: Memory, clock: ManualClock):
    fact = await memory.store_fact("Anna", "color", "green")
    read = await memory.look("fact", fact.id)
    assert read is not None
    clock.advance(seconds=1)
    edits = [memory.edit("fact", fact.id, content=f"{n}", unchanged_since=read.updated_at) for n in range(8)]
    done = await asyncio.gather(*edits, return_exceptions=True)
    assert [type(each).__name__ for each in done].count("ChangedSince") == 7
    assert len(await memory.revisions("fact", fact.id)) == 1
