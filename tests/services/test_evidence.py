"""Search by evidence: what the order depends on and what not, how little is too little, and what is left out."""

from datetime import timedelta
from uuid import UUID

import pytest

from tulving import InvalidInput, MemoryModuleConfig, NewEpisode, NewFact, RetrievalConfig, open_memory
from tulving.domain.relevance import SIGNALS, WEAK
from tulving.errors import ConfigError
from tulving.providers.hashing import Hashing
from tulving.services.search import POOL
from tulving.testing import WordEmbedder

WORDS = "garden river bread music winter letter bridge candle copper silver forest island market window".split()


def told(number):
    """A text of its own for each number, all of them made of the same few words."""
    picked = [WORDS[(number * step + step) % len(WORDS)] for step in (1, 3, 5)]
    return f"{' '.join(picked)} number{number}"


async def remember(memory, clock, number, sessions=10):
    start = clock.now
    for n in range(0, number, 50):
        clock.advance(minutes=1)
        await memory.store_episodes(
            [
                NewEpisode(
                    content=told(m),
                    butler="b",
                    session_id=UUID(int=900 + m % sessions),
                    occurred_at=start + timedelta(minutes=m),
                    source=("Anna", "Bob")[m % 2],
                )
                for m in range(n, min(n + 50, number))
            ]
        )


@pytest.mark.parametrize(
    "query", ["garden river", "which bread does Anna like", "number7", "music in the winter market"]
)
async def test_the_first_ten_do_not_depend_on_the_limit(memory, clock, query):
    await remember(memory, clock, 90)
    await memory.store_facts([NewFact(subject="Anna", predicate=f"p{n}", content=told(n)) for n in range(30)])
    first = [hit.item.id for hit in await memory.search(query, limit=5)]
    assert len(first) == 5
    for limit in (10, 50, 200):
        found = [hit.item.id for hit in await memory.search(query, limit=limit)]
        assert found[:5] == first, limit
        recalled = [hit.item.id for hit in await memory.recall(query, limit=limit)]
        assert recalled[:5] == [hit.item.id for hit in await memory.recall(query, limit=5)], limit


async def test_the_first_ten_of_more_than_a_pool_do_not_depend_on_a_limit_within_it(memory, clock):
    await remember(memory, clock, 3 * POOL)
    expected = [hit.item.id for hit in await memory.search("garden river bread", limit=10)]
    for limit in (5, 20, 50, POOL):
        found = [hit.item.id for hit in await memory.search("garden river bread", limit=limit)]
        assert found[: len(expected)] == expected[:limit], limit
    assert len(await memory.search("garden river bread", limit=2 * POOL)) == 2 * POOL, "as many as are asked for"


async def test_the_score_of_a_hit_is_its_relevance_and_every_signal_is_told(memory, clock):
    await remember(memory, clock, 20)
    found = await memory.search("when did Anna see the garden yesterday")
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    for hit in found:
        assert hit.score == hit.parts["relevance"] and 0 <= hit.score <= 1
        assert SIGNALS.keys() <= hit.parts.keys()
        assert {"similarity", "semantic_rank", "keyword_rank", "rrf_score", "confidence"} <= hit.parts.keys()


async def test_a_speaker_counts_and_excludes_no_other(memory):
    for source in ("Anna", "Bob", None):
        await memory.store_episode("I think my cat sleeps all day", butler="b", source=source)
    found = await memory.search("what does Anna's cat do")
    assert found[0].item.source == "Anna"
    assert {hit.item.source for hit in found} == {"Anna", "Bob", None}
    assert [hit.parts["speaker"] for hit in found] == [1.0, 0.0, 0.0]
    nobody = await memory.search("what does the cat do")
    assert not any("speaker" in hit.parts for hit in nobody), "nobody is named"
    await memory.store_episode("Anna sold her red bicycle to a neighbour", butler="b", source="Bob")
    best = (await memory.search("to whom did Anna sell her bicycle"))[0]
    assert (best.item.source, best.parts["speaker"]) == ("Bob", 0.0), "who is named may be spoken of by another"


async def test_an_entity_in_the_query_counts_for_its_facts(memory):
    entity = (await memory.create_entity("Anna Kowalski", "person", aliases=["Ania"])).entity_id
    for subject, id_ in (("A. K.", entity), ("Bob", None)):
        await memory.store_fact(subject, "likes", "green tea", entity_id=id_)
    found = await memory.search("does Ania like tea")
    assert [(hit.item.entity_id, hit.parts["speaker"]) for hit in found] == [(entity, 1.0), (None, 0.0)]


