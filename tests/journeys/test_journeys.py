"""Whole stories: what a user would do, from the first word to the last file."""

import pytest

from tulving import open_memory
from tulving.testing import ManualClock, SequentialIds, WordEmbedder


async def tell(url, export):
    """Some days in the life of a memory, with everything that could vary injected."""
    clock = ManualClock()
    async with open_memory(url, embedder=WordEmbedder(), clock=clock, ids=SequentialIds(), tenant="home") as memory:
        episode = await memory.store_episode("Anna said: espresso, please", butler="waiter", source="Anna")
        await memory.store_fact("Anna", "favorite_drink", "green tea", source_episode_id=episode.id)
        clock.advance(days=2)
        await memory.store_fact("Anna", "favorite_drink", "espresso")
        await memory.store_note("Anna sits by the window", category="preference")
        rule = await memory.store_rule("Offer Anna her favorite drink", scope="waiter")
        await memory.create_link("rule", rule.id, "episode", episode.id, "derived_from")
        clock.advance(days=40)
        await memory.confirm("rule", rule.id)
        found = await memory.recall("what does Anna drink")
        context = await memory.context("Anna is here", butler="waiter")
        await memory.settle()
        await memory.export(export)
    scores = [(hit.memory_type, hit.item.content, round(hit.score, 6)) for hit in found]
    return scores, context, export.read_bytes()


async def test_the_same_story_twice_is_the_same_to_the_byte(new_url, tmp_path):
    first = await tell(new_url(), tmp_path / "a.jsonl")
    second = await tell(new_url(), tmp_path / "b.jsonl")
    assert first == second
    scores, context, _ = first
    assert [content for _, content, _ in scores] == [
        "espresso",
        "Offer Anna her favorite drink",
        "Anna sits by the window",
    ]
    assert context == (
        "# Memory Context\n"
        "\n## Key Facts\n"
        "- [Anna] [favorite_drink]: espresso (confidence: 0.73)\n"
        "- [user] [preference]: Anna sits by the window (confidence: 0.73)\n"
        "\n## Active Rules\n"
        "- Offer Anna her favorite drink (maturity: candidate, effectiveness: 0.00)\n"
    )


@pytest.mark.scenario("001-016", "004-002")
async def test_meaning_is_found_without_a_common_word(url, minilm):
    """With the real model: the words of the question stand nowhere in the answer."""
    async with open_memory(url, embedder=minilm) as memory:
        stored = await memory.store_episode("The physician prescribed antibiotics for her infection", butler="b")
        await memory.store_episode("The mechanic replaced the brakes of the car", butler="b")
        await memory.store_episode("They planted tomatoes behind the house", butler="b")
        assert len(await memory.search("which medicine did a doctor give", mode="keyword")) == 0
        found = await memory.search("which medicine did a doctor give")
        assert found[0].item.id == stored.id
        assert found[0].parts["similarity"] > found[1].parts["similarity"] + 0.1
        size = await memory._read(
            lambda conn: conn.fetch_one(f"SELECT {conn.vector_bytes('embedding')} AS size FROM episodes")
        )
        assert size == {"size": 384 * 4}


async def test_a_memory_from_before_the_weights_is_found_by_meaning_later(url, tmp_path, minilm_home):
    from tulving.providers.minilm import MiniLm

    async with open_memory(url, embedder=MiniLm(tmp_path / "no-weights")) as memory:
        stored = await memory.store_fact("Rex", "is", "a golden retriever")
        assert "tulving init" in stored.warning
        found = await memory.search("retriever")
        assert found.mode == "keyword" and "tulving init" in found.warning
        assert await memory.count_pending() == 1
    async with open_memory(url, embedder=MiniLm(minilm_home), background=False) as memory:
        assert len(await memory.search("does anybody have a dog", mode="semantic")) == 0
        assert await memory.embed_pending() == 1
        (hit,) = await memory.search("does anybody have a dog", mode="semantic")
        assert hit.item.id == stored.id and hit.parts["similarity"] > 0.3
