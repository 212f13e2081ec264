"""Batches of mappings, and who an agent is that is not named."""

import pytest

from tulving import Caller, InvalidInput, NewEpisode, NewFact


async def test_a_batch_may_be_of_mappings(memory, clock):
    facts = await memory.store_facts(
        [
            {"content": "likes tea", "tags": ["drinks"], "occurred_at": clock.now},
            NewFact(content="green", subject="Anna", predicate="color"),
            {"content": "blue", "subject": "Anna", "predicate": "color", "importance": 8},
        ]
    )
    assert [stored.outcome for stored in facts] == ["stored", "stored", "superseded"]
    assert (await memory.look("fact", facts[2].id)).importance == 8
    [rule] = await memory.store_rules([{"content": "Ask first", "scope": "garden"}])
    assert (await memory.look("rule", rule.id)).scope == "garden"
    [episode] = await memory.store_episodes(({"content": "It rained", "butler": "garden"},))
    assert (await memory.look("episode", episode.id)).butler == "garden"
    event = {"content": "It rained", "type": "weather"}
    first, again = await memory.record_events([event, event], user_id="anna")
    assert (first.outcome, again.outcome, again.id) == ("stored", "duplicate", first.id)
    assert await memory.store_facts([]) == []


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    ("offers", "complaint"),
    [
        ([{"content": "x"}, {"content": "y", "impotance": 3}], r"offers\[1\]\.impotance: is not known; .*importance"),
        ([{"content": "x"}, {"subject": "y"}], r"offers\[1\]\.content: is missing"),
        ([{"content": "x"}, {"content": "y", "importance": 11}], r"offers\[1\]\.importance: is 11"),
        ([{"content": "x"}, {"content": "y", "tags": "tea"}], r"offers\[1\]\.tags: must be a list"),
        ([{"content": "x"}, {"content": "y", 3: 4}], r"offers\[1\]\.3: is not known"),
        ([{"content": "x"}, {"content": "y", "k" * 10_000: 4}], r"offers\[1\]\.k{80}: is not known"),
        ([{"content": "x"}, {"content": None}], r"offers\[1\]\.content: must be text, not NoneType"),
        ([{"content": "\x00"}], r"content: is empty"),
        ([{"content": "x"}, "y"], r"offers\[1\]: must be a New\w+ or a mapping, not str"),
        ([{"content": "x"}, None], r"offers\[1\]: must be a New\w+ or a mapping, not NoneType"),
        ({"content": "x"}, r"offers: must be a list, not dict"),
        ("x", r"offers: must be a list, not str"),
        (None, r"offers: must be a list, not NoneType"),
    ],
)
async def test_a_batch_that_is_refused_names_the_place_and_stores_nothing(memory, offers, complaint):
    verbs = [memory.store_facts, memory.store_episodes]
    if "importance" not in complaint and "subject" not in str(offers):
        verbs.append(memory.store_rules)
    for verb in verbs:
        if verb == memory.store_episodes and "subject" in str(offers):
            continue
        with pytest.raises(InvalidInput, match=complaint):
            await verb(offers)
    counts = await memory.stats()
    assert (counts.facts.total, counts.episodes.total, counts.rules.total) == (0, 0, 0)


async def test_a_batch_of_mappings_is_idempotent(memory):
    once = memory.bind(idempotency_key="k")
    offers = [{"content": "likes tea"}, {"content": "likes cake"}]
    assert await once.store_facts(offers) == await once.store_facts(offers)


async def test_the_agent_is_the_caller_if_none_is_named(memory):
    gardener = memory.bind(caller=Caller(actor="gardener"))
    for who, agent in ((memory, "agent"), (gardener, "gardener"), (gardener.bind(scope="work"), "work")):
        [batch] = await who.store_episodes([NewEpisode(content=f"{agent} saw the roses")])
        event = await who.record_event(f"{agent} saw the tulips", "custom", user_id="anna")
        for id_ in ((await who.store_episode("The roses bloom")).id, batch.id, event.id):
            assert (await who.look("episode", id_)).butler == agent
        await memory.store_rule(f"roses: a rule of {agent}", scope=agent)
    for who, agent in ((memory, "agent"), (gardener, "gardener")):
        block = await who.context("roses")
        assert block == await who.context("roses", agent)
        assert f"a rule of {agent}" in block
        assert "a rule of work" not in block
        assert "gardener saw" not in block or agent == "gardener"
    with pytest.raises(InvalidInput, match="butler"):
        await memory.store_episode("x", butler=" ")
    with pytest.raises(InvalidInput, match="butler"):
        await memory.context("x", butler=3)


@pytest.mark.parametrize("query", [None, 7, b"tea", ["tea"]])
async def test_a_query_is_text(memory, query):
    asked = {
        "query": lambda: memory.search(query),
        "topic": lambda: memory.recall(query),
        "trigger_prompt": lambda: memory.context(query),
    }
    for field, ask in asked.items():
        with pytest.raises(InvalidInput, match=f"{field}: must be text, not {type(query).__name__}"):
            await ask()
    for ask in (lambda: memory.search_compact(query), lambda: memory.search_similar(query=query)):
        with pytest.raises(InvalidInput):
            await ask()
    with pytest.raises(InvalidInput, match="name"):
        await memory.resolve_entity(query)
    for empty in (memory.search, memory.recall):
        assert len(await empty("")) == 0
