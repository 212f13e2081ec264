"""The memory for code that is not asynchronous."""

import asyncio
import copy
import inspect
import pickle
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, main_thread
from threading import enumerate as enumerate_threads

import pytest

from tulving import (
    BlockingMemory,
    Caller,
    InvalidInput,
    Memory,
    MemoryClosed,
    StoreUnavailable,
    open_memory,
    open_memory_sync,
)
from tulving.testing import ManualClock, SequentialIds, WordEmbedder


@pytest.fixture
def memory(path: Path):
    with open_memory_sync(path, embedder=WordEmbedder(), clock=ManualClock(), ids=SequentialIds()) as memory:
        yield memory


def test_every_method_of_the_memory_is_a_plain_call(memory):
    for name, method in inspect.getmembers(Memory, inspect.iscoroutinefunction):
        if not name.startswith("_"):
            assert not inspect.iscoroutinefunction(getattr(memory, name)), name
            assert getattr(memory, name).__doc__ == method.__doc__
            assert name in dir(memory)
    for name in ("bind", "session", "messages"):
        assert inspect.signature(getattr(BlockingMemory, name)) == inspect.signature(getattr(Memory, name))
        assert getattr(memory, name).__doc__ == getattr(Memory, name).__doc__


def test_store_and_recall(memory):
    stored = memory.store_fact("Anna", "color", "green")
    [hit] = memory.recall("color")
    assert hit.item.id == stored.id
    assert "green" in memory.context("color")
    assert memory.warning is None


def test_errors_are_the_same(memory):
    with pytest.raises(InvalidInput, match="importance"):
        memory.store_episode("x", butler="me", importance=11)


def test_bind_gives_another_plain_view(memory):
    memory.store_fact("Anna", "color", "green")
    other = memory.bind(caller=Caller("other"))
    assert other.caller.tenant_id == "other"
    assert len(other.recall("color")) == 0
    assert len(memory.recall("color")) == 1


def test_threads_may_share_it(memory):
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda n: memory.store_fact("Anna", f"p{n}", "green").id, range(40)))
    assert len(set(ids)) == 40
    assert len(memory.list_memories("fact").items) == 40


def test_a_subscriber_can_listen_but_not_wait(memory):
    heard, errors = [], []

    def listen(events):
        heard.extend(events)
        try:
            memory.recall("color")
        except RuntimeError as error:
            errors.append(error)

    memory.subscribe(listen)
    memory.store_fact("Anna", "color", "green")
    assert len(heard) == 1
    assert "own thread" in str(errors[0])


def test_messages_are_a_plain_iterator(path: Path, caplog: pytest.LogCaptureFixture):
    with open_memory_sync(path, embedder=WordEmbedder()) as memory:
        memory.store_fact("Anna", "color", "green")
        messages = memory.messages("memory:semantic", after="0.0", poll=0.01)
        assert next(messages).payload["content"] == "green"
        memory.store_fact("Anna", "color", "blue")
        assert next(messages).payload["content"] == "blue"
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(next, messages)
            memory.store_fact("Anna", "color", "red")
            assert waiting.result().payload["content"] == "red"
        streams = memory._memory._env.streams._open
        assert len(streams) == 1
        messages.close()
        assert not streams
        with pytest.raises(InvalidInput, match="topics"):
            next(memory.messages("nothing"))
        forgotten = memory.messages(after="0.0")
        next(forgotten)
    forgotten.close()
    assert not caplog.records, "one that nobody has closed ends quietly"


def test_an_interrupted_call_is_cancelled(memory, monkeypatch: pytest.MonkeyPatch):
    ended = Event()

    async def hang(self) -> None:
        try:
            await asyncio.sleep(0.5)  # until the caller waits
            signal.pthread_kill(main_thread().ident, signal.SIGINT)
            await asyncio.sleep(60)
        finally:
            ended.set()

    monkeypatch.setattr(Memory, "stats", hang)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            memory.stats()
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.wait(10)


def test_what_is_closed_says_so(path: Path):
    with open_memory_sync(path, embedder=WordEmbedder()) as memory:
        memory.store_rule("x")
        bound = memory.bind(user_id="anna")
    for closed in (memory, bound):
        with pytest.raises(RuntimeError, match="closed"):
            closed.store_rule("y")
    with pytest.raises(StoreUnavailable, match="closed"):
        next(memory.messages())


