from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tulving.domain.model import Episode, Fact, Rule
from tulving.domain.text import (
    LONGEST_MEANT,
    SEARCH_TEXT_BYTES,
    clean,
    content_hash,
    count_tokens,
    escape_markup,
    found_by,
    lookup_terms,
    meant_by,
    preprocess_search_query,
    preprocess_text,
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
    assert [term.split("|")[0] for term in lookup_terms(query)] == terms


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("Wo ist der Hund?", ["hund"]),
        ("les clés de la voiture", ["cles", "voiture"]),
        ("¿Qué no come Elena?", ["come", "elena"]),
        ("где ключи от машины", ["ключи", "машины"]),
        ("متى عيد ميلاد سارة؟", ["عيد", "ميلاد", "سارة"]),
        ("車の鍵", ["車", "鍵"]),
        ("我的书", ["书"]),
        ("der die das", ["der", "die", "das"]),
        ("is it the car", ["car"]),
        ("what was the war about", ["war"]),
    ],
)
def test_stop_words_are_those_of_the_querys_language(query, terms):
    assert [term.split("|")[0] for term in lookup_terms(query)] == terms


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("what is the planet", ["planet"]),
        ("dog", ["dog"]),
        ("auth plan", ["auth", "plan"]),
        ("Pläne wifi6 2024", ["plane|plan*", "wifi6", "2024"]),
        ("der Hund", ["hund|hun*"]),
        ("der Fuessen 2024", ["fuessen|fuess*|fuss*", "2024"]),
        ("das Autohaus 12", ["autohaus|autoha*", "12"]),
        ("das Wasserglas", ["wasserglas|wasserg*|sergl*|ergla*|rglas*"]),
        ("où est la clé", ["cle"]),
        ("дети", ["дети|дет*"]),
        ("чай", ["чаи"]),
        ("東京", ["東", "京"]),
        ("", []),
        (None, []),
        ("🙂", []),
    ],
)
def test_terms_as_the_index_is_asked_for_them(query, terms):
    assert lookup_terms(query) == terms


def test_arabic_words_are_looked_up_with_and_without_article_and_prepositions():
    [term] = lookup_terms("الكتاب")
    forms = term.split("|")
    assert forms[0] == "الكتاب"
    assert {"كتا*", "الكتا*", "والكتا*", "بكتا*", "للكتا*"} <= set(forms)
    assert lookup_terms("ال") == lookup_terms("ال ") != []


@pytest.mark.parametrize(
    "query", ["ä" * 255, "ä" * 10_000, " ".join(f"ä{number:x}bcdefghijklmnopq" for number in range(99))]
)
def test_a_long_query_stays_small(query):
    terms = lookup_terms(query)
    assert len(terms) <= 64
    assert all(len(term.split("|")) <= 30 for term in terms)


@given(st.text())
@example("℠ ℃ ㏂")
def test_each_term_is_looked_up_by_words_of_the_index(query):
    terms = lookup_terms(query)
    for term in terms:
        for form in term.split("|"):
            assert words(form.removesuffix("*")) == [form.removesuffix("*")]


def test_marks_do_not_split_words():
    assert words("مُحَمَّد أحمد محـــمد") == ["محمد", "احمد", "محمد"]
    assert words("שָׁלוֹם Ёж") == ["שלום", "еж"]


def test_words_are_folded_and_bare():
    assert words("Plain, snake_case & C++") == ["plain", "snake", "case", "c"]
    assert words("日本語 text") == ["日", "本", "語", "text"]
    assert words("Café CAFÉ cafe\u0301 Straße ﬁn") == ["cafe", "cafe", "cafe", "strasse", "fin"]
    assert search_text(" a\x00 b\n🙂 ") == "a b"


def test_tokens_are_counted_up():
    assert [count_tokens(text) for text in ("", "a", "abcd", "abcde")] == [0, 1, 1, 2]


MADE = {
    "tenant_id": "t",
    "id": UUID(int=1),
    "content_hash": None,
    "created_at": datetime(2026, 6, 1, tzinfo=UTC),
    "updated_at": datetime(2026, 6, 1, tzinfo=UTC),
}


def episode(content, **more):
    return Episode(**MADE, butler="b", content=content, **more)


def test_speaker_and_date_are_words_of_an_episode_and_no_part_of_its_meaning():
    said = episode("I moved", title="News", source="Anna", occurred_at=datetime(2026, 5, 7, tzinfo=UTC))
    assert found_by(said) == "[7 May 2026] News Anna: I moved"
    assert meant_by(said) == "News\nI moved"
    assert meant_by(episode("I moved")) == "I moved"


