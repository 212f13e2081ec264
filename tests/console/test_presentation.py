"""How values are presented in templates."""

import pytest

from tulving.interfaces.console.presentation import LONGEST_COMPARED, MOST_PIECES, word_diff

WORDS = "a " * MOST_PIECES
WHOLE = "a" * LONGEST_COMPARED
SENTENCES = "Yes. " * 2 * MOST_PIECES


@pytest.mark.parametrize(
    ("old", "new", "diff"),
    [
        ("", "", []),
        ("He lives in Porto.", "He lives in Porto.", [("same", "He lives in Porto.")]),
        (
            "He lives in Porto.",
            "He lives in Braga.",
            [("same", "He lives in "), ("del", "Porto"), ("ins", "Braga"), ("same", ".")],
        ),
        ("", "new", [("ins", "new")]),
        ("old", "", [("del", "old")]),
        (
            f"It rains. {WORDS}. The end.",
            f"It pours. {WORDS}. The end.",
            [("del", "It rains. "), ("ins", "It pours. "), ("same", f"{WORDS}. The end.")],
        ),
        (WHOLE, f"{WHOLE}!", [("del", WHOLE), ("ins", f"{WHOLE}!")]),
        (SENTENCES, f"{SENTENCES}No.", [("del", SENTENCES), ("ins", f"{SENTENCES}No.")]),
    ],
    ids=["nothing", "same", "words", "all new", "all gone", "long: sentences", "longer: all of it", "many sentences"],
)
def test_a_diff_compares_words_or_in_long_texts_larger_pieces(old: str, new: str, diff: list[tuple[str, str]]):
    assert list(word_diff(old, new)) == diff


@pytest.mark.parametrize("old", ["a b\nc", "\n\n. !? x", "\u0130 \x00 \ud800", " lead", WORDS * 3])
def test_a_diff_loses_nothing(old: str):
    new = old[::-1]
    pieces = list(word_diff(old, new))
    assert "".join(text for change, text in pieces if change != "ins") == old
    assert "".join(text for change, text in pieces if change != "del") == new
