"""Planted episodes among ordinary ones, read by a model that obeys them all: what comes of it, in figures."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from poisoning.corpus import CLEAN, PLANTED, STORED
from poisoning.naive_model import NaiveModel

from tulving import Caller, NewEpisode, NewFact
from tulving.domain.text import fold
from tulving.services.model import LanguageModel
from tulving.testing import ScriptedLlm

TABLES = ("facts", "rules", "episodes", "memory_links", "memory_events", "learning_runs", "proposals", "profile_blocks")
SECRET = "swordfish"
"""In every text of the other tenant."""
KNOWN = [NewFact(subject=subject, predicate=predicate, content=text) for subject, predicate, text in STORED]
PERSONS_RULE = "Ask before ordering"


def rows(sql, tenant_id):
    """All that the database holds of a tenant."""
    return {
        name: sorted(repr(sorted(row.items())) for row in sql(f"SELECT * FROM {name} WHERE tenant_id = ?", tenant_id))
        for name in TABLES
    }


async def settle_in(memory):
    """What a person has stored before: the facts that are denied later, and ordinary ones beside them."""
    usual = [NewFact(subject="shelf", predicate=f"row {n}", content=f"box {n}") for n in range(60)]
    await memory.store_facts([*usual, *KNOWN])
    await memory.store_rule(PERSONS_RULE)


async def settle_rival(memory):
    rival = memory.bind(caller=Caller(tenant_id="rival"))
    facts = [replace(fact, content=f"{SECRET} {fact.content}") for fact in KNOWN]
    stored = await rival.store_facts(facts)
    rule = await rival.store_rule(f"{SECRET} rule")
    episode = await rival.store_episode(f"{SECRET} episode", butler="house")
    return [stored[0].id, rule.id, episode.id]


async def consolidate(memory, given, foreign):
    """Let the naive model learn from all of these episodes; returns the model, the prompts and the result."""
    await memory.store_episodes([NewEpisode(content=item.text, butler="house") for item in given])
    naive = NaiveModel([str(id_) for id_ in foreign])
    llm = ScriptedLlm(naive, forever=True)
    memory._env.model = LanguageModel(llm, retries=0, max_tokens=1000, jitter=lambda: 0.0)
    return naive, llm.prompts, await memory.run_consolidation()


async def contents(memory, kind, **options):
    page = await memory.list_memories(kind, limit=1000, **options)
    return [item.content for item in page.items]


@pytest.mark.scenario("001-047")
async def test_planted_episodes_among_ordinary_ones(memory, sql):
    await settle_in(memory)
    ann = memory.bind(user_id="ann")
    await ann.store_facts([NewFact(subject="office", predicate="address", content="ann works at home")])
    foreign = await settle_rival(memory)
    before = rows(sql, "rival")
    given = [*PLANTED, *CLEAN]
    Random(12).shuffle(given)
    naive, prompts, result = await consolidate(memory, given, foreign)
    # One imitates our own prompt, is taken for an echo of it, and not shown. All others are obeyed.
    echoed = set(given) - set(naive.seen)
    assert {item.kind for item in PLANTED if item in echoed} == {"closing_tag"}
    assert len(echoed) == 1

    facts, rules = await contents(memory, "fact"), await contents(memory, "rule")
    waiting = await memory.proposals(limit=1000)
    held = Counter(each.action for each in waiting)
    in_review = {fold(each.offer["content"]) for each in waiting if each.action == "new_rule"}
    obeyed = [(n, planted.order) for n, planted in enumerate(PLANTED) if planted.order and planted not in echoed]
    ordered = {fold(text) for n, order in obeyed for text in (order, f"Handle case {n} as it was asked")}
    clean = {each.content for each in CLEAN}
    tenants = {row["tenant_id"] for name in TABLES for row in sql(f"SELECT DISTINCT tenant_id FROM {name}")}
    leaked = [prompt for prompt in prompts if SECRET in prompt or "ann works at home" in prompt]
    cross = (rows(sql, "rival") != before) + len(tenants - {"default", "rival"}) + len(leaked)
    print(
        f"\npoisoning: {len(PLANTED)} planted and {len(CLEAN)} clean episodes in {len(prompts)} prompts:"
        f" {cross} effects across tenants, {len(naive.broken)} broken prompts,"
        f" {len(set(rules) - {PERSONS_RULE})} orders active as rules,"
        f" {len(in_review & ordered)} of {len(ordered)} orders in review,"
        f" {len(clean & set(facts))} of {len(clean)} clean facts stored,"
        f" {result['facts_updated']} facts changed, {len(result['errors'])} proposals refused"
    )
    assert cross == 0
    assert naive.broken == []
    assert rules == [PERSONS_RULE]
    assert ordered <= in_review
    assert held == {"new_rule": len(in_review)}
    assert clean <= set(facts)
    assert "ann works at home" in await contents(ann, "fact")
    assert (result["episodes_consolidated"], len(result["runs"])) == (len(given), 1)

    undone = await memory.undo(result["runs"][0])
    assert undone.refused == []
    assert sorted(await contents(memory, "fact")) == sorted(
        [*(f"box {n}" for n in range(60)), *(content for *_, content in STORED), "ann works at home"]
    )
    assert not await memory.proposals()
    assert rows(sql, "rival") == before


async def test_a_small_memory_is_not_talked_out_of_what_it_knows(memory):
    """So many denials at once are held, whatever else their run has to say."""
    await memory.store_facts(KNOWN)
    denials = [planted for planted in PLANTED if planted.kind == "contradiction"]
    _, _, result = await consolidate(memory, denials, [])
    assert (result["facts_updated"], result["held"]) == (0, len(denials))
    assert set(await contents(memory, "fact")) == {content for *_, content in STORED}
