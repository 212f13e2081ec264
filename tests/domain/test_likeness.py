import pytest
from hypothesis import given
from hypothesis import strategies as st
from note_pairs import DIFFERENT, MISSED, OPPOSITE, SAME, pairs

from tulving.domain.lexicon import NEGATIONS, SYNONYMS
from tulving.domain.likeness import LONGEST, MOST_KEYWORDS, Likeness, compare, keywords

OTHER = {"first": "second", "second": "first", None: None}


@pytest.mark.parametrize("family", DIFFERENT)
def test_notes_about_different_things_are_never_taken_for_the_same_or_the_opposite(family):
    for one, other in pairs(DIFFERENT[family]):
        assert compare(one, other) == compare(other, one) == Likeness("different"), (one, other)


@pytest.mark.parametrize(("one", "other", "fuller"), pairs(SAME))
def test_notes_that_say_the_same(one, other, fuller):
    found = compare(one, other)
    assert (found.verdict, found.fuller or "-") == ("same", fuller)
    back = compare(other, one)
    assert (back.verdict, back.fuller) == ("same", OTHER[found.fuller])


@pytest.mark.parametrize(("one", "other"), pairs(OPPOSITE))
def test_notes_that_say_the_opposite(one, other):
    assert compare(one, other) == compare(other, one) == Likeness("opposite")


def test_what_is_missed_out_of_caution():
    assert {compare(one, other).verdict for one, other in pairs(MISSED)} == {"different"}


@pytest.mark.parametrize("negation", sorted(NEGATIONS))
def test_every_negation_is_seen_between_equal_words(negation):
    found = compare("Anna besucht Oslo", f"Anna {negation} besucht Oslo").verdict
    assert found == "opposite"


@pytest.mark.parametrize("group", [sorted(group) for group in SYNONYMS], ids=" ".join)
def test_synonyms_stand_for_each_other_and_for_nothing_else(group):
    first, *others = group
    for other in others:
        assert compare(f"Anna saw the {first} in Oslo", f"Anna saw the {other} in Oslo").verdict == "same", other
    assert compare(f"Anna saw the {first} in Oslo", "Anna saw the lamp in Oslo").verdict == "different"


def test_a_general_word_is_the_same_only_where_certain_things_are_meant():
    assert compare("The user keeps a cat at home", "The user keeps an animal at home").fuller == "first"
    assert compare("Someone reads the logs at night", "A woman reads the logs at night").fuller == "second"
    assert compare("The user keeps cats at home", "The user keeps animals at home").verdict == "different"
    assert compare("A cat is in the garden", "No animal is in the garden").verdict == "opposite"
    assert compare("An animal is in the garden", "No cat is in the garden").verdict == "different"


def test_one_text_can_be_fuller_in_one_way_only():
    assert compare("A cat sits in the old garden", "A cat sits in the garden with a dog").verdict == "different"
    assert compare("A cat sits in the garden", "An animal sits in the garden with a dog").verdict == "different"


def test_two_common_keywords_are_needed_for_a_fuller_text():
    assert compare("Anna runs", "Anna runs in the park") == Likeness("same", "second")
    assert compare("Runs", "Runs in the park") == Likeness("different")


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_two_texts_can_be_compared_in_either_order(one, other):
    found, back = compare(one, other), compare(other, one)
    assert (back.verdict, back.fuller) == (found.verdict, OTHER[found.fuller])
    keywords(one)


def test_repeated_words_are_compared_in_either_order():
    one, other = "the likes man tea likes tea dog garden likes", "the likes tea likes dog garden likes"
    assert compare(one, other).verdict == compare(other, one).verdict


SAYINGS = st.lists(st.sampled_from("the user a dog not likes Anna by is 3 in red and every".split()), max_size=9)


@given(SAYINGS, SAYINGS)
def test_the_order_of_two_texts_makes_no_difference(one, other):
    found, back = compare(" ".join(one), " ".join(other)), compare(" ".join(other), " ".join(one))
    assert (back.verdict, back.fuller) == (found.verdict, OTHER[found.fuller])


@pytest.mark.parametrize("text", ["", "the", "?", "’", "- -", "n't", "not", "user"])
def test_a_text_that_says_nothing_is_like_no_other(text):
    assert compare(text, text) == compare(text, "The user likes tea") == Likeness("different")


@pytest.mark.parametrize("sign", ["\x00", "\ud800", "👍", "§"])
def test_a_sign_counts_as_a_word(sign):
    assert compare(sign, sign) == compare(f"Likes tea {sign}", f"likes tea  {sign}") == Likeness("same")
    assert compare(f"Likes tea {sign}", "Likes tea").verdict == "different"


def test_a_long_text_is_only_the_same_or_not():
    longest = "the" + " t" * ((LONGEST - 3) // 2)
    assert len(longest) == LONGEST - 1
    assert compare(longest, longest).verdict == "different", "more keywords than are compared"
    longer = longest + "xx"
    assert compare(longer, longer.upper()) == Likeness("same")
    assert compare(longer, longer + "y") == compare(longer, "tea") == Likeness("different")


def test_up_to_two_hundred_keywords_are_compared():
    few = "the " + " ".join(f"w{'x' * (at % 9)}" for at in range(MOST_KEYWORDS))
    assert compare(few, few).verdict == "same"
    assert compare(few + " end", few + " end").verdict == "different"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The dogs are running to the running dog", ["dog", "run"]),
        ("Anna lives in Paris", ["anna", "live", "pari"]),
        ("Plan b, x", ["plan"]),
        ("Der Nutzer mag keinen Kaffee", ["nutzer", "mag", "kaffee"]),
        ("用户喜欢咖啡", ["用户", "户喜", "喜欢", "欢咖", "咖啡"]),
        ("我用 Python 写", ["用", "python", "写"]),
        ("", []),
    ],
)
def test_keywords_are_stems_without_stop_words_or_neighbouring_ideographs(text, expected):
    assert keywords(text) == expected


def test_keywords_of_a_long_text_are_those_of_its_beginning():
    many = " ".join(f"w{at}" for at in range(5000))
    assert keywords(many) == [f"w{at}" for at in range(MOST_KEYWORDS)]
    assert keywords("x" * 10_000_001) == keywords("x" * LONGEST)
