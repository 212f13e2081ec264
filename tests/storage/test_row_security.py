"""Row-level security isolates tenants even when a statement lacks its tenant condition."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import asyncpg
import pytest
from administration import administer
from bus_parts import START, end, heard, until
from postgres_server import Server
from query_plans import plan_of

from tulving import Caller, Memory, NewFact, open_memory, storage
from tulving.bootstrap import migrate_store
from tulving.domain.messages import Message
from tulving.domain.offers import Offer
from tulving.domain.scope import Filter
from tulving.errors import InvalidInput, NotFound, StoreUnavailable
from tulving.settings import BridgeConfig, LearningConfig, MemoryModuleConfig
from tulving.storage import filters, items, names
from tulving.storage.kinds import MEMORY_TABLES
from tulving.storage.lanes import LaneRequest
from tulving.storage.postgres import lanes
from tulving.storage.postgres.row_security import SECURED_TABLES, Roles
from tulving.testing import WordEmbedder

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "the vault is behind the painting"
PASSWORD = "x"  # a server that is named in TULVING_TEST_POSTGRES may ask for one
Opener = Callable[[str, str], Awaitable[Memory]]


def as_user(url: str, user: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}:{PASSWORD}@{host}"))


@pytest.fixture
async def secured(postgres: Server, postgres_template: str) -> AsyncIterator[str]:
    """A database with row-level security, a login role for the service and for maintenance, and a secret of `bank`."""
    url = await postgres.create_database(template=postgres_template)
    name = urlsplit(url).path.lstrip("/")
    roles = (f"service_{name}", f"maintenance_{name}")
    config = MemoryModuleConfig(learning=LearningConfig(review_rules=True))
    async with open_memory(url, config=config, embedder=WordEmbedder(), tenant="bank", background=False) as memory:
        await memory.store_fact("vault", "place", SECRET)
        await memory.store_episode(SECRET, butler="b")
        await memory.store_rule(SECRET)
        await teach(memory)
    await migrate_store(url, MemoryModuleConfig(), roles=roles)
    raw = await asyncpg.connect(url)
    for login, role in (("app", roles[0]), ("worker", roles[1])):
        await raw.execute(f'CREATE ROLE "{login}_{name}" LOGIN PASSWORD \'{PASSWORD}\' IN ROLE "{role}"')
    yield url
    logins = [f"app_{name}", f"worker_{name}"]
    for role in (*logins, *roles):
        await raw.execute(f'DROP OWNED BY "{role}"; DROP ROLE "{role}"')
    await raw.close()
    await postgres.drop_database(url)


async def teach(memory: Memory) -> None:
    """A row in each table of what models have learned; none of it is found by a search."""
    await memory.set_profile("work", SECRET)
    await memory.learn_prompt(f"User: {SECRET}")
    rule = {"new_rules": [{"content": SECRET}]}
    done = await memory.run_consolidation(lambda **asked: json.dumps(rule))
    assert done["held"] == 1
    note = await memory.store_note("soon deleted")
    await memory.delete("fact", note.id)


async def disagree(memory: Memory) -> None:
    """A row in each table of what belongs to conflicts and to tool calls in plain text."""
    ben = memory.bind(user_id="ben")
    await ben.store_note("Keeps keys in the drawer", source="user")
    assert (await ben.store_note("Does not keep keys in the drawer", source="inferred")).outcome == "superseded"
    await memory.register_merge_rule({"name": "mine"})
    await memory.count_tool_text("abp", "")


def app(url: str) -> str:
    return as_user(url, f"app_{urlsplit(url).path.lstrip('/')}")


def worker(url: str) -> str:
    return as_user(url, f"worker_{urlsplit(url).path.lstrip('/')}")


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version of us whose reads have lost their tenant clause."""

    def visible(*args):
        where, params = filters.visible(*args)
        assert where.startswith("m.tenant_id = :tenant_id AND ")
        return where.replace("m.tenant_id = :tenant_id AND ", "TRUE AND "), params

    def reach(*args):
        where, params = filters.reach(*args)
        return where.replace("m.tenant_id = :tenant_id", "TRUE", 1), params

    monkeypatch.setattr(items, "visible", visible)
    monkeypatch.setattr(lanes, "visible", visible)
    monkeypatch.setattr(names, "reach", reach)


