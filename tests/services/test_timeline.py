"""The archive of old episodes: what is moved there, and that every verb still sees it."""

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from administration import administer
from bus_parts import settled

from tulving import Memory, NewEpisode, open_memory
from tulving.domain.scope import Address, Caller
from tulving.domain.segments import Segment
from tulving.errors import IntegrityError, InvalidInput
from tulving.settings import BridgeConfig, MemoryModuleConfig, TimelineConfig
from tulving.storage import embeddings, forgotten, timeline, timelines
from tulving.storage.connection import Connection
from tulving.testing import ManualClock, SequentialIds, WordEmbedder
from tulving.workers.jobs import JOBS

Sql = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def config() -> MemoryModuleConfig:
    return MemoryModuleConfig(timeline=TimelineConfig(capacity=4, segment_episodes=3))


def with_timeline(memory: Memory, **settings: Any) -> None:
    env = memory._env
    env.config = replace(env.config, timeline=replace(env.config.timeline, **settings))


async def lived(memory: Memory, sql: Sql, count: int, first: int = 0, **given: Any) -> list[UUID]:
    """Episodes of an hour each, all learned from."""
    clock = memory._env.clock
    offers = [
        NewEpisode(
            content=f"walk number{number} to the harbour",
            butler="b",
            type="walk",
            title=f"Walk {number}",
            occurred_at=clock() + timedelta(hours=number),
            metadata={"steps": number, "deep": [{"ü": None}]},
            tags=["out"],
            **given,
        )
        for number in range(first, first + count)
    ]
    stored = [one.id for one in await memory.store_episodes(offers)]
    sql("UPDATE episodes SET consolidated = TRUE WHERE tenant_id = 'default'")
    return stored


async def begun(memory: Memory, rows: Sequence[Any]) -> Segment:
    """A segment that was written, before any of its rows is emptied."""
    audit = memory._audit(memory.now())
    its = await memory._write(timelines.ensure, audit)
    segment, body = timeline.packed("default", its["open_segment_id"], rows, audit.now)
    assert await memory._write(timeline.begin, segment, body, audit)
    assert not await memory._write(timeline.begin, segment, body, audit), "it is closed"
    return segment


async def problems(memory: Memory) -> list[str]:
    """What `verify` complains of."""
    findings = (await administer(memory).verify()).findings
    return [f"{finding.check}: {problem}" for finding in findings for problem in finding.problems]


async def contents(memory: Memory, ids: Sequence[UUID]) -> list[str]:
    found = [await memory.look("episode", id_) for id_ in ids]
    return [item.content for item in found if item is not None]


@pytest.mark.scenario("000-016")
async def test_the_oldest_beyond_the_capacity_are_archived(memory: Memory, sql: Sql) -> None:
    ids = await lived(memory, sql, 9)
    kept = await lived(memory, sql, 1, first=-1)
    sql("UPDATE episodes SET consolidated = FALSE WHERE title = 'Walk -1'")
    before = [await memory.look("episode", id_) for id_ in ids]
    assert await memory.rotate_timeline(dry_run=True) == {
        "archived": 6,
        "segments": 2,
        "merged": 0,
        "pruned": 0,
        "damaged": 0,
    }
    told = []
    assert (await memory.rotate_timeline(progress=lambda *at: told.append(at)))["archived"] == 6
    assert told[-1] == (6, 6)
    after = [await memory.look("episode", id_) for id_ in ids]
    assert [item.segment_id is not None for item in after] == [True] * 6 + [False] * 3
    assert [replace(item, segment_id=None) for item in after] == before, "what was archived reads as it was"
    (young,) = [await memory.look("episode", id_) for id_ in kept]
    assert young.segment_id is None, "it was not learned from, though it is the oldest"
    rows = sql("SELECT content, metadata, search_text, embedding FROM episodes WHERE segment_id IS NOT NULL")
    assert {(row["content"], str(row["metadata"]), row["search_text"], row["embedding"]) for row in rows} == {
        ("", "{}", "", None)
    }
    manifest = sql("SELECT status, episodes, generation FROM timeline_segments")
    assert manifest == [{"status": "sealed", "episodes": 3, "generation": 1}] * 2
    spans = [(each.first_at, each.last_at) for each in await memory._read(timeline.listing, "default")]
    hours = [memory.now() + timedelta(hours=number) for number in range(6)]
    assert spans == [(hours[0], hours[2]), (hours[3], hours[5])]
    assert await memory.rotate_timeline() == {"archived": 0, "segments": 0, "merged": 0, "pruned": 0, "damaged": 0}
    stats = (await memory.stats()).episodes
    assert (stats.total, stats.archived, stats.pending_vectors) == (10, 6, 0)
    assert not await problems(memory)


