"""Admission control: how many requests are handled concurrently, how many wait, and how long one may take."""

import asyncio
import logging
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tulving.interfaces.http.credentials import Refusal
from tulving.interfaces.http.problems import RETRY_SECONDS, SOON, refused
from tulving.interfaces.http.queue import Queue

log = logging.getLogger("tulving")

WITHOUT_BODY = ("GET", "HEAD", "DELETE", "OPTIONS")
LARGE = 64 * 1024
"""Bytes of a body that are read before the application is called."""


class Turns:
    """Middleware that limits the requests in progress, each of which holds a turn, and the queue for a turn. When the
    queue is full, the answer is 429 at once.

    A request queues when its body has been read, so a slow upload holds no turn. It gives the turn back when its
    response starts, so neither does a slow download; streams have limits of their own. A request without a response in
    time is cancelled and answered 503; it keeps the turn until its work has ended. Some `paths` need no turn.
    """

    def __init__(self, app: ASGIApp, queue: Queue, paths: Iterable[str]) -> None:
        self._app, self._queue, self._limits, self._paths = app, queue, queue.limits, frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._paths:
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "0")
        # A body that may be too large is not waited for: the application refuses it, or reads all of it.
        may_be_refused = declared.isdigit() and int(declared) > self._limits.largest_body
        has_body = scope["method"] not in WITHOUT_BODY
        beginning = await _beginning(receive) if has_body and not may_be_refused else []
        if self._queue.is_full:
            log.warning("refused a request: %s", self._queue)
            problem = "too many requests are waiting; nothing was done"
            refusal = Refusal(429, "busy", problem, {"Retry-After": SOON})
            await refused(scope, refusal)(scope, receive, send)
            return
        turn = _Turn(self._queue, send)
        if not has_body or (beginning and not beginning[-1].get("more_body", False)):
            turn.join()
        work = asyncio.create_task(self._work(scope, replayed(beginning, turn.received(receive)), turn))
        work.add_done_callback(lambda _: turn.end())
        try:
            await asyncio.wait({work, turn.joined, turn.ended}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(
                {work, turn.ended}, timeout=self._limits.answer_timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if not work.done() and not turn.ended.done():
                turn.overdue = True
                work.cancel()
                log.warning("cancelled a request: it was not answered in %g s", self._limits.answer_timeout)
                problem = "it took too long and was cancelled; its change took effect entirely or not at all"
                refusal = Refusal(503, "timed_out", problem, {"Retry-After": RETRY_SECONDS})
                await refused(scope, refusal)(scope, receive, send)
            await asyncio.wait({work})
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.wait({work})
            raise
        if not (turn.overdue and (work.cancelled() or work.exception())):
            work.result()

    async def _work(self, scope: Scope, receive: Receive, turn: "_Turn") -> None:
        if turn.joined.done():
            await turn.take()
        await self._app(scope, receive, turn.send)


class _Turn:
    """The turn of one request. It ends when the response starts; one that is overdue is not sent."""

    def __init__(self, queue: Queue, send: Send) -> None:
        self._queue, self._send = queue, send
        loop = asyncio.get_running_loop()
        self.joined: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.overdue = False

    def join(self) -> None:
        """Join the queue."""
        self._queue.length += 1
        self.ended.add_done_callback(lambda _: self._leave())
        self.joined.set_result(None)

    async def take(self) -> None:
        """Wait until it is this request's turn."""
        self._queue.waiting += 1
        try:
            await self._queue.free.acquire()
        finally:
            self._queue.waiting -= 1
        self.ended.add_done_callback(lambda _: self._queue.free.release())

    def end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def received(self, receive: Receive) -> Receive:
        """A receive channel that takes the turn when the rest of the body has been read."""

        async def rest() -> Message:
            message = await receive()
            if not (message.get("more_body", False) or self.joined.done() or self.ended.done()):
                self.join()
                await self.take()
            return message

        return rest

    async def send(self, message: Message) -> None:
        if not self.overdue:
            self.end()
            await self._send(message)

    def _leave(self) -> None:
        self._queue.length -= 1


def replayed(messages: list[Message], receive: Receive) -> Receive:
    """A receive channel that first repeats messages that were read from it."""
    unread = messages[::-1]

    async def replay() -> Message:
        return unread.pop() if unread else await receive()

    return replay


async def _beginning(receive: Receive) -> list[Message]:
    """The first messages of the body: the whole of a small one, or `LARGE` bytes."""
    messages, size = [], 0
    while size < LARGE:
        messages.append(message := await receive())
        size += len(message.get("body", b""))
        if not message.get("more_body", False):
            break
    return messages
