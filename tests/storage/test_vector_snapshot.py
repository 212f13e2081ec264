"""Snapshots of a large vector index: written as a whole, used when they fit, ignored when they don't."""

import asyncio
import fcntl
import json
import logging
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fault_parts import Children, said, wait_for
from raw_sql import in_thread
from vector_parts import CONFIG, ROWS, Dense, fill, found, matrix_of, texts

from tulving import Caller, Memory, open_memory
from tulving.storage.durable_file import locked
from tulving.storage.sqlite import database, partition, vector_snapshot
from tulving.storage.sqlite.vector_snapshot import Snapshots

QUERIES = texts(3, seed=7)


def opened(path: Path, **parts: Any) -> Any:
    parts = {"config": CONFIG, "embedder": Dense(), "background": False, "create": "folders"} | parts
    return open_memory(str(path), **parts)


def folder(path: Path) -> Path:
    return path.with_name("memory.db.work") / "semantic-index"


def snapshot(path: Path) -> Path:
    (file,) = folder(path).glob("*.hnsw")
    return file


async def answers(memory: Memory) -> list[Any]:
    return [await found(memory, query) for query in QUERIES]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, list[Any]]:
    """A closed store with a snapshot, to be copied, and what it answers."""
    path = tmp_path_factory.mktemp("made") / "memory.db"

    async def make() -> list[Any]:
        async with opened(path) as memory:
            await fill(memory)
            return await answers(memory)

    return path, in_thread(make())


@pytest.fixture
def kept(made, path: Path) -> list[Any]:
    """The same store at the path of the test."""
    shutil.copytree(made[0].parent, path.parent, dirs_exist_ok=True)
    return made[1]


@pytest.fixture
def loads(monkeypatch) -> list[str]:
    """Which kinds were read from their rows."""
    read = partition.Partition._read
    kinds: list[str] = []
    monkeypatch.setattr(partition.Partition, "_read", lambda self, *args: [kinds.append(args[1]), read(self, *args)][1])
    return kinds


# -- kept and used ---------------------------------------------------------------------------------------------------


@pytest.mark.scenario("002-008")
async def test_closing_keeps_the_graph_and_opening_takes_it(path, kept, loads):
    assert snapshot(path).stat().st_mode & 0o777 == 0o600
    async with opened(path) as memory:
        (finding,) = (each for each in await memory._env.store.health() if each.check == "vector index")
        assert finding.note == "260 vectors; the graph is loaded at the first search"
        assert await answers(memory) == kept
        assert loads == ["fact", "rule"], "episodes come from the snapshot"
        assert matrix_of(memory).linked == ROWS and memory._env.store.vectors.progress() == (ROWS, ROWS)
        assert await memory._env.store.read(None, memory._env.store.vectors.mismatches, 1, 64) == []


@pytest.mark.scenario("000-010")
async def test_maintenance_writes_it_and_what_happened_since_is_followed(path, kept, loads):
    """Also what another process has done, and what was deleted."""
    async with opened(path) as memory:
        await answers(memory)
        before = snapshot(path).stat().st_ino
        await memory._env.store.reindex(only_outgrown=True)
        assert snapshot(path).stat().st_ino == before, "nothing has changed"
        first = (await memory.store_episode(QUERIES[0], butler="b")).id
        await memory._env.store.reindex(only_outgrown=True)
        (before, old) = snapshot(path).stat().st_ino, before
        assert before != old
        await memory._env.store.ready()
        await memory._env.store.reindex(only_outgrown=True)
        now = snapshot(path).stat().st_ino
        await memory._env.store.reindex(only_outgrown=True)
        assert snapshot(path).stat().st_ino == now, "all is kept"
    async with opened(path) as other:
        second = (await other.store_episode(QUERIES[1], butler="b")).id
        await other.delete("episode", kept[2][0][0])
    loads.clear()
    async with opened(path) as memory:
        one, two, three = await answers(memory)
        assert (one[0][0], two[0][0]) == (str(first), str(second))
        assert three[:9] == kept[2][1:]
        assert loads == ["fact", "rule"]


async def test_few_changes_are_not_worth_a_snapshot_at_the_end(path, kept):
    before = snapshot(path).read_bytes()
    for changes, written in ((1, False), (3, True)):
        async with opened(path) as memory:
            for text in texts(changes, seed=changes):
                await memory.store_episode(text, butler="b")
            await answers(memory)
            await memory._env.store.ready()
        assert (snapshot(path).read_bytes() != before) is written


