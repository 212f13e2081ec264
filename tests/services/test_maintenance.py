"""Embedder versions, re-embedding, verification, export and import."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest
from administration import administer

from tulving import (
    Caller,
    EmbedderMismatch,
    EmbedderUnavailable,
    IntegrityError,
    InvalidInput,
    NewEpisode,
    NewFact,
    open_memory,
)
from tulving.services.administration import MOST_ROUNDS, Administration
from tulving.testing import CLOSE, ManualClock, WordEmbedder


async def fill(memory):
    await memory.store_fact("user", "likes", "tea")
    await memory.store_fact("user", "likes", "coffee", tags=["drink"], metadata={"a": [1, None, "ü🙂"]})
    note = await memory.store_note("Trains are nice")
    rule = await memory.store_rule("offer coffee")
    episode = await memory.store_episode("coffee was served", butler="b", title="Break", session_id=rule.id)
    await memory.create_link("rule", rule.id, "episode", episode.id, "derived_from")
    await memory.forget("fact", note.id)


@pytest.mark.scenario("001-119")
async def test_the_embedder_is_recorded(memory, sql, clock):
    await memory.store_rule("greet")
    (version,) = sql("SELECT * FROM embedding_versions")
    assert version == {
        "number": 1,
        "model": "words",
        "version": "1",
        "dimension": 64,
        "status": "active",
        "created_at": clock.now,
    }
    assert sql("SELECT embedding_version FROM rules") == [{"embedding_version": 1}]


@pytest.mark.parametrize(
    "other",
    [WordEmbedder(32), WordEmbedder(model="other"), WordEmbedder(version="2")],
    ids=["size", "model", "version"],
)
async def test_another_embedder_is_refused(url, embedder, other):
    async with open_memory(url, embedder=embedder) as memory:
        await memory.store_rule("greet")
    with pytest.raises(EmbedderMismatch, match="tulving reembed"):
        async with open_memory(url, embedder=other):
            pass
    async with open_memory(url, embedder=embedder) as memory:
        assert len(await memory.search("greet", mode="semantic")) == 1


@pytest.mark.scenario("001-120")
async def test_reembedding_converts_everything(url, embedder, clock):
    async with open_memory(url, embedder=embedder, clock=clock) as memory:
        await fill(memory)
        other_tenant = memory.bind(caller=Caller("other"))
        await other_tenant.store_episodes([NewEpisode(content=f"word{n}", butler="b") for n in range(200)])
    new = WordEmbedder(32)
    steps = []
    async with open_memory(url, embedder=new, clock=clock, may_reembed=True) as memory:
        assert await administer(memory).reembed(lambda done, total: steps.append((done, total))) == 205
        assert steps[-1] == (205, 205)
        assert [hit.item.content for hit in await memory.search("coffee", mode="semantic", types=["fact"])] == [
            "coffee"
        ]
        assert (await administer(memory).verify()).ok
        assert await administer(memory).reembed() == 0, "nothing is left to do"
        assert await administer(memory).reembed(force=True) == 205
        await memory.store_rule("stored afterwards")
        assert (await administer(memory).verify()).ok
    with pytest.raises(EmbedderMismatch):
        async with open_memory(url, embedder=embedder):
            pass


async def test_a_process_left_behind_is_told(url, embedder, clock):
    """A process that has the store open with the old embedder neither mixes vectors in nor searches by them."""
    async with open_memory(url, embedder=embedder, clock=clock) as left_behind:
        await fill(left_behind)
        assert len(await left_behind.search("coffee", mode="semantic")) > 0
        async with open_memory(url, embedder=WordEmbedder(32), clock=clock, may_reembed=True) as converter:
            await administer(converter).reembed()
        with pytest.raises(EmbedderMismatch, match="open it again"):
            await left_behind.search("coffee")
        with pytest.raises(EmbedderMismatch, match="open it again"):
            await left_behind.store_rule("greet")
        assert len(await left_behind.search("coffee", mode="keyword")) > 0


async def test_what_is_stored_during_a_conversion_is_converted_too(url, embedder, clock):
    async with (
        open_memory(url, embedder=embedder, clock=clock) as writer,
        open_memory(url, embedder=WordEmbedder(32), clock=clock, may_reembed=True) as converter,
    ):
        await fill(writer)
        late = []

        def store_another(done: int, total: int) -> None:
            if not late:
                late.append(asyncio.get_running_loop().create_task(writer.store_rule("a latecomer")))

        assert await administer(converter).reembed(store_another) in (5, 6)
        await asyncio.wait(late)
        if late[0].exception() is None:
            assert len(await converter.search("latecomer", mode="semantic", types=["rule"])) == 2
        assert (await administer(converter).verify()).ok


KILLED = """
import asyncio, os, signal, sys
from tulving import open_administration
from tulving.testing import ManualClock, WordEmbedder

