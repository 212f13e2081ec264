"""The cache of known names: what it knows after each kind of change, on either engine."""

import asyncio
from typing import Any

import asyncpg
import pytest
from administration import administer

from tulving import Caller, Memory, NewEpisode, open_memory
from tulving.bootstrap import copy_store
from tulving.domain.names import Names
from tulving.domain.scope import Bound, Filter
from tulving.storage import names as module
from tulving.storage.names import KnownNames
from tulving.testing import SequentialIds, WordEmbedder

QUERY = "Did Anna, Ben, Carla, Annie, Dora, Emil and Rome agree?"


async def known(memory: Memory, cache: KnownNames | None = None) -> Names:
    names = cache or memory._env.names
    return await memory._read(names.of, memory.caller.tenant_id, memory.bound)


async def mentioned(memory: Memory, query: str = QUERY) -> list[str]:
    return [query[each.start : each.end] for each in (await known(memory)).mentioned(query)]


async def say(memory: Memory, *sources: str | None) -> list[Any]:
    stored = await memory.store_episodes(
        [NewEpisode(content=f"{source} {at}", butler="b", source=source) for at, source in enumerate(sources)]
    )
    return [each.id for each in stored]


class Counting:
    """A connection that counts its queries."""

    def __init__(self, conn: Any) -> None:
        self.conn, self.queries = conn, 0

    def __getattr__(self, name: str) -> Any:
        self.queries += name in ("fetch_one", "fetch_all", "stream", "records")
        return getattr(self.conn, name)


async def queries(memory: Memory) -> int:
    def count(conn: Any) -> int:
        counting = Counting(conn)
        memory._env.names.of(counting, memory.caller.tenant_id)  # type: ignore[arg-type]
        return counting.queries

    return await memory._read(count)


async def test_a_new_source_is_known_at_once(memory):
    assert await mentioned(memory) == []
    await say(memory, "Anna", None, "user", "Anna")
    assert await mentioned(memory) == ["Anna"]
    await say(memory, "Ben")
    assert await mentioned(memory) == ["Anna", "Ben"]
    (anna, _) = (await known(memory)).mentioned(QUERY)
    assert anna.sources == {"Anna"}


async def test_entities_are_known_by_all_their_present_names(memory):
    made = await memory.create_entity("Anna", "person", aliases=["Annie"])
    assert await mentioned(memory) == ["Anna", "Annie"]
    await memory.update_entity(made.entity_id, canonical_name="Carla", aliases=["Dora"])
    assert await mentioned(memory) == ["Carla", "Dora"]
    other = await memory.create_entity("Emil", "person")
    assert await mentioned(memory) == ["Carla", "Dora", "Emil"]
    await memory.merge_entities(other.entity_id, made.entity_id)
    found = (await known(memory)).mentioned("What did Emil say?")
    assert [each.entity_ids for each in found] == [{made.entity_id}], "the merged one is an alias of the other"


async def test_sources_leave_with_their_last_episode(memory):
    anna, ben, carla, *_ = await say(memory, "Anna", "Ben", "Carla", "Anna")
    assert await mentioned(memory) == ["Anna", "Ben", "Carla"]
    await memory.forget("episode", ben)
    await memory.delete("episode", anna)
    assert await mentioned(memory) == ["Anna", "Carla"]
    await memory.delete("episode", carla)
    assert await mentioned(memory) == ["Anna"]


async def test_nothing_changed_is_one_query(memory):
    await say(memory, "Anna")
    await memory.create_entity("Ben", "person")
    assert await queries(memory) > 1
    names = await known(memory)
    assert await queries(memory) == 1
    assert await known(memory) is names
    await memory.store_fact("Anna", "likes", "tea")
    await say(memory, "Anna")
    await known(memory)
    await memory.store_fact("Anna", "likes", "milk")
    before = await known(memory)
    await say(memory, "Anna")
    assert await known(memory) is before, "a source that is known already changes no names"
    assert await queries(memory) == 1


async def test_other_tenants_and_other_users_stay_apart(memory):
    other = memory.bind(caller=Caller("other"))
    ann, eve = memory.bind(user_id="ann"), memory.bind(user_id="eve", project="x")
    await say(memory, "Anna")
    await say(other, "Ben")
    await say(ann, "Carla")
    await say(eve, "Dora")
    await memory.create_entity("Rome", "place")
    everyone = (memory, other, ann, eve)
    expected = [["Anna", "Carla", "Dora", "Rome"], ["Ben"], ["Carla", "Rome"], ["Dora", "Rome"]]
    assert [await mentioned(each) for each in everyone] == expected
    await say(eve, "Emil")
    expected = [["Anna", "Carla", "Dora", "Emil", "Rome"], ["Ben"], ["Carla", "Rome"], ["Dora", "Emil", "Rome"]]
    assert [await mentioned(each) for each in everyone] == expected


async def test_a_filter_counts_as_what_it_is_bound_to(memory):
    await say(memory.bind(project="x"), "Anna")
    for wanted in (Filter(project="x", tags=["a"]), Bound(project="x")):
        names = await memory._read(memory._env.names.of, "default", wanted)
        assert len(names.mentioned(QUERY)) == 1
    assert len(memory._env.names._known) == 1