async def seen(memory: Memory) -> list[str]:
    """Everything that a tenant gets to see by listing."""
    return [
        item.content
        for kind in ("episode", "fact", "rule")
        for item in (await memory.list_memories(kind, state="any")).items
    ]


@pytest.mark.scenario("001-117")
async def test_policies_apply_when_the_tenant_clause_is_missing(secured, forgetful):
    async with open_memory(secured, embedder=WordEmbedder(), tenant="thief") as memory:
        assert await seen(memory) == [SECRET] * 3, "without policies (a superuser) the missing clause is a leak"
    async with open_memory(app(secured), embedder=WordEmbedder(), tenant="thief") as memory:
        assert await seen(memory) == []
        for mode in ("hybrid", "semantic", "keyword"):
            assert (await memory.search("vault painting", mode=mode)).hits == []
        await memory.store_fact("me", "likes", "vaults")
        assert [hit.item.content for hit in await memory.search("vault painting")] == ["vaults"]
        assert await seen(memory.bind(caller=Caller("bank"))) == [SECRET] * 3


async def test_policies_keep_sessions_and_names_apart(secured, forgetful):
    """With the same id of a session, another tenant's turn would be next to one's own."""
    talk = UUID(int=7)
    async with open_memory(secured, embedder=WordEmbedder(), tenant="bank", background=False) as memory:
        for at in (1, 3):
            await memory.store_episode(SECRET, "b", session_id=talk, source="Thaddeus", occurred_at=NOW.replace(day=at))

    async def overheard(memory: Memory) -> tuple[int, bool]:
        """How many candidates there are, and whether the name is known."""
        asked = LaneRequest(
            tenant_id="thief", kinds=["episode"], filter=Filter(), now=NOW, limit=5, terms=["alpha"], neighbours=True
        )
        found = await memory._env.store.read("thief", lambda conn: conn.lanes(asked))
        known = await memory._env.store.read("thief", memory._env.names.of, "thief")
        return len(found.rows), bool(known.mentioned("Thaddeus"))

    async with open_memory(app(secured), embedder=WordEmbedder(), tenant="thief", background=False) as memory:
        await memory.store_episode("alpha", "b", session_id=talk, occurred_at=NOW.replace(day=2))
        assert await overheard(memory) == (1, False)
    async with open_memory(secured, embedder=WordEmbedder(), tenant="thief", background=False) as memory:
        assert await overheard(memory) == (3, True), "without policies (a superuser) the missing clause is a leak"


async def test_the_service_works_under_row_level_security(secured):
    async with open_memory(app(secured), embedder=WordEmbedder(), tenant="bank") as memory:
        (old,) = (await memory.list_memories("fact")).items
        stored = await memory.store_fact("vault", "place", "moved to the cellar")
        assert (stored.outcome, stored.superseded_id) == ("superseded", old.id)
        best, *_ = await memory.recall("vault place", types=["fact"])
        assert best.item.content == "moved to the cellar"
        assert await memory.confirm("fact", stored.id)
        assert await memory.forget("fact", old.id)
        assert await memory.delete("fact", old.id)
        assert (await memory.events("fact", old.id))[-1].event_type == "fact_deleted"
        offer = Offer(memory=NewFact(subject="Ada", predicate="has", content="a key"), key="1", entity_type="person")
        assert [taken.is_new for taken in await memory.take_offers([offer, offer], source="x")] == [True, False]
        [(ada, facts)] = await memory.graph(["Ada"])
        assert await memory.complete_id(str(ada.id)[:30], ["entity"]) == ("entity", str(ada.id))
        await memory.forget_facts([fact.id for fact in facts])
        assert await memory.graph() == []


async def test_no_tenant_means_no_rows(secured):
    raw = await asyncpg.connect(app(secured))
    for table in SECURED_TABLES:
        assert await raw.fetchval(f"SELECT count(*) FROM {table}") == 0
    async with raw.transaction():
        await raw.execute("SET LOCAL tulving.tenant_id = 'bank'")
        assert await raw.fetchval("SELECT count(*) FROM facts") == 1
    assert await raw.fetchval("SELECT count(*) FROM facts") == 0, "the tenant is forgotten with the transaction"
    await raw.execute("SET tulving.tenant_id = ''")
    assert await raw.fetchval("SELECT count(*) FROM facts") == 0
    await raw.close()