async def test_the_scheduled_cleanup_archives_what_it_would_delete_for_room(memory: Memory, sql: Sql) -> None:
    memory._env.config = replace(memory._env.config, episode_max_entries=4)
    ids = await lived(memory, sql, 6)
    done = await JOBS["episode_cleanup"].run(administer(memory), memory._env.clock())
    assert done == {"expired_deleted": 0, "capacity_deleted": 0, "remaining": 4}
    assert len(await contents(memory, ids)) == 6


@pytest.mark.scenario("000-016")
async def test_a_schedule_archives_what_is_old(memory: Memory, sql: Sql, clock: ManualClock) -> None:
    with_timeline(memory, capacity=100, keep_days=1)
    ids = await lived(memory, sql, 4)
    clock.advance(days=1, hours=1)
    forecast = await memory.rotate_timeline(as_of=clock.now + timedelta(hours=1), dry_run=True)
    assert (forecast["archived"], forecast["segments"]) == (2, 1)
    clock.advance(hours=1)
    assert (await administer(memory).rotate_timeline())["archived"] == 2, "exactly a day ago is not before"
    found = [await memory.look("episode", id_) for id_ in ids]
    assert [item.segment_id is not None for item in found] == [True, True, False, False]


async def test_what_is_forgotten_or_not_learned_from_is_not_archived(memory: Memory, sql: Sql) -> None:
    with_timeline(memory, capacity=0, keep_days=0)
    ids = await lived(memory, sql, 5, first=-5)
    await memory.forget("episode", ids[0])
    sql("UPDATE episodes SET consolidated = FALSE WHERE title = 'Walk -4'")
    sql("UPDATE episodes SET content_hash = NULL WHERE title = 'Walk -3'")  # a row of plain SQL
    assert (await memory.rotate_timeline(dry_run=True))["archived"] == 3
    assert (await memory.rotate_timeline())["archived"] == 2
    found = [await memory.look("episode", id_) for id_ in ids]
    assert [item.segment_id is not None for item in found] == [False, False, False, True, True]


async def test_verify_names_what_does_not_match_the_manifest(memory: Memory, sql: Sql) -> None:
    with_timeline(memory, capacity=0)
    await lived(memory, sql, 9)
    await memory.rotate_timeline()
    first, second, third = await memory._read(timeline.listing, "default")
    sql("UPDATE episodes SET content_hash = 'x' WHERE title = 'Walk 0'")
    sql("UPDATE episodes SET segment_id = NULL, content = 'x', content_hash = NULL WHERE title = 'Walk 3'")
    sql(f"DELETE FROM timeline_segments WHERE id = '{third.id}'")
    said = await problems(memory)
    assert said[:2] == [
        f"timeline: the segment {each.id} of default does not match 1 episodes" for each in (first, second)
    ]
    assert ["lies in a segment that is not there" in text for text in said] == [False] * 2 + [True] * 3


async def test_every_verb_sees_archived_episodes(memory: Memory, sql: Sql) -> None:
    ids = await lived(memory, sql, 7)
    its = await memory._write(timelines.ensure, memory._audit(memory.now()))
    await memory.rotate_timeline()
    listed = {item.id: item for item in (await memory.list_memories("episode")).items}
    assert listed[ids[0]].content == "walk number0 to the harbour"
    assert listed[ids[0]].metadata == {"steps": 0, "deep": [{"ü": None}]}
    window = await memory.query_window(since=memory.now(), until=memory.now() + timedelta(hours=2))
    assert [(event.id, event.content) for event in window] == [
        (ids[1], "walk number1 to the harbour"),
        (ids[0], "walk number0 to the harbour"),
    ]
    async with aclosing(memory.messages("memory:episodic:saved", after="0.0")) as messages:
        first = await anext(messages)
    (manifest,) = {item.segment_id for item in listed.values() if item.segment_id}
    assert manifest == its["open_segment_id"], "which messages named before"
    assert (first.payload["content"], first.payload["segmentId"]) == ("walk number0 to the harbour", str(manifest))
    fact = await memory.store_fact("user", "walks", "often", source_episode_id=ids[0])
    await memory.create_link("fact", fact.id, "episode", ids[0], "derived_from")
    assert [link.target_id for link in await memory.get_links("episode", ids[0])] == [ids[0]]
    assert not [hit for hit in await memory.search("number0 harbour") if hit.item.id == ids[0]]
    archived = [event.event_type for event in await memory.events("episode", ids[0])]
    assert archived == ["episode_created", "episode_archived"]
    assert await memory.forget("episode", ids[1])
    forgotten = await memory.look("episode", ids[1])
    assert (forgotten.forgotten, forgotten.content) == (True, "walk number1 to the harbour")
    assert await memory.forget("episode", ids[1]), "again"
    assert not await problems(memory)


