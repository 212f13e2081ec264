"""The episodes before and after a turn of a conversation, and the similarity of candidates that words alone found."""

import re
from datetime import timedelta
from typing import Any
from uuid import UUID

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
    episode,
    fact,
    number_of,
    put,
    rule,
)

from tulving import Memory, NewEpisode
from tulving.domain.model import KINDS
from tulving.domain.questions import Question
from tulving.domain.relevance import TURN
from tulving.domain.scope import Filter, Owner
from tulving.storage import search
from tulving.storage.connection import Connection
from tulving.storage.lanes import LaneRequest
from tulving.storage.search import Inquiry
from tulving.testing import CLOSE

TALK, OTHER_TALK = UUID(int=7), UUID(int=8)
Turns = dict[int, tuple[int | None, int | None]]


def turn(number: int, content: str = "tea", minutes: int | None = None, **more: Any) -> Any:
    """An episode of a session; it happened so many minutes after `NOW`."""
    happened = {} if minutes is None else {"occurred_at": NOW + timedelta(minutes=minutes)}
    return episode(number, content, **{"session_id": TALK, **happened, **more})


def beside(conn: Connection, *words: str, **wanted: Any) -> Turns:
    """The neighbours of the candidates that have any."""
    lanes = ask(conn, "episode", terms=words or ("tea",), neighbours=True, **wanted)
    pairs = {number_of(turn): pair for turn, pair in lanes.neighbours.items() if any(pair)}
    assert all(key in lanes.rows for pair in pairs.values() for key in pair if key), "they are candidates too"
    return {turn: (before and number_of(before), after and number_of(after)) for turn, (before, after) in pairs.items()}


def known_similarities(conn: Connection, **wanted: Any) -> dict[int, float]:
    lanes = ask(conn, *KINDS, **wanted)
    return {number_of(key): value for key, value in lanes.similarities.items()}


# -- order -------------------------------------------------------------------------------------------------------------


def test_turns_are_in_the_order_in_which_they_happened(store: Opened) -> None:
    """Not in that of their ids or of their storing. Without a time of its own, a turn happened when it was stored."""
    turns = turn(4, "one", minutes=-20), turn(3, "two", minutes=-10), turn(2, "tea"), turn(1, "four", minutes=10)
    store.write(put, *reversed(turns))
    assert store.read(beside, "tea") == {2: (3, 1)}
    assert store.read(beside, "one") == {4: (None, 3)}
    assert store.read(beside, "four") == {1: (2, None)}
    assert store.read(beside, "one", "two") == {4: (None, 3), 3: (4, 2)}


def test_at_the_same_time_the_one_stored_first_goes_first_then_the_lower_id(store: Opened) -> None:
    late = {"created_at": NOW + timedelta(seconds=1)}
    store.write(put, turn(5, "five", minutes=1), turn(1, "one", minutes=1, **late), turn(3, "three", minutes=1))
    store.write(put, turn(4, "tea", minutes=1))
    assert store.read(beside, "tea") == {4: (3, 5)}
    assert store.read(beside, "one") == {1: (5, None)}
    assert store.read(beside, "three") == {3: (None, 4)}


def test_microseconds_tell_turns_apart(store: Opened) -> None:
    moments = [NOW + timedelta(microseconds=micros) for micros in (-1, 0, 1)]
    store.write(put, *(turn(9 - at, f"tea {at}", occurred_at=when) for at, when in enumerate(moments)))
    assert store.read(beside) == {9: (None, 8), 8: (9, 7), 7: (8, None)}


# -- which episodes ----------------------------------------------------------------------------------------------------


def test_only_the_same_session_is_near(store: Opened) -> None:
    store.write(put, turn(1, minutes=1), turn(2, minutes=2, session_id=OTHER_TALK), turn(3, minutes=3))
    store.write(put, episode(4), episode(5), turn(6, minutes=4, session_id=OTHER_TALK))
    assert store.read(beside) == {1: (None, 3), 3: (1, None), 2: (None, 6), 6: (2, None)}


def test_without_the_wish_for_neighbours_there_are_none(store: Opened) -> None:
    store.write(put, turn(1), turn(2, "coffee"))
    lanes = store.read(ask, "episode", terms=["tea"])
    assert not lanes.neighbours and [number_of(key) for key in lanes.rows] == [1]


def test_facts_and_rules_have_no_neighbours(store: Opened) -> None:
    store.write(put, fact(1), rule(2), turn(3))
    lanes = store.read(ask, *KINDS, terms=["tea"], neighbours=True)
    assert [key for key, pair in lanes.neighbours.items() if any(pair)] == []
    lanes = store.read(ask, "fact", "rule", terms=["tea"], neighbours=True)
    assert not lanes.neighbours, "where no episodes are asked for"


