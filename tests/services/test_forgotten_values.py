"""What a person has forgotten or deleted: no model stores it again, a person may; and what was learned from it."""

import pytest
from administration import administer
from lesson_parts import ask, configure, consolidate, facts, learn, rules, said, told, update

from tulving import Caller, InvalidInput
from tulving.domain.text import content_hash


def hashes(sql):
    return [row["hash"] for row in sql("SELECT hash FROM forgotten_values ORDER BY tenant_id, hash")]


async def gone(memory, verb, kind, id_):
    assert await getattr(memory, verb)(kind, id_)


# -- no model stores it again ----------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["forget", "delete"])
async def test_a_keyed_fact_is_not_learned_again(memory, verb, sql):
    id_ = (await memory.store_fact("Ann Lee", "home_town", "Oslo", scope="chef")).id
    await gone(memory, verb, "fact", id_)
    assert len(hashes(sql)) == 1
    spellings = [told("ann-lee", "Home Town", "OSLO"), told("ANN  LEE", "home-town", " oslo ")]
    _, result, _ = await consolidate(memory, new_facts=spellings)
    assert (result["facts_created"], await facts(memory)) == (0, [])
    _, result, _ = await consolidate(memory, new_facts=spellings, butler="gardener")
    assert (result["facts_created"], await facts(memory)) == (0, [])
    _, result, _ = await consolidate(memory, new_facts=[told("Ann Lee", "home_town", "Bergen")])
    assert (result["facts_created"], await facts(memory)) == (1, ["Bergen"])
    _, result, _ = await consolidate(memory, new_facts=[told("Bob", "home_town", "Oslo")])
    assert result["facts_created"] == 1


@pytest.mark.parametrize("verb", ["forget", "delete"])
async def test_an_unkeyed_fact_is_not_learned_again(memory, verb, caplog):
    caplog.set_level("INFO", "tulving")
    learned = await learn(memory, "likes tea")
    await gone(memory, verb, "fact", learned.stored[0].ref)
    again = await learn(memory, said("Likes  TEA", category="preference"), "likes rye")
    assert (again.unwanted, again.facts_created) == (1, 1)
    assert await facts(memory) == ["likes rye"]
    assert "what a person has forgotten: skipped" in caplog.text
    assert "TEA" not in caplog.text


@pytest.mark.parametrize("verb", ["forget", "delete"])
async def test_a_rule_is_not_learned_again(memory, verb):
    id_ = (await memory.store_rule("Weigh boxes twice")).id
    await gone(memory, verb, "rule", id_)
    _, result, _ = await consolidate(memory, ["the parcel broke"], new_rules=[{"content": "weigh  BOXES twice"}])
    assert (result["rules_created"], result["held"], await rules(memory)) == (0, 0, [])


async def test_an_update_does_not_bring_it_back(memory):
    first = (await memory.store_fact("user", "city", "Oslo", scope="chef")).id
    current = (await memory.store_fact("user", "city", "Bergen", scope="chef")).id
    await memory.delete("fact", first)
    note, unwanted = [(await memory.store_note(text)).id for text in ("likes rye", "likes tea")]
    await memory.forget("fact", unwanted)
    _, result, _ = await consolidate(memory, updated_facts=[update(current, "Oslo"), update(note, "likes tea")])
    assert result["facts_updated"] == 0
    assert await facts(memory) == ["Bergen", "likes rye"]


async def test_the_answer_of_a_model_of_your_own_does_not_either(memory):
    await memory.forget("fact", (await memory.store_note("likes tea")).id)
    prompt = await memory.learn_prompt("User: I like tea")
    learned = await memory.learn_apply('{"facts": [{"content": "Likes tea", "confidence": 1}]}', prompt.lease)
    assert (learned.unwanted, await facts(memory)) == (1, [])
    await memory.forget("fact", (await memory.store_fact("user", "pet", "a cat")).id)
    await memory.store_episode("the cat slept", butler="chef")
    prompt = await memory.learn_prompt()
    answer = '{"new_facts": [{"subject": "user", "predicate": "pet", "content": "a cat"}]}'
    assert (await memory.learn_apply(answer, prompt.lease)).unwanted == 1
    assert await facts(memory) == []


