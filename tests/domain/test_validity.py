from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from tulving.domain.decay import reviewed
from tulving.domain.editing import confirmed, forgotten, split, superseded
from tulving.domain.model import Episode, Fact, Item, Rule
from tulving.domain.validity import as_it_was, end, held, redated, start

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)
TICK = timedelta(microseconds=1)
COMMON = {
    "tenant_id": "t",
    "id": UUID(int=1),
    "content": "c",
    "content_hash": "h",
    "created_at": NOW,
    "updated_at": NOW,
}
FACT = Fact(**COMMON, subject="Anna", predicate="likes")
RULE = Rule(**COMMON)
EPISODE = Episode(**COMMON, butler="b")


@pytest.mark.parametrize(
    ("item", "first", "last"),
    [
        (FACT, NOW, None),
        (replace(FACT, occurred_at=NOW - DAY), NOW - DAY, None),
        (superseded(replace(FACT, occurred_at=NOW - DAY), NOW + DAY, NOW), NOW - DAY, NOW + DAY),
        (superseded(FACT, NOW, NOW), NOW, NOW),
        (RULE, NOW, None),
        (replace(RULE, forgotten=True, ended_at=NOW + DAY), NOW, NOW + DAY),
        (EPISODE, NOW, None),
        (replace(EPISODE, occurred_at=NOW - DAY, expires_at=NOW + DAY), NOW - DAY, NOW + DAY),
    ],
)
def test_a_memory_holds_from_its_start_until_its_end(item: Item, first: datetime, last: datetime | None) -> None:
    assert (start(item), end(item)) == (first, last)
    assert not held(item, first - TICK)
    assert held(item, first) is (first != last)
    far = NOW + 9999 * DAY
    assert [held(item, moment) for moment in (far, (last or far) - TICK, last or far)] == [
        last is None,
        first != last,
        last is None,
    ]


@pytest.mark.parametrize("item", [FACT, RULE, EPISODE, superseded(FACT, NOW + DAY, NOW), confirmed(RULE, NOW)])
def test_what_a_person_has_forgotten_held_at_no_time(item: Item) -> None:
    gone = forgotten(item, NOW + DAY)
    assert not any(held(gone, NOW + days * DAY) for days in range(-2, 4))


@pytest.mark.parametrize("item", [FACT, RULE])
def test_decay_ends_it_a_confirmation_takes_the_end_back_and_forgetting_too(item: Fact | Rule) -> None:
    late = NOW + 900 * DAY
    expired = reviewed(item, late, late + DAY).item
    assert (end(expired), held(expired, late - TICK), held(expired, late)) == (late, True, False)
    assert end(confirmed(expired, late + DAY)) is None
    assert held(confirmed(expired, late + DAY), late)
    assert not held(forgotten(expired, late), NOW + DAY), "also what decay had ended before"


def test_a_fact_that_was_not_said_to_have_ended_did_not_hold_if_it_is_out_of_use() -> None:
    """As another program may leave it."""
    assert not held(replace(FACT, validity="superseded"), NOW)


def test_a_fact_as_it_was() -> None:
    old = superseded(FACT, NOW + DAY, NOW + 2 * DAY)
    assert as_it_was(old, NOW + DAY) is old
    then = as_it_was(old, NOW)
    assert (then.state, then.ended_at, then.content) == ("active", None, "c")


def test_another_time_for_which_a_fact_is_stated() -> None:
    dated = replace(FACT, occurred_at=NOW - DAY)
    assert redated(FACT, NOW - TICK) == {"occurred_at": NOW - TICK, "restated_at": NOW}
    assert redated(FACT, NOW) == {}
    assert redated(dated, NOW) == {"restated_at": NOW}
    again = replace(dated, restated_at=NOW)
    assert [redated(again, NOW + days * DAY) for days in (-1, 0)] == [{}, {}]
    assert redated(again, NOW + DAY) == {"restated_at": NOW + DAY}
    assert redated(again, NOW - 2 * DAY) == {"occurred_at": NOW - 2 * DAY, "restated_at": NOW}


def test_an_interrupted_fact_holds_before_and_after() -> None:
    whole = replace(FACT, occurred_at=NOW - 9 * DAY, restated_at=NOW)
    earlier, later = split(whole, NOW - 5 * DAY, UUID(int=2), NOW + DAY)
    assert (start(earlier), end(earlier), earlier.state, earlier.id.int) == (
        NOW - 9 * DAY,
        NOW - 5 * DAY,
        "superseded",
        2,
    )
    assert (start(later), end(later), later.state, later.id.int, later.restated_at) == (NOW, None, "active", 1, None)