async def main():
    opened = open_administration(sys.argv[1], embedder=WordEmbedder(32), clock=ManualClock(), may_reembed=True)
    async with opened as administration:
        def progress(done, total):
            if done >= int(sys.argv[2]):
                os.kill(os.getpid(), signal.SIGKILL)
        await administration.reembed(progress)

asyncio.run(main())
"""


@pytest.mark.scenario("001-120")
async def test_a_conversion_ends_however_much_is_written_concurrently(url, embedder, clock, monkeypatch):
    convert = Administration._convert
    async with (
        open_memory(url, embedder=embedder, clock=clock) as writer,
        open_memory(url, embedder=WordEmbedder(32), clock=clock, may_reembed=True, background=False) as converter,
    ):
        await writer.store_rule("there before")
        attempts = 0

        async def convert_too_late(self, version, progress):
            nonlocal attempts
            await convert(self, version, progress)
            await writer.store_rule(f"late {attempts}")
            attempts += 1

        monkeypatch.setattr(Administration, "_convert", convert_too_late)
        assert await administer(converter).reembed() == 1 + MOST_ROUNDS
        assert attempts == MOST_ROUNDS
        assert await converter.count_pending() == 0
        assert len(await converter.search("late", mode="semantic")) == 1 + MOST_ROUNDS
        assert (await administer(converter).verify()).ok


@pytest.mark.scenario("001-120")
async def test_a_killed_conversion_is_continued(url, embedder, clock):
    async with open_memory(url, embedder=embedder, clock=clock) as memory:
        await memory.store_episodes([NewEpisode(content=f"word{n}", butler="b") for n in range(300)])
    killed = subprocess.run([sys.executable, "-c", KILLED, url, "128"], env={**os.environ})
    assert killed.returncode == -signal.SIGKILL
    async with open_memory(url, embedder=embedder, clock=clock) as memory:
        assert len(await memory.search("word7", mode="semantic", limit=1)) == 1, "the old vectors are still in use"
        assert (await administer(memory).verify()).ok
    new, steps = WordEmbedder(32), []
    async with open_memory(url, embedder=new, clock=clock, may_reembed=True) as memory:
        await administer(memory).reembed(lambda done, total: steps.append(done))
        assert steps[0] > 128, "what was done before the kill is not done again"
        (hit,) = await memory.search("word7", mode="semantic", limit=1)
        assert hit.parts["similarity"] == pytest.approx(1.0, abs=CLOSE)
        assert (await administer(memory).verify()).ok


async def test_reembedding_needs_the_embedder(url, embedder):
    async with open_memory(url, embedder=embedder) as memory:
        await memory.store_rule("greet")
    new = WordEmbedder(32)
    new.problem = "no weights: run `tulving init`"
    async with open_memory(url, embedder=new, may_reembed=True) as memory:
        with pytest.raises(EmbedderUnavailable, match="tulving init"):
            await administer(memory).reembed()


async def test_waiting_memories_get_their_vectors_in_the_background(url, embedder):
    embedder.problem = "not yet"
    async with open_memory(url, embedder=embedder) as memory:
        await memory.store_episodes([NewEpisode(content=f"word{n}", butler="b") for n in range(150)])
        verification = await administer(memory).verify()
        assert (verification.ok, verification.pending) == (True, 150)
    embedder.problem = None
    async with open_memory(url, embedder=embedder, background=False) as memory:
        assert await memory.count_pending() == 150
    async with open_memory(url, embedder=embedder) as memory:
        for _ in range(500):
            if not await memory.count_pending():
                break
            await asyncio.sleep(0.01)
        assert await memory.count_pending() == 0
        assert len(await memory.search("word3", mode="semantic", limit=1)) == 1


async def problems(memory):
    return {
        finding.check: finding.problems for finding in (await administer(memory).verify()).findings if finding.problems
    }


async def test_verify_tells_which_check_it_is_at(memory):
    told = []
    verified = await administer(memory).verify(lambda *at: told.append(at))
    stored = [finding.check for finding in verified.findings if finding.check != "embedder"]
    assert told == [(done, len(stored), name) for done, name in enumerate(stored)]


async def test_verify_finds_what_is_wrong(memory, sql):
    await fill(memory)
    await memory.search("coffee")
    assert (await administer(memory).verify()).ok
    sql("UPDATE episodes SET content = 'cocoa was served'")
    assert list(await problems(memory)) == ["contents"]
    sql("UPDATE episodes SET content = 'coffee was served'")
    sql("UPDATE rules SET embedding_version = 7")
    assert list(await problems(memory)) == ["vectors"]
    sql("UPDATE rules SET embedding_version = 1")
    sql("UPDATE facts SET embedding = NULL, embedding_version = NULL WHERE content = 'coffee'")
    assert "vectors" not in await problems(memory), "it waits for its vector"
    sql("DELETE FROM episodes")
    assert "links" in await problems(memory)
    assert "runs" not in await problems(memory)
    run = memory._env.ids()
    sql("UPDATE rules SET run_id = ?", run)
    assert str(run) in (await problems(memory))["runs"][0]
    sql(
        "INSERT INTO episodes (tenant_id, id, butler, content, content_hash, search_text, created_at, updated_at)"
        " VALUES ('default', '00000000-0000-0000-0000-0000000000ff', 'b', 'c', 'h', '', '2026-01-01', '2026-01-01')"
    )
    assert "audit events" in await problems(memory)


async def test_verify_finds_what_is_wrong_with_the_indexes_of_a_file(memory, path, sql):
    await fill(memory)
    await memory.search("coffee")
    sql("INSERT INTO rules_fts (rowid, search_text) SELECT num, 'other words' FROM rules")
    assert list(await problems(memory)) == ["keyword index"]
    sql("INSERT INTO rules_fts (rules_fts) VALUES ('rebuild')")
    sql("UPDATE facts SET embedding = zeroblob(256) WHERE content = 'coffee'")
    assert list(await problems(memory)) == ["vector index"]
    sql("UPDATE facts SET embedding = zeroblob(8) WHERE content = 'coffee'")
    assert "vectors" in await problems(memory)


async def test_export_and_import_lose_nothing(memory, new_url, tmp_path, embedder, clock):
    await fill(memory)
    counts = await memory.export(tmp_path / "a.jsonl")
    assert counts["facts"] == 3 and counts["memory_events"] > 5
    async with open_memory(new_url(), embedder=embedder, clock=clock) as other:
        added = await other.import_(tmp_path / "a.jsonl")
        assert {table: part["added"] for table, part in added.items()} == counts
        assert [hit.item for hit in await other.search("coffee")] == [hit.item for hit in await memory.search("coffee")]
        assert (await administer(other).verify()).ok
        again = await other.import_(tmp_path / "a.jsonl")
        assert all(part["added"] == 0 for part in again.values())
        await other.export(tmp_path / "b.jsonl")
    assert (tmp_path / "a.jsonl").read_text() == (tmp_path / "b.jsonl").read_text()


async def test_what_was_deleted_is_found_again_once_it_is_imported(memory, url, tmp_path, embedder, clock):
    """By everybody who has the store open: its events are there already, so they do not tell."""
    stored = await memory.store_rule("brew tea")
    await memory.export(tmp_path / "a.jsonl")
    await memory.delete("rule", stored.id)
    async with open_memory(url, embedder=embedder, clock=clock) as other:
        for opened in (memory, other):
            assert not await opened.search("tea", mode="semantic")
        await memory.import_(tmp_path / "a.jsonl")
        for opened in (memory, other):
            (hit,) = await opened.search("tea", mode="semantic")
            assert hit.item.id == stored.id
            assert (await administer(opened).verify()).ok


async def test_imports_are_counted_from_zero_again(memory, path, sql, tmp_path):
    stored = await memory.store_rule("brew tea")
    await memory.export(tmp_path / "a.jsonl")
    sql("PRAGMA user_version = 2147483646")
    for _ in range(2):
        await memory.delete("rule", stored.id)
        assert not await memory.search("tea", mode="semantic")
        await memory.import_(tmp_path / "a.jsonl")
        assert len(await memory.search("tea", mode="semantic")) == 1
    assert sql("PRAGMA user_version") == [{"user_version": 1}]


async def test_an_export_goes_into_another_tenant_or_all_of_them(memory, new_url, tmp_path, embedder):
    await fill(memory)
    guest = memory.bind(caller=Caller("guest"))
    await guest.store_rule("guests only")
    await memory.export(tmp_path / "mine.jsonl")
    await administer(memory).export(tmp_path / "all.jsonl")
    assert "guests only" not in (tmp_path / "mine.jsonl").read_text()
    async with open_memory(new_url(), embedder=embedder, tenant="moved") as other:
        await other.import_(tmp_path / "mine.jsonl")
        assert (await other.list_memories("rule")).items[0].tenant_id == "moved"
        with pytest.raises(InvalidInput, match="several tenants"):
            await other.import_(tmp_path / "all.jsonl")
        await administer(other).import_(tmp_path / "all.jsonl")
        as_guest = other.bind(caller=Caller("guest"))
        assert [item.content for item in (await as_guest.list_memories("rule")).items] == ["guests only"]


async def test_vectors_of_another_embedder_are_recomputed(memory, new_url, tmp_path):
    await fill(memory)
    await memory.export(tmp_path / "a.jsonl")
    async with open_memory(new_url(), embedder=WordEmbedder(32), clock=ManualClock()) as other:
        await other.import_(tmp_path / "a.jsonl")
        assert await other.count_pending() == 0
        assert len(await other.search("coffee", mode="semantic", types=["rule"])) == 1
        assert (await administer(other).verify()).ok


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("not json", "line 3: is not JSON"),
        ("[]", "line 3: is not a row"),
        ('{"table": "users", "row": {}}', "line 3: is not a row"),
        ('{"table": "rules", "row": {"id": 1}}', "line 3: has missing or unknown columns"),
    ],
)
async def test_a_bad_import_changes_nothing(memory, new_url, tmp_path, embedder, line, problem):
    await memory.store_rule("fine")
    await memory.export(tmp_path / "a.jsonl")
    header, first, *_ = (tmp_path / "a.jsonl").read_text().splitlines()
    (tmp_path / "b.jsonl").write_text("\n".join([header, first, line]))
    async with open_memory(new_url(), embedder=embedder) as other:
        with pytest.raises(InvalidInput, match=problem):
            await other.import_(tmp_path / "b.jsonl")
        assert (await other.list_memories("rule")).items == []
        for wrong in ("", "{}\n", "\n"):
            (tmp_path / "c.jsonl").write_text(wrong)
            with pytest.raises(InvalidInput):
                await other.import_(tmp_path / "c.jsonl")


async def test_an_import_never_overwrites(memory, new_url, tmp_path, embedder):
    await memory.store_fact("user", "likes", "tea")
    await memory.export(tmp_path / "a.jsonl")
    async with open_memory(new_url(), embedder=embedder) as other:
        mine = await other.store_fact("user", "likes", "coffee")
        with pytest.raises(IntegrityError, match=r"line 2: facts .* can't be put beside what is stored"):
            await other.import_(tmp_path / "a.jsonl")
        assert (await other.get("fact", mine.id)).validity == "active"


async def test_a_foreign_tenant_cannot_be_smuggled_in(memory, tmp_path):
    await memory.store_rule("fine")
    await memory.export(tmp_path / "a.jsonl")
    header, *rows = (tmp_path / "a.jsonl").read_text().splitlines()
    forged = [json.loads(row) for row in rows]
    for row in forged:
        row["row"]["tenant_id"] = "victim"
    (tmp_path / "b.jsonl").write_text("\n".join([header, *map(json.dumps, forged)]))
    with pytest.raises(InvalidInput, match="belongs to the tenant 'victim'"):
        await memory.import_(tmp_path / "b.jsonl")


@pytest.mark.scenario("001-120")
async def test_a_store_re_embedded_with_the_same_embedder_stays_open_to_all(memory, url, clock):
    """Other processes have the store open; all that changed for them is a number."""
    old = await memory.store_fact("user", "likes", "green tea")
    edited = await memory.store_episode("something else", butler="b")
    async with open_memory(url, embedder=WordEmbedder(), clock=clock) as other:
        assert len(await other.search("green tea", mode="semantic", types=["fact"])) == 1
        for _ in range(2):
            assert await administer(memory).reembed(force=True) >= 2
        for mode in ("semantic", "hybrid", "keyword"):
            assert (await other.search("green tea", mode=mode))[0].item.id == old.id
        assert (await other.recall("green tea"))[0].item.id == old.id
        assert "green tea" in await other.context("green tea", butler="b")
        new = await other.store_facts([NewFact(subject="user", predicate="drinks", content="black tea")])
        rule = await other.store_rule("serve black tea")
        await other.edit("episode", edited.id, content="a cup of black tea")
        found = {hit.item.id for hit in await memory.search("black tea", mode="semantic")}
        assert {new[0].id, rule.id, edited.id} <= found
        assert (await administer(memory).verify()).ok


async def test_memories_that_wait_get_their_vector_after_a_re_embedding(memory, url, clock):
    late = WordEmbedder()
    async with open_memory(url, embedder=late, clock=clock, background=False) as other:
        late.problem = "not yet"
        stored = await other.store_rule("serve black tea")
        late.problem = None
        await memory.store_rule("something else")
        await administer(memory).reembed(force=True)
        await administer(memory)._write(
            lambda conn: conn.execute("UPDATE rules SET embedding = NULL, embedding_version = NULL")
        )
        assert await other.embed_pending() == 2
        assert (await memory.search("black tea", mode="semantic"))[0].item.id == stored.id
        assert (await administer(memory).verify()).ok


async def test_a_store_re_embedded_with_another_embedder_says_so(memory, url, clock):
    await memory.store_rule("serve black tea")
    new = WordEmbedder(model="other words", dimension=32)
    async with open_memory(url, embedder=new, clock=clock, may_reembed=True) as other:
        await administer(other).reembed()
        told = r"vectors of other words 1 \(32 dimensions\)|re-embedded with another embedder \(.* 32 and 64\)"
        with pytest.raises(EmbedderMismatch, match=told):
            await memory.search("black tea")
        with pytest.raises(EmbedderMismatch, match=told):
            await memory.store_rule("serve green tea")
        assert len((await other.list_memories("rule")).items) == 1, "nothing is half stored"
