"""Undoing a run: what it added goes, what it replaced comes back, and what somebody changed since stays."""

import asyncio
import json
import sys
from datetime import timedelta
from uuid import UUID, uuid5

import pytest
from administration import administer
from lesson_parts import ask, configure, consolidate, due, fact, facts, learn, reopened, rules, told, update

from tulving import Caller, InvalidInput, NotFound

UNKNOWN = uuid5(UUID(int=0), "unknown")
OTHERS = [told("cat", f"trait {n}", f"calm {n}") for n in range(20)]


async def store_others(memory):
    """Enough facts that no single loss is a large one."""
    for each in OTHERS:
        await memory.store_fact(**each)


async def state(memory, id_):
    return (await fact(memory, id_)).state


def forgotten_values(sql):
    return sql("SELECT * FROM forgotten_values")


# -- what is undone --------------------------------------------------------------------------------------------


async def test_what_a_run_added_is_retracted_and_what_it_replaced_is_restored(memory, sql, clock):
    await store_others(memory)
    old = (await memory.store_fact("user", "city", "Oslo", scope="chef")).id
    clock.advance(days=1)
    run, _, (episode,) = await consolidate(
        memory,
        ["the user moved, and the delivery came late"],
        new_facts=[told("user", "city", "Bergen"), told("user", "pet", "a cat")],
        new_rules=[{"content": "Confirm the delivery date before ordering"}],
    )
    assert "Bergen" in await facts(memory)
    assert len(await rules(memory)) == 1
    clock.advance(hours=1)
    undone = await memory.undo(run)
    assert (undone.run_id, undone.restored, len(undone.retracted), undone.refused) == (UUID(run), [old], 3, [])
    assert await facts(memory) == sorted([each["content"] for each in OTHERS] + ["Oslo"])
    assert await rules(memory) == []
    restored = await fact(memory, old)
    assert (restored.state, restored.ended_at) == ("active", None)
    assert (await memory.look("episode", episode)).consolidation_status == "consolidated"
    assert await due(memory) == 0
    hits = await memory.recall("user city", types=["fact"], limit=50)
    assert "Oslo" in [hit.item.content for hit in hits]
    assert "Bergen" not in [hit.item.content for hit in hits]
    assert forgotten_values(sql) == []
    assert [report.run.status for report in await memory.runs()] == ["undone"]


async def test_an_unkeyed_fact_that_was_updated_comes_back(memory):
    await store_others(memory)
    old = (await memory.store_note("likes tea", category="preference")).id
    run, result, _ = await consolidate(memory, updated_facts=[update(old, "likes coffee")])
    assert result["facts_updated"] == 1
    assert await state(memory, old) == "superseded"
    undone = await memory.undo(run)
    assert (undone.restored, undone.refused) == ([old], [])
    assert {"likes tea", "likes coffee"} & set(await facts(memory)) == {"likes tea"}


async def test_a_keyed_fact_that_was_updated_comes_back_in_its_scope(memory):
    await store_others(memory)
    old = (await memory.store_fact("user", "city", "Oslo", scope="global")).id
    run, _, _ = await consolidate(memory, updated_facts=[update(old, "Bergen")])
    (new,) = [item for item in (await memory.list_memories("fact")).items if item.content == "Bergen"]
    assert (new.scope, new.supersedes_id) == ("global", old)
    await memory.undo(run)
    assert await state(memory, old) == "active"


async def test_confirmations_are_taken_back(memory, clock):
    confirmed = (await memory.store_fact("user", "city", "Oslo")).id
    repeated = (await memory.store_fact("user", "pet", "a cat", scope="chef")).id
    rule = (await memory.store_rule("Ask first")).id
    before = await fact(memory, confirmed)
    clock.advance(days=30)
    run, result, _ = await consolidate(
        memory, confirmations=[confirmed, rule], new_facts=[told("User", "PET", "A  cat")]
    )
    assert result["confirmations_made"] == 3
    assert (await fact(memory, confirmed)).last_confirmed_at == clock.now
    clock.advance(days=1)
    undone = await memory.undo(run)
    assert undone.refused == []
    assert set(undone.restored) == {confirmed, repeated, rule}
    for item in (await fact(memory, confirmed), await fact(memory, repeated), await memory.look("rule", rule)):
        assert item.last_confirmed_at == before.last_confirmed_at
    assert (await fact(memory, confirmed)).next_review_at == before.next_review_at