async def test_each_table_shows_the_rows_of_one_tenant(secured):
    raw = await asyncpg.connect(app(secured))
    async with open_memory(secured, embedder=WordEmbedder(), tenant="bank", background=False) as memory:
        await disagree(memory)
    learned = ("learning_runs", "proposals", "profile_blocks", "forgotten_values", "tenant_keys")
    for table in (*learned, "settlements", "merge_rules", "tool_text_counts"):
        for tenant, seen in (("bank", True), ("thief", False)):
            await raw.execute(f"SET tulving.tenant_id = '{tenant}'")
            assert bool(await raw.fetchval(f"SELECT count(*) FROM {table}")) is seen, table
        assert (await raw.execute(f"DELETE FROM {table}")) == "DELETE 0"
        assert (await raw.execute(f"UPDATE {table} SET tenant_id = 'thief'")) == "UPDATE 0"
    await raw.close()


async def test_the_service_learns_for_its_tenant(secured):
    """With the rights of the service: all verbs, from the prompt to the end of a run and its undoing."""
    answer = {"new_facts": [{"subject": "vault", "predicate": "colour", "content": "green"}]}
    async with open_memory(app(secured), embedder=WordEmbedder(), tenant="thief", background=False) as memory:
        assert not [*await memory.runs(), *await memory.proposals(), *await memory.profile_blocks()]
        assert (await memory.learn_prompt()).lease is None, "nothing of the bank waits"
        await memory.store_episode("the vault is green", butler="b")
        done = await memory.run_consolidation(lambda **asked: json.dumps(answer))
        assert (done["facts_created"], done["errors"]) == (1, [])
        await memory.undo(done["runs"][0])
        lease = (await memory.learn_prompt("User: I like tea")).lease
        likes = {"newFacts": [{"content": "likes tea", "confidence": 1}], "profile": {"work": "tea taster"}}
        learned = await memory.learn_apply(json.dumps(likes), lease)
        assert (learned.facts_created, learned.profile) == (1, ["work"])
        await memory.forget("fact", learned.stored[0].id)
        lease = (await memory.learn_prompt("User: I like tea")).lease
        again = await memory.learn_apply(json.dumps(likes), lease)
        assert (again.facts_created, again.unwanted) == (0, 1)
        assert await memory.delete_profile() == 1
        for texts in (1, 2):
            await memory.count_tool_text("abp", "")
            assert (await memory.overview()).tool_text["abp"]["texts"] == texts, "none of the bank's"
        await memory.store_episode("Always offer tea", butler="c")
        rule = {"new_rules": [{"content": "Always offer tea"}]}
        assert (await memory.run_consolidation(lambda **asked: json.dumps(rule)))["held"] == 1
        (held,) = await memory.proposals()
        assert (await memory.accept(held.id)).rules_created == 1
    async with open_memory(secured, embedder=WordEmbedder(), tenant="bank", background=False) as memory:
        assert len(await memory.proposals()) == 1 and await memory.profile_blocks() == {"work": SECRET}


async def test_the_service_settles_conflicts_of_its_tenant(secured):
    """With the rights of the service: stored, merged, listed, reverted, and the rules for that."""
    async with open_memory(secured, embedder=WordEmbedder(), tenant="bank", background=False) as memory:
        await disagree(memory)
        (theirs,) = [report.settlement for report in await memory.conflicts()]
    async with open_memory(app(secured), embedder=WordEmbedder(), tenant="thief", background=False) as memory:
        assert not await memory.conflicts()
        for verb in (memory.revert_conflict, memory.accept_conflict, memory.dismiss_conflict):
            with pytest.raises(NotFound):
                await verb(theirs.id)
        assert len(await memory.merge_rules()) == 1
        await memory.update_merge_rule("default", {"merge": {"boost_amount": 0.2}})
        await memory.count_tool_text("vcp", "no ABP")
        for text in ("Keeps keys in the drawer", "Does not keep keys in the drawer"):
            stored = await memory.store_note(text, occurred_at=NOW)
        assert stored.outcome == "merged" and stored.conflict is not None
        assert [report.merged and report.merged.id for report in await memory.conflicts()] == [stored.id]
        assert (await memory.revert_conflict(stored.conflict.id)).status == "reverted"
        tool_text = (await memory.overview()).tool_text
        assert (tool_text["vcp"]["texts"], tool_text["abp"]["texts"]) == (1, 0)
    async with open_memory(secured, embedder=WordEmbedder(), tenant="bank", background=False) as memory:
        assert [report.settlement for report in await memory.conflicts()] == [theirs]