async def test_a_name_in_the_query_does_not_drown_the_meaning(memory):
    """The turns that only say the name are closer to the whole query than the one that answers it."""
    for _ in range(8):
        await memory.store_episode("Anna Anna Anna", butler="b", source="Anna")
    answer = await memory.store_episode("violin lessons", butler="b", source="Anna")
    found = await memory.search("Anna Anna violin", mode="semantic")
    assert found[0].item.id == answer.id
    assert (await memory.search("Anna Anna violin"))[0].item.id == answer.id
    only = await memory.search("Anna", mode="semantic")
    assert only[0].item.content.startswith("Anna"), "a name alone is what the query is about"


FLOORS = [0.0, 0.2, 0.5, 0.9, 1.0]


@pytest.mark.parametrize("floor", FLOORS)
async def test_nothing_below_the_floor_is_found_and_the_answer_counts_it(memory, clock, floor):
    await remember(memory, clock, 30)
    everything = await memory.search("garden river", limit=100)
    for verb in (memory.search, memory.recall):
        found = await verb("garden river", limit=100, min_relevance=floor)
        expected = {hit.item.id for hit in everything if hit.parts["relevance"] >= floor}
        assert {hit.item.id for hit in found} == expected
        assert found.below_relevance == len(everything) - len(expected)
        assert found.candidates == len(everything)
        assert (found.closest is None) == bool(expected)


async def test_a_hit_exactly_at_the_floor_is_found(memory):
    await memory.store_fact("tea", "is", "green")
    (hit,) = await memory.search("green milk")
    assert len(await memory.search("green milk", min_relevance=hit.score)) == 1
    above = await memory.search("green milk", min_relevance=hit.score + 1e-6)
    assert len(above) == 0
    assert (above.closest.item.id, above.closest.score, above.closest.weak) == (hit.item.id, hit.score, hit.weak)
    assert (above.candidates, above.below_relevance) == (1, 1)


async def test_an_empty_answer_names_what_came_closest(memory, clock):
    await remember(memory, clock, 30)
    best = (await memory.search("garden river"))[0]
    found = await memory.search("garden river", min_relevance=1)
    assert found.hits == [] and found.closest.item.id == best.item.id
    assert found.closest.parts == best.parts
    nothing = await memory.search("", min_relevance=1)
    assert (nothing.hits, nothing.closest, nothing.candidates) == ([], None, 0)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("verb", ["search", "recall", "context"])
@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan"), float("inf"), "0.5", True, [0.5]])
async def test_a_bad_floor_is_refused_by_name(memory, verb, bad):
    more = {"butler": "b"} if verb == "context" else {}
    with pytest.raises(InvalidInput) as refused:
        await getattr(memory, verb)("tea", min_relevance=bad, **more)
    assert refused.value.field == "min_relevance"


@pytest.mark.parametrize("config", [MemoryModuleConfig(retrieval=RetrievalConfig(min_relevance=0.9))])
async def test_the_floor_is_configured_and_a_caller_may_choose_another(memory):
    await memory.store_fact("tea", "is", "green")
    for verb in (memory.search, memory.recall):
        assert len(await verb("green milk")) == 0
        assert len(await verb("green milk", min_relevance=0)) == 1
    assert "green" not in await memory.context("green milk", butler="b")
    assert "green" in await memory.context("green milk", butler="b", min_relevance=0.0)


@pytest.mark.parametrize("floor", [-0.1, 1.1])
def test_a_bad_configured_floor_is_refused_by_name(floor):
    with pytest.raises(ConfigError, match=r"retrieval\.min_relevance.*0 to 1"):
        RetrievalConfig(min_relevance=floor)


@pytest.mark.parametrize("fusion", ["RRF", "", "mixed"])
def test_a_bad_fusion_is_refused_by_name(fusion):
    with pytest.raises(ConfigError, match=r"retrieval\.fusion.*evidence, rrf"):
        RetrievalConfig(fusion=fusion)


async def test_a_hit_says_that_it_is_weak(memory, clock):
    await remember(memory, clock, 60)
    await memory.store_fact("Anna", "plays", "cello in a quartet")
    found = await memory.search("which cello quartet plays Anna", limit=100)
    assert {hit.weak for hit in found} == {True, False} and not found[0].weak
    for hit in found:
        assert hit.weak == (hit.parts["relevance"] < WEAK)
    assert not any(hit.weak for hit in await memory.search_similar(memory._env.embedder.embed("cello")))


