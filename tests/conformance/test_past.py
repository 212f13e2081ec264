"""Candidates of a past day: what held then, by words and by meaning."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from conformance_parts import (
    BETWEEN,
    EAST,
    NORTH,
    NOW,
    NOWHERE,
    OTHER,
    Opened,
    ask,
    by_vector,
    by_words,
    episode,
    fact,
    number_of,
    put,
    rule,
)

from tulving.domain.model import KINDS, Kind
from tulving.domain.scope import Filter
from tulving.errors import EmbedderMismatch
from tulving.storage.connection import Connection
from tulving.testing import CLOSE

DAY = timedelta(days=1)
TICK = timedelta(microseconds=1)


def held(store: Opened, moment: datetime, *kinds: Kind, **wanted: Any) -> list[int]:
    """What is found of a past moment; by words the same as by meaning."""
    asked = {"filter": Filter(as_of=moment, **wanted)}

    def look(conn: Connection) -> tuple[list[int], list[int]]:
        lanes = ask(conn, *kinds or KINDS, terms=["tea"], vector=EAST, **asked)
        worded, meant = (sorted(number_of(key) for key in lane) for lane in (lanes.keyword, lanes.semantic))
        return worded, meant

    worded, meant = store.read(look)
    assert worded == meant
    return worded


def test_what_was_replaced_since_is_found_and_its_successor_is_not(store: Opened) -> None:
    old = fact(1, "green tea", created_at=NOW - 9 * DAY, validity="superseded", ended_at=NOW - 2 * DAY)
    new = fact(2, "black tea", created_at=NOW, occurred_at=NOW - 2 * DAY, supersedes_id=old.id)
    store.write(put, old, new, vector=EAST)
    for moment, expected in (
        (NOW - 9 * DAY - TICK, []),
        (NOW - 9 * DAY, [1]),
        (NOW - 2 * DAY - TICK, [1]),
        (NOW - 2 * DAY, [2]),
        (NOW, [2]),
    ):
        assert held(store, moment) == expected, moment


def test_what_has_ended_by_itself_is_found_until_then(store: Opened) -> None:
    """And what a person has forgotten is found of no day."""
    begun = {"created_at": NOW - 9 * DAY}
    ended = {"ended_at": NOW - DAY}
    store.write(put, fact(1, predicate="a", validity="expired", **ended, **begun), vector=EAST)
    store.write(put, rule(2, forgotten=True, **ended, **begun), vector=EAST)
    store.write(put, episode(3, expires_at=NOW - DAY, **begun), vector=EAST)
    forgotten = (
        fact(4, predicate="b", validity="retracted", **begun),
        fact(5, predicate="c", validity="retracted", **ended, **begun),
        rule(6, forgotten=True, **begun),
        episode(7, forgotten=True, expires_at=NOW - DAY, **begun),
        episode(8, forgotten=True, **begun),
    )
    store.write(put, *forgotten, vector=EAST)
    assert held(store, NOW - 2 * DAY) == [1, 2, 3]
    assert held(store, NOW - DAY - TICK) == [1, 2, 3]
    assert held(store, NOW - DAY) == held(store, NOW) == []


def test_the_past_has_the_same_filters(store: Opened) -> None:
    mine = {"project": "atlas", "created_at": NOW - 9 * DAY, "validity": "superseded", "ended_at": NOW}
    store.write(put, fact(1, predicate="a", **mine), fact(2, predicate="b", **{**mine, "project": None}), vector=EAST)
    store.write(put, fact(3, tenant_id=OTHER, **mine), vector=EAST, on_behalf=OTHER)
    assert held(store, NOW - DAY) == [1, 2]
    assert held(store, NOW - DAY, project="atlas") == [1]
    assert held(store, NOW - DAY, since=NOW - 8 * DAY) == held(store, NOW - DAY, "rule", "episode") == []


def test_the_limit_leaves_the_best_and_of_equals_the_newest(store: Opened) -> None:
    store.write(put, *(rule(number, created_at=NOW - number * DAY) for number in (1, 2, 3)), vector=BETWEEN)
    store.write(put, rule(4, created_at=NOW - 9 * DAY), rule(5, created_at=NOW - 9 * DAY), vector=BETWEEN)
    store.write(put, rule(6, "other words", created_at=NOW - 9 * DAY), vector=EAST)
    for limit, expected in ((1, [6]), (2, [6, 2]), (4, [6, 2, 3, 4]), (9, [6, 2, 3, 4, 5])):
        asked = {"filter": Filter(as_of=NOW - 2 * DAY), "limit": limit}
        assert store.read(by_vector, **asked) == expected
        assert store.read(by_words, "tea", **asked) == [2, 3, 4, 5][:limit]


def test_similarity_in_the_past_is_the_cosine_too(store: Opened) -> None:
    store.write(put, rule(1, "coffee"), vector=EAST)
    store.write(put, rule(2), vector=tuple(100 * part for part in BETWEEN))
    store.write(put, rule(3), vector=NORTH)
    store.write(put, rule(4), vector=(-1.0, 0.0, 0.0, 0.0))
    store.write(put, rule(5), vector=NOWHERE)
    store.write(put, rule(6))

    def similarities(conn: Connection) -> dict[int, float]:
        lanes = ask(conn, terms=["tea"], vector=(7.0, 0.0, 0.0, 0.0), filter=Filter(as_of=NOW))
        return {number_of(key): value for key, value in lanes.similarities.items()}

    assert store.read(similarities) == pytest.approx({1: 1.0, 2: 0.5**0.5, 3: 0.0, 4: -1.0, 5: 0.0}, abs=CLOSE)


def test_a_query_without_direction_finds_words_of_the_past(store: Opened) -> None:
    store.write(put, rule(1), vector=EAST)
    lanes = store.read(ask, terms=["tea"], vector=NOWHERE, filter=Filter(as_of=NOW))
    assert len(lanes.keyword) == 1 and not lanes.semantic and not lanes.similarities


@pytest.mark.parametrize("wrong", [{"embedding_version": 2}, {"vector": (1.0, 0.0)}], ids=["version", "dimension"])
def test_vectors_of_another_embedder_do_not_search_the_past(store: Opened, wrong: Any) -> None:
    store.write(put, rule(1), vector=EAST)
    with pytest.raises(EmbedderMismatch):
        store.read(ask, **{"vector": EAST, "filter": Filter(as_of=NOW), **wrong})
