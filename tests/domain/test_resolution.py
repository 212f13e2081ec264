from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulving.domain.model import Entity
from tulving.domain.resolution import (
    Hints,
    Match,
    NamedEntity,
    folded,
    joined_metadata,
    matching,
    new_aliases,
    overlap,
    rank,
    read_hints,
    similarity,
    source_wins,
    trigrams,
)
from tulving.errors import InvalidInput

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LETTERS = st.text(alphabet="abcABC ßéÉİıΣσς%_!\\\"'東①ﬁ", max_size=8)


def names(number: int, canonical: str, *aliases: str) -> NamedEntity:
    return NamedEntity(UUID(int=number), "person", canonical, folded(canonical), aliases)


def entity(canonical: str, *aliases: str, **metadata: object) -> Entity:
    return Entity(
        tenant_id="t",
        id=UUID(int=1),
        canonical_name=canonical,
        entity_type="person",
        aliases=aliases,
        metadata=metadata,
        created_at=NOW,
        updated_at=NOW,
    )


def alike(first: str, second: str) -> float:
    """The measure by its definition."""
    one, other = trigrams(first), trigrams(second)
    return len(one & other) / len(one | other) if one | other else 0.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Anna Smith", "  anna   SMITH "),
        ("STRASSE", "Straße"),
        ("ΟΔΥΣΣΕΥΣ", "οδυσσευς"),
        ("José", "Jose\u0301"),
        ("ﬁrma", "FIRMA"),
        ("ＡＢＣ", "abc"),
        ("no\u00a0break", "No break"),
    ],
)
def test_names_that_are_the_same_name(one: str, other: str):
    assert folded(one) == folded(other)


@given(st.text())
def test_folding_is_done_once(text: str):
    assert folded(folded(text)) == folded(text)
    assert folded(text) == folded(text.upper()) or not text.isascii()


@pytest.mark.scenario("001-065", "001-066", "001-067")
@pytest.mark.parametrize(
    ("asked", "way"),
    [
        ("Anna Smith", "exact"),
        ("ANNA smith", "exact"),
        ("annie", "alias"),
        ("ann", "prefix"),
        ("Smith", "prefix"),
        ("nni", "prefix"),
        ("Smyth", None),
        ("%", None),
        ("a_n", None),
        ("", "prefix"),
    ],
)
def test_a_name_matches_in_the_best_of_its_ways(asked: str, way: str | None):
    found = matching(folded(asked), [names(1, "Anna Smith", "Annie", "A. S.")], fuzzy=False)
    assert [match.by for match in found] == ([way] if way else [])


@pytest.mark.scenario("001-068")
def test_similar_names_are_opt_in_and_need_three_letters():
    known = [names(1, "Katherine"), names(2, "Bob", "Kathrin"), names(3, "Zo")]
    assert matching("kathrine", known, fuzzy=False) == []
    found = matching("kathrine", known, fuzzy=True)
    assert [(match.names.entity_id.int, match.by) for match in found] == [(1, "fuzzy"), (2, "fuzzy")]
    assert 1 > found[1].similarity > found[0].similarity >= 0.3
    assert matching("za", known, fuzzy=True) == []
    assert [match.by for match in matching("zoe", known, fuzzy=True)] == ["fuzzy"], "an alias or a name, either way"


def test_the_similarity_is_at_its_threshold_inclusive():
    assert alike("abcdef", "abcxyz") == pytest.approx(3 / 11)
    three_of_ten = ("abcd", "abcwxyz")
    assert alike(*three_of_ten) == 0.3
    assert [match.by for match in matching("abcd", [names(1, "abcwxyz")], fuzzy=True)] == ["fuzzy"]
    assert matching("abcdef", [names(1, "abcxyz")], fuzzy=True) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cat", {"  c", " ca", "cat", "at "}),
        ("foo|bar", {"  f", " fo", "foo", "oo ", "  b", " ba", "bar", "ar "}),
        ("A", {"  a", " a "}),
        ("a_b", {"  a", " a ", "  b", " b "}),
        ("", set()),
        ("-- !", set()),
    ],
)
def test_trigrams_are_those_of_words_with_blanks_around(text: str, expected: set[str]):
    assert trigrams(text) == expected


@given(LETTERS, LETTERS)
def test_the_fast_similarity_is_that_of_the_definition(one: str, other: str):
    fast, slow = similarity(trigrams(one), other), alike(one, other)
    assert fast == slow or (fast == 0.0 and slow < 0.3)
    assert similarity(trigrams(one), one) == (1.0 if trigrams(one) else 0.0)


def test_an_overlap_is_the_share_of_common_words():
    assert overlap({"tea", "garden"}, {"tea", "garden"}) == 1.0
    assert overlap({"tea", "garden"}, {"tea", "roof"}) == pytest.approx(1 / 3)
    assert (
        overlap({"tea"}, {"roof"}) == overlap(set(), {"roof"}) == overlap({"tea"}, set()) == overlap(set(), set()) == 0
    )


@pytest.mark.scenario("001-069")
def test_the_context_adds_up_to_twenty():
    found = [Match(names(1, "a"), "exact", 1.0), Match(names(2, "b"), "prefix", 0.5)]
    facts = {UUID(int=1): {"tea", "garden"}, UUID(int=2): {"tea", "roof"}}
    assert [each.score for each in rank(found, Hints(frozenset({"tea", "garden"})), facts)] == [120.0, 56.6667]