async def test_another_owner_or_tenant_may_learn_it(memory):
    ann, bob, rival = (
        memory.bind(user_id="ann"),
        memory.bind(user_id="bob"),
        memory.bind(caller=Caller(tenant_id="rival")),
    )
    await ann.forget("fact", (await ann.store_note("likes tea")).id)
    assert (await learn(ann, "likes tea")).unwanted == 1
    assert (await learn(bob, "likes tea")).facts_created == 1
    assert (await learn(rival, "likes tea")).facts_created == 1


# -- a person may ----------------------------------------------------------------------------------------------


async def test_a_person_may_store_it_and_then_models_may_confirm_it(memory, clock):
    await memory.forget("fact", (await memory.store_fact("user", "pet", "a cat", scope="chef")).id)
    clock.advance(hours=1)
    again = (await memory.store_fact("user", "pet", "a cat", scope="chef")).id
    clock.advance(hours=1)
    _, result, _ = await consolidate(memory, new_facts=[told("user", "pet", "A cat")])
    assert result["confirmations_made"] == 1
    assert (await memory.look("fact", again)).last_confirmed_at == clock.now
    _, result, _ = await consolidate(memory, new_facts=[told("user", "pet", "a cat")], butler="gardener")
    assert result["facts_created"] == 1
    clock.advance(hours=1)
    await memory.forget("fact", again)
    _, result, _ = await consolidate(memory, new_facts=[told("user", "pet", "a cat")])
    assert result["facts_created"] == 0


async def test_what_another_memory_of_the_same_words_says_does_not_count(memory, clock):
    """A person's later fact with equal content is another fact if its key differs."""
    await memory.forget("fact", (await memory.store_fact("user", "pet", "a cat", scope="chef")).id)
    clock.advance(hours=1)
    await memory.store_fact("user", "favourite", "a cat", scope="chef")
    _, result, _ = await consolidate(memory, new_facts=[told("user", "pet", "a cat")])
    assert result["facts_created"] == 0


async def test_what_a_model_stored_since_does_not_count(memory, clock):
    """Only a person's word revives a value; a second one, that a model found before it was forgotten, does not."""
    await learn(memory, "likes tea", butler="gardener")
    mine = (await memory.store_note("likes tea", scope="chef")).id
    await memory.forget("fact", mine)
    assert (await learn(memory, "likes tea", butler="chef")).unwanted == 1


# -- what leaves no trace --------------------------------------------------------------------------------------


async def test_decay_eviction_undo_and_replacement_leave_none(memory, clock, sql):
    configure(memory, max_facts=1)
    await memory.store_fact("user", "mood", "happy", permanence="ephemeral", scope="chef")
    await memory.store_fact("user", "city", "Oslo", scope="chef")
    await memory.store_fact("user", "city", "Rome", scope="chef")
    await learn(memory, "one")
    second = await learn(memory, "two")
    await memory.undo(second.run_id)
    clock.advance(days=60)
    assert (await memory.run_decay_sweep())["facts_expired"] == 1
    assert hashes(sql) == []
    _, result, _ = await consolidate(memory, new_facts=[told("user", "mood", "happy"), told("user", "city", "Oslo")])
    assert result["facts_created"] == 2


async def test_episodes_leave_none(memory, sql):
    for verb in ("forget", "delete"):
        await gone(memory, verb, "episode", (await memory.store_episode("it rained", "chef")).id)
    assert hashes(sql) == []


async def test_nothing_of_the_value_can_be_guessed_from_the_hash(memory, sql):
    for each in (memory, memory.bind(caller=Caller(tenant_id="rival")), memory.bind(user_id="ann")):
        await each.forget("fact", (await each.store_note("likes tea")).id)
    rows = sql("SELECT * FROM forgotten_values")
    assert {row["tenant_id"] for row in rows} == {"default", "rival"}
    assert len({row["hash"] for row in rows}) == 3
    assert set(rows[0]) == {"tenant_id", "hash", "created_at"}
    assert not any(content_hash("likes tea") in row["hash"] or "tea" in row["hash"] for row in rows)


