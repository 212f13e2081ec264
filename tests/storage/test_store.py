"""The file: how it is made, and that an answer means it is written."""

import asyncio
import sqlite3
import stat
import threading

import pytest
from folders import trust_folder

from tulving import open_memory
from tulving.storage import events
from tulving.storage.kinds import KIND, MEMORY_TABLES
from tulving.storage.sqlite.database import APPLICATION_ID, HEAD


@pytest.mark.scenario("002-001")
async def test_a_store_is_made_with_its_folder_schema_and_keyword_index(tmp_path, embedder, monkeypatch):
    monkeypatch.setenv("TULVING_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tulving.toml").touch()
    trust_folder(tmp_path)
    path = tmp_path / ".tulving" / "memory.db"
    async with open_memory(embedder=embedder):
        pass
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert sorted(file.name for file in path.parent.iterdir()) == ["memory.db"], "no leftovers beside it"
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert raw.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert raw.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]
    for table in MEMORY_TABLES:
        assert raw.execute(f"SELECT bm25({table}_fts) FROM {table}_fts WHERE {table}_fts MATCH 'x'").fetchall() == []
    raw.close()


@pytest.mark.scenario("002-002")
async def test_an_answer_means_it_is_on_the_disk(memory, path):
    """Stronger than every 50 writes: each acknowledged write is read by another connection at once."""
    for number in range(3):
        stored = await memory.store_rule(f"rule {number}")
        raw = sqlite3.connect(path)
        assert raw.execute("SELECT count(*) FROM rules WHERE id = ?", (str(stored.id),)).fetchone() == (1,)
        raw.close()
    assert memory._env.store._writer.raw.execute("PRAGMA synchronous").fetchone() == (2,), "FULL"


async def test_a_store_is_reopened_as_it_was(path, embedder, clock):
    async with open_memory(path, embedder=embedder, clock=clock) as memory:
        stored = await memory.store_fact("user", "likes", "tea")
    before = path.read_bytes()
    async with open_memory(path, embedder=embedder, clock=clock) as memory:
        (hit,) = await memory.search("tea")
        assert hit.item.id == stored.id
    assert path.read_bytes() == before, "opening and searching writes nothing"


def test_the_tables_have_the_columns_of_the_model(memory, path, sql):
    for kind in KIND.values():
        names = {row["name"] for row in sql(f"PRAGMA table_xinfo({kind.table})")}
        assert names == {*kind.columns, "num", "search_text", "embedding", "embedding_version"}


async def test_statements_are_answered_by_indexes(memory, path, sql):
    """No verb reads a whole table, except the care of the whole store."""
    seen = []
    store = memory._env.store
    store._writer.raw.set_trace_callback(seen.append)
    await memory._read(lambda conn: conn.raw.set_trace_callback(seen.append))
    fact = (await memory.store_fact("user", "likes", "tea")).id
    await memory.store_fact("user", "likes", "coffee")
    await memory.store_note("trains")
    rule = (await memory.store_rule("greet", tags=["a"])).id
    await memory.create_link("rule", rule, "fact", fact, "supports")
    for _ in range(4):
        await memory.search("coffee trains", scope="x", tags=["a"])
        await memory.recall("coffee")
        await memory.list_memories("fact", state="any")
        await memory.list_memories("episode", scope="b")
        await memory.get_links("rule", rule)
        await memory.events("rule", rule)
    await memory.confirm("rule", rule)
    await memory.forget("rule", rule)
    await memory.delete("rule", rule)
    plans = {}
    for statement in set(seen):
        if statement.upper().lstrip().startswith(("SELECT", "UPDATE", "DELETE")):
            plans[statement] = [row["detail"] for row in sql(f"EXPLAIN QUERY PLAN {statement}")]
    scans = {
        statement: detail
        for statement, details in plans.items()
        for detail in details
        if detail.startswith("SCAN")
        and not any(fine in detail for fine in ("VIRTUAL TABLE", "CONSTANT ROW", "best", "_fts_config", "_unembedded"))
        and "embedding_versions" not in statement
    }
    assert len(plans) > 20
    assert scans == {}


@pytest.mark.scenario("001-105")
def test_the_file_allows_one_active_fact_for_each_key(memory, path, sql):
    """With an entity and without one, side by side."""
    unique = {row["sql"] for row in sql("SELECT sql FROM sqlite_master WHERE name LIKE 'ux_facts_%'")}
    keys = {"entity_id, scope, owner, predicate": "NOT NULL", "scope, owner, subject, predicate": "NULL"}
    for key, entity in keys.items():
        wanted = f"(tenant_id, {key}) WHERE validity = 'active' AND entity_id IS {entity} AND keyed"
        assert any(" ".join(each.split()).endswith(wanted) for each in unique), wanted


@pytest.mark.scenario("001-106")
async def test_the_file_has_each_link_once_and_of_a_known_relation(memory, path, sql):
    one, other = [(await memory.store_rule(text)).id for text in ("one", "other")]
    await memory.create_link("rule", one, "rule", other, "supports")
    insert = "INSERT INTO memory_links SELECT tenant_id, source_type, source_id, target_type, ?, ?, created_at"
    for target, relation, problem in ((other, "contradicts", "UNIQUE"), (one, "causes", "CHECK")):
        with pytest.raises(sqlite3.IntegrityError, match=problem):
            sql(f"{insert} FROM memory_links", str(target), relation)
    (index,) = sql("SELECT sql FROM sqlite_master WHERE name = 'ix_links_target'")
    assert index["sql"].endswith("(tenant_id, target_type, target_id)")


async def test_what_is_committed_is_published_though_its_caller_was_cancelled(memory, path, sql):
    published, begun, go_on = [], threading.Event(), threading.Event()
    memory.subscribe(published.extend)
    event = memory._audit(memory.now()).event("store_reembedded", "store", None)

    def work(conn):
        events.append(conn, event)
        begun.set()
        assert go_on.wait(10)

    writing = asyncio.ensure_future(memory._write(work))
    assert await asyncio.to_thread(begun.wait, 10)
    writing.cancel()
    await asyncio.wait({writing})
    go_on.set()
    await memory.store_rule("greet")  # the writer takes what comes after it
    assert [each.event_type for each in published] == ["store_reembedded", "rule_created"]
    assert len(sql("SELECT id FROM memory_events")) == 2
