"""Rows that are inserted by plain SQL, with only the columns that the specification asks for."""

import re
from datetime import timedelta
from uuid import UUID

import pytest
from administration import administer

from tulving import open_memory
from tulving.domain.model import KINDS
from tulving.services.upkeep import EMBEDDED_AT_A_TIME as BATCH
from tulving.testing import WordEmbedder

LEAST = {
    "episode": "INSERT INTO episodes (tenant_id, butler, content) VALUES ('default', 'b', 'coffee was served')",
    "fact": "INSERT INTO facts (tenant_id, subject, predicate, content) VALUES ('default', 's', 'p', 'coffee')",
    "rule": "INSERT INTO rules (tenant_id, content) VALUES ('default', 'offer coffee')",
}
NOTE = "INSERT INTO facts (tenant_id, subject, predicate, keyed, content) VALUES ('default', 's', 'p', FALSE, ?)"


@pytest.fixture
async def memory(url, embedder):
    """With the true clock, which the database's own defaults go by."""
    async with open_memory(url, embedder=embedder, background=False) as memory:
        yield memory


async def problems(memory):
    return [problem for finding in (await administer(memory).verify()).findings for problem in finding.problems]


async def items(memory):
    return {kind: (await memory.list_memories(kind, state="any")).items for kind in KINDS}


@pytest.mark.scenario("004-001")
async def test_an_episode_of_tenant_butler_and_content_has_its_defaults(memory, sql):
    sql(LEAST["episode"])
    sql(LEAST["episode"])
    rows = sql("SELECT * FROM episodes")
    for row in rows:
        assert (row["importance"], row["consolidation_status"], row["consolidated"]) == (5.0, "pending", False)
        assert (row["consolidation_attempts"], row["reference_count"], row["forgotten"]) == (0, 0, False)
        assert row["expires_at"] - row["created_at"] == timedelta(days=7)
        assert row["created_at"] == row["updated_at"] == row["accessed_at"]
        assert abs(row["created_at"] - memory.now()) < timedelta(minutes=10)
        assert (row["tags"], row["metadata"], row["owner"], row["last_referenced_at"]) == ([], {}, "", None)
        assert row["id"].version == 4 and re.fullmatch("[89ab]", str(row["id"])[19])
    assert len({row["id"] for row in rows}) == 2


@pytest.mark.scenario("004-001")
@pytest.mark.parametrize(
    ("inserted", "updates", "expected"),
    [
        ({}, ["consolidated = TRUE"], (True, "consolidated")),
        ({}, ["consolidation_status = 'consolidated'"], (True, "consolidated")),
        ({}, ["consolidation_status = 'failed'", "consolidated = TRUE"], (True, "consolidated")),
        ({}, ["consolidation_status = 'failed'", "consolidated = FALSE"], (False, "failed")),
        ({"consolidated": True}, [], (True, "consolidated")),
        ({"consolidation_status": "consolidated"}, [], (True, "consolidated")),
        ({"consolidation_status": "failed", "consolidated": True}, [], (False, "failed")),
        ({"consolidated": True}, ["consolidation_status = 'dead_letter'"], (False, "dead_letter")),
        ({"consolidated": True}, ["consolidation_status = 'pending'"], (False, "pending")),
        ({"consolidated": True}, ["consolidated = FALSE"], (False, "pending")),
        ({"consolidated": True}, ["consolidated = TRUE, consolidation_status = 'failed'"], (False, "failed")),
        ({}, ["consolidated = TRUE, consolidation_status = 'consolidated'"], (True, "consolidated")),
    ],
)
async def test_both_columns_say_whether_an_episode_is_consolidated(memory, sql, inserted, updates, expected):
    """Whichever a host writes, the other follows; if it writes both, the status decides."""
    row = {"tenant_id": "default", "butler": "b", "content": "tea", **inserted}
    for _ in range(2):
        sql(f"INSERT INTO episodes ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", *row.values())
    (first, second) = (each["id"] for each in sql("SELECT id FROM episodes ORDER BY id"))
    for update in updates:
        sql(f"UPDATE episodes SET {update} WHERE id = ?", first)
    found = "SELECT consolidated, consolidation_status FROM episodes WHERE id = ?"
    assert tuple(sql(found, first)[0].values()) == expected
    new = inserted.get("consolidation_status", "consolidated" if inserted.get("consolidated") else "pending")
    assert tuple(sql(found, second)[0].values()) == (new == "consolidated", new), "another row is not touched"
    await memory.embed_pending()
    assert {hit.item.id for hit in await memory.search("tea", mode="keyword")} == {first, second}
    assert await problems(memory) == []