async def test_two_memories_of_one_store_see_each_others_names(memory, url):
    async with open_memory(url, embedder=WordEmbedder(), ids=SequentialIds(10_000), background=False) as second:
        (anna,) = await say(memory, "Anna")
        assert await mentioned(second) == ["Anna"]
        await say(second, "Ben")
        assert await mentioned(memory) == ["Anna", "Ben"]
        await memory.delete("episode", anna)
        assert await mentioned(second) == ["Ben"]


async def test_imported_and_copied_names_are_known(memory, new_url, tmp_path):
    await say(memory, "Anna")
    made = await memory.create_entity("Ben", "person")
    gone = await memory.create_entity("Carla", "person")
    await memory.merge_entities(gone.entity_id, made.entity_id)
    await administer(memory).export(tmp_path / "all.jsonl")
    ids = SequentialIds(10_000)
    async with open_memory(new_url(), embedder=WordEmbedder(), ids=ids, background=False) as second:
        await say(second, "Dora")
        assert await mentioned(second) == ["Dora"]
        await administer(second).import_(tmp_path / "all.jsonl")
        assert await mentioned(second) == ["Anna", "Ben", "Carla", "Dora"]


async def test_more_changes_than_are_followed(memory, monkeypatch):
    monkeypatch.setattr(module, "RELOAD_ABOVE", 3)
    for sources in (["Anna"], ["Ben"], ["Carla", "Dora", "Ben"], ["Emil"]):
        await say(memory, *sources)
        await mentioned(memory)
    assert await mentioned(memory) == ["Anna", "Ben", "Carla", "Dora", "Emil"]


async def test_of_too_many_sources_the_most_frequent_are_known(memory, monkeypatch):
    monkeypatch.setattr(module, "MOST_OF_EACH", 2)
    await say(memory, "Anna", "Ben", "Ben", "Carla", "Carla")
    assert await mentioned(memory) == ["Ben", "Carla"]
    await say(memory, "Dora")
    assert await mentioned(memory) == ["Ben", "Carla"]


async def test_the_least_recently_used_tenants_are_dropped(memory):
    cache = KnownNames(most=7)
    tenants = [memory.bind(caller=Caller(name)) for name in "abc"]
    for tenant in tenants:
        await say(tenant, "Anna", "Ben")
    for at in (0, 1, 0, 2):
        await known(tenants[at], cache)
    assert [tenant for tenant, _ in cache._known] == ["a", "c"]
    assert cache._size == 6
    await say(tenants[2], *(f"Someone {at}" for at in "abcdefgh"))
    assert len((await known(tenants[2], cache)).mentioned(QUERY)) == 2, "what is in use stays, however large it is"
    assert [(tenant, known.size) for (tenant, _), known in cache._known.items()] == [("c", 11)]
    assert cache._size == 11


async def test_an_event_that_commits_late_is_not_missed(postgres, postgres_template):
    """On PostgreSQL a transaction may commit after others with higher numbers: the cache has seen those already."""
    url = await postgres.create_database(template=postgres_template)
    raw = await asyncpg.connect(url)
    async with open_memory(url, embedder=WordEmbedder(), background=False) as memory:
        await say(memory, "Anna")
        assert await mentioned(memory) == ["Anna"]
        late = raw.transaction()
        await late.start()
        await raw.execute(
            "WITH late AS (INSERT INTO episodes (tenant_id, butler, content, source)"
            " VALUES ('default', 'b', 'late', 'Ben') RETURNING id)"
            " INSERT INTO memory_events (tenant_id, event_type, entity_type, entity_id)"
            " SELECT 'default', 'episode_created', 'episode', id FROM late"
        )
        await say(memory, "Carla")
        assert await mentioned(memory) == ["Anna", "Carla"]
        await late.commit()
        await raw.close()
        await say(memory, "Dora")
        assert await mentioned(memory) == ["Anna", "Ben", "Carla", "Dora"]
    await postgres.drop_database(url)


async def test_many_readers_and_a_writer(memory):
    async def read() -> None:
        for _ in range(10):
            found = await mentioned(memory)
            assert found == [name for name in ("Anna", "Ben", "Carla", "Dora", "Emil") if name in found]

    async def write() -> None:
        for source in ("Anna", "Ben", "Carla", "Dora", "Emil"):
            await say(memory, source)

    await asyncio.gather(write(), *(read() for _ in range(8)))
    assert await mentioned(memory) == ["Anna", "Ben", "Carla", "Dora", "Emil"]
    assert memory._env.names._size == 6


@pytest.mark.parametrize("names", [["Anna"], []])
async def test_a_copied_store_is_known_to_a_memory_that_was_open(memory, new_url, url, names):
    await say(memory, *names, "Ben")
    target = new_url()
    async with open_memory(target, embedder=WordEmbedder(), ids=SequentialIds(10_000), background=False) as second:
        assert await mentioned(second) == []
        copied = await copy_store(url, target)
        assert copied.ok
        assert await mentioned(second) == [*names, "Ben"]
