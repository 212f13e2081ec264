"""The memory for code that is not asynchronous: the same verbs as plain calls."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from tulving.bootstrap import open_memory
from tulving.domain.messages import Message
from tulving.services.memory import Memory


class BlockingMemory:
    """A `Memory` whose asynchronous methods are plain calls. Made by `open_memory_sync`; threads may share it."""

    def __init__(self, memory: Memory, portal: BlockingPortal) -> None:
        self._memory, self._portal = memory, portal

    def bind(self, **bound: Any) -> "BlockingMemory":
        """The same store for another caller, or for one user, household, persona, project or scope only."""
        return BlockingMemory(self._memory.bind(**bound), self._portal)

    @contextmanager
    def session(self, *args: Any, **kwargs: Any) -> "Iterator[BlockingMemory]":
        """A stretch of work, as `Memory.session`: what the yielded memory stores carries the session's id."""
        with self._portal.wrap_async_context_manager(self._memory.session(*args, **kwargs)) as work:
            yield BlockingMemory(work, self._portal)

    def messages(self, *args: Any, **kwargs: Any) -> Iterator[Message]:
        """As `Memory.messages`; the thread waits for each message."""
        found = self._memory.messages(*args, **kwargs)
        try:
            while (message := self._wait(anext, found, None)) is not None:
                yield message
        except GeneratorExit:
            with suppress(RuntimeError):  # the memory is closed
                self._wait(found.aclose)
            raise

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._memory, name)
        if name.startswith("_") or not inspect.iscoroutinefunction(value):
            return value

        @functools.wraps(value)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._wait(value, *args, **kwargs)

        return call

    def _wait(self, work: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        try:
            running = self._portal.start_task_soon(functools.partial(work, *args, **kwargs))
        except RuntimeError as error:
            problem = "the memory is closed, or this is its own thread, where a subscriber can't wait for it"
            raise RuntimeError(problem) from error
        try:
            return running.result()
        except BaseException:
            running.cancel()  # the caller was interrupted
            raise

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in dir(self._memory) if not name.startswith("_"))})


@contextmanager
def open_memory_sync(*args: Any, **kwargs: Any) -> Iterator[BlockingMemory]:
    """Open a memory as `open_memory` does, with the same arguments, for code that is not asynchronous."""
    with (
        start_blocking_portal(name="tulving-loop") as portal,
        portal.wrap_async_context_manager(open_memory(*args, **kwargs)) as memory,
    ):
        yield BlockingMemory(memory, portal)
