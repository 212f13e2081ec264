"""Announcements between processes by LISTEN and NOTIFY: "something has changed", without saying what.

A NOTIFY inside a transaction makes commits wait for each other, so the process announces its changes afterwards, on a
connection of its own and not for each of them. Who hears one reads on from its cursor. A lost announcement delays a
reader until it looks anyway.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

from tulving.errors import TulvingError
from tulving.storage.postgres.errors import DRIVER_ERRORS
from tulving.storage.postgres.values import Raw

log = logging.getLogger("tulving")

INTERVAL = 0.05
"""Seconds between two announcements of a process."""
RECONNECT = 1.0
CLOSE_TIMEOUT = 1.0
_CHANNEL = "SELECT 'tulving_' || 'facts'::regclass::oid"  # each store of a database has its own
_NOTIFY = "SELECT pg_notify('tulving_' || 'facts'::regclass::oid, '')"

Connect = Callable[[], AbstractAsyncContextManager[Raw]]


class Announcements:
    """Announces the changes of this process, and listens as long as somebody wants to hear of others'.

    Listening takes one connection of the pool. A pool of one connection can't spare it; then readers look by the clock.
    """

    def __init__(self, connect: Connect, *, may_listen: bool) -> None:
        self._connect, self._may_listen = connect, may_listen
        self._listeners: list[Callable[[], None]] = []
        self._listening: asyncio.Task[None] | None = None
        self._announcing: asyncio.Task[None] | None = None
        self._waiting, self._closing = False, asyncio.Event()

    def announce(self) -> None:
        """Something was committed: say so soon."""
        self._waiting = True
        if not self._closing.is_set() and (self._announcing is None or self._announcing.done()):
            self._announcing = asyncio.create_task(self._announce())

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` for each announcement, of this process too; returns what ends this."""
        self._listeners.append(wake)
        if self._may_listen and self._listening is None and not self._closing.is_set():
            self._listening = asyncio.create_task(self._listen())
        return lambda: self._remove(wake)

    async def close(self) -> None:
        """Make the last announcement, and give the connection back."""
        self._closing.set()
        self._stop_listening()
        tasks = [task for task in (self._announcing, self._listening) if task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)
            for task in late:
                task.cancel()

    def _remove(self, wake: Callable[[], None]) -> None:
        self._listeners.remove(wake)
        if not self._listeners:
            self._stop_listening()
            self._listening = None

    def _stop_listening(self) -> None:
        if self._listening is not None:
            self._listening.cancel()

    async def _announce(self) -> None:
        while self._waiting:
            self._waiting = False
            try:
                async with self._connect() as raw:
                    await raw.execute(_NOTIFY)
            except (TulvingError, *DRIVER_ERRORS) as error:
                log.info("a change could not be announced to other processes: %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL):
                    await self._closing.wait()

    async def _listen(self) -> None:
        """Until cancelled. A lost connection is replaced."""
        while True:
            try:
                async with self._connect() as raw:
                    await self._hear(raw)
            except (TulvingError, *DRIVER_ERRORS) as error:
                log.info("can't listen for changes of other processes, they are noticed later: %s", error)
            await asyncio.sleep(RECONNECT)

    async def _hear(self, raw: Raw) -> None:
        lost = asyncio.Event()

        def end(*_: Any) -> None:
            lost.set()

        channel = await raw.fetchval(_CHANNEL)
        raw.add_termination_listener(end)
        try:
            await raw.add_listener(channel, self._wake)
            self._wake()  # what was announced before
            await lost.wait()
        finally:
            with suppress(*DRIVER_ERRORS):
                raw.remove_termination_listener(end)
                await raw.remove_listener(channel, self._wake)

    def _wake(self, *_: Any) -> None:
        for wake in tuple(self._listeners):
            wake()
