"""Many threads and many processes on one file: no errors, nothing lost, everybody sees what the others did."""

import asyncio
import random
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any
from uuid import UUID

import pytest
from administration import administer
from fault_parts import DIMENSION, Children, everything, opened, problems, said

from tulving.domain.model import Fact, NewFact, NewRule
from tulving.errors import StoreUnavailable
from tulving.interfaces.blocking import BlockingMemory, open_memory_sync
from tulving.services.memory import Memory
from tulving.settings import MemoryModuleConfig
from tulving.storage.sqlite import database
from tulving.testing import WordEmbedder

CROWD = 8


@pytest.fixture
def path(new_store: Path) -> Path:
    return new_store


async def assert_all_there(path: Path, written: list[dict[str, str]]) -> None:
    """Each memory can be read and is found by both lanes, and there are no others."""
    async with opened(path) as memory:
        items = await everything(memory)
        assert sorted(map(str, items)) == sorted(line["id"] for line in written)

        async def sought(line: dict[str, str]) -> None:
            for mode in ("keyword", "semantic"):
                found = await memory.search(line["word"], types=[line["kind"]], mode=mode, limit=20)
                assert line["id"] in [str(hit.item.id) for hit in found], f"{line['word']} by {mode} search"

        await asyncio.gather(*map(sought, written))
        assert not problems(await administer(memory).verify())


async def store_some(memory: Memory, name: str, number: int) -> list[dict[str, str]]:
    written: list[dict[str, str]] = []
    for each in range(number):
        word = f"{name}x{each}"
        episode = await memory.store_episode(word, butler=name)
        fact = await memory.store_fact(name, f"number {each}", f"{word}f")
        (rule,) = await memory.store_rules([NewRule(content=f"{word}r")])
        assert [hit.item.id for hit in await memory.search(word, types=["episode"], mode="keyword")] == [episode.id]
        for kind, answer, text in (("episode", episode, word), ("fact", fact, f"{word}f"), ("rule", rule, f"{word}r")):
            written.append({"kind": kind, "id": str(answer.id), "word": text})
    return written


def in_threads(work: Callable[[str], Coroutine[Any, Any, list[dict[str, str]]]]) -> list[dict[str, str]]:
    """Run the work in eight threads, each with an event loop of its own, all starting together."""
    barrier = Barrier(CROWD)

    def one(number: int) -> list[dict[str, str]]:
        barrier.wait()
        return asyncio.run(work(f"thread{number}"))

    with ThreadPoolExecutor(CROWD) as pool:
        return [line for lines in pool.map(one, range(CROWD)) for line in lines]


def together(children: Children, folder: Path, job: str, path: Path, **args: Any) -> list[list[Any]]:
    """Let eight processes do a job, all starting together; what each of them said."""
    go = folder / "go"
    logs = [folder / f"child-{number}.log" for number in range(CROWD)]
    pids = [
        children.start(job, log, path=str(path), name=f"child{number}", go=str(go), **args)
        for number, log in enumerate(logs)
    ]
    time.sleep(0.2)
    go.touch()
    codes = [children.wait(pid) for pid in pids]
    answers = [said(log) for log in logs]
    assert codes == [0] * CROWD, answers
    return answers


# -- eight writers ---------------------------------------------------------------------------------------------


async def test_eight_threads_with_a_memory_each(path: Path) -> None:
    async def work(name: str) -> list[dict[str, str]]:
        async with opened(path) as memory:
            return await store_some(memory, name, 12)

    written = await asyncio.to_thread(in_threads, work)
    assert len(written) == CROWD * 12 * 3
    await assert_all_there(path, written)


async def test_eight_threads_with_one_memory(path: Path) -> None:
    async with opened(path) as memory:
        written = await asyncio.to_thread(in_threads, lambda name: store_some(memory, name, 12))
    assert len(written) == CROWD * 12 * 3
    await assert_all_there(path, written)


async def test_eight_threads_with_one_blocking_memory(path: Path) -> None:
    barrier = Barrier(CROWD)

    def one(memory: BlockingMemory, name: str) -> list[dict[str, str]]:
        barrier.wait()
        written = []
        for each in range(12):
            word = f"{name}x{each}"
            episode = memory.store_episode(word, butler=name)
            fact = memory.store_fact(name, f"number {each}", f"{word}f")
            assert [hit.item.id for hit in memory.search(word, types=["episode"], mode="keyword")] == [episode.id]
            written.append({"kind": "episode", "id": str(episode.id), "word": word})
            written.append({"kind": "fact", "id": str(fact.id), "word": f"{word}f"})
        return written

    def all_of_them() -> list[dict[str, str]]:
        parts = {"config": MemoryModuleConfig(), "embedder": WordEmbedder(DIMENSION)}
        with open_memory_sync(path, **parts) as memory, ThreadPoolExecutor(CROWD) as pool:
            threads = [pool.submit(one, memory, f"thread{number}") for number in range(CROWD)]
            return [line for thread in threads for line in thread.result()]

    written = await asyncio.to_thread(all_of_them)
    assert len(written) == CROWD * 12 * 2
    await assert_all_there(path, written)


