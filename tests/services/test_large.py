"""Texts without measure: a query, a prompt, a memory. None of them may hold up or push out the rest."""

import threading

import pytest

from tulving import InvalidInput, MemoryModuleConfig, NewFact
from tulving.domain import intake, text
from tulving.interfaces import wire
from tulving.services import embedding
from tulving.services.operations import OPERATIONS

HUGE = "tea " * 500_000


@pytest.mark.parametrize("verb", ["search", "recall"])
async def test_a_query_that_is_too_long_is_refused_by_name(memory, verb):
    await memory.store_fact("user", "likes", "tea")
    fits = "tea".ljust(intake.MAX_QUERY)
    assert len(await getattr(memory, verb)(fits)) == 1
    for query in (fits + " ", HUGE, "\u6f22" * 1_000_000):
        with pytest.raises(InvalidInput, match="at most 10,000 characters") as refused:
            await getattr(memory, verb)(query)
        assert refused.value.field == ("query" if verb == "search" else "topic")


async def test_of_a_long_prompt_the_beginning_is_used(memory):
    """Hosts pass the whole of it."""
    await memory.store_fact("user", "likes", "tea")
    await memory.store_fact("user", "dislikes", "noise")
    block = await memory.context("tea " + "x" * 4_000_000, butler="b")
    assert "[likes]: tea" in block
    with pytest.raises(InvalidInput, match="trigger_prompt"):
        await memory.context(5, butler="b")


@pytest.mark.parametrize(("size", "here"), [(1_000, True), (1_000_000, False)])
async def test_the_words_of_a_long_text_are_taken_in_another_thread(memory, monkeypatch, size, here):
    threads = set()

    def noted(words):
        threads.add(threading.get_ident())
        return text.search_text(words)

    monkeypatch.setattr(embedding, "search_text", noted)
    stored = await memory.store_rule("tea " * (size // 4))
    assert threads == {threading.get_ident()} if here else threading.get_ident() not in threads
    assert [hit.item.id for hit in await memory.search("tea", mode="keyword")] == [stored.id]


@pytest.mark.parametrize("word", ["tea ", "\u6f22", "t\u00e9a\u0301 ", "x" * 255])
def test_a_long_text_is_worked_on_in_pieces(monkeypatch, word):
    long = f"a {word * (200_000 // len(word))} word"
    expected = " ".join(text.words(long))
    pieces = []
    words = text.words
    monkeypatch.setattr(text, "words", lambda piece: pieces.append(len(piece)) or words(piece))
    assert text.search_text(long) == expected
    assert len(pieces) > 20 and max(pieces) <= 4_081


async def test_a_huge_memory_leaves_room_for_the_others(memory):
    giant = await memory.store_fact("user", "wrote", HUGE)
    await memory.store_facts([NewFact(subject="user", predicate=f"likes_{n}", content="tea") for n in range(3)])
    block = await memory.context("tea", butler="b")
    assert "[cut: 1,999,999 characters in all]" in block
    assert block.count("[likes_") == 3
    assert len(block) <= 12_000
    recalled = await memory.recall("tea")
    assert {len(hit.item.content) for hit in recalled} == {3, 1_999_999}, "a program gets the whole"
    listed = await memory.list_memories("fact")
    for tool, result in (("memory_recall", recalled), ("memory_list", listed)):
        answer = wire.answer(OPERATIONS[tool], result)
        assert len(str(answer)) < 20_000
        (cut,) = [one for one in answer.get("results") or answer["items"] if one["id"] == str(giant.id)]
        assert cut["content"].startswith("tea tea") and cut["content"].endswith("[cut: 1,999,999 characters in all]")
        assert (len(cut["content"]), cut["content_length"]) == (wire.LONGEST_CONTENT, 1_999_999)
        others = [one for one in answer.get("results") or answer["items"] if one["id"] != str(giant.id)]
        assert all(one["content"] == "tea" and "content_length" not in one for one in others)
    whole = wire.answer(OPERATIONS["memory_get"], await memory.get("fact", giant.id))
    assert len(whole["memory"]["content"]) == 1_999_999
    history = wire.answer(OPERATIONS["memory_history"], await memory.history("user", "wrote"))
    assert len(str(history)) < 20_000


@pytest.mark.parametrize("config", [MemoryModuleConfig(max_content_characters=10)])
async def test_contents_beyond_a_configured_length_are_refused(memory, sql):
    kept = await memory.store_rule("0123456789")
    offers = [
        lambda: memory.store_rule("01234567890"),
        lambda: memory.store_fact("user", "likes", "\u00e9" * 11),
        lambda: memory.store_episode("01234567890", butler="b"),
        lambda: memory.edit("rule", kept.id, content="01234567890"),
        lambda: memory.store_facts([NewFact(content="fits"), NewFact(content="01234567890")]),
    ]
    for offer in offers:
        with pytest.raises(InvalidInput, match="content: has 11 characters; allowed: at most 10"):
            await offer()
    assert [len(sql(f"SELECT 1 FROM {table}")) for table in ("rules", "facts", "episodes")] == [1, 0, 0]
    await memory.store_rule("  0123456789 <private>and more</private>")


async def test_without_the_setting_a_megabyte_is_stored(memory):
    stored = await memory.store_episode("x" * 1_000_000, butler="b")
    assert len((await memory.look("episode", stored.id)).content) == 1_000_000