async def test_what_was_deleted_or_replaced_is_in_no_snapshot(path, kept):
    """Neither as it was stored nor as the graph has it."""
    async with opened(path) as memory:
        await answers(memory)
        matrix = matrix_of(memory)
        gone = [id_ for id_, _ in kept[0][:4]]
        traces = [matrix._codes[at].tobytes() for at in matrix.places(gone)]
        traces += [matrix.graph._index.get(at).tobytes() for at in matrix.places(gone)]
        assert all(trace in snapshot(path).read_bytes() for trace in traces)
        for id_ in gone:
            await memory.delete("episode", id_)
        await memory._env.store.reindex(only_outgrown=True)
        left = snapshot(path).read_bytes()
        assert not any(trace in left for trace in traces) and not any(id_.encode() in left for id_ in gone)
        expected = await answers(memory)
    async with opened(path) as memory:
        assert await answers(memory) == expected
        assert matrix_of(memory).graph.dead == 4


async def test_a_process_that_does_not_search_cleans_up_too(path, kept):
    (gone, _), *_ = kept[0]
    async with opened(path) as memory:
        await memory.delete("episode", gone)
        assert gone.encode() in snapshot(path).read_bytes()
        await memory._env.store.reindex(only_outgrown=True)
        assert gone.encode() not in snapshot(path).read_bytes()


async def test_snapshots_of_what_became_small_are_removed(path, kept):
    """With what killed attempts and other programs left."""
    (folder(path) / "x.hnsw.part").mkdir()
    (folder(path) / "x.hnsw.part" / "file").write_bytes(b"secret")
    (folder(path) / "other.hnsw").write_bytes(b"no snapshot")
    async with opened(path) as memory:
        ids = [item.id for item in (await memory.list_memories("episode", limit=1000)).items]
        for id_ in ids[: ROWS - 50]:
            await memory.delete("episode", id_)
        await memory._env.store.reindex(only_outgrown=True)
        assert list(folder(path).iterdir()) == []
        assert len(await found(memory, QUERIES[0], limit=100)) == 50


async def test_reindexing_starts_from_the_rows(path, kept, loads):
    """As a repair: rows that were changed behind our back have no event."""
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("DELETE FROM episodes WHERE id = ?", (kept[0][0][0],))
    async with opened(path) as memory:
        await answers(memory)
        mismatches = memory._env.store.vectors.mismatches
        assert await memory._env.store.read(None, mismatches, 1, 64) != []
        await memory._env.store.reindex()
        assert list(folder(path).iterdir()) == []
        loads.clear()
        assert (await answers(memory))[0] != kept[0] and loads == ["episode", "fact", "rule"]
        assert await memory._env.store.read(None, mismatches, 1, 64) == []


async def test_each_tenant_has_its_own_and_no_file_is_named_after_it(path):
    async with opened(path) as memory:
        await fill(memory)
        await fill(memory.bind(caller=Caller("Ms. Secret/..\\")), seed=2)
        await memory._env.store.reindex(only_outgrown=True)
    files = sorted(file.name for file in folder(path).iterdir())
    assert len(files) == 2 and all(name.endswith("-episode.hnsw") for name in files)
    assert not any("ecret" in name or "default" in name for name in files)
    # Whatever file is where: it says whose it is, and of what.
    shutil.copy(folder(path) / files[0], folder(path) / files[1])
    for name in files:
        shutil.copy(folder(path) / files[0], folder(path) / name.replace("episode", "fact"))
    async with opened(path) as memory:
        for tenant, seed in (("default", 1), ("Ms. Secret/..\\", 2)):
            mine = memory.bind(caller=Caller(tenant))
            hits = await mine.search(texts(1, seed)[0], mode="semantic", limit=5)
            assert hits[0].item.content == texts(1, seed)[0] and {hit.item.tenant_id for hit in hits} == {tenant}
        assert [each.matrices["fact"].ids for each in memory._env.store.vectors._cached()] == [[], []]


# -- ignored ---------------------------------------------------------------------------------------------------------