async def test_a_session_is_active_until_it_is_completed_or_abandoned(memory, sql):
    sql("INSERT INTO sessions (tenant_id, started_at) VALUES ('default', ?)", memory.now())
    for status in ("completed", "abandoned", "active"):
        sql("UPDATE sessions SET status = ?", status)
    (row,) = sql("SELECT id, status FROM sessions")
    assert (row["id"].version, row["status"]) == (4, "active")
    with pytest.raises(Exception, match=r"(?i)check"):
        sql("UPDATE sessions SET status = 'ended'")


@pytest.mark.scenario("004-001", "004-004", "004-005")
async def test_they_are_completed_and_found(memory, sql):
    for statement in LEAST.values():
        sql(statement)
    assert not await memory.search("coffee")
    assert await problems(memory) == [], "they wait, and waiting is not reported as a problem"
    assert await memory.count_pending() == 3
    assert await memory.embed_pending() == 3
    for mode in ("keyword", "semantic", "hybrid"):
        assert {hit.memory_type for hit in await memory.search("coffee", mode=mode)} == set(KINDS)
    assert {hit.memory_type for hit in await memory.recall("coffee", types=list(KINDS))} == set(KINDS)
    assert await problems(memory) == []
    found = await items(memory)
    for kind in KINDS:
        (item,) = found[kind]
        assert item.content_hash is not None
        events = [(event.event_type, dict(event.payload)) for event in await memory.events(kind, item.id)]
        assert events == [(f"{kind}_created", {"by": "insert"}), (f"{kind}_embedded", {})]
    for kind in ("fact", "rule"):
        (item,) = found[kind]
        assert item.last_confirmed_at == item.created_at < item.next_review_at
    assert found["episode"][0].type == "observation"
    assert await memory.embed_pending() == 0


async def test_without_an_embedder_they_are_found_by_their_words(memory, sql, embedder):
    embedder.problem = "no weights"
    for statement in LEAST.values():
        sql(statement)
    assert await memory.embed_pending() == 0
    assert {hit.memory_type for hit in await memory.search("coffee", mode="keyword")} == set(KINDS)
    assert await problems(memory) == [] and await memory.count_pending() == 3


async def test_every_verb_copes_with_them_before(memory, sql, tmp_path, new_url, embedder):
    for statement in LEAST.values():
        sql(statement)
    found = await items(memory)
    ids = {kind: found[kind][0].id for kind in KINDS}
    for kind, id_ in ids.items():
        assert (await memory.get(kind, id_)).content_hash is None
        assert await memory.events(kind, id_) == []
        assert await memory.edit(kind, id_, tags=["t"])
    await memory.recall("coffee")
    await memory.context("coffee", butler="b")
    await memory.stats()
    await memory.run_decay_sweep()
    await memory.run_episode_cleanup()
    await memory.confirm("fact", ids["fact"])
    await memory.create_link("fact", ids["fact"], "episode", ids["episode"], "derived_from")
    await memory.export(tmp_path / "a.jsonl")
    async with open_memory(new_url(), embedder=embedder, background=False) as other:
        await other.import_(tmp_path / "a.jsonl")
        assert {hit.memory_type for hit in await other.recall("coffee", types=list(KINDS))} == set(KINDS)
        assert await problems(other) == []
    assert (await memory.store_fact("s", "p", "tea")).superseded_id == ids["fact"]
    await memory.forget("rule", ids["rule"])
    await memory.delete("episode", ids["episode"])
    await memory.embed_pending()
    assert await problems(memory) == []