def test_a_memory_is_opened_and_closed_without_a_block(path: Path):
    memory = open_memory_sync(path, embedder=WordEmbedder())
    assert memory.store_rule("kept").outcome == "stored"
    memory.close()
    memory.close()
    with pytest.raises(MemoryClosed):
        memory.stats()
    assert "tulving-loop" not in {thread.name for thread in enumerate_threads()}
    again = open_memory_sync(path, embedder=WordEmbedder())
    try:
        assert again.stats().rules.total == 1
    finally:
        again.close()


UNCLOSED = """
import sys
from tulving import open_memory_sync
from tulving.testing import WordEmbedder

memories = [open_memory_sync(sys.argv[1], embedder=WordEmbedder()) for _ in range(2)]
memories[0].store_fact("Anna", "color", "green")
messages = memories[1].messages(after="0.0")
next(messages)
{ending}
"""


@pytest.mark.parametrize(("ending", "code"), [("", 0), ("raise ValueError", 1), ("del memories; sys.exit(3)", 3)])
def test_what_nobody_closes_is_closed_at_the_end(path: Path, ending: str, code: int):
    program = [sys.executable, "-c", UNCLOSED.format(ending=ending), str(path)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    assert "Exception ignored" not in done.stderr
    assert not path.with_name(f"{path.name}-wal").exists(), "it was closed properly"
    with open_memory_sync(path, embedder=WordEmbedder()) as memory:
        assert memory.recall("color")[0].content == "green"


FORKED = """
import os, sys
from tulving import MemoryClosed, open_memory_sync
from tulving.testing import WordEmbedder

with open_memory_sync(sys.argv[1], embedder=WordEmbedder()) as memory:
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
        memory.store_fact("Anna", "color", "green")
    else:
        try:
            memory.store_fact("Anna", "color", "blue")
        except MemoryClosed as error:
            assert "parent process" in str(error)
            sys.exit(0)
        sys.exit(1)
"""


def test_a_child_process_opens_its_own(path: Path):
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED, str(path)], check=True, timeout=60)


def test_who_waits_while_it_is_closed_is_told(path: Path):
    memory = open_memory_sync(path, embedder=WordEmbedder())
    begun = Event()

    async def hang() -> None:
        begun.set()
        await asyncio.sleep(60)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(memory._loop.wait, hang)
        assert begun.wait(10)
        memory.close()
        with pytest.raises(MemoryClosed, match="in the meantime"):
            waiting.result(10)


def test_a_copy_is_the_same_memory(memory):
    twin = copy.copy(memory)
    twin.store_fact("Anna", "color", "green")
    assert len(memory.recall("color")) == 1
    for refused in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="open the same store again"):
            refused(memory)
    assert "default" in repr(memory)
    assert not hasattr(memory, "_anything")
    assert not hasattr(memory, "remember")


def test_a_misspelt_option_is_refused_at_once(path: Path):
    with pytest.raises(TypeError, match=r"open_memory_sync\(\) got an unexpected keyword argument 'tennant'"):
        open_memory_sync(path, tennant="acme")
    assert inspect.signature(open_memory_sync).parameters.keys() == inspect.signature(open_memory).parameters.keys()
    assert not path.exists()


def test_a_session_is_a_plain_block(memory):
    with memory.session(project="garden") as work:
        work.store_episode("Planted roses")
        assert work.session_id is not None
    with pytest.raises(ZeroDivisionError), memory.session():
        raise ZeroDivisionError
    failed, done = (report.session for report in memory.sessions())
    assert (done.project, done.status, failed.summary) == ("garden", "completed", "ended by ZeroDivisionError")


def test_an_error_inside_closes_the_memory_too(path: Path):
    with pytest.raises(ZeroDivisionError), open_memory_sync(path, embedder=WordEmbedder()) as memory:
        memory.store_rule("kept")
        raise ZeroDivisionError
    with open_memory_sync(path, embedder=WordEmbedder()) as memory:
        assert [rule.content for rule in memory.list_memories("rule").items] == ["kept"]


def test_a_store_that_cannot_be_opened_raises(tmp_path: Path):
    with pytest.raises(OSError, match="directory"), open_memory_sync(tmp_path, embedder=WordEmbedder()):
        pass
    assert "tulving-loop" not in {thread.name for thread in enumerate_threads()}
