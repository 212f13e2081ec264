import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulving.domain import sentences as module
from tulving.domain.sentences import keywords, sentences, unrepeated
from tulving.domain.stems import stem


def cut(text: str) -> list[str]:
    return [sentence.text for sentence in sentences(text)]


def says(full: str, other: str, threshold: float = 0.8) -> bool:
    """Whether a sentence makes another one superfluous."""
    (known,), (offered,) = sentences(full), sentences(other)
    return unrepeated([offered.words], threshold, [known.words]) == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two! Three? Four", ["One. ", "Two! ", "Three? ", "Four"]),
        ("He said “no.” Then left...  Really?!", ["He said “no.” ", "Then left...  ", "Really?!"]),
        ("one\ntwo\r\n\n three", ["one\n", "two\r\n\n ", "three"]),
        ("It costs 3.5 dollars. Done.", ["It costs 3.5 dollars. ", "Done."]),
        ("Ask Dr. Smith, e.g. today. Bye.", ["Ask Dr. Smith, e.g. today. ", "Bye."]),
        ("Mrs. A. Ray vs. Ms. St. John", ["Mrs. A. Ray vs. Ms. St. John"]),
        ("1. Milk\n12. Eggs", ["1. Milk\n", "12. Eggs"]),
        ("In 2024. Then on", ["In 2024. ", "Then on"]),
        ("tulving.toml is read.", ["tulving.toml is read."]),
        ("她住在柏林。「真的！」她有猫？是", ["她住在柏林。", "「真的！」", "她有猫？", "是"]),
        ("--- \nOne.\n}\n", ["--- \nOne.\n}\n"]),
        ("One.\n---\nTwo.", ["One.\n", "---\nTwo."]),
        ("...", ["..."]),
        ("", []),
    ],
)
def test_a_text_is_cut_into_sentences_and_lines(text: str, parts: list[str]) -> None:
    assert cut(text) == parts


@pytest.mark.scenario("000-035")
@pytest.mark.parametrize(
    ("full", "other"),
    [
        ("Anna likes tea.", "anna  LIKES “tea”"),
        ("Anna likes tea", "- Anna likes *tea*!"),
        ("The user prefers dark mode.", "User prefers dark mode"),
        ("User prefers dark mode", "The user prefers dark mode."),
        ("Anna likes very hot tea daily", "Anna likes hot tea daily"),
        ("安娜很喜欢绿茶。", "安娜喜欢绿茶"),
        ("Caf\u00e9 Central", "cafe\u0301 central"),
        ("x" * 3000, "X" * 3000),
    ],
)
def test_a_repetition_is_found(full: str, other: str) -> None:
    assert says(full, other)


@pytest.mark.parametrize(
    ("full", "other"),
    [
        ("Anna and Bob meet Carl at 3 pm on Monday in Rome", "Anna and Bob meet Carl at 4 pm on Monday in Rome"),
        ("Anna from sales manages Bob from support", "Bob from support manages Anna from sales"),
        ("Anna is not one of the vegetarians here", "Anna is one of the vegetarians here"),
        ("Anna is one of the vegetarians here", "Anna is not one of the vegetarians here"),
        ("She doesn't eat any kind of meat at home", "She does eat any kind of meat at home"),
        ("Anna ist nicht mehr bei uns im Team", "Anna ist mehr bei uns im Team"),
        ("安娜真的一点不喜欢喝绿茶", "安娜真的一点喜欢喝绿茶"),
        ("Anna lives in the old town of Rome?", "Anna lives in the old town of Rome."),
        ("安娜现在住在罗马的老城区吗？", "安娜现在住在罗马的老城区吗"),
        ("Uses C++", "Uses C#"),
        ("Status: ✅", "Status: ❌"),
        ("It is -5 outside", "It is 5 outside"),
        ("パリに行く", "バリに行く"),
        ("mi papa", "mi papá"),
        ("Anna likes tea", "Anna likes green tea"),
        ("Anna likes hot green tea", "Anna likes tea"),
    ],
)
def test_what_says_something_else_is_no_repetition(full: str, other: str) -> None:
    assert not says(full, other)


@pytest.mark.scenario("000-035")
def test_the_threshold_is_the_share_of_common_words_of_the_longer_sentence() -> None:
    assert says("one two three four five", "one two three four", 0.8)
    assert not says("one two three four five", "one two three four", 0.81)
    assert says("w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15 w16 w17 w18 w19 w20", "w1 w2 w3 w4 w5 w6 w7 w8 w9 "
                "w10 w11", 0.55)  # fmt: skip
    assert says("Anna likes hot green tea", "Anna likes tea", 0.6)
    assert says("the tea", "tea", 0.5)
    assert not says("the tea", "tea", 1.0)
    assert says("tea", "Tea!", 1.0)


def test_a_sentence_repeats_those_before_it_too() -> None:
    offered = [("tea",), ("milk",), ("tea",), ("sugar",)]
    assert unrepeated(offered, 0.8) == [0, 1, 3]
    assert unrepeated(offered, 0.8, [("milk",)]) == [0, 3]
    assert unrepeated([], 0.8) == []


def test_of_many_sentences_only_equal_ones_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    full, part = ("one", "two", "three", "four", "five"), ("one", "two", "three", "four")
    monkeypatch.setattr(module, "MOST_COMPARED", 3)
    assert unrepeated([part, full], 0.8, [full]) == []
    assert unrepeated([part, full, full], 0.8, [full]) == [0]


def test_the_rest_of_a_text_with_very_many_sentences_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SENTENCES", 2)
    assert cut("One. Two. Three. Four.") == ["One. ", "Two. ", "Three. Four."]


def test_keywords_are_stems_without_stop_words() -> None:
    (sentence,) = sentences("She is not liking the cats, is she?")
    assert keywords(sentence.words) == ("not", "like", "cat", "?")
    assert keywords(("to", "be")) == ("to", "be")
    assert keywords(()) == ()


def test_a_very_long_sentence_is_one_word_and_long_words_are_not_cached() -> None:
    (long,) = sentences("cats" * 500 + "!")
    assert long.words == ("cats" * 500 + "!",)
    (short,) = sentences("cats" * 499 + "cat!")
    assert short.words == ("cats" * 499 + "cat",)
    before = stem.cache_info()
    assert keywords(long.words) == long.words
    assert keywords(("x" * 65,)) == ("x" * 65,)
    assert stem.cache_info() == before


HOSTILE = [
    "." * 1_000_000,
    ".'" * 500_000,
    "!\n" * 500_000,
    "a b " * 250_000,
    "安娜喜欢绿茶。" * 140_000,
    "-" * 1_000_000,
    ("!" + " " * 999) * 5_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:4].strip())
def test_megabytes_are_cut_in_no_time(text: str) -> None:
    began = time.process_time()
    assert "".join(cut(text)) == text
    assert time.process_time() - began < 1


TEXT = st.text(max_size=60) | st.text("aB c.!?\n-「。」'\x00\ud800é安t", max_size=40)


@given(TEXT)
def test_the_sentences_together_are_the_text(text: str) -> None:
    found = sentences(text)
    assert "".join(sentence.text for sentence in found) == text
    assert all(sentence.words for sentence in found) or len(found) == 1
    assert unrepeated([sentence.words for sentence in found], 0.8, [sentence.words for sentence in found]) == []
    for sentence in found:
        keywords(sentence.words)