async def test_a_search_finds_archived_episodes_when_asked(memory: Memory, sql: Sql) -> None:
    ids = await lived(memory, sql, 7)
    await memory.store_note("the harbour is old")
    await memory.rotate_timeline()
    asked = await memory.search("number1 harbour", archived=True)
    assert asked.hits[0].item.id == ids[1]
    assert asked.hits[0].item.content == "walk number1 to the harbour"
    assert asked.hits[0].parts["rank"] == 2
    assert {hit.memory_type for hit in asked} == {"episode", "fact"}
    assert {hit.memory_type for hit in await memory.search("harbour", archived=True, types=["fact"])} == {"fact"}
    (best,) = await memory.search("number1 harbour", archived=True, types=["episode"], mode="keyword", limit=1)
    assert best.item.id == ids[1]
    since = await memory.search("harbour", archived=True, types=["episode"], since=memory.now() + timedelta(hours=1))
    assert ids[1] in {hit.item.id for hit in since} and ids[0] not in {hit.item.id for hit in since}
    assert not await memory.search("harbour", archived=True, types=["episode"], tags=["elsewhere"])
    assert not await memory.bind(user_id="ann").search("harbour", archived=True)
    assert not await memory.bind(caller=Caller("other")).search("harbour", archived=True)
    assert not await memory.search("submarine", archived=True, types=["episode"], mode="keyword")


async def test_an_edit_brings_an_archived_episode_back(memory: Memory, sql: Sql) -> None:
    ids = await lived(memory, sql, 7)
    await memory.rotate_timeline()
    unchanged = await memory.edit("episode", ids[0], importance=5.0)
    assert unchanged.segment_id is not None, "nothing was changed"
    edited = await memory.edit("episode", ids[0], importance=9.0)
    assert (edited.segment_id, edited.content, edited.importance) == (None, "walk number0 to the harbour", 9.0)
    assert edited.metadata == {"steps": 0, "deep": [{"ü": None}]}
    told = [event.event_type for event in await memory.events("episode", ids[0])]
    assert told[2:] == ["episode_restored", "episode_edited"]
    await memory.edit("episode", ids[1], content="a sail to the island")
    assert await contents(memory, ids[:3]) == [
        "walk number0 to the harbour",
        "a sail to the island",
        "walk number2 to the harbour",
    ]
    assert [old.content for old in await memory.revisions("episode", ids[1])] == ["walk number1 to the harbour"]
    assert sql("SELECT episodes, generation FROM timeline_segments") == [{"episodes": 1, "generation": 3}]
    assert await administer(memory).embed_pending() == 1, "the other one got its vector with the edit"
    assert [hit.item.id for hit in await memory.search("sail island", types=["episode"], limit=1)] == [ids[1]]
    assert not await problems(memory)


async def test_a_deleted_episode_is_gone_from_its_segment(memory: Memory, sql: Sql, url: str) -> None:
    ids = await lived(memory, sql, 7)
    await memory.rotate_timeline()
    assert await memory.delete("episode", ids[1])
    assert await memory.look("episode", ids[1]) is None
    (segment,) = await memory._read(timeline.listing, "default")
    assert (segment.episodes, segment.generation, segment.status) == (2, 2, "sealed")
    held = await memory._read(timeline.contents, segment)
    assert {each.content for each in held.values()} == {"walk number0 to the harbour", "walk number2 to the harbour"}
    folder = Path(f"{url}.work/timeline")
    if folder.exists():
        assert [file.name for file in folder.iterdir()] == [segment.name], "the old file is deleted with it"
    for id_ in (ids[0], ids[2]):
        await memory.delete("episode", id_)
    assert sql("SELECT * FROM timeline_segments") == []
    assert not folder.exists() or not list(folder.iterdir())
    assert not await problems(memory)


