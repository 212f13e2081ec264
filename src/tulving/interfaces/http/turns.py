"""Admission control: how many requests are handled concurrently, how many wait, and how long one may take."""

import asyncio
import logging
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tulving.interfaces.http.credentials import Refusal
from tulving.interfaces.http.problems import RETRY_SECONDS, SOON, refused
from tulving.settings import HttpConfig

log = logging.getLogger("tulving")

LARGEST = 4 * 1024 * 1024
LARGE = 64 * 1024
"""Bytes of a body that are read before the request takes a turn."""


class Turns:
    """Middleware that limits the requests in progress, each of which holds a turn, and the queue for a turn. When the
    queue is full, the answer is 429 at once.

    A request queues when its body has been read, so a slow upload holds no turn. It gives the turn back when its
    response starts, so neither does a slow download; streams have limits of their own. A request without a response in
    time is cancelled and answered 503; it keeps the turn until its work has ended. Some `paths` need no turn.
    """

    def __init__(self, app: ASGIApp, limits: HttpConfig, paths: Iterable[str]) -> None:
        self._app, self._limits, self._paths = app, limits, frozenset(paths)
        self._free = asyncio.Semaphore(limits.max_working)
        self._admitted = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._paths:
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "0")
        # A body that no token may send is refused before it is read.
        is_refused = declared.isdigit() and int(declared) > max(self._limits.largest_body, LARGEST)
        beginning = [] if is_refused else await _beginning(receive)
        working, waiting = self._limits.max_working, self._limits.max_waiting
        if self._admitted >= working + waiting:
            log.warning("refused a request: %d are in progress and %d wait", working, waiting)
            problem = "too many requests are waiting; nothing was done"
            refusal = Refusal(429, "busy", problem, {"Retry-After": SOON})
            await refused(scope, refusal)(scope, receive, send)
            return
        answer = _Answer(send)
        self._admitted += 1
        answer.begun.add_done_callback(lambda _: self._leave())
        work = asyncio.create_task(self._work(scope, replayed(beginning, receive), answer))
        work.add_done_callback(lambda _: answer.begin())
        try:
            await asyncio.wait(
                {work, answer.begun}, timeout=self._limits.answer_timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if not work.done() and not answer.begun.done():
                answer.overdue = True
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
        if not (answer.overdue and (work.cancelled() or work.exception())):
            work.result()

    async def _work(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        await self._free.acquire()
        answer.begun.add_done_callback(lambda _: self._free.release())
        await self._app(scope, receive, answer.send)

    def _leave(self) -> None:
        self._admitted -= 1


class _Answer:
    """The response to a request: notes when it starts, and is not sent if it is overdue."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.overdue = False

    def begin(self) -> None:
        if not self.begun.done():
            self.begun.set_result(None)

    async def send(self, message: Message) -> None:
        if not self.overdue:
            self.begin()
            await self._send(message)


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
