"""What is left of a memory that was deleted: no word or vector in any file, and no hash that can be guessed."""

import asyncio
import sqlite3
from contextlib import closing

import pytest
from administration import administer

from tulving import open_memory
from tulving.domain.scope import Caller
from tulving.domain.text import content_hash
from tulving.storage.sqlite import place as sqlite_place
from tulving.testing import SequentialIds, WordEmbedder
from tulving.workers.jobs import JOBS

WORD = "zanzibar"
TEXT = f"{WORD} trip"


async def maintain(memory, clock):
    return await JOBS["index_maintenance"].run(administer(memory), clock.now, "")


async def store(memory, kind, text=TEXT):
    stored = {
        "episode": lambda: memory.store_episode(text, butler="b"),
        "fact": lambda: memory.store_fact("user", "dreams_of", text),
        "rule": lambda: memory.store_rule(text),
    }
    return (await stored[kind]()).id


def files_with(path, *traces):
    """The files of the store that hold one of these, just as they lie there."""
    return [file.name for file in path.parent.iterdir() if any(trace in file.read_bytes() for trace in traces)]


async def fill(memory):
    """So many other memories that pages are split and segments are many."""
    for number in range(60):
        await memory.store_rule(f"rule {number} " + "of some length " * (number % 7 * 30))


@pytest.mark.parametrize("kind", ["episode", "fact", "rule"])
@pytest.mark.parametrize("edited", [False, True])
async def test_after_maintenance_no_file_has_a_deleted_word_or_vector(memory, path, sql, clock, kind, edited):
    await fill(memory)
    id_ = await store(memory, kind)
    (row,) = sql(f"SELECT embedding FROM {kind}s WHERE id = ?", id_)
    if edited:
        await memory.edit(kind, id_, content="somewhere else")
    await fill(memory)
    assert files_with(path, WORD.encode(), row["embedding"])
    await memory.delete(kind, id_)
    await maintain(memory, clock)
    assert files_with(path, WORD.encode(), row["embedding"]) == []
    assert (await administer(memory).verify()).ok


async def test_after_maintenance_no_file_has_a_word_that_the_cleanup_deleted(memory, path, clock):
    await store(memory, "episode")
    clock.advance(days=30)
    assert (await memory.run_episode_cleanup())["expired_deleted"] == 1
    await maintain(memory, clock)
    assert files_with(path, WORD.encode()) == []


async def test_maintenance_merges_only_where_words_were_deleted(memory, path, clock):
    id_ = await store(memory, "fact")
    await store(memory, "rule")
    assert (await maintain(memory, clock))["reindexed"] == []
    await memory.edit("fact", id_, importance=9)
    assert (await maintain(memory, clock))["reindexed"] == [], "no word was changed"
    await memory.edit("fact", id_, content="somewhere else")
    assert (await maintain(memory, clock))["reindexed"] == ["facts"]
    assert (await maintain(memory, clock))["reindexed"] == []
    await memory.delete("fact", id_)
    assert (await maintain(memory, clock))["reindexed"] == ["facts"]


async def test_a_log_that_a_reader_holds_is_emptied_by_a_later_maintenance(memory, path, clock, caplog, monkeypatch):
    monkeypatch.setattr(sqlite_place.Place.truncate_log, "__defaults__", (0.01,))
    id_ = await store(memory, "rule")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM rules").fetchall()
        await memory.delete("rule", id_)
        await maintain(memory, clock)
        assert "a reader holds it" in caplog.text
        assert files_with(path, WORD.encode())
    await maintain(memory, clock)
    assert files_with(path, WORD.encode()) == []


@pytest.mark.parametrize("by", ["delete", "cleanup"])
async def test_deleting_takes_what_an_interrupted_reembedding_made(memory, url, sql, clock, by):
    id_ = await store(memory, "episode")

    def stop(done, total):
        raise InterruptedError

    async with open_memory(url, embedder=WordEmbedder(32), clock=clock, may_reembed=True, background=False) as other:
        with pytest.raises(InterruptedError):
            await administer(other).reembed(stop)
    assert len(sql("SELECT memory_id FROM next_embeddings")) == 1
    if by == "delete":
        await memory.delete("episode", id_)
    else:
        clock.advance(days=30)
        await memory.run_episode_cleanup()
    assert sql("SELECT memory_id FROM next_embeddings") == []


# -- hashes ----------------------------------------------------------------------------------------------------


async def refute(memory, id_):
    for number in range(4):
        await memory.mark_harmful(id_, f"reason {number}")
    return await memory.invert_rule(id_)


async def test_no_event_holds_a_hash_that_can_be_guessed(memory, sql):
    """One who has an export, or subscribes, can't find out what a deleted memory said."""
    heard = []
    memory.subscribe(heard.extend)
    ids = {kind: await store(memory, kind) for kind in ("episode", "fact", "rule")}
    await memory.edit("fact", ids["fact"], content="other words")
    inverted = await refute(memory, ids["rule"])
    for kind, id_ in ids.items():
        await memory.delete(kind, id_)
    rows = sql("SELECT id, event_type, payload FROM memory_events ORDER BY seq")
    hashes = {row["event_type"]: row["payload"]["content_hash"] for row in rows if "content_hash" in row["payload"]}
    assert set(hashes) == {"episode_created", "fact_created", "fact_edited", "rule_created", "rule_inverted"}
    assert hashes["fact_created"] == hashes["rule_created"] != hashes["fact_edited"], "equal contents are seen to be"
    guesses = {content_hash(text) for text in (TEXT, "other words", inverted.content)}
    assert not guesses & set(hashes.values())
    assert {event.id: event.payload for event in heard} == {row["id"]: row["payload"] for row in rows}


async def test_each_tenant_has_a_key_of_its_own(memory, sql, tmp_path):
    for tenant in ("default", "other"):
        mine = memory.bind(caller=Caller(tenant))
        await store(mine, "rule")
        await store(mine, "fact")
    rows = sql("SELECT tenant_id, payload FROM memory_events")
    assert len({(row["tenant_id"], row["payload"]["content_hash"]) for row in rows}) == 2
    assert len({row["payload"]["content_hash"] for row in rows}) == 2
    secrets = {row["tenant_id"]: row["secret"] for row in sql("SELECT * FROM tenant_keys")}
    assert set(secrets) == {"default", "other"}
    assert len(set(secrets.values())) == 2
    await administer(memory).export(tmp_path / "all.jsonl")
    written = (tmp_path / "all.jsonl").read_text()
    assert TEXT in written
    assert not any(secret in written for secret in secrets.values())


async def test_of_several_first_keys_of_a_tenant_one_counts(memory, sql):
    """Each finds none and draws its own."""
    await asyncio.gather(*(memory.store_rule(TEXT) for _ in range(8)))
    hashes = {row["payload"]["content_hash"] for row in sql("SELECT payload FROM memory_events")}
    assert len(hashes) == len(sql("SELECT secret FROM tenant_keys")) == 1


async def test_the_same_calls_write_the_same_events(new_url, clock, embedder):
    written = []
    for _ in range(2):
        async with open_memory(new_url(), embedder=embedder, clock=clock, ids=SequentialIds()) as memory:
            id_ = await store(memory, "fact")
            written.append(await memory.events("fact", id_))
    assert written[0] == written[1]