async def test_what_an_undone_run_gave_as_support_counts_no_longer(memory, clock):
    _, _, (source,) = await consolidate(memory, ["first"], new_facts=[told("user", "pet", "a cat")])
    (cat,) = (await memory.list_memories("fact")).items
    own = (await memory.store_episode("mine", "chef")).id
    await memory.create_link("episode", own, "fact", cat.id, "supports")
    clock.advance(seconds=1)
    run, _, (second,) = await consolidate(memory, ["second"], new_facts=[told("user", "pet", "a cat")])

    async def support():
        found = await memory.get_links("fact", cat.id, "incoming")
        return [link.source_id for link in found if link.relation == "supports"]

    assert await support() == [own, second]
    await memory.undo(run)
    assert await support() == [own]
    assert [link.target_id for link in await memory.get_links("fact", cat.id, "outgoing")] == [source]


async def test_a_confirmation_that_kept_a_fact_from_fading_is_taken_back_with_its_effect(memory, clock):
    fading = (await memory.store_fact("user", "city", "Oslo", permanence="volatile")).id
    clock.advance(days=50)
    run, _, _ = await consolidate(memory, confirmations=[fading])
    clock.advance(days=10)
    await memory.undo(run)
    assert await state(memory, fading) == "fading"


async def test_evicted_facts_come_back(memory, sql):
    configure(memory, max_facts=2)
    await learn(memory, {**said_("one"), "confidence": 0.6}, said_("two"))
    learned = await learn(memory, said_("three"))
    assert learned.evicted == 1
    assert await facts(memory) == ["three", "two"]
    undone = await memory.undo(learned.run_id)
    assert (len(undone.restored), len(undone.retracted)) == (1, 1)
    assert await facts(memory) == ["one", "two"]
    assert forgotten_values(sql) == []


def said_(content):
    return {"content": content, "category": "goal", "confidence": 0.9}


async def test_an_evicted_fact_that_a_person_forgot_since_stays_away(memory):
    configure(memory, max_facts=1)
    first = await learn(memory, "one")
    second = await learn(memory, "two")
    assert await memory.forget("fact", first.stored[0].id)
    undone = await memory.undo(second.run_id)
    assert undone.refused == [f"fact {first.stored[0].id}: forgotten since"]
    assert await facts(memory) == []


async def test_profile_blocks_are_restored(memory):
    await memory.set_profile("work", "a baker")
    learned = await learn(memory, profile={"work": "a cook", "recent": "moved"})
    assert sorted(learned.profile) == ["recent", "work"]
    undone = await memory.undo(learned.run_id)
    assert (sorted(undone.profile), undone.refused) == (["recent", "work"], [])
    assert {block: text for block, text in (await memory.profile_blocks()).items() if text} == {"work": "a baker"}


async def test_a_profile_block_that_was_changed_since_stays(memory):
    learned = await learn(memory, profile={"work": "a cook", "recent": "moved"})
    await memory.set_profile("work", "a baker")
    undone = await memory.undo(learned.run_id)
    assert (undone.profile, undone.refused) == (["recent"], ["profile work: changed since"])
    assert (await memory.profile_blocks())["work"] == "a baker"


async def test_a_fact_that_the_run_added_and_replaced_itself_is_gone(memory):
    await store_others(memory)
    run, _, _ = await consolidate(memory, new_facts=[told("user", "city", "Bergen"), told("user", "city", "Turku")])
    undone = await memory.undo(run)
    assert (len(undone.retracted), undone.restored, undone.refused) == (2, [], [])
    assert not {"Bergen", "Turku"} & set(await facts(memory))


async def test_what_a_person_accepted_is_undone_with_its_run(memory):
    configure(memory, review_rules=True)
    run, _, _ = await consolidate(memory, new_rules=[{"content": "Confirm the date"}, {"content": "Weigh the parcels"}])
    first, _ = await memory.proposals()
    await memory.accept(first.id)
    assert len(await rules(memory)) == 1
    await memory.undo(run)
    assert await rules(memory) == []
    assert not await memory.proposals()
    with pytest.raises(NotFound):
        await memory.accept(first.id)


async def test_held_proposals_are_withdrawn(memory, sql):
    configure(memory, review_rules=True)
    run, result, _ = await consolidate(memory, new_rules=[{"content": "Confirm the date"}])
    assert result["held"] == 1
    await memory.undo(run)
    assert not await memory.proposals()
    events = sql("SELECT event_type FROM memory_events WHERE entity_type = 'proposal' ORDER BY seq")
    assert [event["event_type"] for event in events] == ["proposal_held", "proposal_withdrawn"]
    assert forgotten_values(sql) == []


