"""Turns: how many requests are worked on at once, how many wait for that, and how long one may take."""

import asyncio
import logging
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tulving.interfaces.http import problems
from tulving.interfaces.http.authentication import RETRY_SECONDS
from tulving.interfaces.http.hosts import error_response
from tulving.interfaces.http.problems import SOON, Problem
from tulving.settings import HttpConfig

log = logging.getLogger("tulving")

LARGEST = 4 * 1024 * 1024
LARGE = 64 * 1024
"""How much of a body is taken before its request has its turn."""


class Turns:
    """Lets a limited number of requests be worked on at once, and as many wait as the limits say; beyond that a client
    is told at once to come again.

    A request waits for its turn once its body is there, so that clients that send slowly take nobody's. Its turn ends
    when its answer begins: streams, of which there is a number of their own, go on. One whose answer has not begun in
    time is answered with 503, and its work is cancelled; the turn ends when the work has. Some `paths` need no turn.
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
        # What is too large for anybody is refused without being sent.
        is_refused = declared.isdigit() and int(declared) > max(self._limits.largest_body, LARGEST)
        beginning = [] if is_refused else await _beginning(receive)
        working, waiting = self._limits.max_working, self._limits.max_waiting
        if self._admitted >= working + waiting:
            log.warning("refused a request: %d are worked on and %d wait", working, waiting)
            problem = "too many requests wait already, and nothing was done about this one"
            await _refusal(scope, 429, "busy", problem, SOON)(scope, receive, send)
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
                log.warning("gave up a request: it was not answered in %g s", self._limits.answer_timeout)
                problem = "the answer took too long, so the work was cancelled; what it changed is whole or not there"
                await _refusal(scope, 503, "timed_out", problem, RETRY_SECONDS)(scope, receive, send)
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
    """Tells when the answer to a request begins, and sends nothing more of one that is overdue."""

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
    """A stream whose first messages were read."""
    unread = messages[::-1]

    async def replay() -> Message:
        return unread.pop() if unread else await receive()

    return replay


async def _beginning(receive: Receive) -> list[Message]:
    """The body, or as much of it as tells that it is large."""
    messages, size = [], 0
    while size < LARGE:
        messages.append(message := await receive())
        size += len(message.get("body", b""))
        if not message.get("more_body", False):
            break
    return messages


def _refusal(scope: Scope, status: int, error: str, problem: str, after: str) -> Response:
    """In the form of the surface that was asked."""
    headers = {"Retry-After": after}
    if scope["path"].startswith("/v1/"):
        return problems.respond(Problem(status, error.replace("_", "-"), problem, headers))
    if scope["path"].startswith("/console"):
        return PlainTextResponse(f"{problem}\n", status, headers)
    return error_response(status, error, problem, **headers)