@pytest.mark.scenario("001-069", "001-070", "001-071")
def test_the_order_is_by_score_then_by_name():
    found = [Match(names(n, name), "exact", 1.0) for n, name in ((1, "b"), (2, "a"), (3, "c"), (4, "a"))]
    hints = Hints(frozenset({"tea"}), {UUID(int=3): 0.5})
    ranked = rank(found, hints, {UUID(int=1): {"tea", "one", "two"}})
    assert [(each.entity_id.int, each.score) for each in ranked] == [(1, 106.6667), (3, 100.5), (2, 100.0), (4, 100.0)]


@pytest.mark.scenario("001-068", "001-071")
def test_similarity_orders_equal_scores_where_similar_names_were_asked_for():
    found = [Match(names(n, name), "fuzzy", alike) for n, name, alike in ((1, "a", 0.3), (2, "b", 0.9), (3, "c", 0.9))]
    assert [(each.entity_id.int, each.score) for each in rank(found, Hints(), {}, fuzzy=True)] == [
        (2, 20.0),
        (3, 20.0),
        (1, 20.0),
    ]
    assert [each.entity_id.int for each in rank(found, Hints(), {})] == [1, 2, 3]


@pytest.mark.parametrize(("shared", "first"), [(0, "exact"), (1, "exact"), (2, "fuzzy")])
def test_a_context_that_fits_well_outranks_the_way_of_the_match(shared: int, first: str):
    """With similar names, 80 x (similarity + 5 x overlap) is added: 100 + 80 against 20 + 40 + 420 x overlap."""
    terms = ("tea", "garden", "roof", "rome")
    found = [Match(names(1, "ann"), "exact", 1.0), Match(names(2, "anne"), "fuzzy", 0.5)]
    facts = {UUID(int=2): {"one", *terms[:shared]}}
    ranked = rank(found, Hints(frozenset(terms)), facts, fuzzy=True)
    assert {each.name_match: each.score for each in ranked} == {
        "exact": 180.0,
        "fuzzy": round(60 + 420 * shared / 5, 4),
    }
    assert ranked[0].name_match == first
    assert rank(found, Hints(frozenset(terms)), facts)[0].name_match == "exact"


@pytest.mark.parametrize(("score", "left"), [(-99.9999, 1), (-100, 0), (-500, 0), (3, 1)])
def test_a_context_can_rule_out(score: float, left: int):
    found = [Match(names(1, "a"), "exact", 1.0)]
    assert len(rank(found, Hints(scores={UUID(int=1): score}), {})) == left


@given(
    st.lists(st.tuples(LETTERS, st.lists(LETTERS, max_size=3)), max_size=6),
    LETTERS,
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_resolution_does_not_depend_on_the_order_of_what_it_is_given(known, asked, fuzzy, random):
    rows = [names(at, canonical, *aliases) for at, (canonical, aliases) in enumerate(known)]
    hints = read_hints({"topic": "abc", "domain_scores": {str(UUID(int=1)): -3}})
    facts = {UUID(int=0): {"abc"}}
    first = rank(matching(folded(asked), rows, fuzzy), hints, facts, fuzzy)
    random.shuffle(rows)
    assert rank(matching(folded(asked), rows, fuzzy), hints, facts, fuzzy) == first
    ways = {each.entity_id: each.name_match for each in first if each.name_match != "fuzzy"}
    exactly = rank(matching(folded(asked), rows, False), hints, facts)
    assert ways == {each.entity_id: each.name_match for each in exactly}, "fuzzy only adds"
    assert {each.entity_id for each in first} >= {row.entity_id for row in rows if folded(asked) in row.folded_name}, (
        "what holds the name is found"
    )


def test_hints_are_words_and_numbers():
    id_ = UUID(int=7)
    hints = read_hints(
        {
            "topic": "Works_at ACME, Zürich",
            "mentioned_with": ["Ben", "acme"],
            "domain_scores": {
                str(id_).upper(): 2,
                "nobody": 1,
                "x": "high",
                "y": True,
                "z": float("nan"),
                "w": 10**400,
            },
            "mood": object(),
        }
    )
    assert hints.terms == {"works", "at", "acme", "zurich", "ben"}
    assert hints.scores == {id_: 2.0}
    assert hints.skipped == ("x", "y", "z", "w")
    assert read_hints({"domain_scores": {id_: -1}}).scores == {id_: -1.0}
    assert read_hints({"mentioned_with": "Ben"}).terms == {"ben"}
    assert read_hints(None) == Hints()


@pytest.mark.parametrize("wrong", ["Ben", [], {"topic": 3}, {"mentioned_with": ["a", 4]}, {"domain_scores": [1]}])
def test_hints_of_another_form_are_refused(wrong: object):
    with pytest.raises(InvalidInput, match="context_hints"):
        read_hints(wrong)


@pytest.mark.scenario("001-075")
def test_a_merge_adds_each_name_once():
    target, source = entity("Albert", "AL", "Bert"), entity("bert", "Al", "Bertie", "BERTIE", "ALBERT")
    assert new_aliases(target, source) == ["Bertie"]
    assert new_aliases(entity("Ann"), entity("Anna", "Annie")) == ["Anna", "Annie"]
    assert joined_metadata(entity("a", x=1, y=2), entity("b", y=3, z=4)) == {"x": 1, "y": 2, "z": 4}


@pytest.mark.scenario("001-074")
@pytest.mark.parametrize(("source", "target", "wins"), [(0.9, 0.8, True), (0.8, 0.8, False), (0.7, 0.8, False)])
def test_the_surer_fact_stays(source: float, target: float, wins: bool):
    assert source_wins(source, target) is wins