@pytest.mark.parametrize(
    ("gone", "wanted"),
    [
        ({"forgotten": True}, {}),
        ({"expires_at": NOW}, {}),
        ({"expires_at": NOW - timedelta(days=1)}, {}),
        ({"butler": "else"}, {"filter": Filter(scope="b")}),
        ({"user_id": "bob"}, {"filter": Filter(Owner(user_id="ann"))}),
        ({"project": None}, {"filter": Filter(project="atlas")}),
        ({"tags": []}, {"filter": Filter(tags=("red",))}),
        ({"type": "bugfix"}, {"filter": Filter(type="talk")}),
        ({"occurred_at": NOW - timedelta(days=9)}, {"filter": Filter(since=NOW - timedelta(days=8))}),
        ({"occurred_at": NOW + timedelta(days=9)}, {"filter": Filter(until=NOW + timedelta(days=8))}),
        ({"occurred_at": NOW + timedelta(days=9)}, {"filter": Filter(as_of=NOW + timedelta(days=8))}),
    ],
    ids=str,
)
def test_what_may_not_be_found_is_no_neighbour(store: Opened, gone: Any, wanted: Any) -> None:
    """The next one that may be found is, however many are between."""
    mine = {"user_id": "ann", "project": "atlas", "tags": ["red"], "type": "talk"}
    store.write(put, turn(1, "first", minutes=-10, **mine), turn(9, "last", minutes=10, **mine), turn(5, **mine))
    for number, minutes in ((2, -3), (3, -2), (4, -1), (6, 1), (7, 2), (8, 3)):
        store.write(put, turn(number, "hidden", **{**mine, "occurred_at": NOW + timedelta(minutes=minutes), **gone}))
    lanes = store.read(ask, "episode", terms=["tea"], neighbours=True, **wanted)
    assert {number_of(key) for key in lanes.rows} == {1, 5, 9}, "nothing hidden is read at all"
    assert store.read(beside, "tea", **wanted) == {5: (1, 9)}


def test_the_session_of_another_tenant_is_another(store: Opened) -> None:
    """The same id of a session says nothing, nor do the same ids of episodes."""
    strange = [turn(number, "strange", minutes=number - 5, tenant_id=OTHER) for number in (4, 5, 6)]
    store.write(put, *strange, on_behalf=OTHER)
    store.write(put, turn(1, minutes=1), turn(5, minutes=5))
    assert store.read(beside) == {1: (None, 5), 5: (1, None)}
    assert store.read(beside, "strange", tenant=OTHER, on_behalf=OTHER) == {4: (None, 5), 5: (4, 6), 6: (5, None)}
    lanes = store.read(ask, "episode", terms=["tea"], neighbours=True)
    assert {number_of(key) for key in lanes.rows} == {1, 5}


@pytest.mark.parametrize(("words", "is_turn"), [(TURN, True), (TURN + 1, False)])
def test_a_long_text_is_no_turn(store: Opened, words: int, is_turn: bool) -> None:
    """It is a neighbour of turns all the same."""
    times = [NOW + timedelta(minutes=minutes) for minutes in range(3)]
    texts = zip((1, 2, 3), ("before", "tea " * words, "after"), times, strict=True)
    store.write(put, *(turn(number, text, created_at=stored) for number, text, stored in texts))
    assert store.read(beside, "tea") == ({2: (1, 3)} if is_turn else {}), words
    assert store.read(beside, "after") == {3: (2, None)}


def test_neighbours_have_their_similarity(store: Opened) -> None:
    store.write(put, turn(1, "before", minutes=1), vector=BETWEEN)
    store.write(put, turn(2, "tea", minutes=2), vector=EAST)
    store.write(put, turn(3, "after", minutes=3))
    lanes = store.read(ask, "episode", terms=["tea"], vector=EAST, limit=1, neighbours=True)
    assert [number_of(key) for key in lanes.semantic] == [2]
    similar = {number_of(key): value for key, value in lanes.similarities.items()}
    assert similar == pytest.approx({1: 0.5**0.5, 2: 1.0}, abs=CLOSE), "3 has no vector yet"


# -- what a search makes of them ---------------------------------------------------------------------------------------


def pool(conn: Connection, **wanted: Any) -> set[int]:
    """All that a hybrid search judges and returns."""
    request = {"tenant_id": ONE, "kinds": ("episode",), "filter": Filter(), "now": NOW, "limit": 10, "terms": ["tea"]}
    lanes = LaneRequest(**{**request, "vector": EAST, "embedding_version": 1, "neighbours": True, **wanted})
    collected = search.collect(conn, Inquiry(lanes, "hybrid", 100, 0.0, question=Question(["tea"])))
    assert collected.candidates == len(collected.hits)
    return {hit.item.id.int for hit in collected.hits}


async def test_what_has_nothing_to_do_with_a_query_is_not_found_through_its_neighbours(memory: Memory) -> None:
    async def say(session: UUID, *contents: str) -> None:
        await memory.store_episodes(
            [NewEpisode(content=content, butler="b", session_id=session) for content in contents]
        )

    await say(TALK, "one", "two", "three")
    await say(UUID(int=9), "alone")
    assert (await memory.search("tea")).candidates == 0
    await say(OTHER_TALK, "four", "five", "tea", "six", "seven")
    assert {hit.item.content for hit in await memory.search("tea")} == {"five", "tea", "six"}


