"""A store from before facts had folded names and an end, sessions an index, or models a say: all are made of what it
holds, and it can do what a new one can."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from administration import administer
from fault_parts import opened, problems
from postgres_server import Server
from raw_sql import in_thread, run_sql

from tulving.domain.text import content_hash, words
from tulving.storage.migrations import postgres_script, upgrade_sqlite
from tulving.storage.postgres.schema import VERSION_TABLE
from tulving.storage.schema import REVISIONS
from tulving.storage.sqlite.database import APPLICATION_ID
from tulving.storage.tenant_words import prefixed
from tulving.testing import ManualClock

NOW = ManualClock().now
DAY = timedelta(days=1)
Insert = Callable[..., UUID]


@pytest.fixture
def before() -> str:
    return "mem_004"


@pytest.fixture
def old_url(engine: str, before: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty store with the schema before."""
    if engine == "sqlite":
        path = tmp_path / "memory.db"
        raw = sqlite3.connect(path, isolation_level=None)
        raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        raw.execute("PRAGMA journal_mode = WAL")
        with raw:
            raw.execute("BEGIN")
            upgrade_sqlite(raw, REVISIONS[: REVISIONS.index(before) + 1])
        raw.close()
        yield str(path)
    else:
        server: Server = request.getfixturevalue("postgres")
        url = in_thread(server.create_database())
        in_thread(_prepare(url, before))
        yield url
        in_thread(server.drop_database(url))


async def _prepare(url: str, before: str) -> None:
    raw = await asyncpg.connect(url)
    async with raw.transaction():
        await raw.execute(postgres_script(None, VERSION_TABLE, before))
    await raw.close()


