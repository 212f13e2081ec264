from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulving.domain.model import EntityType
from tulving.domain.names import NAME_WORDS, ROLES, Names
from tulving.domain.resolution import NamedEntity, folded
from tulving.domain.stopwords import STOP_WORDS
from tulving.domain.text import words

TEXT = st.text(alphabet="abAB éÉßİı'’.?!,-_1東京アน้ाक\u0301\n", max_size=30)
WORDS = st.lists(
    st.sampled_from(["What", "did", "Anna", "anna's", "ben", "Ben", "Will", "will", "tea", "in", "May", "東京", "?"])
)


def entity(number: int, name: str, *aliases: str, type: EntityType = "person") -> NamedEntity:
    return NamedEntity(UUID(int=number), type, name, folded(name), aliases)


def said(names: Names, query: str) -> list[str]:
    """The mentions as they are written in the query."""
    return [query[each.start : each.end] for each in names.mentioned(query)]


@pytest.mark.parametrize(
    ("query", "rest"),
    [
        ("What did Anna say about tea?", "What did say about tea?"),
        ("what does anna drink", "what does drink"),
        ("WHAT DOES ANNA DRINK", "WHAT DOES DRINK"),
        ("What is Anna's favourite tea?", "What is favourite tea?"),
        ("What is Anna’s favourite tea?", "What is favourite tea?"),
        ("Did Mary Ann Evans and Anna travel?", "Did and travel?"),
        ("Where did José travel?", "Where did travel?"),
        ("Where did Jose\u0301 travel?", "Where did travel?"),
        ("where did JOSE travel", "where did travel"),
        ("Was trinkt Anna gern?", "Was trinkt gern?"),
        ("Анна любит чай?", "любит чай?"),
        ("東京太郎は何を飲む", "は何を飲む"),
        ("Hannah and Annabel travel", "Hannah and Annabel travel"),
    ],
)
def test_names_are_left_out_of_a_query(query: str, rest: str):
    names = Names(sources=["Anna", "Mary Ann Evans", "José", "Анна", "東京太郎"])
    assert names.without(query) == rest


@pytest.mark.parametrize("query", ["Anna", "Anna?", "What about Anna?", "Who is Anna and who is Ben?", "", "  ", "?!"])
def test_a_query_of_nothing_but_names_stays(query: str):
    assert Names(sources=["Anna", "Ben"]).without(query) == query


@pytest.mark.parametrize(
    "query",
    [
        "What will happen in may?",
        "Will it rain? May I go? Mark the date. Rose petals.",
        "will you mark the rose",
        "What happened in May 2023?",
        "WILL IT RAIN IN MAY?",
        "It's raining, isn't it?",
        "I asked you, and you told me.",
    ],
)
def test_ordinary_words_are_no_names(query: str):
    names = Names([entity(1, "Will Rose")], ["Will", "May", "Mark", "Rose", "It", "I", "me", "You"])
    assert names.mentioned(query) == []
    assert names.without(query) == query


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("What did Will buy?", ["Will"]),
        ("Will's car: which colour?", ["Will's"]),
        ("What is May's job?", ["May's"]),
        ("Does Mark know Will Rose?", ["Mark", "Will Rose"]),
        ("Did A meet B?", ["A", "B"]),
    ],
)
def test_ordinary_words_are_names_where_they_are_written_as_such(query: str, found: list[str]):
    assert said(Names([entity(1, "Will Rose")], ["Will", "May", "Mark", "A", "B"]), query) == found


@pytest.mark.parametrize("role", ["user", "Assistant", "SYSTEM", "bot", "tool", "email", " me "])
def test_roles_and_channels_are_no_names(role: str):
    names = Names([entity(1, role)], [role])
    assert names.mentioned(f"What did the {role} say? {role.title()} said it") == []


@pytest.mark.parametrize(
    ("query", "certain"),
    [
        ("what grows in the garden", False),
        ("Garden plans for spring", False),
        ("What did the Garden report?", True),
    ],
)
def test_a_name_in_small_letters_is_certain_only_with_a_capital(query: str, certain: bool):
    names = Names(sources=["garden"])
    (mention,) = names.mentioned(query)
    assert (mention.sources, mention.certain) == ({"garden"}, certain)
    assert (names.without(query) != query) is certain


def test_small_letters_in_a_query_with_capitals_are_in_doubt():
    names = Names(sources=["Notion"])
    assert [each.certain for each in names.mentioned("What notion did Ben have?")] == [False]
    assert [each.certain for each in names.mentioned("what did notion say")] == [True]


def test_things_and_places_are_mentioned_and_stay_in_the_query():
    names = Names(
        [entity(1, "Rome", type="place"), entity(2, "Tea", type="other"), entity(3, "Acme", type="organization")]
    )
    query = "Which tea did Acme sell in Rome?"
    assert said(names, query) == ["tea", "Acme", "Rome"]
    assert names.without(query) == query


