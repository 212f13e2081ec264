import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulving.domain.text import (
    SEARCH_TEXT_BYTES,
    clean,
    content_hash,
    count_tokens,
    preprocess_search_query,
    preprocess_text,
    query_terms,
    search_text,
    words,
)


@pytest.mark.scenario("001-041")
def test_nul_bytes_are_removed():
    assert preprocess_text("a\x00b \x00\x00c\x00") == "ab c"


@pytest.mark.scenario("001-042")
def test_white_space_collapses():
    assert preprocess_text("  a\t\tb\n\n c \r\n d\u00a0e ") == "a b c d e"
    assert preprocess_text(None) == preprocess_text("  \n") == ""


@pytest.mark.parametrize("letter", ["a", "é", "語", "🙂"])
@pytest.mark.parametrize("extra", [-1, 0, 1, 2, 3, 5])
def test_long_text_is_cut_on_a_letter(letter, extra):
    size = len(letter.encode())
    cut = preprocess_text("x" * max(0, extra) + letter * (SEARCH_TEXT_BYTES // size + min(0, extra)))
    assert len(cut.encode()) <= SEARCH_TEXT_BYTES
    assert len(cut.encode()) > SEARCH_TEXT_BYTES - 2 * size - 1
    assert set(cut) <= {"x", letter}


@pytest.mark.scenario("001-043")
def test_a_query_is_cleaned_but_not_cut():
    assert preprocess_search_query("\x00 fix \n the\tbug ") == "fix the bug"
    assert preprocess_search_query("") == preprocess_search_query(None) == ""
    assert len(preprocess_search_query("x" * (SEARCH_TEXT_BYTES + 10))) == SEARCH_TEXT_BYTES + 10


def test_lone_surrogates_go_and_the_rest_stays():
    assert clean("a\ud800b\udfff🙂\x00") == "ab🙂"


@given(st.text())
def test_cleaned_text_can_be_encoded_and_is_stable(text):
    once = clean(text)
    assert once.encode() is not None
    assert clean(once) == once
    line = preprocess_text(text)
    assert line == preprocess_text(line)


def test_case_and_white_space_do_not_count_in_a_hash():
    assert content_hash("I like  Trains") == content_hash("i LIKE trains\n")
    assert content_hash("STRASSE") == content_hash("straße"), "case folding, not lowering"
    assert content_hash("a b") != content_hash("ab")


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("it's C++ foo-bar", ["c", "foo", "bar"]),
        ("user@example.com", ["user", "example", "com"]),
        ("snake_case name", ["snake", "case", "name"]),
        ('a AND "b" OR NOT c* NEAR(e)', ["b", "c", "near", "e"]),
        ("the the THE", ["the"]),
        ("what is the color of the sky", ["color", "sky"]),
        ("日本語", ["日", "本", "語"]),
        ("🙂 !!!", []),
        ("", []),
        (None, []),
    ],
)
def test_terms_of_a_query(query, terms):
    assert query_terms(query) == terms


def test_words_are_folded_and_bare():
    assert words("Plain, snake_case & C++") == ["plain", "snake", "case", "c"]
    assert words("日本語 text") == ["日", "本", "語", "text"]
    assert words("Café CAFÉ cafe\u0301 Straße ﬁn") == ["cafe", "cafe", "cafe", "strasse", "fin"]
    assert search_text(" a\x00 b\n🙂 ") == "a b"


def test_tokens_are_counted_up():
    assert [count_tokens(text) for text in ("", "a", "abcd", "abcde")] == [0, 1, 1, 2]