async def test_of_two_notes_that_say_the_same_one_is_in_use(memory, sql):
    """The key of an unkeyed fact is its hash, which the database did not have when they came."""
    stored = await memory.store_note("Trains are nice")
    for words in ("trains are  nice", "cats purr", "Cats purr", "dogs bark"):
        sql(NOTE, words)
    assert await memory.embed_pending() == 4
    used = [item.content.casefold() for item in (await memory.list_memories("fact")).items]
    assert sorted(used) == ["cats purr", "dogs bark", "trains are nice"]
    (again,) = [item for item in (await items(memory))["fact"] if item.content == "trains are  nice"]
    assert (again.validity, again.next_review_at) == ("superseded", None)
    told = [event for event in await memory.events("fact", again.id) if event.event_type == "fact_superseded"]
    assert told[0].payload == {"superseded_by": str(stored.id)}
    assert await problems(memory) == []


async def test_many_of_several_tenants_are_completed(memory, sql):
    for number in range(BATCH + 5):
        sql("INSERT INTO rules (tenant_id, content) VALUES (?, ?)", f"t{number % 3}", f"rule {number}")
    assert await memory.embed_pending() == 0, "those are other tenants' rows"
    assert await administer(memory).embed_pending() == BATCH + 5
    assert sql("SELECT id FROM rules WHERE content_hash IS NULL OR search_text IS NULL OR embedding IS NULL") == []
    assert await problems(memory) == []


async def test_a_conversion_to_another_embedder_completes_them(url, memory, sql):
    for statement in LEAST.values():
        sql(statement)
    async with open_memory(url, embedder=WordEmbedder(32), background=False, may_reembed=True) as other:
        await administer(other).reembed()
        for mode in ("keyword", "semantic"):
            assert {hit.memory_type for hit in await other.search("coffee", mode=mode)} == set(KINDS)
        assert await problems(other) == []


async def test_what_it_was_given_stays(memory, sql):
    id_ = UUID(int=7)
    sql(
        "INSERT INTO facts (tenant_id, id, subject, predicate, content, last_confirmed_at, validity, importance)"
        " VALUES ('default', ?, 's', 'p', 'coffee', NULL, 'retracted', 9)",
        id_,
    )
    await memory.embed_pending()
    fact = await memory.get("fact", id_)
    assert (fact.validity, fact.importance, fact.last_confirmed_at, fact.next_review_at) == ("retracted", 9, None, None)


@pytest.mark.scenario("002-003")
async def test_a_new_memory_counts_as_accessed(url, embedder, clock):
    async with open_memory(url, embedder=embedder, clock=clock, background=False) as memory:
        stored = await memory.store_episode("coffee was served", butler="b", type="change", title="t", project="p")
        created = clock.now
        (episode,) = (await memory.list_memories("episode")).items
        assert isinstance(stored.id, UUID)
        assert episode.created_at == episode.updated_at == episode.accessed_at == created
        assert episode.last_referenced_at is None, "recency is of references only"
        clock.advance(hours=1)
        (hit,) = await memory.search("coffee", mode="keyword")
        (near,) = await memory.search("coffee", mode="semantic")
        assert hit.item.id == near.item.id == stored.id
        await memory.get("episode", stored.id)
        await memory.settle()
        (episode,) = (await memory.list_memories("episode")).items
        assert episode.accessed_at == episode.last_referenced_at == clock.now
        assert episode.created_at == created
        for kind, other in (("fact", await memory.store_fact("s", "p", "o")), ("rule", await memory.store_rule("r"))):
            (item,) = (await memory.list_memories(kind)).items
            assert (item.id, item.accessed_at) == (other.id, clock.now)