async def test_a_worker_learns_for_all_tenants(secured):
    async with open_memory(app(secured), embedder=WordEmbedder(), tenant="thief", background=False) as memory:
        await memory.store_episode("the vault is green", butler="b")
    async with open_memory(worker(secured), embedder=WordEmbedder(), background=False) as memory:
        waiting = await administer(memory)._read(storage.learning.shards, NOW.replace(year=2999))
        assert waiting == [("thief", "b")]
        done = await memory.bind(caller=Caller("thief")).run_consolidation(lambda **asked: "{}")
        assert done["episodes_consolidated"] == 1


@pytest.mark.parametrize("table", MEMORY_TABLES)
async def test_the_views_of_words_show_one_tenant(secured, table):
    """They are read with the rights of their owner, so they must not rely on the policies."""
    raw = await asyncpg.connect(app(secured))
    count = f"SELECT count(*) FROM {table}_words"
    assert await raw.fetchval(count) == 0
    for tenant, seen in (("bank", 1), ("thief", 0), ("", 0)):
        await raw.execute(f"SET tulving.tenant_id = '{tenant}'")
        assert await raw.fetchval(count) == seen
    for change in ("DELETE FROM {}_words", "UPDATE {}_words SET tenant_id = 'thief'"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await raw.execute(change.format(table))
    await raw.close()


async def test_the_service_finds_words_by_their_index(secured):
    asked = LaneRequest(
        tenant_id="bank",
        kinds=("fact",),
        filter=Filter(),
        terms=("vault", "painting"),
        vector=None,
        embedding_version=None,
        limit=5,
        now=NOW,
    )
    async with open_memory(app(secured), embedder=WordEmbedder(), tenant="bank") as memory:
        plan = await plan_of(memory, asked)
    assert "Bitmap Index Scan on ix_facts_words" in plan, plan


async def test_without_a_right_to_the_views_the_service_reads_all_its_rows(secured):
    """As in a database that an older version secured, until the migration is run again."""
    raw = await asyncpg.connect(secured)
    for table in MEMORY_TABLES:
        await raw.execute(f"DROP VIEW {table}_words")
    await raw.close()
    async with open_memory(app(secured), embedder=WordEmbedder(), tenant="bank") as memory:
        assert len(await memory.search("vault painting", mode="keyword")) == 3


async def test_nothing_can_be_written_into_another_tenant(secured):
    raw = await asyncpg.connect(app(secured))
    await raw.execute("SET tulving.tenant_id = 'thief'")
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        await raw.execute("INSERT INTO entities (tenant_id, canonical_name, folded_name, entity_type)"
                          " VALUES ('bank', 'x', 'x', 'other')")  # fmt: skip
    assert await raw.execute("UPDATE facts SET content = 'taken'") == "UPDATE 0"
    assert await raw.execute("DELETE FROM rules") == "DELETE 0"
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="memory_events"):
        await raw.execute("DELETE FROM memory_events")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await raw.execute("ALTER TABLE facts DISABLE ROW LEVEL SECURITY")
    await raw.close()


async def test_a_role_without_rights_gets_nowhere(secured, postgres):
    raw = await asyncpg.connect(secured)
    name = f"unprivileged_{urlsplit(secured).path.lstrip('/')}"
    await raw.execute(f"CREATE ROLE \"{name}\" LOGIN PASSWORD '{PASSWORD}'")
    try:
        with pytest.raises(StoreUnavailable, match="lacks a right"):
            async with open_memory(as_user(secured, name), embedder=WordEmbedder()):
                pass
    finally:
        await raw.execute(f'DROP ROLE "{name}"')
        await raw.close()