@pytest.fixture
def insert(old_url: str) -> Insert:
    """Insert a memory as the version before stored it; its id."""
    numbers = iter(range(1, 1000))

    def put(table: str, content: str, *happened: tuple[str, datetime], **values: Any) -> UUID:
        id_ = UUID(int=next(numbers))
        shared = {"id": id_, "tenant_id": "default", "content": content, "content_hash": content_hash(content)}
        times = {"created_at": NOW, "updated_at": NOW, "search_text": prefixed("default", words(content))}
        confirmed = {"last_confirmed_at": NOW} if table != "episodes" else {}
        row = {**shared, **times, **confirmed, **values}
        marks = ", ".join("?" * len(row))
        run_sql(old_url, f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", *row.values())
        for event_type, when in ((f"{table[:-1]}_created", NOW), *happened):
            run_sql(
                old_url,
                "INSERT INTO memory_events (tenant_id, event_type, entity_type, entity_id, occurred_at)"
                " VALUES ('default', ?, ?, ?, ?)",
                event_type,
                table[:-1],
                id_,
                when,
            )
        return id_

    return put


async def test_spellings_that_become_one_slot_leave_the_newest(old_url: str, insert: Insert) -> None:
    def fact(subject: str, predicate: str, content: str, **values: Any) -> UUID:
        return insert("facts", content, subject=subject, predicate=predicate, **values)

    oldest = fact("Anna", "favorite_drink", "milk", occurred_at=NOW - 9 * DAY)
    newest = fact("anna", "favorite drink", "tea", occurred_at=NOW - DAY)
    middle = fact("ANNA", "Favorite-Drink", "juice", occurred_at=NOW - 5 * DAY)
    earlier, later = (
        fact("Straße", predicate, content, created_at=NOW - days * DAY)
        for predicate, content, days in (("is_in", "Rome", 1), ("Is In", "Oslo", 0))
    )
    alone = fact("Ben", "favorite_drink", "tea")
    entity = UUID(int=5000)
    run_sql(
        old_url,
        "INSERT INTO entities (tenant_id, id, canonical_name, folded_name, entity_type)"
        " VALUES ('default', ?, 'Carl', 'carl', 'person')",
        entity,
    )
    mine, yours = (
        fact("Carl", predicate, "x", entity_id=entity, occurred_at=NOW - days * DAY)
        for predicate, days in (("lives_in", 1), ("lives in", 2))
    )
    async with opened(old_url, clock=ManualClock(), background=False) as memory:
        assert (await memory.store_fact("Ben", "favorite_drink", "milk")).superseded_id == alone, "also before"
        await memory.embed_pending()
        kept = {item.id for item in (await memory.list_memories("fact")).items}
        assert kept >= {newest, later, mine} and not kept & {oldest, middle, earlier, yours, alone}
        past = await memory.history("anna", "FAVORITE-DRINK")
        assert [fact.id for fact in past] == [oldest, middle, newest]
        for id_, by, end in (
            (middle, newest, NOW - DAY),
            (earlier, later, NOW),
            (yours, mine, NOW - DAY),
        ):
            gone = await memory.look("fact", id_)
            assert gone is not None and (gone.validity, gone.ended_at) == ("superseded", end)
            (told,) = [each for each in await memory.events("fact", id_) if each.event_type == "fact_superseded"]
            assert told.payload == {"superseded_by": str(by)}
            (link,) = await memory.get_links("fact", id_)
            assert (link.source_id, link.relation) == (by, "supersedes")
        assert (await memory.store_fact("STRASSE", "is-in", "Bonn")).superseded_id == later
        assert run_sql(old_url, "SELECT id FROM facts WHERE folded_predicate IS NULL") == []
        created = [event.event_type for event in await memory.events("fact", alone)]
        assert created.count("fact_created") == 1, "it was stored before"
        assert not problems(await administer(memory).verify())


async def test_the_end_is_the_successors_start_or_the_time_of_the_event(old_url: str, insert: Insert) -> None:
    key = {"subject": "s", "predicate": "p"}
    gone = {**key, "validity": "superseded", "updated_at": NOW + 50 * DAY}
    followed = insert("facts", "a", ("fact_superseded", NOW + 30 * DAY), **gone)
    insert("facts", "b", **key, supersedes_id=followed, occurred_at=NOW + 20 * DAY)
    recorded = insert("facts", "c", ("fact_superseded", NOW + 30 * DAY), **gone)
    unrecorded = insert("facts", "d", **gone)
    expired = insert("facts", "e", ("fact_expired", NOW + 7 * DAY), **key | {"validity": "expired"})
    retracted = insert("facts", "f", ("fact_forgotten", NOW), **key | {"validity": "retracted"})
    faded = insert("rules", "g", ("rule_expired", NOW + 8 * DAY), forgotten=True, metadata='{"forgotten": true}')
    forgotten = insert("rules", "h", ("rule_forgotten", NOW + 8 * DAY), forgotten=True, metadata="{}")
    in_use = insert("rules", "i", ("rule_expired", NOW), ("rule_confirmed", NOW + DAY))
    async with opened(old_url, clock=ManualClock(), background=False) as memory:
        ends = {}
        for kind, ids in (("fact", [followed, recorded, unrecorded, expired, retracted]), ("rule", [faded, forgotten])):
            for id_ in ids:
                item = await memory.look(kind, id_)
                assert item is not None
                ends[id_] = item.ended_at
        assert ends == {
            followed: NOW + 20 * DAY,
            recorded: NOW + 30 * DAY,
            unrecorded: NOW + 50 * DAY,
            expired: NOW + 7 * DAY,
            retracted: None,
            faded: NOW + 8 * DAY,
            forgotten: None,
        }
        assert (await memory.look("rule", in_use)).ended_at is None
        assert await memory.confirm("rule", faded) is True, "decay took it out of use"
        assert await memory.confirm("rule", forgotten) is False


async def test_maintenance_is_due_at_once(old_url: str) -> None:
    run_sql(
        old_url, "INSERT INTO jobs (name, due_at) VALUES ('index_maintenance', ?)", datetime(2999, 1, 1, tzinfo=UTC)
    )
    run_sql(old_url, "INSERT INTO jobs (name, due_at) VALUES ('decay_sweep', ?)", datetime(2999, 1, 1, tzinfo=UTC))
    async with opened(old_url, background=False):
        pass
    due = {row["name"]: row["due_at"].year for row in run_sql(old_url, "SELECT name, due_at FROM jobs")}
    assert due["index_maintenance"] < 2999 == due["decay_sweep"]


@pytest.mark.parametrize("before", ["mem_004", "mem_005"])
async def test_the_conversations_and_speakers_of_an_old_store_are_known(
    old_url: str, insert: Insert, before: str
) -> None:
    def turn(content: str, minutes: int, source: str | None = "Priyanka", **values: Any) -> UUID:
        when = {"occurred_at": NOW - timedelta(minutes=minutes), "session_id": UUID(int=7), "butler": "b"}
        return insert("episodes", content, **{**when, "source": source, **values})

    asked, answered = turn("where is the bicycle?", 20), turn("in the cellar", 19)
    turn("elsewhere", 18, session_id=None, source=None)
    key = {"subject": "bicycle", "predicate": "colour"}
    ended = {} if before == "mem_004" else {"ended_at": NOW - DAY}
    past = insert("facts", "blue", **key, **ended, validity="superseded", created_at=NOW - 9 * DAY)
    insert("facts", "red", **key, supersedes_id=past, created_at=NOW - DAY)
    async with opened(old_url, clock=ManualClock(), background=False) as memory:
        found = await memory.search("bicycle", types=["episode"])
        assert {hit.item.id for hit in found} == {asked, answered}, "the answer is next to it"
        assert all("speaker" in hit.parts for hit in await memory.search("what did Priyanka say of the bicycle?"))
        await memory.embed_pending()
        for day, colour in ((NOW, "red"), (NOW - DAY, "red"), (NOW - 2 * DAY, "blue")):
            for mode in ("keyword", "semantic"):
                (hit,) = await memory.search("blue or red", types=["fact"], mode=mode, as_of=day)
                assert hit.item.content == colour
        assert not problems(await administer(memory).verify())


@pytest.mark.parametrize("before", ["mem_006"])
async def test_an_old_store_learns_from_what_it_holds(old_url: str, insert: Insert, before: str) -> None:
    """Its episodes wait to be learned from, and what it knew before was not learned by any run."""
    key = {"subject": "Priyanka", "predicate": "rides", "folded_subject": "priyanka", "folded_predicate": "rides"}
    known = insert("facts", "a bicycle", **key)
    rule = insert("rules", "offer a lift")
    told = insert("episodes", "Priyanka sold the bicycle", butler="b", occurred_at=NOW)
    insert("episodes", "an old one", butler="b", consolidated=True, consolidation_status="consolidated")

    async def answer(prompt: str, trigger_source: str) -> str:
        assert str(known) in prompt and str(rule) in prompt and "an old one" not in prompt
        new = {"target_id": str(known), "subject": "x", "predicate": "y", "content": "a train", "evidence": [str(told)]}
        return json.dumps({"updated_facts": [new], "confirmations": [str(rule)]})

    async with opened(old_url, clock=ManualClock(NOW + DAY), background=False) as memory:
        assert [(await memory.look(kind, id_)).run_id for kind, id_ in (("fact", known), ("rule", rule))] == [None] * 2
        assert not [*await memory.runs(), *await memory.proposals(), *await memory.profile_blocks()]
        done = await memory.run_consolidation(answer)
        assert (done["errors"], done["facts_updated"], done["confirmations_made"]) == ([], 1, 1)
        (fact,) = (await memory.list_memories("fact", state="active")).items
        assert (fact.subject, fact.content, str(fact.run_id)) == ("Priyanka", "a train", done["runs"][0])
        await memory.undo(done["runs"][0])
        assert (await memory.look("fact", known)).validity == "active"
        assert not problems(await administer(memory).verify())