def test_only_what_is_within_the_limit_brings_its_neighbours(store: Opened) -> None:
    """An engine may have read more: some of the best did not pass the filter."""
    for number in range(1, 7):
        talk = {"session_id": UUID(int=number), "project": "no" if number == 1 else "yes"}
        store.write(put, turn(number, "tea", minutes=1, **talk), vector=(1.0, number / 10, 0.0, 0.0))
        store.write(put, turn(10 + number, "talk", minutes=2, **talk), vector=NORTH)
    wanted = {"limit": 2, "filter": Filter(project="yes")}
    assert store.read(pool, terms=[], **wanted) == {2, 12, 3, 13}
    assert store.read(pool, vector=None, **wanted) == {2, 12, 3, 13}, "of equal words the lower id"


# -- similarities ------------------------------------------------------------------------------------------------------


def test_what_words_alone_found_has_its_similarity_too(store: Opened) -> None:
    store.write(put, *(rule(number, "coffee") for number in range(1, 6)), vector=EAST)
    store.write(put, rule(10, "tea"), vector=BETWEEN)
    store.write(put, episode(11, "tea"), vector=NORTH)
    store.write(put, fact(12, "tea"), vector=(-1.0, 0.0, 0.0, 0.0))
    store.write(put, episode(13, "tea"), vector=NOWHERE)
    got = store.read(known_similarities, terms=["tea"], vector=EAST, limit=5)
    assert {number: got[number] for number in (10, 11, 12, 13)} == pytest.approx(
        {10: 0.5**0.5, 11: 0.0, 12: -1.0, 13: 0.0}, abs=CLOSE
    )


def test_without_a_vector_a_similarity_is_unknown(store: Opened) -> None:
    store.write(put, rule(1, "tea"), episode(2, "tea"), fact(3, "tea"))
    store.write(put, rule(4, "tea"), vector=EAST)
    got = store.read(known_similarities, terms=["tea"], vector=EAST)
    assert got == pytest.approx({4: 1.0}, abs=CLOSE)


@pytest.mark.parametrize("vector", [None, NOWHERE])
def test_a_query_without_direction_has_no_similarities(store: Opened, vector: Any) -> None:
    store.write(put, turn(1), turn(2, "coffee"), rule(3), vector=EAST)
    assert store.read(known_similarities, terms=["tea"], vector=vector, neighbours=True) == {}
    assert store.read(beside, vector=vector) == {1: (None, 2)}


# -- how it is looked up -----------------------------------------------------------------------------------------------


def test_a_long_session_at_one_moment_is_read_through_its_index(store: Opened, engine: str) -> None:
    """The order of an index leads to the neighbours of a turn: not all turns of its moment are read for each."""
    talk = [turn(number, "tea" if number % 20 == 0 else "talk", minutes=1) for number in range(1, 2_001)]
    store.write(put, *talk)
    store.write(lambda conn: conn.execute("ANALYZE"))
    near = store.read(beside, limit=1_000)
    assert near[1000] == (999, 1001) and near[2000] == (1999, None) and len(near) == 100
    if engine == "sqlite":
        assert store.read(_steps) < 500_000, (
            "steps of SQLite's machine; reading the session for each turn takes millions"
        )
    else:
        plan = store.read(_plan)
        assert "Seq Scan on episodes" not in plan and "ix_episodes_session" in plan, plan
        scans = re.findall(r"Scan.* on episodes m(?:_\d)? .*rows=([\d.]+) loops=(\d+)", plan)
        removed = [int(rows) for rows in re.findall(r"Rows Removed by (?:Filter|Index Recheck): (\d+)", plan)]
        read = sum(float(rows) * int(loops) for rows, loops in scans)
        assert scans and read + 100 * sum(removed) <= 500, plan


def _steps(conn: Any) -> int:
    """How many steps the neighbours cost beyond the candidates themselves."""
    counted: list[int] = []
    for neighbours in (False, True):
        steps: list[int] = []
        conn.raw.set_progress_handler(lambda steps=steps: steps.append(100), 100)
        ask(conn, "episode", terms=["tea"], limit=1_000, neighbours=neighbours)
        counted.append(sum(steps))
    conn.raw.set_progress_handler(None, 0)
    return counted[1] - counted[0]


def _plan(conn: Any) -> str:
    """How PostgreSQL has looked up the neighbours, with the number of rows."""
    seen: list[tuple[str, Any]] = []
    records = conn.records
    conn.records = lambda sql, params=None: seen.append((sql, params)) or records(sql, params)
    beside(conn, limit=1_000)
    asked = [each for each in seen if "turns" in (each[1] or {})]
    explained = [records(f"EXPLAIN (ANALYZE, TIMING OFF) {sql}", params) for sql, params in asked]
    return "\n".join(row[0] for rows in explained for row in rows)
