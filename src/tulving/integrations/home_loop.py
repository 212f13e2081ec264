"""Where the verbs of a memory run, for frameworks that call from several threads and event loops."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from tulving.interfaces.blocking import BlockingMemory
from tulving.services.memory import Memory

T = TypeVar("T")


class HomeLoop:
    """A memory and the event loop that it was opened in, the only one in which its verbs may run.

    A `Memory` belongs to the loop in which the adapter is made, a `BlockingMemory` to the loop of its own thread.
    """

    def __init__(self, memory: Memory | BlockingMemory) -> None:
        if isinstance(memory, BlockingMemory):
            inner: Any = memory  # its stub has the verbs only
            self.memory: Memory = inner._memory
            self._loop: asyncio.AbstractEventLoop = inner._loop._loop
            return
        self.memory = memory
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            problem = "a Memory works in the event loop in which it was opened"
            raise RuntimeError(f"{problem}: make the adapter there, or use open_memory_sync") from None

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work for a caller that is not asynchronous. In the loop itself it would wait for ever."""
        if _running() is self._loop:
            work.close()
            problem = "a plain call in the memory's own event loop would block it"
            raise asyncio.InvalidStateError(f"{problem}: await the asynchronous method, or use open_memory_sync")
        sent = self._send(work)
        try:
            return sent.result()
        except BaseException:
            sent.cancel()  # the caller was interrupted
            raise

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work, from any loop."""
        if _running() is self._loop:
            return await work
        return await asyncio.wrap_future(self._send(work))

    def _send(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise RuntimeError("the memory is closed") from None


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
