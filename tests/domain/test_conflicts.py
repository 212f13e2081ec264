from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tulving.domain.conflicts import MODES, Conflict, Detection, Neighbour, Signal, comparable, detect, shared_terms
from tulving.domain.model import Fact

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=300)
TEA = "The user likes green tea"


def fact(number: int = 1, content: str = TEA, **values: Any) -> Fact:
    known = {"tenant_id": "t", "user_id": "u", "subject": "user", "predicate": "knowledge", "created_at": NOW}
    return Fact(**{**known, **values}, id=UUID(int=number), content=content, content_hash=None, updated_at=NOW)


def known(content: str, similarity: float | None = None, number: int = 2, **values: Any) -> Neighbour:
    return Neighbour(fact(number, content, **{"created_at": LONG_AGO, **values}), similarity)


def found(neighbour: Neighbour, candidate: Fact | None = None, **settings: Any) -> list[Conflict]:
    return detect(candidate or fact(), [neighbour], Detection(**settings))


def signals(neighbour: Neighbour, candidate: Fact | None = None, **settings: Any) -> dict[str, Signal]:
    conflicts = found(neighbour, candidate, **{"mode": "literal", **settings})
    every = [signal for conflict in conflicts for signal in conflict.signals]
    assert all(signal.target_id == neighbour.fact.id and 0 <= signal.score <= 1 for signal in every)
    return {signal.kind: signal for signal in every}


@pytest.mark.scenario("000-022")
def test_a_similarity_of_at_least_the_threshold_is_a_semantic_signal():
    assert signals(known("Weather", 0.8))["semantic"].score == 0.8
    assert signals(known("Weather", 1.0000001))["semantic"].score == 1
    for below in (0.7999, -1.0, float("nan"), None):
        assert signals(known("Weather", below)) == {}
    assert signals(known("Weather", 0.3), semantic_threshold=0.3)["semantic"].score == 0.3


@pytest.mark.scenario("000-023")
def test_a_sufficient_share_of_keywords_is_a_keyword_signal():
    signal = signals(known("Tea likes nobody in Oslo"))["keyword"]
    assert signal.score == pytest.approx(0.5)
    assert signal.evidence == {"keywords": ["like", "tea"]}, "two of the four of the smaller set"
    signal = signals(known("Green, green and green tea that the user likes in Oslo"))["keyword"]
    assert (signal.score, signal.evidence) == (1, {"keywords": ["green", "like", "tea", "user"]}), "of the smaller set"
    assert signals(known("Tea comes from cold Japanese hills")) == {}
    assert signals(known("Weather")) == signals(known("Weather"), keyword_threshold=0) == {}
    chinese = signals(known("他喜欢咖啡"), fact(content="她喜欢喝咖啡"))["keyword"]
    assert chinese.evidence == {"keywords": ["咖啡", "喜欢"]}
    for said in ("", "?", "👍"):
        assert signals(known(said), fact(content=said), keyword_threshold=0) == {}


@pytest.mark.scenario("000-024")
def test_facts_from_within_the_window_give_a_time_signal():
    at_its_end = known("Weather", created_at=NOW - timedelta(minutes=5))
    assert signals(at_its_end)["time"].score == 0
    assert signals(at_its_end)["time"].evidence == {"delta_seconds": 300, "window_seconds": 300}
    assert signals(known("Weather", created_at=NOW - timedelta(minutes=5, microseconds=1))) == {}
    later = known("Weather", created_at=NOW + timedelta(minutes=1))
    assert signals(later)["time"].score == pytest.approx(0.8)
    assert signals(known("Weather", occurred_at=NOW))["time"].score == 1, "when it became true counts"
    assert signals(known("Weather", created_at=NOW), time_window=0)["time"].score == 1
    assert signals(later, time_window=0) == {}


@pytest.mark.scenario("000-025")
def test_a_difference_of_importance_of_at_least_the_delta_is_an_importance_signal():
    signal = signals(known("Weather", importance=9.0))["importance"]
    assert signal.score == pytest.approx(0.4 / 0.6)
    assert signal.evidence == {"difference": pytest.approx(0.4)}
    assert signals(known("Weather", importance=0.1), fact(importance=4.1))["importance"], (
        "though it is computed as less"
    )
    assert signals(known("Weather", importance=1.01)) == {}
    assert signals(known("Weather", importance=0.0), fact(importance=10.0))["importance"].score == 1
    assert signals(known("Weather", importance=0.0), fact(importance=10.0), importance_delta=1)["importance"].score == 1
    assert signals(known("Weather"), importance_delta=0)["importance"].score == 0


