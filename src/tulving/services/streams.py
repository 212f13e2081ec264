"""The open streams of messages: woken when something has changed, ended when the memory is closed."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from tulving.ports import Announcing

if TYPE_CHECKING:
    from tulving.services.service import Store, Subscribers

log = logging.getLogger("tulving")

POLL = 1.0
"""Seconds between two looks for changes of other processes, where the store does not announce them."""
SLOW_POLL = 15.0
"""The same where it does, since an announcement may be lost."""
SOON = 0.25
"""Seconds until the second look: a transaction that is still running may hold back what the first one is for."""
CLOSE_TIMEOUT = 2.0
"""Seconds that closing waits for handlers to receive their last messages."""


class Woken:
    """Tells one reader that there may be something new."""

    def __init__(self, poll: float) -> None:
        self._poll, self._changed, self._closing = poll, asyncio.Event(), asyncio.Event()
        self._pause = min(SOON, poll)
        self._loop = asyncio.get_running_loop()

    @property
    def closing(self) -> bool:
        """Whether the memory is being closed: what has been committed by now is the last to be read."""
        return self._closing.is_set()

    def end(self) -> None:
        self._closing.set()
        self._changed.set()

    def wake(self) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._changed.set)

    async def wait(self) -> None:
        """Until woken, or until it is time to look anyway: soon after a change, then less and less often."""
        # Not `wait_for`: before Python 3.12 it swallows a cancellation that comes together with the event.
        try:
            async with asyncio.timeout(self._pause):
                await self._changed.wait()
            self._pause = min(SOON, self._poll)
        except TimeoutError:
            self._pause = min(self._pause * 2, self._poll)
        if not self.closing:
            self._changed.clear()

    async def pause(self, seconds: float) -> None:
        """For some time, or until the memory is closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()


class Streams:
    """All streams on one store, and the tasks that pass their messages on to handlers."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._open: set[Woken] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    @contextmanager
    def watch(self, subscribers: "Subscribers", tenant_id: str | None, poll: float | None = None) -> Iterator[Woken]:
        """Be woken by every change of a tenant, or (None) of any, made in this process or announced by another one."""
        announcing = isinstance(self._store, Announcing)
        woken = Woken(poll or (SLOW_POLL if announcing else POLL))
        if self._closing:
            woken.end()
        with ExitStack() as ends:
            ends.callback(subscribers.add(tenant_id, lambda events: woken.wake()))
            if isinstance(self._store, Announcing):
                ends.callback(self._store.listen(woken.wake))
            self._open.add(woken)
            ends.callback(self._open.discard, woken)
            yield woken

    def start(self, work: Coroutine[Any, Any, None]) -> Callable[[], object]:
        """Do something until the memory is closed; returns what stops it earlier, from any thread."""
        task, loop = asyncio.create_task(work), asyncio.get_running_loop()
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return lambda: loop.call_soon_threadsafe(task.cancel)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("messages are no longer read: %s", error)

    async def close(self) -> None:
        """End all streams after what has been committed so far."""
        self._closing = True
        for woken in self._open:
            woken.end()
        if tasks := set(self._tasks):
            _, late = await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