# -- what somebody changed since -------------------------------------------------------------------------------


async def edit(memory, id_):
    await memory.edit("fact", id_, content="Trondheim")


async def confirm(memory, id_):
    await memory.confirm("fact", id_)


async def replace_it(memory, id_):
    await memory.store_fact("user", "city", "Rome", scope="chef")


async def forget(memory, id_):
    await memory.forget("fact", id_)


async def delete(memory, id_):
    await memory.delete("fact", id_)


async def confirm_by_a_model(memory, id_):
    await consolidate(memory, confirmations=[id_])


async def replace_by_a_model(memory, id_):
    await consolidate(memory, updated_facts=[update(id_, "Rome")])


@pytest.mark.parametrize(
    ("change", "named", "value"),
    [
        (edit, "edited", "Trondheim"),
        (confirm, "confirmed", "Bergen"),
        (replace_it, "superseded", "Rome"),
        (confirm_by_a_model, "confirmed", "Bergen"),
        (replace_by_a_model, "superseded", "Rome"),
        (forget, "forgotten", "Oslo"),
        (delete, "deleted", "Oslo"),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
async def test_what_was_changed_since_is_named_and_stays(memory, change, named, value):
    await store_others(memory)
    old = (await memory.store_fact("user", "city", "Oslo", scope="chef")).id
    run, _, _ = await consolidate(memory, new_facts=[told("user", "city", "Bergen"), told("user", "pet", "a cat")])
    (new,) = [item.id for item in (await memory.list_memories("fact")).items if item.content == "Bergen"]
    await change(memory, new)
    undone = await memory.undo(run)
    assert f"fact {new}: {named} since" in undone.refused
    assert {"Oslo", "Bergen", "Trondheim", "Rome"} & set(await facts(memory)) == {value}
    assert "a cat" not in await facts(memory)
    if value == "Oslo":
        assert (undone.restored, len(undone.refused)) == ([old], 1)
    else:
        assert undone.restored == []
        assert len(undone.refused) == 2
        assert undone.refused[0].startswith(f"fact {new}:") or undone.refused[1].startswith(f"fact {new}:")


async def test_the_old_fact_was_changed_since(memory):
    await store_others(memory)
    old = (await memory.store_fact("user", "city", "Oslo", scope="chef")).id
    run, _, _ = await consolidate(memory, new_facts=[told("user", "city", "Bergen")])
    await memory.forget("fact", old)
    undone = await memory.undo(run)
    assert undone.refused == [f"fact {old}: forgotten since"]
    assert len(undone.retracted) == 1
    assert {"Oslo", "Bergen"} & set(await facts(memory)) == set()


async def test_an_unkeyed_fact_does_not_come_back_beside_a_replacement_that_a_person_kept(memory):
    await store_others(memory)
    old = (await memory.store_note("likes tea")).id
    run, _, _ = await consolidate(memory, updated_facts=[update(old, "likes coffee")])
    (new,) = [item.id for item in (await memory.list_memories("fact")).items if item.content == "likes coffee"]
    await memory.confirm("fact", new)
    undone = await memory.undo(run)
    assert set(undone.refused) == {
        f"fact {new}: confirmed since",
        f"fact {old}: {new}, which replaced it, was confirmed since",
    }
    assert await state(memory, old) == "superseded"
    assert [report.run.status for report in (await memory.runs())] == ["done"]


async def test_an_unkeyed_fact_comes_back_when_its_replacement_was_forgotten(memory):
    await store_others(memory)
    old = (await memory.store_note("likes tea")).id
    run, _, _ = await consolidate(memory, updated_facts=[update(old, "likes coffee")])
    (new,) = [item.id for item in (await memory.list_memories("fact")).items if item.content == "likes coffee"]
    await memory.forget("fact", new)
    undone = await memory.undo(run)
    assert (undone.restored, undone.refused) == ([old], [f"fact {new}: forgotten since"])


async def test_a_change_between_two_prompts_of_a_run_is_seen(memory):
    """The run confirms the fact after a person has edited it; its creation still must not be undone."""
    configure(memory, episodes_at_a_time=1)
    for text in ("first", "second"):
        await memory.store_episode(text, butler="chef")

    async def answer(prompt, trigger_source):
        known = (await memory.list_memories("fact")).items
        if not known:
            return json.dumps({"new_facts": [told("user", "pet", "a cat")]})
        await memory.edit("fact", known[0].id, tags=["mine"])
        return json.dumps({"confirmations": [str(known[0].id)]})

    result = await memory.run_consolidation(answer)
    assert (result["facts_created"], result["confirmations_made"]) == (1, 1)
    (cat,) = (await memory.list_memories("fact")).items
    undone = await memory.undo(result["runs"][0])
    assert (undone.restored, undone.refused) == ([cat.id], [f"fact {cat.id}: edited since"])
    assert await facts(memory) == ["a cat"]


async def test_a_rule_that_was_marked_since_stays(memory):
    run, _, _ = await consolidate(
        memory,
        ["the delivery came late, the customer was angry"],
        new_rules=[{"content": "Confirm dates beforehand"}, {"content": "Weigh parcels twice"}],
    )
    marked, other = (await memory.list_memories("rule")).items
    await memory.mark_helpful(marked.id)
    undone = await memory.undo(run)
    assert [line.split(": ")[0] for line in undone.refused] == [f"rule {marked.id}"]
    assert undone.retracted == [other.id]
    assert await rules(memory) == [marked.content]


async def test_time_references_and_maintenance_are_no_reason(memory, clock, embedder):
    embedder.problem = "not ready"
    run, _, _ = await consolidate(
        memory,
        new_facts=[
            told("user", "mood", "happy", permanence="ephemeral"),
            told("user", "plan", "to row", permanence="volatile"),
            told("user", "pet", "a cat"),
        ],
    )
    embedder.problem = None
    await administer(memory).embed_pending()
    await memory.recall("user pet")
    await memory.settle()
    clock.advance(days=60)
    swept = await memory.run_decay_sweep()
    assert (swept["facts_fading"], swept["facts_expired"]) == (1, 1)
    undone = await memory.undo(run)
    assert (len(undone.retracted), undone.refused) == (3, [])
    assert [item.state for item in (await memory.list_memories("fact", state="any")).items] == ["retracted"] * 3


async def test_the_place_was_taken_since(memory):
    await store_others(memory)
    old = (await memory.store_fact("user", "city", "Oslo", scope="chef")).id
    run, _, _ = await consolidate(memory, new_facts=[told("user", "city", "Bergen")])
    (new,) = [item.id for item in (await memory.list_memories("fact")).items if item.content == "Bergen"]
    await memory.forget("fact", new)
    taken = (await memory.store_fact("user", "city", "Rome", scope="chef")).id
    undone = await memory.undo(run)
    assert f"fact {old}: {taken} has taken its place" in undone.refused
    assert await state(memory, taken) == "active"


async def test_two_runs_are_undone_one_after_the_other(memory):
    """What the later run did is undone first, and then is no reason against undoing the earlier one."""
    await store_others(memory)
    await memory.set_profile("work", "a baker")
    oslo = (await memory.store_fact("user", "city", "Oslo", scope="chef")).id
    first, _, _ = await consolidate(memory, new_facts=[told("user", "city", "Bergen")], confirmations=[oslo])
    second, _, _ = await consolidate(memory, new_facts=[told("user", "city", "Rome")])
    refused = await memory.undo(first)
    assert (refused.retracted, refused.restored) == ([], [])
    assert [report.run.status for report in await memory.runs(first)] == ["done"]
    assert (await memory.undo(second)).refused == []
    assert (await memory.undo(first)).refused == []
    assert await state(memory, oslo) == "active"
    assert {"Oslo", "Bergen", "Rome"} & set(await facts(memory)) == {"Oslo"}


async def test_two_profile_runs_are_undone_one_after_the_other(memory):
    await memory.set_profile("work", "a baker")
    first = await learn(memory, profile={"work": "a cook"})
    second = await learn(memory, profile={"work": "a pilot"})
    assert (await memory.undo(second.run_id)).profile == ["work"]
    assert (await memory.undo(first.run_id)).profile == ["work"]
    assert await memory.profile_blocks() == {"work": "a baker"}


# -- which runs can be undone ----------------------------------------------------------------------------------


async def test_twice_is_an_error(memory):
    learned = await learn(memory, "one")
    await memory.undo(str(learned.run_id))
    with pytest.raises(InvalidInput, match="undone before"):
        await memory.undo(learned.run_id)


async def test_two_undo_at_once_and_one_takes_effect(memory):
    learned = await learn(memory, "one")
    results = await asyncio.gather(*(memory.undo(learned.run_id) for _ in range(2)), return_exceptions=True)
    assert sorted(type(each).__name__ for each in results) == ["InvalidInput", "Undone"]


async def test_unknown_and_foreign_runs_are_not_found(memory):
    mine = await learn(memory.bind(user_id="ann"), "one")
    theirs = memory.bind(caller=Caller(tenant_id="rival"))
    for other in (theirs, memory.bind(user_id="bob"), memory.bind(user_id="ann", persona_id="p")):
        with pytest.raises(NotFound):
            await other.undo(mine.run_id)
        assert not await other.runs()
        with pytest.raises(NotFound):
            await other.runs(mine.run_id)
    with pytest.raises(NotFound):
        await memory.undo(UNKNOWN)
    with pytest.raises(InvalidInput):
        await memory.undo("no id")
    assert await facts(memory) == ["one"]
    await memory.bind(user_id="ann").undo(mine.run_id)


async def test_a_connection_bound_to_an_agent_undoes_only_that_agents_runs(memory):
    run, _, _ = await consolidate(memory, new_facts=[told("user", "pet", "a cat")], butler="chef")
    other = memory.bind(scope="gardener")
    assert not await other.runs()
    with pytest.raises(NotFound):
        await other.undo(run)
    assert [report.run.id for report in await memory.bind(scope="chef").runs()] == [UUID(run)]
    assert (await memory.bind(scope="chef").undo(run)).refused == []


async def test_an_open_run_is_refused_until_its_lease_is_over(memory, clock):
    prompt = await memory.learn_prompt("User: hello")
    with pytest.raises(InvalidInput, match="not finished"):
        await memory.undo(prompt.lease)
    clock.now = prompt.expires_at - timedelta.resolution
    with pytest.raises(InvalidInput, match="not finished"):
        await memory.undo(prompt.lease)
    clock.now = prompt.expires_at
    undone = await memory.undo(prompt.lease)
    assert (undone.retracted, undone.restored, undone.refused) == ([], [], [])


async def test_a_failed_run_is_undone_too(memory):
    """Its first prompt was answered, its second one not."""
    configure(memory, episodes_at_a_time=1)
    await memory.store_episode("first", butler="chef")
    await memory.store_episode("second", butler="chef")
    ask(memory, {"new_facts": [told("user", "pet", "a cat")]}, "no answer")
    result = await memory.run_consolidation()
    assert (result["facts_created"], len(result["errors"])) == (1, 1)
    assert (await memory.runs())[0].run.status == "failed"
    await memory.undo(result["runs"][0])
    assert await facts(memory) == []


async def test_undo_by_somebody_who_opened_the_store_later(memory, url, clock):
    await store_others(memory)
    await memory.store_fact("user", "city", "Oslo", scope="chef")
    run, _, _ = await consolidate(memory, new_facts=[told("user", "city", "Bergen")])
    async with reopened(url, clock) as other:
        assert (await other.undo(run)).refused == []
    assert {"Oslo", "Bergen"} & set(await facts(memory)) == {"Oslo"}
    assert "Oslo" in [hit.item.content for hit in await memory.search("city", types=["fact"], limit=50)]


CHILD = """
import sys
from tulving.interfaces.blocking import open_memory_sync
from tulving.testing import WordEmbedder
with open_memory_sync(sys.argv[1], embedder=WordEmbedder(), background=False) as memory:
    print(memory.undo(sys.argv[2]).refused)
"""


async def test_undo_by_a_real_other_process(memory, url):
    await store_others(memory)
    await memory.store_fact("user", "city", "Oslo", scope="chef")
    run, _, _ = await consolidate(memory, new_facts=[told("user", "city", "Bergen")])
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CHILD, url, run), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await child.communicate()
    assert (child.returncode, out.split()) == (0, [b"[]"]), err.decode()
    assert {"Oslo", "Bergen"} & set(await facts(memory)) == {"Oslo"}


async def test_every_change_of_an_undo_is_an_event_that_names_the_run(memory, sql):
    await store_others(memory)
    await memory.store_fact("user", "city", "Oslo", scope="chef")
    run, _, _ = await consolidate(memory, new_facts=[told("user", "city", "Bergen")])
    last = sql("SELECT MAX(seq) AS seq FROM memory_events")[0]["seq"]
    await memory.undo(run)
    events = sql("SELECT event_type, run_id, payload FROM memory_events WHERE seq > ? ORDER BY seq", last)
    assert [event["event_type"] for event in events] == ["fact_retracted", "fact_restored", "run_undone"]
    assert [event["payload"].get("run") for event in events[:2]] == [run, run]
    assert [event["run_id"] for event in events] == [None] * 3