async def test_episodes_deleted_at_once_are_all_gone_from_their_segment(memory: Memory, sql: Sql) -> None:
    with_timeline(memory, capacity=0, segment_episodes=10)
    ids = await lived(memory, sql, 10)
    await memory.rotate_timeline()
    await asyncio.gather(*(memory.delete("episode", id_) for id_ in ids[:9]))
    (segment,) = await memory._read(timeline.listing, "default")
    assert [*await memory._read(timeline.contents, segment)] == ids[9:]
    assert not await problems(memory)


@pytest.mark.scenario("000-018")
async def test_episodes_past_their_retention_are_deleted(
    memory: Memory, sql: Sql, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    ids = await lived(memory, sql, 8)
    await memory.rotate_timeline()
    with_timeline(memory, retention_days=90)
    clock.advance(days=90, hours=5)
    assert (await memory.rotate_timeline(dry_run=True))["pruned"] == 5
    with caplog.at_level("INFO", "tulving"):
        assert (await memory.rotate_timeline())["pruned"] == 5, "exactly 90 days ago stays"
    assert "5 episodes of default were past their retention" in caplog.text
    assert await contents(memory, ids) == [f"walk number{number} to the harbour" for number in (5, 6, 7)]
    gone = sql("SELECT entity_id, payload FROM memory_events WHERE event_type = 'episode_deleted' ORDER BY seq")
    assert [UUID(str(row["entity_id"])) for row in gone] == ids[:5]
    said = {json.dumps(row["payload"]) if isinstance(row["payload"], dict) else row["payload"] for row in gone}
    assert {json.loads(each)["by"] for each in said} == {"retention"}
    assert not await problems(memory)


@pytest.mark.scenario("000-016")
async def test_small_segments_are_merged(memory: Memory, sql: Sql) -> None:
    with_timeline(memory, segment_episodes=2)
    ids = await lived(memory, sql, 10)
    await memory.rotate_timeline()
    assert [row["episodes"] for row in sql("SELECT episodes FROM timeline_segments")] == [2, 2, 2]
    for id_ in ids[1:6:2]:
        await memory.delete("episode", id_)
    with_timeline(memory, segment_episodes=4)
    assert (await memory.rotate_timeline())["merged"] == 3
    (merged,) = await memory._read(timeline.listing, "default")
    hours = [memory.now() + timedelta(hours=number) for number in (0, 4)]
    assert [merged.episodes, merged.first_at, merged.last_at] == [3, *hours]
    assert await contents(memory, ids[:6]) == [f"walk number{number} to the harbour" for number in (0, 2, 4)]
    assert (await memory.rotate_timeline())["merged"] == 0
    assert not await problems(memory)


async def test_a_rotation_that_was_killed_is_finished_by_the_next(memory: Memory, sql: Sql) -> None:
    """After the segment was written, and after some of its rows were emptied; one was edited, one deleted, one
    forgotten, and one is to be learned from again since."""
    ids = await lived(memory, sql, 8)
    audit = memory._audit(memory.now())
    rows = await memory._read(timeline.oldest, "default", 6)
    segment = await begun(memory, rows)
    assert not await problems(memory)
    held = await memory._read(timeline.contents, segment)
    await memory._write(timeline.move, segment, [held[ids[0]]], audit)
    assert not await problems(memory)
    await memory.edit("episode", ids[1], content="a changed mind")
    await memory.delete("episode", ids[2])
    await memory.forget("episode", ids[4])
    sql("UPDATE episodes SET consolidated = FALSE WHERE title = 'Walk 5'")
    with_timeline(memory, capacity=1000)
    assert (await memory.rotate_timeline())["archived"] == 0
    found = [await memory.look("episode", id_) for id_ in ids]
    assert [item is not None and item.segment_id is not None for item in found] == [
        *(True, False, False, True),
        *[False] * 4,
    ]
    assert (await contents(memory, ids))[:3] == [
        "walk number0 to the harbour",
        "a changed mind",
        "walk number3 to the harbour",
    ]
    (row,) = sql("SELECT status, episodes, generation FROM timeline_segments")
    assert row == {"status": "sealed", "episodes": 2, "generation": 2}
    told = [event.event_type for event in await memory.events("episode", ids[0])]
    assert told == ["episode_created", "episode_archived"], "once"
    assert not await problems(memory)


async def test_a_segment_that_was_written_anew_takes_no_more_rows(memory: Memory, sql: Sql) -> None:
    """One of its episodes was deleted while others were about to be moved: they are not in it any more."""
    ids = await lived(memory, sql, 8)
    audit = memory._audit(memory.now())
    rows = await memory._read(timeline.oldest, "default", 4)
    segment = await begun(memory, rows)
    held = await memory._read(timeline.contents, segment)
    await memory._write(timeline.move, segment, [held[ids[0]], held[ids[1]]], audit)
    await memory.delete("episode", ids[0])
    assert await memory._write(timeline.move, segment, [held[ids[2]]], audit) == 0
    assert len(await contents(memory, ids)) == 7
    await memory.rotate_timeline()
    assert sorted(await contents(memory, ids)) == sorted(
        f"walk number{number} to the harbour" for number in range(1, 8)
    )
    assert not await problems(memory)


async def test_a_re_embedding_leaves_what_was_archived_meanwhile(memory: Memory, sql: Sql) -> None:
    ids = await lived(memory, sql, 7)
    whole = administer(memory)
    version = await whole._write(embeddings.begin_reembedding, memory._env.embedder, memory.now())
    await whole._convert(version, None)
    await memory.rotate_timeline()
    assert await whole.reembed(force=True) == 4
    rows = sql("SELECT search_text, embedding FROM episodes WHERE segment_id IS NOT NULL")
    assert [(row["search_text"], row["embedding"]) for row in rows] == [("", None)] * 3
    assert ids[6] in {hit.item.id for hit in await memory.search("number6", mode="semantic")}


async def test_a_segment_that_is_written_anew_is_read_as_it_is_now(memory: Memory, sql: Sql, url: str) -> None:
    """Between the moments when a change looks for the segment and when it reads it."""
    ids = await lived(memory, sql, 7)
    await memory.rotate_timeline()
    (before,) = await memory._read(timeline.listing, "default")
    await memory.delete("episode", ids[0])
    async with open_memory(url, embedder=WordEmbedder(), background=False) as other:
        assert {*await other._write(timeline.contents, before)} == {*ids[1:3]}
        await other._write(timeline.record_damage, [(before, "its file is missing")], other._audit(other.now()))
        assert sql("SELECT status FROM timeline_segments") == [{"status": "sealed"}]


async def test_what_a_failed_transaction_wrote_is_not_taken_for_the_next(memory: Memory, sql: Sql) -> None:
    """It wrote a segment anew and read it; then another one is written with the same generation."""
    ids = await lived(memory, sql, 7)
    await memory.rotate_timeline()

    def fail(conn: Connection) -> None:
        for id_ in ids[:2]:
            forgotten.delete(conn, Address("default", "episode", id_), memory._audit(memory.now()))
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        await memory._write(fail)
    await memory.delete("episode", ids[2])
    await memory.delete("episode", ids[1])
    assert await contents(memory, ids[:3]) == ["walk number0 to the harbour"]
    assert not await problems(memory)


async def test_writes_go_on_while_episodes_are_archived(memory: Memory, sql: Sql) -> None:
    ids = await lived(memory, sql, 40)
    edits = [memory.edit("episode", id_, content=f"changed {id_}") for id_ in ids[:10]]
    deletions = [memory.delete("episode", id_) for id_ in ids[10:15]]
    new = [memory.store_episode(f"new {number}", butler="b") for number in range(10)]
    await asyncio.gather(memory.rotate_timeline(), memory.rotate_timeline(), *edits, *deletions, *new)
    assert [await memory.look("episode", id_) for id_ in ids[10:15]] == [None] * 5
    assert await contents(memory, ids[:10]) == [f"changed {id_}" for id_ in ids[:10]]
    assert await contents(memory, ids[15:]) == [f"walk number{number} to the harbour" for number in range(15, 40)]
    assert not await problems(memory)


@pytest.mark.scenario("000-017")
async def test_after_a_restart_windows_reach_into_the_archive(
    memory: Memory, sql: Sql, url: str, clock: ManualClock
) -> None:
    ids = await lived(memory, sql, 7)
    await memory.rotate_timeline()
    async with open_memory(url, embedder=WordEmbedder(), clock=clock, background=False) as other:
        assert await other.check_segments() == 0
        window = await other.query_window(since=clock.now, until=clock.now + timedelta(days=1))
        assert [event.id for event in window] == ids[::-1]
        assert [event.content for event in window] == [
            f"walk number{number} to the harbour" for number in range(6, -1, -1)
        ]


@pytest.mark.scenario("000-017", "000-021")
async def test_a_damaged_segment_is_set_aside_and_the_others_work(
    memory: Memory, sql: Sql, url: str, clock: ManualClock, tmp_path: Path
) -> None:
    ids = await lived(memory, sql, 10)
    await memory.rotate_timeline()
    first, second = await memory._read(timeline.listing, "default")
    whole = damage(sql, url, first)
    embedder = WordEmbedder()
    async with open_memory(
        url, config=memory.config, embedder=embedder, clock=clock, ids=SequentialIds(5000), background=False
    ) as other:
        seen = await other.look("episode", ids[0])
        assert (seen.content, seen.title) == ("", "Walk 0")
        assert "damaged" in seen.metadata["unreadable"]
        assert await contents(other, ids[3:]) == [f"walk number{number} to the harbour" for number in range(3, 10)]
        assert len((await other.list_memories("episode")).items) == 10
        for each in (other, memory):  # which has read it when it was whole
            assert [f"segment {first.id}" in text for text in await problems(each)] == [True]
        assert await other.check_segments() == 1
        (row,) = sql("SELECT warning, severity, hint FROM timelines")
        assert str(first.id) in row["warning"] and "backup" in row["hint"] and row["severity"] == "critical"
        assert sql("SELECT status FROM timeline_segments ORDER BY first_at") == [
            {"status": "damaged"},
            {"status": "sealed"},
        ]
        with pytest.raises(Exception, match="can't be changed"):
            await other.edit("episode", ids[0], importance=1)
        with pytest.raises(IntegrityError, match="can't be moved"):
            await other.export(tmp_path / "all.jsonl")
        await memory.store_episode("others can write", butler="b")
        assert (await other.rotate_timeline())["damaged"] == 1, "and is not said twice"
        assert len(sql("SELECT * FROM memory_events WHERE event_type = 'timeline_warning'")) == 1
        repair(sql, url, first, whole)
        assert await other.check_segments() == 0
        assert sql("SELECT warning FROM timelines") == [{"warning": None}]
        assert len(sql("SELECT * FROM memory_events WHERE event_type = 'timeline_recovered'")) == 1
        assert (await contents(other, ids))[0] == "walk number0 to the harbour"
        assert not await problems(other)
    assert second.episodes == 3


async def test_the_bridge_does_not_pass_over_what_is_damaged_unnoticed(memory: Memory, sql: Sql, url: str) -> None:
    memory._env.config = replace(memory.config, bridge=BridgeConfig(enabled=True, types=["walk"]))
    await lived(memory, sql, 6)
    await memory.rotate_timeline()
    (segment,) = await memory._read(timeline.listing, "default")
    whole = damage(sql, url, segment)
    memory._env.store.segments._unpacked.clear()
    await settled(memory)
    assert not any((await memory.run_bridge(from_start=True)).values())
    assert "damaged" in str((await memory.bridge_status()).suspended)
    memory._env.store.segments._sound.clear()
    await memory.check_segments()
    repair(sql, url, segment, whole)
    await memory.check_segments()
    await settled(memory)
    assert (await memory.run_bridge())["handled"] == 6


async def test_damage_is_over_when_nothing_is_lost_to_it(memory: Memory, sql: Sql, url: str) -> None:
    """Its episodes were deleted, or none was moved into it before the rotation was killed."""
    ids = await lived(memory, sql, 7)
    await memory.rotate_timeline()
    (first,) = await memory._read(timeline.listing, "default")
    whole = damage(sql, url, first)
    assert (await memory.rotate_timeline())["damaged"] == 1
    repair(sql, url, first, whole)
    assert await memory.check_segments() == 0, "this process knew it before it was damaged"
    damage(sql, url, first)
    assert (await memory.rotate_timeline())["damaged"] == 1
    folder = Path(f"{url}.work/timeline")
    assert not folder.exists() or [*folder.iterdir()] == [folder / f"{first.name}.damaged"]
    for id_ in ids[:3]:
        await memory.delete("episode", id_)
    assert not folder.exists() or not [*folder.iterdir()], "what was deleted is not kept aside either"
    assert await memory.check_segments() == 0
    assert sql("SELECT warning FROM timelines") == [{"warning": None}]
    segment = await begun(memory, await memory._read(timeline.oldest, "default", 2))
    damage(sql, url, segment)
    await memory._write(timelines.warn, memory._audit(memory.now()), "writes are slow", "warning", "wait")
    assert (await memory.rotate_timeline())["damaged"] == 0
    assert sql("SELECT warning FROM timelines") == [{"warning": "writes are slow"}], "that is another's to end"
    assert await contents(memory, ids) == [f"walk number{number} to the harbour" for number in range(3, 7)]


def damage(sql: Sql, url: str, segment: Any) -> bytes:
    """Flip a bit in the middle of a segment; what it was."""
    if "://" not in url:
        file = Path(f"{url}.work/timeline/{segment.name}")
        whole = file.read_bytes()
        file.write_bytes(_flipped(whole))
    else:
        whole = sql(f"SELECT body FROM timeline_segments WHERE id = '{segment.id}'")[0]["body"]
        sql(f"UPDATE timeline_segments SET body = '\\x{_flipped(whole).hex()}' WHERE id = '{segment.id}'")
    return whole


def repair(sql: Sql, url: str, segment: Any, whole: bytes) -> None:
    if "://" not in url:
        file = Path(f"{url}.work/timeline/{segment.name}")
        assert not file.exists() and file.with_name(f"{file.name}.damaged").exists()
        file.write_bytes(whole)
    else:
        sql(f"UPDATE timeline_segments SET body = '\\x{whole.hex()}' WHERE id = '{segment.id}'")


def _flipped(body: bytes) -> bytes:
    at = len(body) // 2
    return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]


