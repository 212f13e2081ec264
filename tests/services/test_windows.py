"""An episode is read with its neighbours in the session: found by their words, and only while they may be seen."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from tulving import Caller, NewEpisode

SESSION, ANOTHER = UUID(int=700), UUID(int=701)
ASKED = "Which instrument do you play nowadays?"
ANSWERED = "The cello, ever since childhood."
QUERY = "which instrument does she play"


def speaker(line):
    """Someone else for each of the lines below."""
    return f"guest {len(line)}"


async def say(memory, clock, *lines, session_id=SESSION, **more):
    """Store what is said, a minute apart and each by someone else; returns the ids."""
    ids = []
    for line in lines:
        clock.advance(minutes=1)
        given = {"source": speaker(line), **more}
        stored = await memory.store_episode(line, butler="b", session_id=session_id, **given)
        ids.append(stored.id)
    return ids


async def noise(memory, clock):
    """Other talk, so that a window is a reason to be found and not the only thing there is."""
    lines = [f"Number {n} of the long list was read aloud to everyone." for n in range(30)]
    await say(memory, clock, *lines, session_id=ANOTHER)


async def window(memory, id_, query=QUERY, **more):
    """How strong the window of an episode is; 0 if it is not found."""
    found = {hit.item.id: hit for hit in await memory.search(query, limit=100, **more)}
    return found[id_].parts["window"] if id_ in found else 0


async def test_an_answer_is_found_by_the_words_of_the_question_before_it(memory, clock):
    await noise(memory, clock)
    asked, answered, _ = await say(memory, clock, ASKED, ANSWERED, "How nice to hear that.")
    found = await memory.search(QUERY, limit=3)
    assert {asked, answered} <= {hit.item.id for hit in found}
    hit = next(hit for hit in found if hit.item.id == answered)
    assert hit.parts["words"] == 0 and hit.parts["window"] > 0.9 and hit.parts["answer"] > 0
    assert "keyword" not in await modes_that_find(memory, answered), "its own words do not match"


async def modes_that_find(memory, id_):
    return {
        mode
        for mode in ("hybrid", "keyword")
        if id_ in {hit.item.id for hit in await memory.search(QUERY, mode=mode, limit=50)}
    }


async def test_a_statement_is_found_by_the_words_of_what_follows(memory, clock):
    await noise(memory, clock)
    said, _ = await say(memory, clock, ANSWERED, "I play that instrument too!")
    assert await window(memory, said) > 0.9


async def test_without_a_session_there_are_no_neighbours(memory, clock):
    await noise(memory, clock)
    _, answered = await say(memory, clock, ASKED, ANSWERED, session_id=None)
    assert await window(memory, answered) == 0


@pytest.mark.parametrize("source", [None, "Anna"])
async def test_what_one_person_says_in_succession_is_not_read_together(memory, clock, source):
    await noise(memory, clock)
    _, answered = await say(memory, clock, ASKED, ANSWERED, source=source)
    assert await window(memory, answered) == 0
    (hit,) = [hit for hit in await memory.search(QUERY, limit=100) if hit.item.id == answered] or [None]
    assert hit is None or hit.parts["answer"] == 0


async def test_the_next_but_one_is_no_neighbour(memory, clock):
    await noise(memory, clock)
    _, near, far = await say(memory, clock, ASKED, "Hm, let us see.", ANSWERED)
    assert await window(memory, near) > 0 == await window(memory, far)


async def test_neighbours_are_by_when_it_happened_and_a_late_one_counts_at_once(memory, clock):
    await noise(memory, clock)
    day = datetime(2025, 3, 1, tzinfo=UTC)
    (answered,) = await say(memory, clock, ANSWERED, occurred_at=day + timedelta(hours=2))
    await say(memory, clock, "Good evening.", occurred_at=day)
    assert await window(memory, answered) == 0
    (asked,) = await say(memory, clock, ASKED, occurred_at=day + timedelta(hours=1))
    assert await window(memory, answered) > 0.9, "stored last, it lies between the two"
    await say(memory, clock, "Wait a moment.", occurred_at=day + timedelta(minutes=90))
    assert await window(memory, answered) == 0, "and another one between them"
    assert await window(memory, asked) > 0.9


async def test_of_equal_times_the_order_of_storing_counts(memory, clock):
    """Many imports know the day only."""
    await noise(memory, clock)
    day = datetime(2025, 3, 1, tzinfo=UTC)
    lines = ["Good evening.", ASKED, ANSWERED, "So do I.", "Good night."]
    stored = await memory.store_episodes(
        [
            NewEpisode(content=line, butler="b", session_id=SESSION, occurred_at=day, source=speaker(line))
            for line in lines
        ]
    )
    windows = [await window(memory, answer.id) for answer in stored]
    assert [bool(strength) for strength in windows] == [True, True, True, False, False]


@pytest.mark.parametrize("how", ["edit", "delete", "forget", "expire"])
async def test_a_changed_neighbour_leaves_no_stale_index(memory, clock, how):
    await noise(memory, clock)
    asked, answered = await say(memory, clock, ASKED, ANSWERED)
    assert await window(memory, answered) > 0.9
    if how == "edit":
        await memory.edit("episode", asked, content="What is the weather like?")
    elif how == "expire":
        clock.advance(days=6, hours=23, minutes=59)  # the question is a minute older than the answer
    else:
        await getattr(memory, how)("episode", asked)
    assert await window(memory, answered) == 0
    assert asked not in {hit.item.id for hit in await memory.search(QUERY, limit=100) if hit.parts["words"] > 0}


async def test_a_deleted_neighbour_makes_room_for_the_one_behind_it(memory, clock):
    await noise(memory, clock)
    _, between, answered = await say(memory, clock, ASKED, "Hm, let us see.", ANSWERED)
    assert await window(memory, answered) == 0
    await memory.delete("episode", between)
    assert await window(memory, answered) > 0.9


OTHERS = {
    "user": lambda memory: (memory.bind(user_id="ann"), memory.bind(user_id="bob")),
    "household": lambda memory: (memory.bind(household_id="north"), memory.bind(household_id="south")),
    "persona": lambda memory: (memory.bind(persona_id="cook"), memory.bind(persona_id="guide")),
    "project": lambda memory: (memory.bind(project="atlas"), memory.bind(project="borealis")),
    "scope": lambda memory: (memory.bind(scope="kitchen"), memory.bind(scope="garden")),
    "tenant": lambda memory: (memory.bind(caller=Caller("north")), memory.bind(caller=Caller("south"))),
}


@pytest.mark.parametrize("of", OTHERS)
async def test_neighbours_of_others_never_contribute_or_appear(memory, clock, of):
    """They share the session's id, which a caller may choose."""
    mine, theirs = OTHERS[of](memory)
    await noise(mine, clock)
    (asked,) = await say(theirs, clock, ASKED)
    (answered,) = await say(mine, clock, ANSWERED)
    (after,) = await say(theirs, clock, "I play that instrument too!")
    assert await window(mine, answered) == 0
    assert not {asked, after} & {hit.item.id for hit in await mine.search(QUERY, limit=100)}
    assert not {asked, after} & {hit.item.id for hit in await mine.recall(QUERY, limit=100)}
    block = await mine.context(QUERY, butler="kitchen" if of == "scope" else "b", token_budget=10_000)
    assert ASKED not in block and "too!" not in block
    (mine_asked,) = await say(mine, clock, "Do you play an instrument?")
    assert await window(mine, answered) > 0, "beside those of one's own"
    assert mine_asked in {hit.item.id for hit in await mine.search(QUERY, limit=100)}