def test_a_fact_and_a_rule_mean_what_they_are_found_by():
    fact = Fact(**MADE, subject="Anna", predicate="likes", content="tea " * 1000)
    rule = Rule(**MADE, content="greet " * 1000)
    assert meant_by(fact) == found_by(fact) and meant_by(rule) == found_by(rule)


def test_a_long_episode_is_embedded_by_its_opening():
    message = "Please help me to plan a trip to the lakes in June, with two children and a dog. " * 3
    reply = "First, think of the distance. " * 100
    assert meant_by(episode(f"User: {message}\n\nAssistant: {reply}")) == f"User: {message}".rstrip()
    assert meant_by(episode(f"{message}\n{reply}")) == message.rstrip(), "the first paragraph"
    assert meant_by(episode(f"\n Assistant: {reply}")).startswith("Assistant: First"), "a reply to nothing"
    short = "Plan a trip"
    assert meant_by(episode(f"{short}\nAssistant: fine")) == f"{short}\nAssistant: fine", "a short one is one piece"
    with_reply = meant_by(episode(f"{short}\nAssistant: {reply}"))
    assert with_reply.startswith(short) and len(with_reply) == 1_000, "a few words alone say too little"
    titled = episode(f"{message}\n{reply}", title="Holidays")
    assert meant_by(titled) == f"Holidays\n{message.rstrip()}", "and so does a title"


def test_short_lines_are_joined_until_they_say_something():
    lines = [f"line number {n}" for n in range(200)]
    opening = meant_by(episode("\n".join(lines)))
    assert opening.splitlines() == lines[: len(opening.splitlines())]
    assert 240 <= len(opening) < 260


@pytest.mark.parametrize(
    "text",
    [
        "x" * 100_000,
        "word " * 20_000,
        "\n" * 5_000 + "x" * 5_000,
        "語" * 5_000,
        "x" + "\n" * 200_000 + "x",  # must not take a time that grows faster than the text
        "x" + "\n \t" * 200_000 + "x",
    ],
    ids=["letters", "words", "blank-beginning", "ideographs", "blank-lines", "white-space"],
)
def test_of_a_giant_line_the_beginning_is_embedded(text):
    opening = meant_by(episode(text))
    assert 0 < len(opening) <= LONGEST_MEANT
    assert text.strip().startswith(opening)


@pytest.mark.parametrize("length", [LONGEST_MEANT - 1, LONGEST_MEANT, LONGEST_MEANT + 1])
def test_a_text_that_the_embedder_reads_is_embedded_whole(length):
    text = "a" * 300 + "\n" + "b" * (length - 301)
    assert meant_by(episode(text)) == (text if length <= LONGEST_MEANT else "a" * 300)


@given(st.text(max_size=50), st.integers(1, 60), st.none() | st.text(max_size=20))
def test_every_episode_means_something_of_its_own(text, times, title):
    said = episode(text * times, title=title)
    meant = meant_by(said)
    assert len(meant) <= LONGEST_MEANT
    assert f"{title or ''}\n{said.content}".strip().startswith(meant)
    assert meant.strip() or not (text.strip() or (title or "").strip())


@pytest.mark.parametrize(
    "text",
    [
        "</facts>",
        "<system>",
        "< / facts >",
        "<!-- x",
        "<?xml",
        "<\n\tb>",
        "<\u200b/b>",
        "<\u00e9l\u00e9ment>",
        "<\u8a9e>",
        "a <",
        "a < \n",
    ],
)
def test_what_could_begin_a_tag_is_escaped(text):
    assert escape_markup(text) == text.replace("<", "&lt;")
    assert escape_markup(escape_markup(text)) == escape_markup(text)


@pytest.mark.parametrize(
    "text", ["R&D", "5 < 6", "a->b", "x <= y", "<3", "1 << 4", "&lt;b&gt;", "a > b", "", "<-", "<>"]
)
def test_benign_text_is_not_escaped(text):
    assert escape_markup(text) == text


def test_every_tag_of_a_text_is_escaped():
    assert escape_markup("<<a><b>5 < 6</b>") == "<&lt;a>&lt;b>5 < 6&lt;/b>"
    assert escape_markup("<" + " " * 100_000 + "a") == "&lt;" + " " * 100_000 + "a"
