"""Candidates by words and by meaning, before anything is ranked."""

from datetime import timedelta
from unittest.mock import ANY

import pytest
from conformance_parts import (
    BETWEEN,
    EAST,
    NORTH,
    NOW,
    NOWHERE,
    ONE,
    OTHER,
    Opened,
    ask,
    by_vector,
    by_words,
    episode,
    event,
    fact,
    found,
    number_of,
    put,
    rule,
)

from tulving.domain.model import KIND_OF, KINDS, Hit
from tulving.domain.scope import Filter, address_of
from tulving.storage import items, search
from tulving.storage.connection import Connection
from tulving.storage.lanes import LaneRequest
from tulving.storage.search import Inquiry
from tulving.testing import CLOSE

# -- by words ----------------------------------------------------------------------------------------------------------


def test_words_are_found_in_their_forms_and_in_any_script(store: Opened) -> None:
    for number, text in enumerate(("Gardening!", "the garden, again", "кофе", "東京タワー", "v2.0 beta", "OR"), 1):
        store.write(put, rule(number, text, created_at=NOW - timedelta(hours=number)))
    wanted = {"garden": [1, 2], "gardens": [1, 2], "кофе": [3], "京": [4], "beta": [5], "or": [6], "near": []}
    for word, numbers in wanted.items():
        assert sorted(store.read(by_words, word)) == numbers, word


def test_all_words_go_before_any_word(store: Opened) -> None:
    texts = "tea tea tea tea", "green " + "leaf " * 30 + "tea", "green", "coffee"
    store.write(put, *(rule(number, text) for number, text in enumerate(texts, 1)))
    order = store.read(by_words, "green", "tea")
    assert order[0] == 2 and sorted(order) == [1, 2, 3]

    def ranks(conn: Connection) -> list[float]:
        return sorted(ask(conn, terms=("green", "tea")).keyword.values())

    low, middle, high = store.read(ranks)
    assert 0 < low <= middle < 1 <= high < 2


def test_of_equal_matches_the_newest_go_first(store: Opened) -> None:
    """Then the lower id; also where the limit cuts, and whatever came in last."""
    store.write(put, *(rule(number) for number in range(30, 10, -1)))
    store.write(put, *(rule(number, created_at=NOW - timedelta(days=1)) for number in range(1, 11)))
    for limit in (1, 3, 20, 25, 40):
        expected = [*range(11, 31), *range(1, 11)][:limit]
        assert store.read(by_words, "tea", limit=limit) == expected


# -- by meaning --------------------------------------------------------------------------------------------------------


def test_similarity_is_the_cosine(store: Opened) -> None:
    store.write(put, rule(1), vector=EAST)
    store.write(put, rule(2), vector=tuple(100 * part for part in BETWEEN))
    store.write(put, rule(3), vector=NORTH)
    store.write(put, rule(4), vector=(-1.0, 0.0, 0.0, 0.0))
    store.write(put, rule(5), vector=NOWHERE)
    store.write(put, rule(6))

    def similarities(conn: Connection) -> dict[int, float]:
        lanes = ask(conn, vector=(7.0, 0.0, 0.0, 0.0))
        return {number_of(key): value for key, value in lanes.semantic.items()}

    expected = {1: 1.0, 2: 0.5**0.5, 3: 0.0, 5: 0.0, 4: -1.0}
    got = store.read(similarities)
    assert list(got) == list(expected) and got == pytest.approx(expected, abs=CLOSE)
    assert store.read(by_vector, NOWHERE) == [], "a query without direction finds nothing"


def test_of_equal_similarities_the_lower_id_goes_first(store: Opened) -> None:
    store.write(put, *(rule(number) for number in range(20, 0, -1)), vector=BETWEEN)
    for limit in (1, 7, 20, 30):
        assert store.read(by_vector, limit=limit) == list(range(1, 21))[:limit]


# -- both lanes -------------------------------------------------------------------------------------------------------


def test_filters_apply_before_the_limit(store: Opened) -> None:
    """One match among many better ones that the filter keeps out."""
    store.write(put, *(rule(number, "tea", project="no") for number in range(1, 60)), vector=EAST)
    store.write(put, rule(99, "tea and very many other words", project="yes"), vector=NORTH)
    wanted = {"limit": 1, "filter": Filter(project="yes")}
    assert store.read(by_words, "tea", **wanted) == [99]
    assert store.read(by_vector, **wanted) == [99]


def test_a_small_tenant_beside_a_large_one_gets_all_it_asks_for(store: Opened) -> None:
    large = [rule(number, tenant_id=OTHER) for number in range(1, 301)]
    store.write(put, *large, vector=EAST, on_behalf=OTHER)
    store.write(put, *map(rule, range(1, 8)), vector=NORTH)
    for limit in (1, 5, 7, 50):
        expected = list(range(1, 8))[:limit]
        assert store.read(by_vector, limit=limit) == expected
        assert store.read(by_words, "tea", limit=limit) == expected


def test_only_what_is_alive_is_found(store: Opened) -> None:
    gone = NOW - timedelta(seconds=1)
    dead = episode(1, forgotten=True), episode(2, expires_at=gone), fact(3, validity="superseded")
    store.write(put, *dead, rule(4, forgotten=True), vector=EAST)
    store.write(put, episode(5, expires_at=NOW + timedelta(days=1)), fact(6), rule(7), vector=EAST)
    lanes = store.read(ask, *KINDS, terms=["tea"], vector=EAST)
    assert sorted(found(lanes.semantic)) == sorted(found(lanes.keyword)) == [5, 6, 7]
    for one in (episode(5), fact(6), rule(7)):
        assert store.write(items.delete, address_of(one), event(90 + one.id.int, one))
    lanes = store.read(ask, *KINDS, terms=["tea"], vector=EAST)
    assert not lanes.semantic and not lanes.keyword


def test_the_limit_is_that_of_each_kind_and_hits_are_whole(store: Opened) -> None:
    kept = [*map(episode, range(1, 6)), *map(rule, range(11, 16)), fact(21, "coffee")]
    store.write(put, *kept, vector=EAST)
    lanes = store.read(ask, *KINDS, terms=["tea"], vector=NORTH, limit=2)
    for lane in (lanes.semantic, lanes.keyword):
        of_kinds = [key[0] for key in lane if key[0] != "fact"]
        assert of_kinds == ["episode", "episode", "rule", "rule"], "those of a kind together"
    request = LaneRequest(tenant_id=ONE, kinds=KINDS, filter=Filter(), now=NOW, limit=20, terms=["tea", "coffee"])
    collected = store.read(search.collect, Inquiry(request, "keyword", 20, 0.0))
    assert sorted(collected.hits, key=lambda hit: hit.item.id) == [
        Hit(memory_type=KIND_OF[type(item)], item=item, score=ANY, parts=ANY) for item in kept
    ]
