"""The memories around one: along links and columns, no further than is asked, and none of others."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from tulving.services.provenance import DEPTH, MOST, beginning, trace


def shown(around):
    return {item.content for item in around.items}


async def test_a_fact_leads_to_its_source_and_what_replaced_it(memory):
    said = await memory.store_episode("said", butler="b")
    old = await memory.store_fact("s", "p", "old", source_episode_id=said.id)
    await memory.store_fact("s", "p", "new")
    around = await trace(memory, "fact", old.id)
    assert around.items[0].id == old.id
    assert shown(around) == {"said", "old", "new"}
    assert {each.relation for each in around.links} == {"derived_from", "supersedes"}
    assert not around.partial


async def test_an_episode_knows_what_names_it_as_its_source(memory):
    said = await memory.store_episode("said", butler="b")
    await memory.store_fact("s", "p", "a fact", source_episode_id=said.id)
    await memory.store_rule("a rule", source_episode_id=said.id)
    assert shown(await trace(memory, "episode", said.id)) == {"said", "a fact", "a rule"}


async def test_no_link_is_told_twice(memory):
    said = await memory.store_episode("said", butler="b")
    fact = await memory.store_fact("s", "p", "a fact", source_episode_id=said.id)
    await memory.create_link("fact", fact.id, "episode", said.id, "derived_from")
    assert len((await trace(memory, "fact", fact.id)).links) == 1


async def test_the_nearest_are_shown_where_there_are_too_many(memory):
    said = await memory.store_episode("said", butler="b")
    for number in range(MOST + 5):
        await memory.store_rule(f"rule {number}", source_episode_id=said.id)
    around = await trace(memory, "episode", said.id)
    assert len(around.items) == MOST
    assert around.partial
    whole = await trace(memory, "rule", (await memory.store_rule("alone")).id)
    assert not whole.partial
    ids = {item.id for item in around.items}
    assert all({link.source_id, link.target_id} <= ids for link in around.links)


async def test_it_goes_so_many_links_far_and_no_further(memory):
    rules = [(await memory.store_rule(f"rule {number}")).id for number in range(6)]
    for one, other in pairwise(rules):
        await memory.create_link("rule", one, "rule", other, "supports")
    assert shown(await trace(memory, "rule", rules[0])) == {f"rule {number}" for number in range(DEPTH + 1)}


@pytest.mark.parametrize("how", ["link", "column"])
async def test_what_others_own_is_not_even_counted(memory, how):
    hers = memory.bind(user_id="ann")
    said = await hers.store_episode("said", butler="b")
    for number in range(MOST + 5):
        rule = await memory.store_rule(f"rule {number}", source_episode_id=said.id if how == "column" else None)
        if how == "link":
            await memory.create_link("rule", rule.id, "episode", said.id, "derived_from")
    around = await trace(hers, "episode", said.id)
    assert (shown(around), around.partial) == ({"said"}, False)


@pytest.mark.parametrize("how", ["link", "column"])
async def test_what_others_own_is_not_around(memory, sql, how):
    hers, his = memory.bind(user_id="ann"), memory.bind(user_id="bob")
    said = await his.store_episode("his secret", butler="b")
    fact = await hers.store_fact("s", "p", "hers")
    if how == "link":
        await memory.create_link("fact", fact.id, "episode", said.id, "derived_from")
    else:
        sql("UPDATE facts SET source_episode_id = ? WHERE id = ?", said.id, fact.id)
    assert shown(await trace(hers, "fact", fact.id)) == {"hers"}
    assert shown(await trace(memory, "fact", fact.id)) == {"hers", "his secret"}
    assert await trace(hers, "episode", said.id) is None


async def test_conflicts_of_a_fact_are_told_from_each_side(memory):
    await memory.store_note("Mira likes strong black tea in the morning")
    await memory.store_note("Mira does not like strong black tea in the morning")
    [report] = await memory.conflicts()
    for side in (report.candidate, report.existing):
        assert [each.id for each in (await trace(memory, "fact", side.id)).settlements] == [report.settlement.id]


async def test_remembering_began_with_the_earliest_that_is_kept(memory, clock):
    assert await beginning(memory) is None
    await memory.store_rule("a rule")
    assert await beginning(memory) == clock.now
    long_ago = datetime(2001, 2, 3, tzinfo=UTC)
    said = await memory.bind(user_id="ann").store_episode("said", butler="b", occurred_at=long_ago)
    assert await beginning(memory) == long_ago
    assert await beginning(memory.bind(user_id="bob")) is None
    await memory.forget("episode", said.id)
    assert await beginning(memory) == clock.now