async def test_deleting_all_rows_of_a_fact_leaves_hashes_only(memory, sql):
    first = (await memory.store_fact("user", "city", "Oslo", scope="chef")).id
    second = (await memory.store_fact("user", "city", "Rome", scope="chef")).id
    for id_ in (first, second):
        await memory.delete("fact", id_)
    assert len(hashes(sql)) == 2
    assert sql("SELECT * FROM facts") == []
    _, result, _ = await consolidate(memory, new_facts=[told("user", "city", "Oslo"), told("user", "city", "Rome")])
    assert (result["facts_created"], await facts(memory)) == (0, [])


async def test_forgetting_twice_is_one_trace_and_a_refused_one_is_none(memory, sql):
    id_ = (await memory.store_note("likes tea")).id
    assert await memory.forget("fact", id_)
    assert await memory.forget("fact", id_)
    assert len(hashes(sql)) == 1
    bound = memory.bind(scope="chef")
    other = (await memory.store_note("likes rye")).id
    with pytest.raises(InvalidInput):
        await bound.forget("fact", other)
    assert not await memory.bind(user_id="ann").forget("fact", other)
    assert len(hashes(sql)) == 1


# -- what was learned from an item alone -----------------------------------------------------------------------


async def test_what_was_learned_from_an_episode_alone_is_shown_and_forgotten_with_it(memory):
    _, _, (alone, other) = await consolidate(
        memory,
        ["first", "second"],
        new_facts=[told("user", "pet", "a cat"), told("user", "city", "Oslo")],
        new_rules=[{"content": "Weigh boxes twice"}],
        evidence=[0],
    )
    await consolidate(memory, ["third"], new_facts=[told("user", "boat", "a kayak")])
    shared = [told("user", "food", "rye"), told("user", "drink", "tea")]
    _, _, (fourth, _) = await consolidate(memory, ["fourth", "fifth"], new_facts=shared)
    shown = await memory.derived("episode", alone)
    assert sorted(item.content for item in shown) == ["Oslo", "Weigh boxes twice", "a cat"]
    assert await memory.derived("episode", other) == []
    assert await memory.derived("episode", fourth) == []
    assert await memory.forget("episode", alone, derived=True)
    assert await facts(memory) == ["a kayak", "rye", "tea"]
    assert await rules(memory) == []
    _, result, _ = await consolidate(memory, ["sixth"], new_facts=[told("user", "pet", "a cat")])
    assert result["facts_created"] == 0


async def test_forgetting_only_the_episode_keeps_what_was_learned(memory):
    _, _, (episode,) = await consolidate(memory, new_facts=[told("user", "pet", "a cat")])
    assert await memory.forget("episode", episode)
    assert await facts(memory) == ["a cat"]


async def test_what_another_episode_supports_stays_until_that_is_forgotten_too(memory):
    _, _, (first,) = await consolidate(memory, ["first"], new_facts=[told("user", "pet", "a cat")])
    _, result, (second,) = await consolidate(memory, ["second"], new_facts=[told("user", "pet", "a cat")])
    assert result["confirmations_made"] == 1
    assert await memory.derived("episode", first) == []
    await memory.forget("episode", first, derived=True)
    assert await facts(memory) == ["a cat"]
    await memory.forget("episode", second, derived=True)
    assert await facts(memory) == ["a cat"]  # it was not learned from the second one


async def test_the_last_of_two_sources_takes_it_along(memory):
    _, _, (first, second) = await consolidate(memory, ["first", "second"], new_facts=[told("user", "pet", "a cat")])
    await memory.forget("episode", first, derived=True)
    assert await facts(memory) == ["a cat"]
    await memory.forget("episode", second, derived=True)
    assert await facts(memory) == []