@pytest.mark.scenario("000-022")
def test_only_facts_of_the_same_owner_are_in_conflict():
    mine: dict[str, Any] = {"persona_id": "p", "household_id": "h"}
    agreeing: list[dict[str, Any]] = [mine, {}, {"persona_id": "p"}, {"household_id": "h"}]
    for other in agreeing:
        assert found(known(TEA, **other), fact(**mine)), "what one of them leaves open agrees"
    assert found(known(TEA, user_id=None), fact(user_id=None))
    for name in ("tenant_id", "user_id", "persona_id", "household_id"):
        other = known(TEA, 1.0, **{**mine, name: "other"})
        assert [found(other, fact(**mine), mode=mode) for mode in MODES] == [[], [], []], name
    assert found(known(TEA, user_id=None)) == []
    assert found(known(TEA, 1.0, number=1)) == [], "a fact is not in conflict with itself"


@pytest.mark.parametrize(
    ("content", "similarity", "modes"),
    [
        ("The user likes green tea from Japan in the morning", None, ["signals", "literal"]),
        ("The user likes green tea in the morning", None, ["cautious", "signals", "literal"]),
        ("The user dislikes green tea", None, ["cautious", "signals", "literal"]),
        ("The user likes green beans", 0.9, ["signals", "literal"]),
        ("Weather", 0.9, ["signals", "literal"]),
        ("Weather", None, ["literal"]),
    ],
    ids=["a name more", "fuller", "opposite", "other words", "semantic alone", "time and importance alone"],
)
def test_what_is_a_conflict_in_each_mode(content, similarity, modes):
    beside = known(content, similarity, created_at=NOW, importance=9.0)
    conflicts = {mode: found(beside, mode=mode) for mode in MODES}
    assert [mode for mode in MODES if conflicts[mode]] == modes
    for mode in modes:
        assert [signal.kind for signal in conflicts[mode][0].signals][-2:] == ["time", "importance"], "they strengthen"


def test_a_conflict_tells_both_facts_likeness_and_similarity():
    fuller = known("The user likes green tea in the morning", 0.9)
    for mode in MODES:
        [conflict] = found(fuller, mode=mode)
        assert (conflict.existing, conflict.similarity) == (fuller.fact, 0.9)
        assert (conflict.same, conflict.fuller) == (True, fuller.fact.id)
    [conflict] = found(known("User likes tea"), fact(content="User likes tea with milk"))
    assert (conflict.same, conflict.fuller) == (True, UUID(int=1))
    for opposite_or_other in ("The user doesn't like green tea", "The user likes green beans"):
        [conflict] = found(known(opposite_or_other), mode="signals")
        assert (conflict.same, conflict.fuller) == (False, None)


@pytest.mark.scenario("000-031")
def test_the_most_severe_conflict_comes_first():
    near = [known(TEA, similarity, number) for number, similarity in ((5, 0.85), (3, None), (2, 0.95), (4, 0.85))]
    order = [conflict.existing.id.int for conflict in detect(fact(), near, Detection())]
    assert order == [2, 4, 5, 3], "of equally severe ones the one with the smaller id"
    assert order == [conflict.existing.id.int for conflict in detect(fact(), near[::-1], Detection())]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("User smokes", ["smokes"]),
        ("The user drinks tea", ["drinks", "tea"]),
        ("Drinks tea daily", ["daily|tea", "drinks|tea", "drinks|daily"]),
        ("Drinks tea daily with honey and some lemon", ["daily|honey|lemon", "drinks|honey|lemon"]),
    ],
)
def test_a_text_is_looked_for_by_two_of_its_four_longest_words(text, terms):
    found = shared_terms(text)
    assert found[: len(terms)] == terms
    assert len(found) == (4 if "some" in text else len(terms))


def test_only_what_says_the_same_or_the_opposite_is_looked_at_unless_signals_are_enough():
    texts = {
        "same": "Likes green tea",
        "opposite": "The user does not like green tea",
        "other": "The user likes green beans",
        "unlike": "Trains were late again in Oslo",
    }
    assert comparable(TEA, texts, Detection()) == {"same", "opposite"}
    for mode in ("signals", "literal"):
        assert comparable(TEA, texts, Detection(mode=mode)) == {*texts}
    assert comparable(TEA, {}, Detection()) == set()


def test_long_texts_take_little_time():
    huge = "tea " * 250_000
    [conflict] = found(known(huge.upper(), 0.9), fact(content=huge))
    assert conflict.same
    assert found(known(huge + "x"), fact(content=huge)) == []