DAY = datetime(2025, 3, 1, tzinfo=UTC)
FILTERS = {
    "since": ({"occurred_at": DAY}, {"occurred_at": DAY + timedelta(days=2)}, {"since": DAY + timedelta(days=1)}),
    "until": ({"occurred_at": DAY + timedelta(days=2)}, {"occurred_at": DAY}, {"until": DAY + timedelta(days=1)}),
    "type": ({"type": "meeting"}, {"type": "note"}, {"type": "note"}),
    "project": ({"project": "atlas"}, {"project": "borealis"}, {"project": "borealis"}),
    "tags": ({"tags": ["x"]}, {"tags": ["x", "y"]}, {"tags": ["y"]}),
}


@pytest.mark.parametrize("name", FILTERS)
async def test_filters_hold_for_neighbours(memory, clock, name):
    left_out, let_through, wanted = FILTERS[name]
    (asked,) = await say(memory, clock, ASKED, **left_out)
    (answered,) = await say(memory, clock, ANSWERED, **let_through)
    assert await window(memory, answered) > 0.9, "without the filter"
    found = await memory.search(QUERY, limit=100, **wanted)
    assert asked not in {hit.item.id for hit in found}
    assert await window(memory, answered, **wanted) == 0
    assert {hit.item.id for hit in await memory.search(ANSWERED, limit=100, **wanted)} == {answered}


async def test_the_scope_of_a_search_holds_for_neighbours(memory, clock):
    clock.advance(minutes=1)
    asked = (await memory.store_episode(ASKED, butler="kitchen", session_id=SESSION, source="Ben")).id
    clock.advance(minutes=1)
    answered = (await memory.store_episode(ANSWERED, butler="garden", session_id=SESSION, source="Eva")).id
    assert await window(memory, answered) > 0.9
    assert await window(memory, answered, scope="garden") == 0
    assert asked not in {hit.item.id for hit in await memory.search(QUERY, scope="garden")}


async def test_neighbours_are_not_found_where_episodes_are_not_wanted(memory, clock):
    await say(memory, clock, ASKED, ANSWERED)
    await memory.store_fact("she", "plays", "an instrument")
    assert {hit.memory_type for hit in await memory.search(QUERY, types=["fact", "rule"])} == {"fact"}


async def test_a_turn_that_has_nothing_to_do_with_the_query_is_not_found_for_its_session(memory, clock):
    """Nor one beside another that has nothing to do with it."""
    ids = await say(memory, clock, "zirconium yttrium", "bismuth hafnium", "lutetium thulium")
    found = await memory.search("osmium")
    assert not set(ids) & {hit.item.id for hit in found}


@pytest.mark.parametrize("as_of", [None, datetime(2026, 6, 1, tzinfo=UTC)])
async def test_both_lanes_alone_know_no_neighbours(memory, clock, as_of):
    _, answered = await say(memory, clock, ASKED, ANSWERED, type="note")
    for mode in ("keyword", "semantic"):
        found = await memory.search(QUERY, mode=mode, as_of=as_of)
        assert [hit for hit in found if hit.item.id == answered and hit.score > 0.5] == []
    assert await window(memory, answered, as_of=as_of) > 0.9
