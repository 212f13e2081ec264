"""Conflicts between notes: detected when one is stored, settled by rules, told, listed and reverted."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from administration import administer
from lesson_parts import reopened

from tulving import Caller, InvalidInput, NewFact, NotFound
from tulving.domain import validity
from tulving.domain.intake import MAX_TAGS
from tulving.settings import ConflictsConfig, MemoryModuleConfig

TEA = "The user drinks green tea in the morning"
NO_TEA = "The user does not drink green tea in the morning"
MORE_TEA = "The user drinks green tea with honey in the morning"
SHORT_TEA = "Drinks green tea in the morning"


async def contents(memory, state=None):
    page = await memory.list_memories("fact", state=state, limit=100)
    return sorted(item.content for item in page.items)


async def look(memory, id_):
    return await memory.look("fact", id_)


def links(sql, relation):
    rows = sql(f"SELECT source_id, target_id FROM memory_links WHERE relation = '{relation}'")
    return {(UUID(str(row["source_id"])), UUID(str(row["target_id"]))) for row in rows}


def happened(sql, *types):
    rows = sql("SELECT event_type FROM memory_events ORDER BY seq")
    return [row["event_type"] for row in rows if not types or row["event_type"] in types]


# -- what is settled -------------------------------------------------------------------------------------------


@pytest.mark.scenario("000-027")
async def test_the_newer_of_two_contrary_notes_wins_and_the_other_is_kept_as_history(memory, sql, clock):
    old = await memory.store_note(TEA, tags=["drinks"])
    clock.advance(hours=12)
    new = await memory.store_note(NO_TEA)
    assert (new.outcome, new.superseded_id) == ("superseded", old.id)
    conflict = new.conflict
    assert (conflict.action, conflict.winner_id, conflict.loser_id) == ("keep", new.id, old.id)
    assert (conflict.candidate_id, conflict.existing_id, conflict.merged_id) == (new.id, old.id, None)
    assert (conflict.confidence, conflict.rule, conflict.status) == (0.5, "default", "applied")
    assert "newer" in conflict.reason
    assert "tea" not in conflict.reason
    kinds = {signal["kind"]: signal for signal in conflict.signals}
    assert kinds.keys() == {"semantic", "keyword"}
    assert kinds["keyword"]["target_id"] == str(old.id)
    assert {"tea", "green"} <= {*kinds["keyword"]["evidence"]["keywords"]}
    assert await contents(memory) == [NO_TEA]
    loser = await look(memory, old.id)
    assert (loser.validity, loser.ended_at) == ("superseded", clock())
    assert (await look(memory, new.id)).supersedes_id == old.id
    assert links(sql, "supersedes") == {(new.id, old.id)}
    assert happened(sql)[-3:] == ["fact_created", "conflict_settled", "fact_superseded"]
    assert [hit.item.id for hit in await memory.recall("green tea in the morning", types=["fact"])] == [new.id]


async def test_each_conflict_is_read_by_its_id(memory):
    made = []
    for what in ("green tea", "black coffee"):
        await memory.store_note(f"Anna drinks {what} in the morning")
        made.append((await memory.store_note(f"Anna does not drink {what} in the morning")).conflict.id)
    for id_ in made:
        assert (await memory.conflict(id_)).settlement.id == id_
        assert await memory.bind(user_id="ben").conflict(id_) is None


async def test_a_repetition_in_fewer_words_does_not_retire_the_fuller_note(memory, sql, clock):
    full = await memory.store_note(MORE_TEA)
    clock.advance(days=3)
    again = await memory.store_note(SHORT_TEA)
    assert (again.id, again.outcome, again.ref, again.superseded_id) == (full.id, "kept", full.ref, None)
    assert (again.conflict.winner_id, again.conflict.loser_id) == (full.id, again.conflict.candidate_id)
    assert await contents(memory) == [MORE_TEA]
    kept = await look(memory, full.id)
    assert kept.last_confirmed_at == clock()  # it was said again
    other = await look(memory, again.conflict.candidate_id)
    assert (other.content, other.validity, other.ended_at) == (SHORT_TEA, "superseded", clock())
    assert links(sql, "supersedes") == {(full.id, other.id)}
    clock.advance(days=1)
    fuller = await memory.store_note("The user drinks green tea with honey and lemon in the morning")
    assert (fuller.outcome, fuller.superseded_id) == ("superseded", full.id)


async def test_the_more_important_note_wins_whatever_its_age(memory, clock):
    important = await memory.store_note(TEA, importance=9)
    clock.advance(days=1)
    late = await memory.store_note(NO_TEA, importance=5)
    assert (late.outcome, late.id) == ("kept", important.id)
    assert late.conflict.confidence == pytest.approx(0.8)
    assert (await look(memory, important.id)).last_confirmed_at < clock()  # the opposite is no confirmation


async def test_of_notes_of_the_same_time_the_better_source_wins(memory):
    guessed = await memory.store_note(TEA, source="inferred")
    said = await memory.store_note(NO_TEA, source="user")
    assert (said.outcome, said.superseded_id, said.conflict.confidence) == ("superseded", guessed.id, 0.7)


@pytest.mark.scenario("000-029")
async def test_notes_that_nothing_tells_apart_are_merged_into_a_new_one(memory, sql):
    first = await memory.store_note(TEA, importance=6, tags=["drinks", "habits"], confidence=0.9)
    second = await memory.store_note(NO_TEA, importance=6, tags=["habits", "health"], confidence=0.8)
    assert (second.outcome, second.superseded_id, second.conflict.confidence) == ("merged", first.id, 0.6)
    assert second.id == second.conflict.merged_id
    merged = await look(memory, second.id)
    assert second.ref == merged.ref
    assert TEA in merged.content or NO_TEA in merged.content
    assert (merged.validity, merged.keyed, merged.importance, merged.confidence) == ("active", False, 7.0, 0.8)
    assert list(merged.tags) == ["drinks", "habits", "health"]
    sides = {second.conflict.candidate_id, second.conflict.existing_id}
    assert links(sql, "derived_from") == {(merged.id, side) for side in sides}
    assert links(sql, "supersedes") == set()  # a pair has one link
    for side in sides:
        assert (await look(memory, side)).validity == "superseded"
    assert await contents(memory) == [merged.content]
    assert (await memory.stats()).facts.pending_vectors == 0  # it is found by meaning at once
    assert (await memory.store_note(merged.content)).outcome == "duplicate"


@pytest.mark.parametrize("strategy", ["keep-candidate", "keep-existing", "reject"])
@pytest.mark.scenario("000-030")
async def test_the_default_strategy_is_honoured(memory, sql, strategy):
    await memory.update_merge_rule("default", {"arbitration": {"allow_merge": False, "default_strategy": strategy}})
    old = await memory.store_note(TEA)
    new = await memory.store_note(NO_TEA)
    assert (new.conflict.confidence, strategy in new.conflict.reason) == (0.5, True)
    assert new.outcome == {"keep-candidate": "superseded", "keep-existing": "kept", "reject": "rejected"}[strategy]
    assert await contents(memory) == [NO_TEA if strategy == "keep-candidate" else TEA]
    assert new.id == (old.id if strategy == "keep-existing" else new.conflict.candidate_id)
    if strategy == "reject":
        assert (await look(memory, new.id)).validity == "retracted"
        assert sql("SELECT * FROM forgotten_values") == []


@pytest.mark.scenario("000-040")
async def test_the_rule_that_matches_decides_and_is_named(memory, clock):
    await memory.register_merge_rule(
        {"name": "old stays", "priority": 5, "conditions": {"source": "skill"}, "arbitration": OLD_STAYS}
    )
    old = await memory.store_note(TEA)
    clock.advance(days=1)
    new = await memory.store_note(NO_TEA, source="skill")
    assert (new.outcome, new.id, new.conflict.rule) == ("kept", old.id, "old stays")


OLD_STAYS = {
    "priority_recency": False,
    "priority_source": False,
    "allow_merge": False,
    "weights": {"importance": 0, "recency": 0, "source": 0, "semantic": 0},
    "default_strategy": "keep-existing",
}


@pytest.mark.scenario("000-031")
async def test_of_several_conflicts_the_most_severe_is_settled(memory, clock):
    await memory.store_note("The user drinks black tea in the evening")
    near = await memory.store_note(TEA)
    clock.advance(days=1)
    new = await memory.store_note(NO_TEA)
    assert (new.outcome, new.superseded_id) == ("superseded", near.id)
    assert len(await contents(memory)) == 2


async def test_what_is_merely_similar_is_stored_beside_it(memory, clock):
    notes = ["Has 2 cats", "Has 3 cats", "Meeting at 3 pm", "Meeting at 4 pm", "Anna manages Bob", "Bob manages Anna"]
    for note in notes:
        clock.advance(minutes=1)
        assert (await memory.store_note(note)).outcome == "stored"
    assert await contents(memory) == sorted(notes)


async def test_a_batch_is_compared_one_after_the_other(memory, clock):
    await memory.store_note(MORE_TEA)
    clock.advance(days=1)
    stored = await memory.store_facts(
        [
            NewFact(content=SHORT_TEA),
            NewFact(content="Plays the cello"),
            NewFact(content="The user never plays the cello"),
            NewFact(content="Plays the cello"),
            NewFact(content="Oslo", subject="user", predicate="city"),
        ]
    )
    assert [one.outcome for one in stored][:2] == ["kept", "stored"]
    assert [one.outcome for one in stored][2] in ("superseded", "merged")
    assert stored[4].outcome == "stored"
    active = [item for item in (await memory.list_memories("fact", limit=50)).items if not item.keyed]
    assert len(active) <= 3
    assert (await memory.store_fact("user", "city", "Bergen")).conflict is None


# -- who is compared with whom ---------------------------------------------------------------------------------


async def test_only_notes_of_the_same_owner_scope_and_project_are_compared(memory, clock):
    anna, ben = memory.bind(user_id="anna"), memory.bind(user_id="ben")
    await anna.store_note(TEA)
    clock.advance(days=1)
    for other in (ben, memory, anna.bind(persona_id="p"), anna.bind(household_id="h")):
        assert (await other.store_note(NO_TEA)).outcome == "stored"
    assert (await anna.bind(project="x").store_note(f"{NO_TEA}!")).outcome == "stored"
    stranger = memory.bind(caller=Caller("stranger"))
    assert (await stranger.store_note(NO_TEA)).outcome == "stored"
    assert (await anna.store_note(NO_TEA, scope="chef")).outcome == "stored"
    assert (await anna.store_fact("anna", "drinks", NO_TEA)).outcome == "stored"
    assert (await anna.store_note(NO_TEA)).outcome == "superseded"


@pytest.mark.parametrize("enabled", [True, False])
async def test_comparing_can_be_switched_off(memory, url, clock, enabled):
    config = MemoryModuleConfig(conflicts=ConflictsConfig(enabled=enabled))
    async with reopened(url, clock, config=config) as other:
        await other.store_note(TEA)
        clock.advance(days=1)
        assert (await other.store_note(NO_TEA)).outcome == ("superseded" if enabled else "stored")


async def test_without_vectors_notes_are_compared_by_their_words(memory, embedder, clock):
    await memory.store_note(TEA)
    embedder.problem = "not now"
    clock.advance(days=1)
    new = await memory.store_note(NO_TEA)
    assert new.outcome == "superseded"
    assert {signal["kind"] for signal in new.conflict.signals} == {"keyword"}


@pytest.mark.scenario("000-024")
@pytest.mark.scenario("000-025")
async def test_time_and_importance_strengthen_a_conflict_but_make_one_only_to_the_letter(memory, url, clock):
    await memory.store_note("The boat is called Freya", importance=9)
    clock.advance(minutes=5)
    assert (await memory.store_note("Yesterday it rained", importance=2)).outcome == "stored"
    await memory.store_note(TEA, importance=2)
    clock.advance(minutes=1)
    new = await memory.store_note(NO_TEA, importance=9)
    assert {signal["kind"] for signal in new.conflict.signals} == {"semantic", "keyword", "time", "importance"}
    clock.advance(days=1)
    literal = MemoryModuleConfig(conflicts=ConflictsConfig(mode="literal"))
    async with reopened(url, clock, config=literal) as opened:
        other = opened.bind(user_id="anna")
        await other.store_note("Somebody sang")
        clock.advance(minutes=5)
        late = await other.store_note("Quite another thing")
        assert {signal["kind"] for signal in late.conflict.signals} == {"time"}
        assert late.outcome == "superseded"


async def test_of_two_contrary_notes_at_once_one_wins(memory):
    answers = await asyncio.gather(memory.store_note(TEA), memory.store_note(NO_TEA))
    assert sorted(answer.outcome for answer in answers) in (["merged", "stored"], ["stored", "superseded"])
    assert len(await contents(memory)) == 1


# -- held for a person -----------------------------------------------------------------------------------------


@pytest.fixture
def config(request):
    held = "held" in request.node.name
    return MemoryModuleConfig(conflicts=ConflictsConfig(review_below=0.9 if held else 0.0))


async def test_a_held_settlement_changes_nothing_until_it_is_accepted(memory, sql, clock):
    old = await memory.store_note(TEA)
    clock.advance(hours=1)
    new = await memory.store_note(NO_TEA)
    assert (new.outcome, new.id, new.superseded_id) == ("held", new.conflict.candidate_id, None)
    assert (new.conflict.action, new.conflict.loser_id, new.conflict.status) == ("keep", old.id, "held")
    assert await contents(memory) == sorted([TEA, NO_TEA])
    [report] = await memory.conflicts("held")
    assert (report.candidate.content, report.existing.content) == (NO_TEA, TEA)
    with pytest.raises(InvalidInput, match="is held"):
        await memory.revert_conflict(new.conflict.id)
    clock.advance(hours=1)
    done = await memory.accept_conflict(new.conflict.id)
    assert (done.outcome, done.status, done.updated_at) == ("superseded", "applied", clock())
    assert await contents(memory) == [NO_TEA]
    assert not await memory.conflicts("held")
    with pytest.raises(InvalidInput, match="is applied"):
        await memory.accept_conflict(new.conflict.id)
    assert happened(sql, "conflict_held", "conflict_accepted", "fact_superseded") == [
        *("conflict_held", "conflict_accepted", "fact_superseded")
    ]


async def test_a_held_merge_is_made_when_it_is_accepted(memory):
    await memory.store_note(TEA)
    new = await memory.store_note(NO_TEA)
    assert (new.outcome, new.conflict.action, new.conflict.merged_id) == ("held", "merge", None)
    done = await memory.accept_conflict(str(new.conflict.id))
    assert await contents(memory) == [(await look(memory, done.merged_id)).content]
    assert (await memory.stats()).facts.pending_vectors == 0


async def test_a_held_settlement_may_be_dismissed_or_come_too_late(memory, clock):
    first = await memory.store_note(TEA)
    clock.advance(hours=1)
    new = await memory.store_note(NO_TEA)
    assert (await memory.dismiss_conflict(new.conflict.id)).status == "dismissed"
    assert await contents(memory) == sorted([TEA, NO_TEA])
    other = await memory.bind(user_id="anna").store_note(TEA)
    clock.advance(hours=1)
    held = await memory.bind(user_id="anna").store_note(NO_TEA)
    await memory.forget("fact", other.id)
    with pytest.raises(InvalidInput, match="no longer in use"):
        await memory.accept_conflict(held.conflict.id)
    assert (await look(memory, held.id)).validity == (await look(memory, first.id)).validity == "active"


# -- listed and reverted ---------------------------------------------------------------------------------------


async def test_both_sides_come_back_when_a_settlement_is_reverted(memory, sql, clock):
    old = await memory.store_note(TEA)
    clock.advance(hours=30)
    new = await memory.store_note(NO_TEA)
    clock.advance(hours=1)
    done = await memory.revert_conflict(new.conflict.id)
    assert (done.status, done.outcome, done.updated_at) == ("reverted", "superseded", clock())
    assert await contents(memory) == sorted([TEA, NO_TEA])
    back = await look(memory, old.id)
    assert (back.validity, back.ended_at, back.next_review_at is not None) == ("active", None, True)
    assert len(await memory.recall("green tea", types=["fact"])) == 2
    assert happened(sql)[-2:] == ["fact_restored", "conflict_reverted"]
    [report] = await memory.conflicts()
    assert report.settlement == done
    with pytest.raises(InvalidInput, match="is reverted"):
        await memory.revert_conflict(new.conflict.id)


async def test_a_reverted_merge_leaves_both_sides_and_retracts_what_was_made_of_them(memory):
    await memory.store_note(TEA)
    new = await memory.store_note(NO_TEA)
    assert new.outcome == "merged"
    await memory.revert_conflict(new.conflict.id)
    assert await contents(memory) == sorted([TEA, NO_TEA])
    assert (await look(memory, new.id)).validity == "retracted"


async def test_a_rejected_or_outvoted_note_comes_into_use_when_that_is_reverted(memory, clock):
    await memory.store_note(MORE_TEA)
    clock.advance(days=1)
    kept = await memory.store_note(SHORT_TEA)
    await memory.revert_conflict(kept.conflict.id)
    assert await contents(memory) == sorted([MORE_TEA, SHORT_TEA])
    anna = memory.bind(user_id="anna")
    await memory.update_merge_rule("default", {"arbitration": {"allow_merge": False, "default_strategy": "reject"}})
    await anna.store_note(TEA)
    rejected = await anna.store_note(NO_TEA)
    assert rejected.outcome == "rejected"
    await anna.revert_conflict(rejected.conflict.id)
    assert await contents(anna) == sorted([TEA, NO_TEA])


async def test_what_was_forgotten_or_said_again_does_not_come_back(memory, clock):
    old = await memory.store_note(TEA)
    clock.advance(days=1)
    new = await memory.store_note(NO_TEA)
    await memory.forget("fact", old.id)
    with pytest.raises(InvalidInput, match="was forgotten since"):
        await memory.revert_conflict(new.conflict.id)
    assert [each.settlement.status for each in await memory.conflicts()] == ["applied"]
    anna = memory.bind(user_id="anna")
    await anna.store_note(TEA)
    clock.advance(days=1)
    lost = await anna.store_note(NO_TEA)
    clock.advance(days=1)
    again = await anna.store_note(TEA)
    assert (again.outcome, again.superseded_id) == ("superseded", lost.id)
    with pytest.raises(InvalidInput, match="says the same by now"):
        await anna.revert_conflict(lost.conflict.id)


async def test_conflicts_are_seen_and_changed_only_by_those_whose_notes_they_are(memory, clock):
    anna = memory.bind(user_id="anna")
    await anna.store_note(TEA)
    clock.advance(days=1)
    conflict = (await anna.store_note(NO_TEA)).conflict
    stranger, ben = memory.bind(caller=Caller("stranger")), memory.bind(user_id="ben")
    for other in (stranger, ben):
        assert not await other.conflicts()
        with pytest.raises(NotFound, match=str(conflict.id)):
            await other.revert_conflict(conflict.id)
    chef = anna.bind(scope="chef")
    assert len(await chef.conflicts()) == 1
    with pytest.raises(NotFound, match="may change"):
        await chef.revert_conflict(conflict.id)
    assert len(await memory.conflicts()) == 1
    assert (await memory.revert_conflict(conflict.id)).status == "reverted"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({"status": "open"}, "status"), ({"limit": 0}, "limit"), ({"limit": 1001}, "limit")],
)
async def test_a_list_of_conflicts_is_asked_for_properly(memory, arguments, field):
    with pytest.raises(InvalidInput) as raised:
        await memory.conflicts(**arguments)
    assert raised.value.field == field
    for wrong in ("x", "", 5, "00000000-0000-0000-0000-00000000000g"):
        with pytest.raises(InvalidInput, match="conflict_id"):
            await memory.revert_conflict(wrong)
    with pytest.raises(NotFound):
        await memory.revert_conflict(UUID(int=77))


async def test_a_deleted_note_takes_its_conflicts_with_it(memory, sql, clock):
    old = await memory.store_note(TEA)
    clock.advance(days=1)
    new = await memory.store_note(NO_TEA)
    await memory.delete("fact", old.id)
    assert sql("SELECT * FROM settlements") == []
    assert not await memory.conflicts()
    assert (await look(memory, new.id)).validity == "active"
    for row in sql("SELECT payload FROM memory_events"):
        assert "green" not in str(row["payload"])


async def test_a_repeated_request_gets_the_same_settlement(memory, clock):
    await memory.store_note(TEA)
    clock.advance(days=1)
    keyed = memory.bind(idempotency_key="once")
    first = await keyed.store_note(NO_TEA)
    again = await keyed.store_note(NO_TEA)
    assert again == replace(first, conflict=again.conflict)
    assert (again.conflict.id, again.conflict.signals) == (first.conflict.id, list(first.conflict.signals))
    assert len(await memory.conflicts()) == 1


async def test_a_write_that_fails_leaves_the_vectors_as_they_were(memory, sql, clock):
    """The cache of vectors has seen what was rolled back."""
    await memory.store_note(TEA)
    clock.advance(days=1)
    bad = NewFact(content="x", source_episode_id=UUID(int=99))
    with pytest.raises(InvalidInput):
        await memory.store_facts([NewFact(content=NO_TEA), bad])
    assert [hit.item.content for hit in await memory.recall("green tea", types=["fact"])] == [TEA]
    assert (await memory.store_note(NO_TEA)).outcome == "superseded"
    assert [hit.item.content for hit in await memory.recall("green tea", types=["fact"])] == [NO_TEA]


# -- when each side holds --------------------------------------------------------------------------------------

FAR = (datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC))
DATES = [datetime(2020, 1, 1, tzinfo=UTC), datetime(2022, 1, 1, tzinfo=UTC)]
PAIRS = [
    *[(first, second) for first in (*DATES, None, FAR[0]) for second in (*DATES, None)],
    *[(None, FAR[1]), (FAR[1], None), (FAR[0], FAR[1]), (FAR[1], FAR[0]), (DATES[0], FAR[1])],
]


@pytest.mark.parametrize("timestamp", ["max", "min", None])
async def test_at_each_moment_the_side_that_was_true_then_is_found(memory, clock, timestamp):
    """Whichever was stored first, wins, and is dated when; a side that begins later ends the other one then. With a
    timestamp for what is merged, notes that are equally important are."""
    if timestamp is not None:
        merging = {"priority_recency": False, "weights": {"recency": 0}}
        await memory.update_merge_rule("default", {"merge": {"timestamp": timestamp}, "arbitration": merging})
    for importance in (5, 9):
        for number, (first, second) in enumerate(PAIRS):
            mine = memory.bind(user_id=f"user {importance} {number}")
            stored = await mine.store_note(TEA, occurred_at=first, importance=5)
            clock.advance(hours=1)
            settled = await mine.store_note(NO_TEA, occurred_at=second, importance=importance)
            facts = (await mine.list_memories("fact", state="any", limit=9)).items
            assert len([fact for fact in facts if fact.validity == "active"]) == 1, (first, second)
            began = min(validity.start(fact) for fact in facts)
            later = [validity.start(fact) + timedelta(seconds=1) for fact in facts]
            for moment in (began, *later, clock(), FAR[1]):
                held = [fact.content for fact in facts if validity.held(fact, moment)]
                assert len(held) == (moment >= began), (first, second, importance, moment, held)
            assert not [fact for fact in facts if fact.ended_at and fact.ended_at < validity.start(fact)]
            assert settled.conflict.existing_id == stored.id
            if number == 1:
                for moment in later:
                    found = await mine.search("green tea", as_of=moment, types=["fact"])
                    assert len(found) == 1


async def test_a_note_that_is_older_than_what_is_known_becomes_history(memory, clock):
    known = await memory.store_note(TEA, occurred_at=DATES[1])
    old = await memory.store_note(NO_TEA, occurred_at=DATES[0])
    assert (old.outcome, old.id) == ("kept", known.id)
    assert (await look(memory, old.conflict.candidate_id)).ended_at == DATES[1]
    for moment, text in ((DATES[0], NO_TEA), (DATES[1] - timedelta(1), NO_TEA), (DATES[1], TEA), (clock(), TEA)):
        (hit,) = await memory.search("green tea", as_of=moment, types=["fact"])
        assert hit.item.content == text


# -- what is put back when more has happened since -------------------------------------------------------------


async def test_only_what_the_settlement_took_out_of_use_is_put_back(memory, clock):
    """The winner may have been replaced or forgotten since, for other reasons, and stays so."""
    await memory.store_note(NO_TEA)
    clock.advance(days=1)
    second = await memory.store_note(TEA)
    clock.advance(days=1)
    third = await memory.store_note(MORE_TEA)
    assert (third.outcome, third.superseded_id) == ("superseded", second.id)
    await memory.revert_conflict(second.conflict.id)
    assert (await look(memory, second.id)).validity == "superseded"
    assert await contents(memory) == sorted([NO_TEA, MORE_TEA])
    ben = memory.bind(user_id="ben")
    await ben.store_note(TEA)
    clock.advance(days=1)
    wrong = await ben.store_note(NO_TEA)
    await ben.forget("fact", wrong.id)
    assert await contents(ben) == []
    await ben.revert_conflict(wrong.conflict.id)
    assert await contents(ben) == [TEA]
    assert (await look(memory, wrong.id)).validity == "retracted"


async def test_a_merge_that_says_what_a_third_note_says_is_that_note(memory, sql):
    """It is not retracted when the merge is reverted: it was there before."""
    await memory.update_merge_rule("default", {"merge": {"content_strategy": "concatenate", "deduplicate": False}})
    for other in ("ann", None):  # what another has said, or was forgotten, does not count
        gone = await memory.bind(user_id=other).store_note(f"{TEA}\n{NO_TEA}")
        await memory.forget("fact", gone.id)
    third = await memory.store_note(f"{TEA}\n{NO_TEA}")
    await memory.store_note(TEA)
    for report in await memory.conflicts():
        await memory.revert_conflict(report.settlement.id)
    merged = await memory.store_note(NO_TEA)
    if merged.outcome == "merged":
        assert (merged.id, merged.ref) == (third.id, third.ref)
        assert await contents(memory) == [f"{TEA}\n{NO_TEA}"]
        await memory.revert_conflict(merged.conflict.id)
    assert (await look(memory, third.id)).validity == "active"
    assert sorted(await contents(memory)) == sorted([TEA, NO_TEA, f"{TEA}\n{NO_TEA}"])


async def test_a_forgotten_note_is_not_what_a_merge_becomes(memory):
    await memory.update_merge_rule("default", {"merge": {"content_strategy": "concatenate", "deduplicate": False}})
    gone = await memory.store_note(f"{TEA}\n{NO_TEA}")
    await memory.forget("fact", gone.id)
    await memory.store_note(TEA)
    merged = await memory.store_note(NO_TEA)
    assert merged.outcome == "merged" and merged.id != gone.id
    assert await contents(memory) == [f"{TEA}\n{NO_TEA}"]


async def test_a_merge_that_was_replaced_since_stays_replaced(memory):
    await memory.update_merge_rule("default", {"merge": {"content_strategy": "replace"}})
    await memory.store_note(TEA)
    merged = await memory.store_note(NO_TEA)
    last = await memory.store_note("The user never drinks green tea in the morning", importance=10)
    assert (merged.outcome, last.superseded_id) == ("merged", merged.id)
    await memory.revert_conflict(merged.conflict.id)
    assert (await look(memory, merged.id)).validity == "superseded"
    assert len(await contents(memory)) == 3


async def test_a_batch_takes_back_what_it_has_just_replaced(memory):
    offers = [NewFact(content=text, importance=number) for number, text in ((5, TEA), (8, NO_TEA), (10, TEA))]
    assert [one.outcome for one in await memory.store_facts(offers)] == ["stored", "superseded", "superseded"]
    assert await contents(memory) == [TEA]
    settled = [report.settlement for report in await memory.conflicts()]
    assert len(settled) == 2 and settled[0].existing_id == settled[1].candidate_id, "the newest first"


async def test_conflicts_are_listed_newest_first(memory, clock):
    for name in ("ann", "ben", "cleo"):
        mine = memory.bind(user_id=name)
        await mine.store_note(TEA)
        clock.advance(days=1)
        await mine.store_note(NO_TEA)
    assert [report.settlement.user_id for report in await memory.conflicts(limit=2)] == ["cleo", "ben"]
    assert [report.settlement.user_id for report in await memory.conflicts("applied")] == ["cleo", "ben", "ann"]


async def test_the_short_reference_of_a_note_that_replaces_another_is_its_own(memory, sql, clock):
    old = await memory.store_note(TEA)
    clock.advance(days=1)
    taken = f"fact_{memory._env.ids._next:08x}"
    sql(f"UPDATE facts SET ref = '{taken}'")
    new = await memory.store_note(NO_TEA)
    assert new.superseded_id == old.id
    assert (await look(memory, new.id)).ref == new.ref != taken


async def test_what_a_model_says_is_merged_only_by_a_person(memory, sql):
    lease = (await memory.learn_prompt("User: hello")).lease
    said = [{"content": text, "confidence": 0.9} for text in (TEA, NO_TEA)]
    learned = await memory.learn_apply(json.dumps({"newFacts": said}), lease)
    (report,) = await memory.conflicts("held")
    assert (report.settlement.action, report.settlement.run_id) == ("merge", learned.run_id)
    await memory.undo(learned.run_id)
    assert [each.settlement.status for each in await memory.conflicts()] == ["dismissed"]
    assert await contents(memory) == []


async def test_to_the_letter_what_is_of_the_same_time_is_found_without_a_common_word(memory, url, clock, embedder):
    literal = MemoryModuleConfig(conflicts=ConflictsConfig(mode="literal", time_window=300))
    embedder.problem = "not now"
    now = clock()
    async with reopened(url, clock, config=literal, embedder=embedder) as opened:
        for seconds, outcome in ((300, "superseded"), (301, "stored"), (-300, "kept"), (-301, "stored")):
            mine = opened.bind(user_id=f"user {seconds}")
            await mine.store_note("Somebody sang", occurred_at=now)
            late = await mine.store_note("Quite another thing", occurred_at=now + timedelta(seconds=seconds))
            assert late.outcome == outcome, seconds
        for moment in (
            datetime.min.replace(microsecond=1, tzinfo=UTC),
            datetime.max.replace(microsecond=0, tzinfo=UTC),
        ):
            mine = opened.bind(user_id=f"user {moment.year}")
            await mine.store_note("Somebody sang", occurred_at=moment)
            assert (await mine.store_note("Quite another thing", occurred_at=moment)).outcome == "merged"


# -- at the bounds ---------------------------------------------------------------------------------------------


async def test_a_known_note_without_a_vector_is_found_by_its_words(memory, embedder, clock):
    embedder.problem = "not now"
    old = await memory.store_note(TEA)
    embedder.problem = None
    clock.advance(days=1)
    stranger = memory.bind(caller=Caller("stranger"))
    assert (await stranger.store_note(NO_TEA)).outcome == "stored"
    new = await memory.store_note(NO_TEA)
    assert (new.outcome, new.superseded_id) == ("superseded", old.id)
    await memory.embed_pending()
    clock.advance(days=1)
    assert (await memory.store_note(TEA)).superseded_id == new.id


async def test_a_fading_note_is_compared_and_one_that_has_expired_is_not(memory, clock):
    old = await memory.store_note(MORE_TEA, permanence="volatile", confidence=0.9)
    clock.advance(days=60)
    await memory.run_decay_sweep()
    assert (await look(memory, old.id)).state == "fading"
    again = await memory.store_note(SHORT_TEA)
    assert (again.outcome, again.id) == ("kept", old.id)
    assert (await look(memory, old.id)).state == "active", "it was said again"
    clock.advance(days=365)
    await memory.run_decay_sweep()
    assert (await look(memory, old.id)).state == "expired"
    assert (await memory.store_note(NO_TEA)).outcome == "stored"
    assert await contents(memory) == [NO_TEA]


async def test_values_at_their_bounds_are_compared_and_merged(memory, sql):
    for importance, merged in ((0, 1.0), (10, 10.0)):
        mine = memory.bind(user_id=f"importance {importance}")
        await mine.store_note(TEA, importance=importance, tags=[f"a{number}" for number in range(MAX_TAGS)])
        stored = await mine.store_note(NO_TEA, importance=importance, tags=[f"b{n}" for n in range(MAX_TAGS)])
        fact = await look(memory, stored.id)
        assert (stored.outcome, fact.importance, len(fact.tags)) == ("merged", merged, MAX_TAGS)
    odd = memory.bind(user_id="odd")
    await odd.store_note(TEA)
    assert (await odd.store_note(TEA.replace(" ", " \x00"))).outcome == "duplicate"
    assert (await odd.store_note(f"{TEA}<private> and the password</private>")).outcome == "duplicate"
    assert (await odd.store_note(NO_TEA.replace("tea", "tea\ud800"))).outcome in ("merged", "stored")
    with pytest.raises(InvalidInput, match="is empty once private text is removed"):
        await odd.store_note("<private>tea</private>")
    assert "password" not in str(sql("SELECT * FROM settlements"))


async def test_long_notes_are_compared(memory):
    """Many words, and many of the same word."""
    words = " ".join(f"word{number % 5000}" for number in range(30_000))
    for number, (one, other) in enumerate(((words, f"{words} more"), ("tea " * 10_000, "tea " * 10_001))):
        mine = memory.bind(user_id=f"user {number}")
        await mine.store_note(one)
        assert (await mine.store_note(other)).outcome in ("stored", "superseded", "merged")
    assert (await administer(memory).verify()).ok


async def test_a_merge_stays_within_what_a_note_may_hold(memory, monkeypatch, tmp_path):
    await memory.update_merge_rule("default", {"merge": {"content_strategy": "concatenate", "deduplicate": False}})
    both = len(f"{TEA}\n{NO_TEA}")
    for number, (most, expected) in enumerate(((both, f"{TEA}\n{NO_TEA}"), (both - 1, NO_TEA))):
        monkeypatch.setattr("tulving.storage.settlements.MAX_CONTENT_BYTES", most)
        mine = memory.bind(user_id=f"user {number}")
        await mine.store_note(TEA)
        assert (await look(memory, (await mine.store_note(NO_TEA)).id)).content == expected
        assert await contents(mine) == [expected]


async def test_what_was_merged_goes_with_the_last_of_its_sides(memory):
    """As with everything that was made of several memories: `derived` names what was made of this one alone."""
    await memory.store_note(TEA)
    stored = await memory.store_note(NO_TEA)
    first, second = stored.conflict.existing_id, stored.conflict.candidate_id
    assert await memory.derived("fact", first) == []
    await memory.forget("fact", first, derived=True)
    assert (await look(memory, stored.id)).validity == "active"
    assert [item.id for item in await memory.derived("fact", second)] == [stored.id]
    with pytest.raises(InvalidInput, match="was forgotten since"):
        await memory.revert_conflict(stored.conflict.id)
    assert (await look(memory, stored.id)).validity == "active", "a refused reversal changes nothing"
    await memory.forget("fact", second, derived=True)
    assert await contents(memory) == []
    assert (await administer(memory).verify()).ok
