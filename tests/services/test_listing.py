"""Lists to browse in: episodes by time, facts by subject, entities by name, notes, and rules on their ladder."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from tulving import Caller, InvalidInput

START = datetime(2026, 1, 1, tzinfo=UTC)
SESSION = UUID(int=77)


async def pages(verb, limit, **asked):
    """Everything, page by page."""
    found, cursor = [], None
    while True:
        page = await verb(limit=limit, cursor=cursor, **asked)
        assert len(page) <= limit
        found += page
        if (cursor := page.next_cursor) is None:
            return found


@pytest.fixture
async def days(memory, clock):
    """Episodes of three days, two of them at the same moment; the first is told last."""
    for number, happened in enumerate((2, 1, 1, 0)):
        await memory.store_episode(
            f"day {happened} number {number}",
            butler="a",
            type="decision" if happened == 1 else "meeting",
            source="Mira" if number == 2 else "Jon",
            occurred_at=START - timedelta(days=happened),
            session_id=SESSION if happened == 1 else None,
            tags=["work"] if number == 1 else None,
            project="atlas" if number == 0 else None,
        )


@pytest.mark.parametrize("limit", [1, 2, 3, 50])
async def test_episodes_come_by_the_time_they_happened_on_pages_of_any_size(memory, days, limit):
    found = await pages(memory.episodes, limit)
    assert [each.content[:5] for each in found] == ["day 0", "day 1", "day 1", "day 2"]
    assert len({each.id for each in found}) == 4


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ({"session_id": SESSION}, 2),
        ({"type": "meeting"}, 2),
        ({"source": "Mira"}, 1),
        ({"tags": ["work"]}, 1),
        ({"project": "atlas"}, 1),
        ({"since": START - timedelta(days=1)}, 3),
        ({"until": START - timedelta(days=1)}, 1),
        ({"query": "number"}, 4),
        ({"query": "number", "session_id": SESSION}, 2),
        ({"query": "number", "source": "Mira"}, 1),
        ({"query": "unheard"}, 0),
        ({"user_id": "anna"}, 0),
    ],
)
async def test_episodes_by_what_is_known_of_them(memory, days, asked, count):
    assert len(await memory.episodes(**asked)) == count


async def test_episodes_that_are_gone_are_listed_if_asked_for(memory, days, clock):
    first = (await memory.episodes())[0]
    await memory.forget("episode", first.id)
    kept = await memory.store_episode("expires in a week", butler="a")
    clock.advance(days=30)
    assert kept.expires_at is not None and kept.expires_at < clock.now
    assert (len(await memory.episodes()), len(await memory.episodes(gone=True))) == (3, 5)


async def test_episodes_are_counted_by_day(memory, days):
    wanted = [START - timedelta(days=number) for number in (2, 1, 0)]
    assert await memory.episode_days(wanted) == [1, 2, 1]
    assert await memory.episode_days(wanted, session_id=SESSION) == [0, 2, 0]
    assert await memory.bind(user_id="anna").episode_days(wanted) == [0, 0, 0]


@pytest.fixture
async def truths(memory, clock):
    mira = (await memory.create_entity("Mira", "person")).entity_id
    for subject, predicate, content in (
        ("tea", "colour", "black"),
        ("Mira", "home", "Lisbon"),
        ("TEA", "origin", "Assam"),
        ("tea", "Colour", "green"),
    ):
        clock.advance(minutes=1)
        await memory.store_fact(subject, predicate, content, category="knowledge" if subject == "TEA" else None)
    await memory.store_fact("Mira", "drink", "tea", entity_id=mira)
    await memory.store_note("teapots are heavy")
    return mira


@pytest.mark.parametrize("limit", [1, 2, 50])
async def test_facts_come_by_subject_and_predicate_without_the_notes(memory, truths, limit):
    found = await pages(memory.facts, limit)
    assert [each.content for each in found] == ["tea", "Lisbon", "green", "Assam"]
    found = await pages(memory.facts, limit, state="any")
    assert {each.content for each in found if each.folded_predicate == "colour"} == {"black", "green"}
    assert len({each.id for each in found}) == 5


async def test_facts_by_what_is_known_of_them(memory, truths):
    for asked, contents in (
        ({"subject": "Tea"}, ["green", "Assam"]),
        ({"subject": "tea", "state": "superseded"}, ["black"]),
        ({"entity_id": truths}, ["tea"]),
        ({"category": "knowledge"}, ["Assam"]),
        ({"user_id": "anna"}, []),
        ({"scope": "kitchen"}, ["tea", "Lisbon", "green", "Assam"]),
    ):
        assert [each.content for each in await memory.facts(**asked)] == contents, asked


async def test_another_users_facts_are_not_within_reach(memory):
    anna = memory.bind(user_id="anna")
    with pytest.raises(InvalidInput, match="bound"):
        await anna.facts(user_id="bob")
    with pytest.raises(InvalidInput, match="bound"):
        await anna.episodes(user_id="bob")


async def test_notes_and_rules_are_listed_apart(memory, truths):
    notes = await memory.list_memories("fact", keyed=False)
    assert [each.content for each in notes] == ["teapots are heavy"]
    assert len(await memory.list_memories("fact", keyed=True)) == 4
    with pytest.raises(InvalidInput, match="keyed"):
        await memory.list_memories("rule", keyed=True)
    rule = await memory.store_rule("pour slowly")
    await memory.store_rule("warm the pot")
    for _ in range(5):
        await memory.mark_helpful(rule.id)
    assert [each.content for each in await memory.list_memories("rule", state="established")] == ["pour slowly"]
    assert [each.content for each in await memory.list_memories("rule", state="candidate")] == ["warm the pot"]
    with pytest.raises(InvalidInput, match="state"):
        await memory.list_memories("rule", state="superseded")


@pytest.mark.parametrize("limit", [1, 2, 50])
async def test_entities_come_by_name_with_their_facts(memory, truths, limit):
    for name, type_, aliases in (("acme", "organization", []), ("Zoë", "person", ["Mirabelle"]), ("ACME", "place", [])):
        await memory.create_entity(name, type_, aliases=aliases)
    found = await pages(memory.list_entities, limit)
    assert [each.entity.canonical_name.casefold() for each in found] == ["acme", "acme", "mira", "zoë"]
    assert [each.facts for each in found] == [0, 0, 1, 0]
    assert [each.entity.canonical_name for each in await memory.list_entities(name="MIRA")] == ["Mira", "Zoë"]
    assert [each.entity.canonical_name for each in await memory.list_entities(entity_type="place")] == ["ACME"]
    assert len(await memory.list_entities(name="%")) == 0
    assert [each.facts for each in await memory.bind(user_id="anna").list_entities(name="Mira", limit=1)] == [0]
    assert len(await memory.bind(caller=Caller("other")).list_entities()) == 0


async def test_a_merged_entity_is_not_listed(memory, truths):
    other = (await memory.create_entity("M. Santos", "person")).entity_id
    await memory.merge_entities(other, truths)
    assert [each.entity.canonical_name for each in await memory.list_entities()] == ["Mira"]


async def test_a_merge_is_told_before_it_is_done(memory, truths, clock):
    other = (await memory.create_entity("M. Santos", "person", aliases=["Mimi"])).entity_id
    await memory.store_fact("M. Santos", "Drink", "coffee", entity_id=other, confidence=0.5)
    await memory.store_fact("M. Santos", "home", "Porto", entity_id=other)
    before = await memory.preview_merge(other, truths)
    assert (before.source.canonical_name, before.target.canonical_name) == ("M. Santos", "Mira")
    assert before.aliases == ["M. Santos", "Mimi"]
    assert [(each.stays.content, each.superseded.content) for each in before.superseded] == [("tea", "coffee")]
    assert (before.moving, {each.content for each in before.facts}) == (2, {"coffee", "Porto"})
    assert before == await memory.preview_merge(other, truths), "nothing has changed"
    done = await memory.merge_entities(other, truths)
    assert (done.facts_superseded, done.aliases_added) == (1, 2)
    with pytest.raises(InvalidInput, match="merged"):
        await memory.preview_merge(other, truths)
    with pytest.raises(InvalidInput, match="itself"):
        await memory.preview_merge(truths, truths)
    with pytest.raises(InvalidInput, match="whole tenant"):
        await memory.bind(user_id="anna").preview_merge(other, truths)


async def test_the_marks_of_rules_are_told_oldest_first(memory, clock):
    rule, other = (await memory.store_rule("pour slowly")).id, (await memory.store_rule("warm the pot")).id
    for number in range(4):
        clock.advance(hours=1)
        await (memory.mark_harmful(rule, "cold") if number == 2 else memory.mark_helpful(rule))
    found = await memory.rule_marks([rule, other], most=3)
    assert [each.outcome for each in found[rule]] == ["helpful", "harmful", "helpful"]
    assert found[rule][-1].applied_at == clock.now
    assert found[other] == []
    assert await memory.bind(user_id="anna").rule_marks([rule]) == {}


async def test_sessions_by_their_ids(memory):
    session = await memory.start_session(project="atlas")
    await memory.store_episode("met Mira", butler="a")
    found = await memory.get_sessions([session.id, SESSION])
    assert found.keys() == {session.id}
    assert found[session.id].memories["episode"] == 1
    assert await memory.get_sessions([]) == {}
    assert await memory.bind(project="other").get_sessions([session.id]) == {}


@pytest.mark.parametrize("verb", ["episodes", "facts", "list_entities"])
@pytest.mark.parametrize("limit", [1, 2])
async def test_pages_are_complete_where_only_ids_tell_entries_apart(memory, verb, limit):
    """And the ids come in another order than the entries."""
    memory._env.ids = map(UUID, (f"{number:032x}" for number in range(1000, 0, -1))).__next__
    for user, kind in (("anna", "person"), ("ben", "place"), ("cleo", "other")):
        await memory.create_entity("Mira", kind)
        await memory.bind(user_id=user).store_fact("Mira", "home", "Lisbon")
        await memory.bind(user_id=user).store_episode("met Mira", butler="a")
    found = await pages(getattr(memory, verb), limit)
    ids = [each.entity.id if verb == "list_entities" else each.id for each in found]
    assert len({*ids}) == len(ids) == 3


@pytest.mark.parametrize("verb", ["episodes", "facts", "list_entities"])
async def test_a_cursor_of_somebody_else_is_refused(memory, verb):
    with pytest.raises(InvalidInput, match="cursor"):
        await getattr(memory, verb)(cursor="nonsense")