async def test_eight_processes(path: Path, tmp_path: Path, children: Children) -> None:
    answers = await asyncio.to_thread(together, children, tmp_path, "store_many", path, number=12)
    written = [line for lines in answers for line in lines]
    assert len(written) == CROWD * 12 * 4
    await assert_all_there(path, written)


@pytest.mark.scenario("004-010")
async def test_one_key_written_by_eight_processes_has_one_active_fact(
    path: Path, tmp_path: Path, children: Children
) -> None:
    answers = await asyncio.to_thread(together, children, tmp_path, "store_same_key", path, number=10)
    lines = [line for lines in answers for line in lines]
    assert len(lines) == CROWD * 10
    assert Counter(line["outcome"] for line in lines) == {"stored": 1, "superseded": CROWD * 10 - 1}
    async with opened(path) as memory:
        facts = await everything(memory, ["fact"])
        assert {str(id_) for id_ in facts} == {line["id"] for line in lines}
        assert Counter(fact.validity for fact in facts.values()) == {"active": 1, "superseded": CROWD * 10 - 1}
        assert {line["id"]: line["superseded"] for line in lines} == {
            str(fact.id): str(fact.supersedes_id) if fact.supersedes_id else None for fact in facts.values()
        }
        assert chain_length(facts) == CROWD * 10
        found = await memory.search("lighthouse keeper", types=["fact"], limit=100)
        assert [hit.item.validity for hit in found] == ["active"]
        assert not problems(await administer(memory).verify())


def chain_length(facts: dict[UUID, Any]) -> int:
    """From the active fact back through all that it replaced, each exactly once."""
    (current,) = [fact for fact in facts.values() if fact.validity == "active"]
    seen: set[UUID] = set()
    while current is not None:
        assert current.id not in seen
        seen.add(current.id)
        current = None if current.supersedes_id is None else facts[current.supersedes_id]
    return len(seen)


@pytest.mark.scenario("004-010")
async def test_a_second_active_row_of_a_key_is_refused_by_the_database(path: Path) -> None:
    """Even plain SQL can't break the promise."""
    async with opened(path) as memory:
        stored = await memory.store_fact("the lighthouse", "keeper", "Ada")
    raw = sqlite3.connect(path, isolation_level=None)
    columns = [row[1] for row in raw.execute("PRAGMA table_info(facts)") if row[1] not in ("num", "id")]
    copied = f"INSERT INTO facts (id, {', '.join(columns)}) SELECT 'another', {', '.join(columns)} FROM facts"
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        raw.execute(copied)
    assert raw.execute("SELECT id FROM facts").fetchall() == [(str(stored.id),)]
    raw.close()


# -- what another process did is seen --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["keyword", "semantic", "hybrid"])
async def test_a_search_sees_what_another_process_just_did(
    path: Path, tmp_path: Path, children: Children, mode: str
) -> None:
    """Store, replace, forget and delete elsewhere; each is seen by the next search here, in every lane."""
    number = iter(range(100))

    def elsewhere(verb: str, **args: Any) -> Any:
        log = tmp_path / f"call-{next(number)}.log"
        return children.run("call", log, path=str(path), verb=verb, args=args)[0]

    async with opened(path) as memory:

        async def seen(words: str) -> set[str]:
            return {hit.item.content for hit in await memory.search(words, mode=mode, limit=50)}

        await memory.store_fact("heron", "colour", "plain heron grey")
        assert await seen("heron") == {"plain heron grey"}

        episode = elsewhere("store_episode", content="a heron landed", butler="b")
        rule = elsewhere("store_rule", content="never feed a heron")
        assert await seen("heron") == {"plain heron grey", "a heron landed", "never feed a heron"}

        fact = elsewhere("store_fact", subject="heron", predicate="colour", content="heron white")
        assert await seen("heron") == {"heron white", "a heron landed", "never feed a heron"}

        assert elsewhere("forget", memory_type="episode", memory_id=episode) is True
        assert await seen("heron") == {"heron white", "never feed a heron"}

        assert elsewhere("delete", memory_type="rule", memory_id=rule) is True
        assert await seen("heron") == {"heron white"}

        assert elsewhere("forget", memory_type="fact", memory_id=fact) is True
        assert await seen("heron") == set()

        elsewhere("store_fact", subject="heron", predicate="colour", content="heron once more")
        assert await seen("heron") == {"heron once more"}
        assert not problems(await administer(memory).verify())


# -- a file that does not exist yet ----------------------------------------------------------------------------


async def test_eight_processes_create_one_file(tmp_path: Path, children: Children, empty_store: Path) -> None:
    path = tmp_path / "deep" / "down" / "memory.db"
    answers = await asyncio.to_thread(together, children, tmp_path, "open_and_store", path)
    assert schema(path) == schema(empty_store)
    async with opened(path) as memory:
        items = await everything(memory)
        assert {str(id_) for id_ in items} == {line["id"] for lines in answers for line in lines}
        assert len(items) == CROWD
        assert not problems(await administer(memory).verify())
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def schema(path: Path) -> list[tuple[str, ...]]:
    raw = sqlite3.connect(path)
    rows = raw.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").fetchall()
    versions = raw.execute("SELECT version_num FROM alembic_version").fetchall()
    raw.close()
    return [*rows, *versions]


