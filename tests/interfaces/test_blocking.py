"""The memory for code that is not asynchronous."""

import asyncio
import inspect
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, main_thread

import pytest

from tulving import Caller, InvalidInput, Memory, open_memory_sync
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


def test_store_and_recall(memory):
    stored = memory.store_fact("Anna", "color", "green")
    [hit] = memory.recall("color")
    assert hit.item.id == stored.id
    assert "green" in memory.context("color", butler="me")
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
        streams = memory._env.streams._open
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
    with pytest.raises(RuntimeError, match="closed"):
        memory.store_rule("y")


def test_an_error_inside_closes_the_memory_too(path: Path):
    with pytest.raises(ZeroDivisionError), open_memory_sync(path, embedder=WordEmbedder()) as memory:
        memory.store_rule("kept")
        raise ZeroDivisionError
    with open_memory_sync(path, embedder=WordEmbedder()) as memory:
        assert [rule.content for rule in memory.list_memories("rule").items] == ["kept"]


def test_a_store_that_cannot_be_opened_raises(tmp_path: Path):
    with pytest.raises(OSError, match="directory"), open_memory_sync(tmp_path, embedder=WordEmbedder()):
        pass
