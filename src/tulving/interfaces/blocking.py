"""The memory for code that is not asynchronous: the same verbs as plain calls.

What type checkers and editors know of it is in `blocking.pyi`, which `scripts/blocking_stub.py` writes from `Memory`.
"""

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401, its own work at exit is registered before ours, and so done after it
import functools
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from tulving.bootstrap import open_memory
from tulving.domain.messages import Message
from tulving.errors import MemoryClosed
from tulving.opening import taking
from tulving.services.memory import Memory
from tulving.services.service import log


class LoopThread:
    """An event loop in a thread of its own, which calls of other threads wait for."""

    def __init__(self) -> None:
        self._turn, self._ended = threading.Lock(), ""
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        # A daemon: what nobody closes must not keep the interpreter from ending.
        self._thread = threading.Thread(target=lambda: asyncio.run(_run(started)), name="tulving-loop", daemon=True)
        self._thread.start()
        self._loop, self._end = started.result()

    def wait(self, work: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        """The result of asynchronous work."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("this is the memory's own thread, where a subscriber can't wait for it")
        with self._turn:
            if self._ended:
                raise MemoryClosed(self._ended)
            running = asyncio.run_coroutine_threadsafe(_done(work, args, kwargs), self._loop)
        try:
            return running.result()
        except CancelledError:
            raise MemoryClosed("this memory was closed in the meantime") from None
        except BaseException:
            running.cancel()  # the caller was interrupted
            raise

    def end(self) -> None:
        """Cancel what still runs and end the thread."""
        with self._turn:
            if not self._ended:
                self._ended = "this memory was closed"
                self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def forget(self) -> None:
        """In a child process, which has no such thread."""
        self._turn, self._ended = threading.Lock(), "this memory was opened by the parent process; open it again"


async def _run(started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    end = asyncio.Event()
    started.set_result((asyncio.get_running_loop(), end))
    await end.wait()


async def _done(work: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return await work(*args, **kwargs)


class BlockingMemory:
    """A `Memory` whose asynchronous methods are plain calls. Made by `open_memory_sync`; threads may share it."""

    def __init__(self, memory: Memory, loop: LoopThread) -> None:
        self._memory, self._loop = memory, loop

    def close(self) -> None:
        """Finish what was begun and close the store, also for the memories that were bound from this one. A second time
        does nothing."""
        with suppress(MemoryClosed):
            self._loop.wait(self._memory.close)
        self._loop.end()
        _OPEN.pop(self._loop, None)

    def __enter__(self) -> "BlockingMemory":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @functools.wraps(Memory.bind)
    def bind(self, **bound: Any) -> "BlockingMemory":
        return BlockingMemory(self._memory.bind(**bound), self._loop)

    @functools.wraps(Memory.session)
    @contextmanager
    def session(self, *args: Any, **kwargs: Any) -> "Iterator[BlockingMemory]":
        block = self._memory.session(*args, **kwargs)
        work = BlockingMemory(self._loop.wait(block.__aenter__), self._loop)
        try:
            yield work
        except BaseException as error:
            self._loop.wait(block.__aexit__, type(error), error, error.__traceback__)
            raise
        self._loop.wait(block.__aexit__, None, None, None)

    @functools.wraps(Memory.messages)
    def messages(self, *args: Any, **kwargs: Any) -> Iterator[Message]:
        found = self._memory.messages(*args, **kwargs)
        try:
            while (message := self._loop.wait(anext, found, None)) is not None:
                yield message
        except GeneratorExit:
            with suppress(MemoryClosed):
                self._loop.wait(found.aclose)
            raise

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        value = getattr(self._memory, name)
        if not inspect.iscoroutinefunction(value):
            return value

        @functools.wraps(value)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._loop.wait(value, *args, **kwargs)

        return call

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in dir(self._memory) if not name.startswith("_"))})

    def __repr__(self) -> str:
        return repr(self._memory).replace("Memory", type(self).__name__, 1)

    def __copy__(self) -> "BlockingMemory":
        return BlockingMemory(self._memory, self._loop)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an open memory can't be pickled or copied deeply; open the same store again instead")


_OPEN: dict[LoopThread, BlockingMemory] = {}


@taking(open_memory)
def open_memory_sync(*args: Any, **options: Any) -> BlockingMemory:
    """Open a memory as `open_memory` does, with the same arguments, for code that is not asynchronous.

    Either `memory = open_memory_sync(...)`, closed by `memory.close()`, or `with open_memory_sync(...) as memory:`,
    which closes it at the end of the block. What is still open when the interpreter ends is closed then.
    """
    loop = LoopThread()
    try:
        memory = _OPEN[loop] = BlockingMemory(loop.wait(open_memory(*args, **options).__aenter__), loop)
    except BaseException:
        loop.end()
        raise
    return memory


def _close_all() -> None:
    for memory in [*_OPEN.values()]:
        try:
            memory.close()
        except Exception as error:
            log.warning("a memory could not be closed at the end: %s", error)


def _forget_all() -> None:
    for loop in _OPEN:
        loop.forget()
    _OPEN.clear()


os.register_at_fork(after_in_child=_forget_all)
# While threads can still be started, which closing needs; `atexit` comes after that.
getattr(threading, "_register_atexit", atexit.register)(_close_all)