async def test_maintenance_sees_all_tenants(secured):
    async with open_memory(secured, embedder=WordEmbedder(), tenant="other") as memory:
        await memory.store_fact("a", "b", "c")
    async with open_memory(worker(secured), embedder=WordEmbedder(), background=False) as memory:
        assert (await administer(memory).verify()).ok
        raw = await asyncpg.connect(worker(secured))
        tenants = await raw.fetch("SELECT DISTINCT tenant_id FROM facts ORDER BY 1")
        assert [row[0] for row in tenants] == ["bank", "other"]
        await raw.close()


async def test_the_user_who_enables_row_level_security_still_sees_all_tenants(postgres, postgres_template):
    """Otherwise an owner without superuser rights could neither verify nor index the tables."""
    admin = await asyncpg.connect(postgres.url("postgres"))
    await admin.execute(f"CREATE ROLE table_owner LOGIN CREATEROLE PASSWORD '{PASSWORD}'")
    url = await postgres.create_database()
    name = urlsplit(url).path.lstrip("/")
    await admin.execute(f'ALTER DATABASE "{name}" OWNER TO table_owner')
    raw = await asyncpg.connect(url)
    await raw.execute("CREATE EXTENSION vector; GRANT ALL ON SCHEMA public TO table_owner")
    await raw.close()
    try:
        owner = as_user(url, "table_owner")
        roles = (f"service_{name}", f"maintenance_{name}")
        for _ in range(2):
            done = await migrate_store(owner, MemoryModuleConfig(embedder="hashing"), roles=roles)
        assert done.applied == ()
        config = MemoryModuleConfig(embedder="hashing")
        async with open_memory(owner, config=config, background=False) as memory:
            await memory.store_fact("a", "b", "c")
            await administer(memory).reindex()
            assert (await administer(memory).verify()).ok
        raw = await asyncpg.connect(owner)
        assert await raw.fetchval("SELECT count(*) FROM facts") == 1
        await raw.execute(f'SET enable_seqscan = off; GRANT "{roles[0]}" TO table_owner; SET ROLE "{roles[0]}"')
        plan = await raw.fetch("EXPLAIN SELECT id FROM facts_words WHERE search_vector @@ 'c'::tsquery")
        assert any("ix_facts_words" in row[0] for row in plan), "for the service, too, with the owner's rights"
        await raw.close()
    finally:
        await postgres.drop_database(url)
        for role in (*roles, "table_owner"):
            await admin.execute(f'DROP ROLE IF EXISTS "{role}"')
        await admin.close()


@pytest.mark.parametrize("bad", ["", "x" * 64, "a\0b"])
def test_bad_role_names_are_refused(bad):
    with pytest.raises(InvalidInput, match="service_role"):
        Roles(service=bad, maintenance="all_tenants")


async def test_a_file_has_no_row_level_security(tmp_path):
    with pytest.raises(InvalidInput, match="row_security"):
        await migrate_store(str(tmp_path / "memory.db"), MemoryModuleConfig(), roles=("a", "b"))
    assert not (tmp_path / "memory.db").exists()


async def test_a_reader_of_messages_hears_of_its_own_tenant(secured: str) -> None:
    """Also by the announcements, which every process of the database receives."""
    config, told = MemoryModuleConfig(bridge=BridgeConfig(enabled=True)), list[Message]()
    async with (
        open_memory(app(secured), config=config, embedder=WordEmbedder(), tenant="mine") as mine,
        open_memory(app(secured), embedder=WordEmbedder(), tenant="bank", background=False) as bank,
    ):
        await mine.on(None, told.append)
        assert await heard(mine, after=START) == []
        assert SECRET in {each.payload.get("content") for each in await heard(bank, after=START)}
        after = await end(mine)
        await bank.store_note(f"{SECRET} still")
        await mine.store_episode("tea", butler="b", importance=9)
        await until(lambda: len(told) == 2)
        assert [each.payload["content"] for each in told] == ["tea", "tea"], "an episode, and its fact by the bridge"
        assert await heard(mine, after=after) == told