async def test_a_kill_while_the_file_is_created_leaves_none_or_a_whole_one(tmp_path: Path, children: Children) -> None:
    moments = random.Random(6)
    begun = time.monotonic()
    children.run("open_and_store", tmp_path / "timing.log", path=str(tmp_path / "timing" / "memory.db"), name="timing")
    longest = min(0.4, 1.2 * (time.monotonic() - begun))
    for number in range(8):
        path = tmp_path / f"store-{number}" / "memory.db"
        log = tmp_path / f"creator-{number}.log"
        pid = children.start("open_and_store", log, path=str(path), name="creator")
        time.sleep(moments.uniform(0, longest))
        children.kill(pid)
        await assert_usable_after_a_kill(path, {line["id"] for line in said(log)})


@pytest.mark.parametrize("moment", ["begun", "made", "synced", "before it is there", "there"])
async def test_a_kill_at_each_step_of_creation_leaves_none_or_a_whole_file(
    tmp_path: Path, children: Children, moment: str
) -> None:
    path = tmp_path / "store" / "memory.db"
    assert children.wait(children.start("create_and_die", path=str(path), moment=moment)) == -9
    assert path.exists() is (moment == "there")
    await assert_usable_after_a_kill(path, set())


async def assert_usable_after_a_kill(path: Path, acknowledged: set[str]) -> None:
    whole = path.exists()
    async with opened(path) as memory:
        stored = await memory.store_episode("after the kill", butler="b")
        items = await everything(memory)
        assert stored.id in items and acknowledged <= {str(id_) for id_ in items}
        assert len(items) <= (2 if whole else 1)
        assert not problems(await administer(memory).verify())


async def test_a_file_that_appears_while_it_is_looked_for_is_not_taken_for_damage(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between looking for the file and for a log without a file, another process may have made both."""
    absent = [True]
    exists = Path.exists

    def blind_once(self: Path, **options: Any) -> bool:
        return False if self == path and absent and absent.pop() else exists(self, **options)

    async with opened(path) as other:
        stored = await other.store_episode("made by another process", butler="b")
        assert path.with_name(path.name + "-wal").stat().st_size
        monkeypatch.setattr(Path, "exists", blind_once)
        async with opened(path) as memory:
            assert set(await everything(memory)) == {stored.id}
    assert not absent


async def test_of_two_makers_the_first_wins(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is put in place while another is being made is not overwritten."""
    place = tmp_path / "place" / "memory.db"
    async with opened(path) as memory:
        stored = await memory.store_episode("first", butler="b")
    upgrade = database._upgrade

    def overtaken(*args: Any) -> None:
        upgrade(*args)
        shutil.copyfile(path, place)

    monkeypatch.setattr(database, "_upgrade", overtaken)
    async with opened(place) as memory:
        assert set(await everything(memory)) == {stored.id}
    assert [file.name for file in place.parent.iterdir()] == [place.name]


async def test_a_memory_that_was_closed_says_so_and_does_not_wait_for_ever(path: Path) -> None:
    async with opened(path) as memory:
        await memory.store_fact("a", "b", "c")
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(memory.store_fact("a", "b", "d"), 3)
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(memory.search("c"), 3)


async def test_closing_finishes_what_was_queued(path: Path) -> None:
    """Writes that wait when a memory is closed are done, not dropped."""
    async with opened(path) as memory:
        waiting = [asyncio.ensure_future(memory.store_episode(f"queued {number}", butler="b")) for number in range(50)]
        await asyncio.sleep(0)
    answers = await asyncio.wait_for(asyncio.gather(*waiting), 10)
    async with opened(path) as memory:
        assert set(await everything(memory)) == {answer.id for answer in answers}


async def test_a_failing_write_undoes_only_itself(path: Path) -> None:
    """Of many writes that share a commit, those that fail leave nothing and the others are kept."""
    async with opened(path) as memory:
        good = [memory.store_fact(f"subject {number}", "state", f"good {number}") for number in range(40)]
        bad = [
            memory.store_facts(
                [
                    NewFact(subject=f"subject {number}", predicate="state", content=f"bad {number}"),
                    NewFact(content=f"bad note {number}", source_episode_id=UUID(int=7)),
                ]
            )
            for number in range(40)
        ]
        mixed = [each for pair in zip(good, bad, strict=True) for each in pair]
        answers = await asyncio.gather(*mixed, return_exceptions=True)
        assert {type(answer).__name__ for answer in answers[::2]} == {"Stored"}
        assert {type(answer).__name__ for answer in answers[1::2]} == {"InvalidInput"}
        facts = await everything(memory, ["fact"])
        assert all(isinstance(fact, Fact) and fact.validity == "active" for fact in facts.values())
        assert sorted(fact.content for fact in facts.values()) == sorted(f"good {number}" for number in range(40))
        assert not problems(await administer(memory).verify())