def test_a_mention_has_all_that_the_name_may_mean():
    names = Names(
        [entity(1, "Robert Miller", "Bob", "Bobby"), entity(2, "Bobby"), entity(3, "Rome", type="place")],
        ["Bob", "bob", "BOB ", "Robert Miller"],
    )
    (bob,) = names.mentioned("What did Bob say?")
    assert bob.sources == {"Bob", "bob", "BOB ", "Robert Miller"}
    assert bob.entity_ids == {UUID(int=1)}
    (bobby,) = names.mentioned("What did Bobby say?")
    assert bobby.entity_ids == {UUID(int=1), UUID(int=2)}
    (full,) = names.mentioned("What did robert miller say?")
    assert (full.sources, full.entity_ids) == (bob.sources, bob.entity_ids)


@pytest.mark.parametrize(
    ("known", "ids"),
    [
        ([entity(1, "Anna Smith")], {1}),
        ([entity(1, "Dr. Anna Smith")], {1}),
        ([entity(1, "Anna Smith"), entity(2, "ANNA Brown")], None),
        ([entity(1, "Anna Smith"), entity(2, "Nan", "Anna")], {2}),
        ([entity(1, "Anna Hotel", type="place")], None),
        ([entity(1, "Anna Smith", "Anna")], {1}),
    ],
)
def test_a_first_name_is_known_if_one_person_has_it(known: list[NamedEntity], ids: set[int] | None):
    found = Names(known).mentioned("What did Anna say?")
    assert [{each.int for each in mention.entity_ids} for mention in found] == ([ids] if ids else [])


def test_a_speaker_and_an_entity_of_the_same_first_name_are_one():
    names = Names([entity(1, "Anna Smith")], ["Anna"])
    for query in ("What did Anna say?", "What did Anna Smith say?"):
        (mention,) = names.mentioned(query)
        assert (mention.sources, mention.entity_ids) == ({"Anna"}, {UUID(int=1)})


@pytest.mark.parametrize("name", ["", " ", "2024", "12 30", "林", "?!", "one two three four five six seven"])
def test_what_can_not_be_told_from_other_words_is_not_looked_for(name: str):
    names = Names([entity(1, name)], [name])
    assert names.mentioned(f"What about {name}, 12 30 森林 2024?") == []


def test_a_word_of_an_indic_script_is_matched_whole():
    names = Names(sources=["राम"])
    assert said(names, "राम कहाँ है") == ["राम"]
    assert said(names, "रामू कहाँ है") == []


def test_speakers_are_shared_by_the_names_of_one_entity_only():
    known = [entity(1, "Robert Miller", "Bob"), entity(2, "Bobby Jones", "Bob"), entity(3, "Bobby Jones Junior")]
    for entities in (known, known[::-1]):
        names = Names(entities, ["Robert Miller", "Bobby Jones"])
        (bob,) = names.mentioned("What did Bob say?")
        assert (bob.sources, bob.entity_ids) == ({"Robert Miller", "Bobby Jones"}, {UUID(int=1), UUID(int=2)})
        (jones,) = names.mentioned("What did Bobby Jones say?")
        assert (jones.sources, jones.entity_ids) == ({"Bobby Jones"}, {UUID(int=2)})


@given(TEXT, st.lists(TEXT, max_size=5), st.lists(st.tuples(TEXT, TEXT), max_size=3))
def test_any_text_may_be_a_name_or_a_query(query: str, sources: list[str], known: list[tuple[str, str]]):
    names = Names([entity(at, *both) for at, both in enumerate(known)], sources)
    places = [(each.start, each.end) for each in names.mentioned(query)]
    assert all(start < end for start, end in places)
    assert all(one[1] <= other[0] for one, other in pairwise(places))
    for mention in names.mentioned(query):
        assert mention.sources <= set(sources)
        assert mention.sources or mention.entity_ids
    again = Names([entity(at, *both) for at, both in reversed([*enumerate(known)])], reversed(sources))
    assert again.mentioned(query) == names.mentioned(query), "in whatever order they are given"
    rest = names.without(query)
    assert set(words(rest)) <= set(words(query)), "nothing is added"
    assert bool(words(rest)) == bool(words(query)), "something is left"


@given(WORDS)
def test_what_is_left_has_something_to_search_for(parts: list[str]):
    query = " ".join(parts)
    names = Names(sources=["Anna", "Ben", "Will", "May", "東京"])
    rest = names.without(query)
    assert rest == query or set(words(rest)) - STOP_WORDS
    assert Names().without(query) == query


@given(st.sampled_from(sorted((ROLES | STOP_WORDS | NAME_WORDS) - {"i"})))
def test_no_ordinary_word_is_taken_out_of_a_sentence_in_small_letters(word: str):
    query = f"how much {word} was there at the market"
    assert Names([entity(1, word.title())], [word, word.title(), word.upper()]).without(query) == query