@pytest.mark.parametrize("config", [MemoryModuleConfig(retrieval=RetrievalConfig(fusion="rrf"))])
async def test_ranks_alone_do_not_say_what_is_weak_or_outdated(memory, clock):
    await memory.store_fact("tea", "is", "green")
    clock.advance(days=3)
    await memory.store_fact("tea", "is now", "green and strong")
    found = await memory.search("green and strong tea")
    assert {(hit.weak, hit.newer) for hit in found} == {(False, None)}
    (best,) = await memory.search("green and strong tea", min_relevance=1)
    assert best.item.predicate == "is now", "the floor applies to the ranks too"


async def test_vectors_that_are_pending_do_not_hide_anything(memory, embedder, clock):
    """What has no vector yet competes by its words, above what resembles the query only a little."""
    embedder.problem = "not ready"
    pending = (await memory.store_episode("the heron nests behind the old mill", butler="b")).id
    embedder.problem = None
    for n in range(30):
        await memory.store_episode(f"behind the {WORDS[n % len(WORDS)]} there is the {n}", butler="b")
    query = "where does the heron nest"
    assert (await memory.search(query))[0].item.id == pending
    assert "similarity" not in (await memory.search(query))[0].parts
    assert await memory.embed_pending() == 1
    assert (await memory.search(query))[0].item.id == pending
    embedder.problem = "not ready"
    words_only = await memory.search(query)
    assert (words_only[0].item.id, words_only.mode) == (pending, "keyword")


ANSWERS = {
    "Where does the heron nest?": "The heron nests behind the old mill.",
    "What did the doctor prescribe?": "The doctor prescribed two tablets of iron a day.",
    "Which train goes to the harbour?": "Train seven goes to the harbour every hour.",
    "What colour is the kitchen wall?": "We painted the wall of the kitchen in a pale yellow colour.",
    "Who repaired the roof?": "A carpenter from the village repaired the roof in May.",
    "How much does the ferry cost?": "The ferry costs nine crowns, children travel free.",
    "What is the password policy?": "The policy wants a new password every ninety days.",
    "Which apples keep all winter?": "Boskoop apples keep in the cellar all winter.",
}


@pytest.mark.parametrize("embedder", [Hashing(), WordEmbedder()], ids=["hashing", "words"])
async def test_a_meaning_of_words_alone_does_not_pull_the_result_below_the_words(url, clock, embedder):
    async with open_memory(url, embedder=embedder, clock=clock, background=False) as memory:
        for text in (
            *ANSWERS.values(),
            *(f"{answer.split()[1]} and {told(n)}" for n, answer in enumerate(ANSWERS.values())),
        ):
            clock.advance(minutes=1)
            await memory.store_episode(text, butler="b", type="note")
        ranks = {}
        for mode in ("hybrid", "keyword"):
            ranks[mode] = []
            for query, answer in ANSWERS.items():
                found = [hit.item.content for hit in await memory.search(query, mode=mode, limit=20)]
                ranks[mode].append(found.index(answer) + 1 if answer in found else 100)
    assert sum(1 / rank for rank in ranks["hybrid"]) >= sum(1 / rank for rank in ranks["keyword"]), ranks
    assert ranks["hybrid"].count(1) >= len(ANSWERS) - 1


async def test_a_date_in_the_question_prefers_what_happened_then(memory, clock):
    day = clock.now
    for n in range(10):
        await memory.store_episode("we went for a long walk", butler="b", occurred_at=day - timedelta(days=30 * n))
    wanted = day - timedelta(days=120)
    found = await memory.search(f"where did we walk on {wanted:%Y-%m-%d}")
    assert found[0].item.occurred_at == wanted
    assert found[0].parts["date"] == 1.0
    assert len(found) == 10, "the others are found too"


@pytest.mark.parametrize("trust", [0.5, lambda query: 0.5 if "tea" in query else 1.0])
async def test_an_embedder_says_how_far_its_similarities_count(url, clock, embedder, trust):
    """As a number, or as a function of the query; without it they count in full."""
    async with open_memory(url, embedder=embedder, clock=clock, background=False) as memory:
        await memory.store_note("tea tea tea")
        (full,) = await memory.search("tea", mode="semantic")
        embedder.trust = trust
        (half,) = await memory.search("tea", mode="semantic")
        assert half.parts["meaning"] == full.parts["meaning"] != half.parts["words"]
        assert half.parts["relevance"] != full.parts["relevance"]
