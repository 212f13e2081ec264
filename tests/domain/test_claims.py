import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulving.domain.claims import Claim, Decision, claim, continued, decide, folded, key, newer
from tulving.domain.model import Fact

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def fact(content_hash: str = "h", **values: Any) -> Fact:
    known = {"tenant_id": "t", "id": UUID(int=1), "content": "c", "subject": "Anna", "predicate": "likes"}
    return Fact(**{**known, **values}, content_hash=content_hash, created_at=NOW, updated_at=NOW)


def claimed(content_hash: str | None, **values: Any) -> Claim:
    known = {"id": UUID(int=2), "content_hash": content_hash, "ref": None, "occurred_at": None, "created_at": NOW}
    return Claim(**{**known, **values})


@pytest.mark.scenario("001-017")
@pytest.mark.parametrize(
    ("keyed", "current", "decision"),
    [
        (True, None, "store"),
        (False, None, "store"),
        (True, "h", "confirm"),
        (False, "h", "duplicate"),
        (True, "other", "supersede"),
        (True, "", "supersede"),
    ],
    ids=["new key", "new note", "same content", "same note", "other content", "not completed yet"],
)
def test_what_becomes_of_an_offer(keyed: bool, current: str | None, decision: str) -> None:
    known = None if current is None else claimed(current or None)
    assert decide(fact(keyed=keyed), known) == decision


LATER = NOW + timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("content", "dated", "decision"),
    [
        ("other", NOW - timedelta(days=900), "outdated"),
        ("other", NOW - timedelta(microseconds=1), "outdated"),
        ("other", NOW, "supersede"),
        ("other", LATER, "supersede"),
        ("other", None, "supersede"),
        ("h", NOW - timedelta(microseconds=1), "antedate"),
        ("h", NOW, "confirm"),
        ("h", LATER, "confirm"),
        ("h", None, "confirm"),
    ],
)
@pytest.mark.parametrize("current", [{"occurred_at": NOW, "created_at": LATER}, {"created_at": NOW}])
def test_an_offer_that_is_dated_before_the_current_fact_does_not_replace_it(
    content: str, dated: datetime | None, decision: Decision, current: dict[str, Any]
) -> None:
    assert decide(fact(content, occurred_at=dated), claimed("h", **current)) == decision


@pytest.mark.parametrize(
    ("current", "decision"),
    [
        (datetime(2026, 5, 31, 23, tzinfo=UTC), "supersede"),
        (datetime(2026, 6, 1, tzinfo=UTC), "supersede"),
        (datetime(2026, 6, 1, 23, 59, 59, 999_999, tzinfo=UTC), "supersede"),
        (datetime(2026, 6, 2, tzinfo=UTC), "outdated"),
        (datetime(9999, 12, 31, tzinfo=UTC), "outdated"),
    ],
)
def test_a_date_without_a_time_stands_for_any_time_of_that_day(current: datetime, decision: Decision) -> None:
    today = fact("other", occurred_at=datetime(2026, 6, 1, tzinfo=UTC))
    assert decide(today, claimed("h", created_at=current)) == decision
    last = fact("other", occurred_at=datetime(9999, 12, 31, tzinfo=UTC))
    assert decide(last, claimed("h", created_at=current)) == "supersede"


def test_an_offer_without_a_date_is_never_outdated() -> None:
    """The clock of the process that stored the current fact may be ahead, or its date in the future."""
    for current in ({"created_at": LATER}, {"occurred_at": LATER}, {"restated_at": LATER}):
        assert decide(fact("other"), claimed("h", **current)) == "supersede"
        assert decide(fact("h"), claimed("h", **current)) == "confirm"


def test_a_fact_that_was_stated_for_a_later_time_is_not_replaced_by_one_from_before_that() -> None:
    current = claimed("h", restated_at=NOW + timedelta(days=2))
    dates = [NOW + timedelta(days=days) for days in (1, 2, 3)]
    assert [decide(fact("other", occurred_at=date), current) for date in dates] == [
        "outdated",
        "supersede",
        "supersede",
    ]


def test_an_offer_continues_a_neighbour_that_says_the_same_unless_something_is_in_between() -> None:
    offer = fact("h", occurred_at=NOW)
    before, after = (fact("h", occurred_at=NOW + days * timedelta(days=1)) for days in (-1, 1))
    other = fact("other", occurred_at=NOW - timedelta(days=1))
    until = fact("other", occurred_at=NOW - timedelta(days=1), restated_at=NOW)
    beyond = fact("other", occurred_at=NOW - timedelta(days=1), restated_at=LATER)
    assert continued(offer, None, None) is None
    assert continued(offer, before, after) is before
    for neighbour in (None, other, until):
        assert continued(offer, neighbour, after) is after
        assert continued(offer, neighbour, other) is None
    assert continued(offer, beyond, after) is None, "the other one was still true later"


def test_of_two_in_a_slot_the_one_that_became_true_later_stays() -> None:
    since = [
        claimed("a", occurred_at=NOW - timedelta(days=1), created_at=LATER),
        claimed("b"),
        claimed("c", occurred_at=NOW, created_at=LATER),
        claimed("d", created_at=LATER),
    ]
    for older, later in pairwise(since):
        assert newer(older, later) is newer(later, older) is later


@pytest.mark.parametrize(
    "spellings",
    [
        ["favorite_drink", "favorite drink", "Favorite-Drink", "  FAVORITE \t__drink-- "],
        ["Straße", "STRASSE", "straẞe"],
        ["Zoë", "Zoe\u0308", "ZOË"],
        ["ＡＮＮＡ＿Ｓ", "Anna S", "anna－s"],
        ["İstanbul", "i̇stanbul", "İSTANBUL"],
        ["ΣΊΣΥΦΟΣ", "σίσυφος", "σίσυφοσ"],
        ["東京", "東京 "],
        ["x" * 1000, "X" * 1000],
    ],
    ids=ascii,
)
def test_spellings_of_one_name(spellings: list[str]) -> None:
    assert len({folded(spelling) for spelling in spellings}) == 1
    assert len({key(fact(subject=spelling)) for spelling in spellings}) == 1
    assert len({key(fact(predicate=spelling, entity_id=UUID(int=3))) for spelling in spellings}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("İstanbul", "istanbul"),
        ("favoritedrink", "favorite drink"),
        ("Zoë", "Zoe"),
        ("a.b", "a b"),
        ("_", "x"),
        ("я", "r"),
    ],
)
def test_different_names(one: str, other: str) -> None:
    assert folded(one) != folded(other)


def test_a_name_of_separators_keeps_them() -> None:
    assert [folded(name) for name in ("_", "--", " - ")] == ["_", "--", " - "]


@given(st.text(min_size=1, max_size=20))
def test_folding_twice_changes_nothing_more(name: str) -> None:
    assert folded(folded(name)) == folded(name)
    assert folded(f" {name}_") == folded(name) or not re.sub(r"[\s_-]", "", name)


def test_a_key_is_that_of_the_entity_or_the_subject_and_of_its_owner() -> None:
    entity = UUID(int=9)
    assert key(fact()) == key(fact("other"))
    assert key(fact(entity_id=entity)) == key(fact(entity_id=entity, subject="Ann"))
    assert claim(fact()) == claimed("h", id=UUID(int=1))
    different = [
        fact(),
        fact(entity_id=entity),
        fact(subject="Ben"),
        fact(predicate="hates"),
        fact(scope="work"),
        fact(owner="5:alice"),
        fact(tenant_id="u"),
        fact(keyed=False),
        fact("other", keyed=False),
    ]
    assert len(set(map(key, different))) == len(different)