def regions(content: bytes) -> dict[str, int]:
    """A place in each region of a snapshot."""
    _, _, length, _ = vector_snapshot._START.unpack_from(content)
    at = vector_snapshot._START.size
    found = {"magic": 3, "format": 8, "length of the header": 12, "checksum": 17, "header": at + length // 2}
    at += length
    for name, (size, _) in json.loads(content[at - length : at])["parts"].items():
        found |= {f"{name}, begin": at, f"{name}, middle": at + size // 2, f"{name}, end": at + size - 1}
        at += size
    return found


async def test_damage_in_any_region_is_noticed(path, kept, caplog):
    whole = snapshot(path).read_bytes()
    damages = {name: flipped(whole, at, 1 << (at % 8)) for name, at in regions(whole).items()}
    damages |= {f"cut at {size}": whole[:size] for size in (0, 1, 19, 20, 300, len(whole) // 2, len(whole) - 1)}
    damages |= {"longer": whole + b"\0", "zeros": bytes(len(whole))}
    snapshots, tenant = Snapshots(folder(path)), "default"
    assert snapshots.read(tenant, "episode", lambda reach: None) is not None
    for name, content in damages.items():
        snapshot(path).write_bytes(content)
        caplog.clear()
        assert snapshots.read(tenant, "episode", lambda reach: None) is None, name
        assert "was ignored" in caplog.text and "was ignored" in snapshots.problem, name


async def test_one_of_an_older_release_is_ignored(path, kept, loads):
    """Its rows have another form."""
    whole = bytearray(snapshot(path).read_bytes())
    whole[8:12] = (1).to_bytes(4, "little")
    snapshot(path).write_bytes(whole)
    loads.clear()
    async with opened(path) as memory:
        assert await answers(memory) == kept and loads == ["episode", "fact", "rule"]
        assert "its format is 1, not 2" in memory._env.store.vectors._snapshots.problem


def flipped(content: bytes, at: int, bit: int) -> bytes:
    return content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :]


async def test_a_damaged_one_is_built_again_and_health_tells(path, kept, caplog):
    whole = snapshot(path).read_bytes()
    snapshot(path).write_bytes(flipped(whole, len(whole) // 2, 4))
    async with opened(path) as memory:
        assert await answers(memory) == kept, "exact meanwhile"
        await memory._env.store.ready()
        assert memory._env.store.vectors.progress() == (ROWS, ROWS)
        (finding,) = (each for each in await memory._env.store.health() if each.check == "vector index")
        assert "was ignored: it is damaged" in finding.note and not finding.problems
        assert [each.levelno for each in caplog.records] == [logging.WARNING]
    assert Snapshots(folder(path)).read("default", "episode", lambda reach: None), "the next one is whole"


async def test_a_graph_that_can_not_be_read_is_built_again(path, kept, monkeypatch):
    """Its checksum is right, but another version of usearch may have written it."""
    read = Snapshots.read

    def strange(self, *args):
        return (found := read(self, *args)) and (found[0], {**found[1], "graph": bytearray(b"\xff" * 500)})

    monkeypatch.setattr(Snapshots, "read", strange)
    async with opened(path) as memory:
        assert await answers(memory) == kept
        assert "was ignored" in memory._env.store.vectors._snapshots.problem


async def stale_import(path: Path) -> str:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA user_version = 7")
    return "memories were imported or embedded again"


async def stale_embedder(path: Path) -> str:
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("UPDATE embedding_versions SET created_at = '2020-01-01T00:00:00.000000+00:00'")
    return "memories were imported or embedded again"


async def stale_far(path: Path) -> str:
    async with opened(path) as memory:
        for text in texts(70, seed=3):
            await memory.store_episode(text, butler="b")
    return "too much has changed since then"


async def test_a_fourth_of_the_rows_may_change(path, kept, loads, monkeypatch):
    monkeypatch.setattr(partition, "RELOAD_ABOVE", 20)
    async with opened(path) as memory:
        stored = [await memory.store_episode(text, butler="b") for text in texts(60, seed=3)]
    async with opened(path) as memory:
        assert (await found(memory, texts(60, seed=3)[-1], limit=1))[0][0] == str(stored[-1].id)
    assert loads == ["fact", "rule"]


@pytest.mark.parametrize("change", [stale_import, stale_embedder, stale_far])
async def test_a_stale_one_is_ignored(path, kept, change, loads, monkeypatch):
    monkeypatch.setattr(partition, "RELOAD_ABOVE", 20)
    problem = await change(path)
    loads.clear()
    async with opened(path) as memory:
        await answers(memory)
        assert loads == ["episode", "fact", "rule"]
        assert problem in memory._env.store.vectors._snapshots.problem


async def test_the_snapshot_of_another_history_is_ignored(path, kept, loads):
    """The file was restored from a backup, and other things happened since."""
    backup = path.read_bytes()
    async with opened(path) as memory:
        await memory.store_episode("this was lost", butler="b")
        await memory._env.store.reindex(only_outgrown=True)
    path.write_bytes(backup)
    loads.clear()
    async with opened(path) as memory:
        await memory.store_episode(QUERIES[0], butler="b")
        (best, *_), *_ = await answers(memory)
        assert best[1] == 1.0 and loads == ["episode", "fact", "rule"]
        assert "replaced by another" in memory._env.store.vectors._snapshots.problem
        assert await memory._env.store.read(None, memory._env.store.vectors.mismatches, 1, 64) == []


def test_a_store_that_may_only_be_read_writes_none(tmp_path):
    snapshots = Snapshots(tmp_path / "index", writable=False)
    assert not snapshots.write("default", "fact", lambda file: None)
    snapshots.remove("default", "fact")
    snapshots.clear()
    assert list(snapshots.reaches()) == [] and not (tmp_path / "index").exists()


async def test_nothing_is_written_beside_a_file_that_may_only_be_read(path, kept, monkeypatch):
    monkeypatch.setattr(database, "is_frozen", lambda path: True)
    snapshot(path).unlink()
    async with opened(path) as memory:
        assert await answers(memory) == kept
        await memory._env.store.ready()
        assert memory._env.store.vectors.progress() == (ROWS, ROWS)
    assert list(folder(path).iterdir()) == []


async def test_no_room_for_a_snapshot_is_no_reason_to_fail(path, caplog):
    async with opened(path) as memory:
        await fill(memory)
        folder(path).parent.mkdir(exist_ok=True)
        folder(path).write_bytes(b"a file where the folder should be")
        await memory._env.store.reindex(only_outgrown=True)
    assert "no snapshot of the vector index was written" in caplog.text


# -- several processes, and sudden ends ------------------------------------------------------------------------------


async def test_two_writers_leave_a_whole_one(path, kept):
    async with opened(path) as one, opened(path) as two:
        for number in range(4):
            await asyncio.gather(*(each.store_episode(f"word{number} new", butler="b") for each in (one, two)))
            await asyncio.gather(*(each._env.store.reindex(only_outgrown=True) for each in (one, two)))
            assert Snapshots(folder(path)).read("default", "episode", lambda reach: None)
    assert [file.name for file in folder(path).iterdir()] == [snapshot(path).name]


async def test_nobody_waits_for_a_graph_when_the_store_is_closed(path, kept):
    """As one who still reads the rows meanwhile would. A thread that waits for ever keeps its process from ending."""
    shutil.rmtree(folder(path))
    async with opened(path) as memory:
        vectors = memory._env.store.vectors
        vectors.close()
        await memory._env.store.read(None, vectors.load)
        assert not vectors._to_build.unfinished_tasks


async def test_one_writer_waits_for_another(tmp_path):
    snapshots = Snapshots(tmp_path)
    with locked(tmp_path, fcntl.LOCK_EX):
        waiting = asyncio.create_task(asyncio.to_thread(snapshots.write, "default", "fact", lambda file: None))
        await asyncio.sleep(0.05)
        assert not waiting.done() and not list(tmp_path.iterdir())
    assert await waiting


@pytest.mark.parametrize("moment", ["begun", "written", "synced", "before it is there", "there"])
async def test_a_kill_leaves_the_old_one_or_the_new_one(path, kept, moment, children: Children, tmp_path):
    before = snapshot(path).read_bytes()
    log = tmp_path / "said"
    assert children.wait(children.start("snapshot_and_die", log, path=str(path), moment=moment)) == -9
    assert said(log) == ["ready"]
    assert (snapshot(path).read_bytes() == before) is (moment != "there")
    assert Snapshots(folder(path)).read("default", "episode", lambda reach: None)
    async with opened(path) as memory:
        assert (await answers(memory)) == kept
        await memory._env.store.reindex(only_outgrown=True)
    assert [file.name for file in folder(path).iterdir()] == [snapshot(path).name], "nothing is left of the attempt"


@pytest.mark.soak
async def test_twenty_kills_at_any_moment(path, kept, children: Children, tmp_path):
    chance = random.Random(5)
    for number in range(20):
        log = tmp_path / f"said{number}"
        pid = children.start("snapshot_forever", log, path=str(path))
        wait_for(log, chance.randint(1, 4), pid)
        await asyncio.sleep(chance.random() * 0.1)
        children.kill(pid)
        assert Snapshots(folder(path)).read("default", "episode", lambda reach: None)
    async with opened(path) as memory:
        await answers(memory)
        assert await memory._env.store.read(None, memory._env.store.vectors.mismatches, 1, 64) == []