async def test_a_persons_fact_that_an_episode_only_supports_stays(memory):
    mine = (await memory.store_fact("user", "pet", "a cat", scope="chef")).id
    _, result, (episode,) = await consolidate(memory, new_facts=[told("user", "pet", "a cat")])
    assert result["confirmations_made"] == 1
    links = await memory.get_links("fact", mine, "incoming")
    assert [(link.source_id, link.relation) for link in links] == [(episode, "supports")]
    assert await memory.derived("episode", episode) == []
    await memory.forget("episode", episode, derived=True)
    assert await facts(memory) == ["a cat"]


async def test_what_was_derived_from_something_derived_goes_too(memory):
    _, _, (episode,) = await consolidate(memory, new_facts=[told("user", "pet", "a cat")])
    (middle,) = (await memory.list_memories("fact")).items
    mixed = (await memory.store_note("has two sources")).id
    last = (await memory.store_note("likes animals")).id
    other = (await memory.store_note("unrelated")).id
    for source, target in ((last, middle.id), (mixed, middle.id), (mixed, other)):
        await memory.create_link("fact", source, "fact", target, "derived_from")
    shown = await memory.derived("episode", episode)
    assert sorted(item.content for item in shown) == ["a cat", "likes animals"]
    await memory.forget("episode", episode, derived=True)
    assert await facts(memory) == ["has two sources", "unrelated"]


async def test_links_in_a_circle_end(memory):
    one, two = [(await memory.store_note(text)).id for text in ("one", "two")]
    for source, target in ((one, two), (two, one)):
        await memory.create_link("fact", source, "fact", target, "derived_from")
    assert [item.content for item in await memory.derived("fact", one)] == ["two"]
    await memory.forget("fact", one, derived=True)
    assert await facts(memory) == []


async def test_a_bound_connection_forgets_nothing_of_others(memory):
    ann = memory.bind(user_id="ann")
    episode = (await ann.store_episode("it rained", butler="chef")).id
    theirs = (await memory.bind(user_id="bob").store_note("bob saw it")).id
    await memory.create_link("fact", theirs, "episode", episode, "derived_from")
    assert await ann.derived("episode", episode) == []
    assert await ann.forget("episode", episode, derived=True)
    assert (await memory.look("fact", theirs)).state == "active"
    chef = memory.bind(scope="chef")
    shared = (await memory.store_note("a global note")).id
    other = (await memory.store_episode("it snowed", butler="chef")).id
    await memory.create_link("fact", shared, "episode", other, "derived_from")
    assert await chef.derived("episode", other) == []
    assert await chef.forget("episode", other, derived=True)
    assert (await memory.look("fact", shared)).state == "active"


async def test_an_unknown_item_has_nothing_derived(memory):
    assert not await memory.forget("episode", memory._env.ids(), derived=True)
    assert await memory.derived("episode", memory._env.ids()) == []


# -- what a derived item carries -------------------------------------------------------------------------------


async def test_confidence_is_at_most_that_of_the_sources_and_the_model(memory):
    offered = {None: 1.0, 0.6: 0.6, 1.5: 1.0, -1: 0.0}
    proposals = [told("user", f"trait {n}", f"{n}", confidence=each) for n, each in enumerate(offered)]
    run, _, (first, _) = await consolidate(memory, ["first", "second"], new_facts=proposals, evidence=[0])
    stored = {item.content: item for item in (await memory.list_memories("fact")).items}
    assert [stored[f"{n}"].confidence for n in range(4)] == list(offered.values())
    for item in stored.values():
        assert (str(item.run_id), item.source_episode_id, item.source_butler) == (run, first, "chef")
        links = await memory.get_links("fact", item.id, "outgoing")
        assert [(link.target_id, link.relation) for link in links] == [(first, "derived_from")]


async def test_maintenance_keeps_what_was_forgotten(memory, clock):
    await memory.forget("fact", (await memory.store_note("likes tea")).id)
    clock.advance(days=400)
    await memory.run_decay_sweep()
    await administer(memory).verify()
    ask(memory, {"facts": [said("likes tea")]})
    assert (await memory.learn("User: tea")).unwanted == 1
