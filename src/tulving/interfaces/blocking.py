"""The memory for code that is not asynchronous: the same verbs as plain calls."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from threading import Thread, get_ident
from typing import Any, TypeVar

from tulving.bootstrap import open_memory
from tulving.services.memory import Memory

T = TypeVar("T")


class LoopThread:
    """One event loop in one thread, which other threads give work to."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True, name="tulving-loop")
        self._thread.start()

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do the work there and wait for it here."""
        if get_ident() == self._thread.ident:
            raise RuntimeError("a subscriber runs inside the memory's own thread and can't wait for it there")
        if self._loop.is_closed():
            raise RuntimeError("the memory is closed")
        waiting = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return waiting.result()
        except CancelledError:
            raise RuntimeError("the memory was closed during the call") from None
        except BaseException:
            waiting.cancel()
            raise

    def stop(self) -> None:
        self.run(self._wind_up)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _wind_up(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.get_running_loop().shutdown_default_executor()


class BlockingMemory:
    """A `Memory` whose asynchronous methods are plain calls. Made by `open_memory_sync`; threads may share it."""

    def __init__(self, memory: Memory, thread: LoopThread) -> None:
        self._memory, self._thread = memory, thread

    def bind(self, **bound: Any) -> "BlockingMemory":
        """The same store for another caller, or for one user, household, persona, project or scope only."""
        return BlockingMemory(self._memory.bind(**bound), self._thread)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._memory, name)
        if name.startswith("_") or not inspect.iscoroutinefunction(value):
            return value

        @functools.wraps(value)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._thread.run(lambda: value(*args, **kwargs))

        return call

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in dir(self._memory) if not name.startswith("_"))})


@contextmanager
def open_memory_sync(*args: Any, **kwargs: Any) -> Iterator[BlockingMemory]:
    """Open a memory as `open_memory` does, with the same arguments, for code that is not asynchronous."""
    thread = LoopThread()
    opened = open_memory(*args, **kwargs)
    try:
        memory = thread.run(opened.__aenter__)
        try:
            yield BlockingMemory(memory, thread)
        finally:
            thread.run(lambda: opened.__aexit__(None, None, None))
    finally:
        thread.stop()
