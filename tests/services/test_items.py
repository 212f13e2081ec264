"""Reading, listing, confirming, forgetting, deleting and linking."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from administration import administer

from tulving import InvalidInput, NewEpisode, NotFound

NOBODY = UUID(int=404)


@pytest.mark.scenario("001-021")
async def test_get_counts_the_reference(memory, clock):
    stored = await memory.store_fact("user", "likes", "tea")
    clock.advance(hours=1)
    fact = await memory.get("fact", stored.id)
    assert (fact.reference_count, fact.last_referenced_at) == (1, clock.now)
    assert (await memory.get("fact", str(stored.id))).reference_count == 2
    for kind in ("episode", "fact", "rule"):
        assert await memory.get(kind, NOBODY) is None
    assert await memory.get("fact", "fact_00000000") is None


async def test_get_says_what_is_wrong(memory):
    with pytest.raises(InvalidInput, match=r"memory_type.*episode, fact, rule"):
        await memory.get("dream", NOBODY)
    with pytest.raises(InvalidInput, match=r"memory_id.*UUID"):
        await memory.get("fact", "12")


@pytest.mark.scenario("001-022")
async def test_confirming_restarts_the_decay(memory, clock):
    fact = (await memory.store_fact("user", "likes", "tea")).id
    rule = (await memory.store_rule("greet")).id
    clock.advance(days=100)
    faded = (await memory.search("tea", min_confidence=0))[0].parts["confidence"]
    assert await memory.confirm("fact", fact)
    assert await memory.confirm("rule", rule)
    assert (await memory.get("fact", fact)).last_confirmed_at == clock.now
    assert (await memory.get("rule", rule)).last_confirmed_at == clock.now
    assert (await memory.get("fact", fact)).next_review_at > clock.now + timedelta(days=200)
    assert faded < 0.5 < (await memory.search("tea"))[0].parts["confidence"] == 1.0
    assert not await memory.confirm("fact", NOBODY)
    with pytest.raises(ValueError, match="memory_type"):
        await memory.confirm("episode", NOBODY)


@pytest.mark.scenario("001-006", "001-124", "004-012")
async def test_forgetting_a_fact_retracts_it_and_is_on_record(memory, clock, sql):
    stored = await memory.store_fact("user", "likes", "tea")
    before = sql("SELECT * FROM memory_events ORDER BY seq")
    clock.advance(hours=1)
    assert await memory.forget("fact", stored.id)
    assert (await memory.get("fact", stored.id)).validity == "retracted"
    assert len(await memory.search("tea")) == 0
    *earlier, event = sql("SELECT * FROM memory_events ORDER BY seq")
    assert earlier == before
    assert (event["event_type"], event["entity_type"], event["entity_id"]) == ("fact_forgotten", "fact", stored.id)
    assert event["occurred_at"] == clock.now
    for change in ("UPDATE memory_events SET actor = 'x'", "DELETE FROM memory_events"):
        with pytest.raises(Exception, match="append-only"):
            sql(change)
    forged = "INSERT INTO memory_events (tenant_id, id, event_type, entity_type, occurred_at)"
    forged += " SELECT tenant_id, id, 'x', 'x', occurred_at FROM memory_events WHERE TRUE"
    with pytest.raises(Exception, match="append-only"):
        sql(f"{forged} ON CONFLICT (tenant_id, id) DO UPDATE SET actor = 'x'")
    with pytest.raises(Exception, match=r"append-only|duplicate key"):
        sql(forged)
    assert sql("SELECT * FROM memory_events ORDER BY seq") == [*before, event]
    assert await memory.forget("fact", stored.id), "it is forgotten, as asked"
    assert len(sql("SELECT 1 FROM memory_events")) == len(before) + 1, "but nothing has changed"
    again = await memory.store_fact("user", "likes", "tea")
    assert again.outcome == "stored"


@pytest.mark.scenario("004-012")
@pytest.mark.parametrize("recursive", ["ON", "OFF"])
@pytest.mark.parametrize("verb", ["REPLACE", "INSERT OR REPLACE", "INSERT OR IGNORE"])
@pytest.mark.parametrize("key", ["id", "seq"])
async def test_an_event_is_not_replaced(memory, path, sql, verb, key, recursive):
    """SQLite fires no DELETE trigger for rows that REPLACE removes, unless recursive triggers are on."""
    await memory.store_fact("user", "likes", "tea")
    await memory.store_fact("user", "drives", "a tram")
    before = sql("SELECT * FROM memory_events ORDER BY seq")
    other = {"id": "seq + 1", "seq": "id || 'x'"}[key]
    columns = f"tenant_id, event_type, entity_type, occurred_at, {key}, {'seq' if key == 'id' else 'id'}"
    with closing(sqlite3.connect(path)) as raw:
        raw.execute(f"PRAGMA recursive_triggers = {recursive}")
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            raw.execute(
                f"{verb} INTO memory_events ({columns}) SELECT tenant_id, 'forged', 'x', occurred_at, {key}, {other}"
                " FROM memory_events ORDER BY seq DESC LIMIT 1"
            )
    assert sql("SELECT * FROM memory_events ORDER BY seq") == before


@pytest.mark.scenario("001-023")
async def test_forgetting_an_episode_expires_it(memory, clock):
    stored = await memory.store_episode("a tea party", butler="b", type="observation")
    clock.advance(hours=1)
    assert await memory.forget("episode", stored.id)
    episode = await memory.get("episode", stored.id)
    assert (episode.expires_at, episode.forgotten) == (clock.now, True)
    assert len(await memory.search("tea party")) == 0
    assert not await memory.forget("episode", NOBODY)


@pytest.mark.scenario("001-024")
async def test_forgetting_a_rule_marks_it(memory):
    stored = await memory.store_rule("serve tea", metadata={"by": "me"})
    assert await memory.forget("rule", stored.id)
    rule = await memory.get("rule", stored.id)
    assert rule.metadata == {"by": "me", "forgotten": True}
    assert rule.forgotten
    assert len(await memory.search("serve tea")) == 0
    assert not await memory.confirm("rule", stored.id)


@pytest.mark.parametrize("kind", ["episode", "fact", "rule"])
async def test_deleting_is_for_good(memory, kind):
    id_ = await store_and_delete(memory, kind)
    assert await memory.get(kind, id_) is None
    assert len(await memory.search("zanzibar trip", mode="keyword")) == 0
    assert [event.event_type for event in await memory.events(kind, id_)][-1] == f"{kind}_deleted"
    assert (await administer(memory).verify()).ok
    with pytest.raises(KeyError, match=f"there is no {kind}"):
        await memory.delete(kind, id_)
    with pytest.raises(NotFound):
        await memory.delete("fact", "fact_12345678")


async def store_and_delete(memory, kind):
    stored = {
        "episode": lambda: memory.store_episode("zanzibar trip", butler="b"),
        "fact": lambda: memory.store_fact("user", "dreams_of", "zanzibar trip"),
        "rule": lambda: memory.store_rule("zanzibar trip first"),
    }
    id_ = (await stored[kind]()).id
    keeper = (await memory.store_fact("user", "keeps", "this")).id
    await memory.create_link(kind, id_, "fact", keeper, "related_to")
    await memory.delete(kind, id_)
    assert await memory.get_links("fact", keeper) == []
    return id_


async def test_deleting_the_newer_frees_the_older(memory):
    old = (await memory.store_fact("user", "likes", "tea")).id
    new = (await memory.store_fact("user", "likes", "coffee")).id
    await memory.delete("fact", old)
    assert (await memory.get("fact", new)).supersedes_id is None


@pytest.mark.scenario("001-020")
async def test_links_are_checked(memory):
    fact = (await memory.store_fact("user", "likes", "tea")).id
    episode = (await memory.store_episode("they drank tea", butler="b")).id
    assert await memory.create_link("fact", fact, "episode", episode, "derived_from")
    with pytest.raises(
        InvalidInput, match=r"relation: 'caused'.*contradicts, derived_from, related_to, supersedes, supports"
    ):
        await memory.create_link("fact", fact, "episode", episode, "caused")
    for arguments in (("thing", fact, "episode", episode), ("fact", fact, "thing", episode)):
        with pytest.raises(InvalidInput, match=r"_type: 'thing'.*episode, fact, rule"):
            await memory.create_link(*arguments, "supports")
    for arguments in (("fact", NOBODY, "episode", episode), ("fact", fact, "episode", NOBODY)):
        with pytest.raises(InvalidInput, match=f"_id: there is no .* {NOBODY}"):
            await memory.create_link(*arguments, "supports")


@pytest.mark.scenario("001-110", "004-007")
async def test_linking_twice_is_once(memory, sql):
    a = (await memory.store_rule("a")).id
    b = (await memory.store_rule("b")).id
    assert await memory.create_link("rule", a, "rule", b, "supports")
    before = sql("SELECT count(*) AS n FROM memory_events")
    assert not await memory.create_link("rule", a, "rule", b, "contradicts")
    (link,) = await memory.get_links("rule", a)
    assert link.relation == "supports"
    assert sql("SELECT count(*) AS n FROM memory_events") == before
    with pytest.raises(Exception, match=r"UNIQUE|duplicate key"):
        sql("INSERT INTO memory_links SELECT * FROM memory_links")


@pytest.mark.scenario("001-109")
async def test_links_have_a_direction(memory):
    a, b, c = [(await memory.store_rule(name)).id for name in "abc"]
    await memory.create_link("rule", a, "rule", b, "supports")
    await memory.create_link("rule", c, "rule", a, "contradicts")
    assert [link.target_id for link in await memory.get_links("rule", a, "outgoing")] == [b]
    assert [link.source_id for link in await memory.get_links("rule", a, "incoming")] == [c]
    assert len(await memory.get_links("rule", a)) == len(await memory.get_links("rule", a, "both")) == 2
    with pytest.raises(InvalidInput, match="direction"):
        await memory.get_links("rule", a, "sideways")
    assert await memory.get_links("rule", NOBODY) == []


@pytest.mark.scenario("001-123")
async def test_every_mutation_has_its_event(memory, clock, sql):
    heard = []
    memory.subscribe(heard.extend)
    by_anna = memory.bind(caller=type(memory.caller)("default", "anna", "request-7"))
    fact = (await by_anna.store_fact("user", "likes", "tea")).id
    await memory.store_fact("user", "likes", "coffee")
    rule = (await memory.store_rule("greet")).id
    episode = (await memory.store_episode("hello", butler="b")).id
    await memory.confirm("rule", rule)
    await memory.create_link("rule", rule, "episode", episode, "derived_from")
    await memory.forget("rule", rule)
    await memory.delete("episode", episode)
    await memory.get("fact", fact)
    await memory.recall("coffee")
    rows = sql("SELECT * FROM memory_events ORDER BY seq")
    assert [row["event_type"] for row in rows] == [
        "fact_created",
        "fact_superseded",
        "fact_created",
        "rule_created",
        "episode_created",
        "rule_confirmed",
        "link_created",
        "rule_forgotten",
        "episode_deleted",
    ]
    assert [event.event_type for event in heard] == [row["event_type"] for row in rows]
    assert (rows[0]["actor"], rows[0]["request_id"], rows[0]["tenant_id"]) == ("anna", "request-7", "default")
    assert rows[0]["entity_id"] == fact
    assert not any(word in str(row["payload"]) for row in rows for word in ("tea", "coffee", "greet", "hello"))
    created, superseded = await memory.events("fact", fact)
    assert created.created_at == created.occurred_at == clock.now
    assert superseded.payload["superseded_by"]


async def test_an_error_in_a_subscriber_affects_no_other(memory, caplog):
    def fail(events):
        raise RuntimeError("boom")

    memory.subscribe(fail)
    stored = await memory.store_rule("greet")
    assert await memory.get("rule", stored.id) is not None
    assert "a subscriber failed" in caplog.text


async def test_listing_filters_and_pages(memory, clock):
    ids = []
    for number in range(7):
        clock.advance(hours=1)
        ids.append(
            (
                await memory.store_episode(
                    f"event {number}",
                    butler="a" if number % 2 else "b",
                    type="change" if number < 3 else "feature",
                    project="atlas" if number < 5 else None,
                    tags=["even" if number % 2 == 0 else "odd", "all"],
                )
            ).id
        )
    newest_first = ids[::-1]

    async def listed(**filters):
        return [item.id for item in (await memory.list_memories("episode", **filters)).items]

    assert await listed() == newest_first
    assert await listed(scope="a") == [ids[5], ids[3], ids[1]]
    assert await listed(type="change") == [ids[2], ids[1], ids[0]]
    assert await listed(project="atlas", tags=["even", "all"]) == [ids[4], ids[2], ids[0]]
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert await listed(since=start + timedelta(hours=3), until=start + timedelta(hours=5)) == [ids[3], ids[2]]
    pages, cursor = [], None
    while True:
        page = await memory.list_memories("episode", limit=3, cursor=cursor)
        pages.append([item.id for item in page.items])
        if (cursor := page.next_cursor) is None:
            break
    assert pages == [newest_first[:3], newest_first[3:6], newest_first[6:]]
    for arguments, field in (
        ({"limit": 0}, "limit"),
        ({"cursor": "???"}, "cursor"),
        ({"state": "active"}, "state"),
        ({"since": start, "until": start}, "until"),
    ):
        with pytest.raises(InvalidInput) as refused:
            await memory.list_memories("episode", **arguments)
        assert refused.value.field == field


async def test_paging_is_complete_when_times_are_equal(memory):
    stored = await memory.store_episodes([NewEpisode(content=f"e{n}", butler="b") for n in range(10)])
    seen, cursor = [], None
    while True:
        page = await memory.list_memories("episode", limit=4, cursor=cursor)
        seen += [item.id for item in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert sorted(seen) == sorted(answer.id for answer in stored)


@pytest.mark.scenario("004-011")
async def test_facts_are_listed_by_state_and_forgotten_means_retracted(memory, sql):
    old = (await memory.store_fact("a", "p", "1")).id
    new = (await memory.store_fact("a", "p", "2")).id
    gone = (await memory.store_fact("b", "p", "3")).id
    legacy = (await memory.store_fact("c", "p", "4")).id
    fading = (await memory.store_fact("d", "p", "5")).id
    await memory.forget("fact", gone)
    sql("UPDATE facts SET validity = 'forgotten' WHERE id = ?", legacy)
    sql("UPDATE facts SET status = 'fading' WHERE id = ?", fading)

    async def listed(state):
        return {item.id for item in (await memory.list_memories("fact", state=state)).items}

    assert await listed("active") == {new}
    assert await listed("fading") == {fading}
    assert await listed(None) == {new, fading}
    assert await listed("superseded") == {old}
    assert await listed("expired") == set()
    assert await listed("retracted") == await listed("forgotten") == {gone, legacy}
    assert await listed("any") == {old, new, gone, legacy, fading}
    assert (await memory.get("fact", legacy)).state == "retracted"
    assert (await memory.get("fact", fading)).state == "fading"
    assert legacy not in {hit.item.id for hit in await memory.search("c p 4")}