async def test_what_is_replaced_while_it_is_read_is_not_damaged(
    path: Path, memory: Memory, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader whose snapshot is older than the files reads again. If it is overtaken each time, writers wait."""
    await lived(memory, sql, 60)
    await memory.rotate_timeline()
    loop, times = asyncio.get_running_loop(), iter([True] * 3 + [False] * 100)
    async with open_memory(path, config=memory.config, embedder=WordEmbedder(), background=False) as other:
        segments = other._env.store.segments
        read = segments._file

        def overtaken(segment: Any) -> bytes:
            if next(times) and threading.current_thread().name != "tulving-writer":
                (row, *_) = sql(f"SELECT id FROM episodes WHERE segment_id = '{segment.id}'")
                asyncio.run_coroutine_threadsafe(memory.delete("episode", UUID(str(row["id"]))), loop).result()
            return read(segment)

        monkeypatch.setattr(segments, "_file", overtaken)
        found = (await other.list_memories("episode", limit=100)).items
        assert len(found) == 57 and all(each.content for each in found)
        segments._unpacked.clear()
        times = iter([True] * 100)
        found = (await other.list_memories("episode", limit=100)).items
        assert len(found) < 57 and all(each.content for each in found)
        times = iter([False] * 100)
        assert await other.check_segments() == 0
        Path(f"{path}.work/timeline").rename(path.with_name("lost"))
        assert (await other.rotate_timeline())["damaged"] > 1, "what is lost is damaged at once"


async def test_an_export_holds_archived_episodes(memory: Memory, sql: Sql, tmp_path: Path) -> None:
    ids = await lived(memory, sql, 8)
    await memory.rotate_timeline()
    await memory.export(tmp_path / "all.jsonl")
    async with open_memory(tmp_path / "other.db", embedder=WordEmbedder(), background=False) as other:
        await other.import_(tmp_path / "all.jsonl")
        assert await contents(other, ids) == [f"walk number{number} to the harbour" for number in range(8)]
        assert {(await other.look("episode", id_)).segment_id for id_ in ids} == {None}
        assert ids[0] in {hit.item.id for hit in await other.search("number0")}
        assert not await problems(other)


async def test_what_is_not_allowed_is_refused(memory: Memory, clock: ManualClock) -> None:
    with pytest.raises(InvalidInput, match="future"):
        await memory.rotate_timeline(as_of=clock.now + timedelta(seconds=1))
    with pytest.raises(InvalidInput, match=r"timeline: .* a part of it"):
        await memory.bind(user_id="ann").rotate_timeline()
    assert (await memory.rotate_timeline(as_of=clock.now))["archived"] == 0
