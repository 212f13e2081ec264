"""The event bus: what happens to a tenant's memory, as messages."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from tulving import storage
from tulving.domain import intake, messages
from tulving.domain.messages import Message
from tulving.errors import InvalidInput, StoreUnavailable
from tulving.services.service import Service, log

POLLS = (0.001, 86_400)
RETRY = 5.0
"""Seconds after which a store that can't be reached is tried again."""
Handler = Callable[[Message], Awaitable[object] | object]
Topics = str | Sequence[str] | None


class Bus(Service):
    """Subscriptions to messages. The audit trail is what is read, so that no message can be lost or differ from it."""

    async def on(self, topics: Topics, handler: Handler) -> Callable[[], object]:
        """Call a function, which may be asynchronous, with each message from now on; returns what ends this.

        `topics` are names, or their beginnings such as `memory:episodic`; None means all but `audit:changed`. Messages
        come in order, one at a time, after the change is committed, also for changes by other processes. An error of
        the handler is logged, and the next message follows. What a handler must not miss while the process is down is
        read with `messages`.
        """
        messages.chosen(topics)
        end = await self._read(storage.event_stream.end, self.caller.tenant_id)
        return self._env.streams.start(self._pass_on(topics, str(end), handler))

    async def message_cursor(self, after: str | None = None) -> str:
        """The cursor at which `messages` begins: the given one, if it is valid for this store, or the present."""
        tenant_id = self.caller.tenant_id
        place = None if after is None else messages.read_cursor(after)
        reached = await self._read(storage.event_stream.reached, tenant_id, place)
        if reached is None:
            problem = f"{after} is ahead of this store, which was restored, or is not the one it comes from"
            raise InvalidInput("after", problem, "no cursor, to begin with the present")
        return str(reached)

    async def messages(
        self, topics: Topics = None, *, after: str | None = None, poll: float | None = None
    ) -> AsyncGenerator[Message]:
        """All messages after a cursor, or from now on, as they come; it ends when the memory is closed.

        Each message has a `cursor`. A reader that stores it after handling the message, and continues after it, gets
        every message at least once, whichever process made the change. `poll` is how many seconds may pass before a
        change by another process is noticed, where the store can't announce it (SQLite).

        A connection that is bound to a part of the tenant gets messages about what it may read.
        """
        tenant_id, topics_ = self.caller.tenant_id, messages.chosen(topics)
        poll = None if poll is None else intake.number("poll", poll, *POLLS)
        place = messages.read_cursor(await self.message_cursor(after))
        if await self._read(storage.timelines.find, tenant_id) is None:
            await self._write(storage.timelines.ensure, self._audit(self._env.clock()))
        with self._env.streams.watch(self._env.subscribers, tenant_id, poll) as woken:
            while True:
                last_look, more = woken.closing, True
                while more:
                    try:
                        read = storage.event_stream.next_messages
                        found, place, more = await self._read(read, tenant_id, self.bound, topics_, place)
                    except StoreUnavailable:
                        if woken.closing:
                            return
                        raise
                    for message in found:
                        yield message
                if last_look:
                    return
                await woken.wait()

    async def _pass_on(self, topics: Topics, after: str, handler: Handler) -> None:
        """Until the memory is closed. While the store can't be reached, messages wait."""
        while True:
            try:
                async with aclosing(self.messages(topics, after=after)) as found:
                    async for message in found:
                        await self._call(handler, message)
                        after = message.cursor
                return
            except StoreUnavailable as error:
                log.warning("messages wait: %s", error)
                await asyncio.sleep(RETRY)

    async def _call(self, handler: Handler, message: Message) -> None:
        try:
            answer = handler(message)
            if inspect.isawaitable(answer):
                await answer
        except Exception:
            log.exception("a handler failed on a message of %s", message.topic)
