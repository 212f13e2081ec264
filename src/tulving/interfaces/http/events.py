"""`GET /v1/events`: the messages of the event bus as server-sent events.

The id of an event is the cursor of its message. After a lost connection a browser sends the last id that it received
(`Last-Event-ID`), and the stream resumes there without a gap. A stream ends when its client disconnects or stops
reading, when its token is no longer valid, and when the server shuts down.
"""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Hashable
from dataclasses import dataclass
from typing import Annotated

from anyio import CancelScope
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tulving.domain.messages import Message, chosen
from tulving.domain.text import shortened
from tulving.errors import Forbidden, InvalidInput, StoreUnavailable
from tulving.interfaces.http.authentication import Access
from tulving.interfaces.http.credentials import Refusal
from tulving.interfaces.http.described import Described
from tulving.interfaces.http.narrowing import NARROWING
from tulving.interfaces.http.problems import Problem
from tulving.interfaces.parameters import parameter
from tulving.interfaces.principal import Principal
from tulving.interfaces.wire import LONGEST_CONTENT
from tulving.services.tokens import TRUSTED
from tulving.settings import HttpConfig

log = logging.getLogger("tulving")

MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
LAST = "Last-Event-ID"
RETRY_MILLISECONDS = 2_000
"""The delay after which a browser reconnects."""
TRY_AGAIN_SECONDS = "30"
"""The delay after which a caller with too many streams may try again."""
RULES = "rule:"
"""The beginning of the topics about merge rules, whose list needs the right to review too."""
KEEP_ALIVE = b":\n\n"
EVENTS = Described(
    http="GET /v1/events",
    name="follow_events",
    text="Follow what happens to memories, as server-sent events until the client disconnects. The type of an event is "
    "its topic, its id a cursor at which another stream resumes without a gap, and its data a message as JSON.",
    parameters=[
        parameter(
            "topics",
            Annotated[list[str] | None, "Only these topics or prefixes of topics, repeated or separated by commas"],
            None,
        ),
        parameter(
            "after",
            Annotated[str | None, "The id of the last event that was handled; if left out, only new events are sent"],
            None,
        ),
    ],
    headers={LAST: "The same as `after`, which it overrides", **NARROWING},
    answer={MEDIA_TYPE: {"type": "string"}},
    example='id: 0.42\nevent: rule:updated\ndata: {"topic": "rule:updated", "tenant_id": "default", "cursor": "0.42", '
    '"seq": 42, "occurred_at": "2026-01-01T00:00:00+00:00", "payload": {"name": "careful", "config": {}}}\n\n',
)


async def event_stream(request: Request, access: Access, limits: HttpConfig, credential: str | None = None) -> Response:
    """A stream of the messages that the caller may read, authenticated by the header Authorization or the `credential`.

    The parameters `topics` and `after` are those of `Memory.messages`. The header `Last-Event-ID` overrides `after`,
    since browsers send it when they reconnect to the same URL.
    """
    caller = Caller(request, access, credential)
    principal = await caller.admit()
    topics, after = _asked(request)
    if "review" not in principal.rights:
        topics = frozenset(each for each in topics if not each.startswith(RULES))
        if not topics:
            raise Forbidden("events of merge rules need the right to review, which this access token lacks")
    memory = await principal.memory()
    try:
        begin = await memory.message_cursor(after)
    except InvalidInput as error:
        given = LAST if request.headers.get(LAST) else "after"
        raise InvalidInput(given, error.problem, error.allowed) from None
    if request.method == "HEAD":
        return StreamingResponse((), headers=HEADERS, media_type=MEDIA_TYPE)
    who = principal.credential or principal.who
    if (full := access.streams.full(who, limits)) is not None:
        raise Problem(429, "too-many-requests", full, {"Retry-After": TRY_AGAIN_SECONDS})
    access.streams.take(who)
    return EventStream(caller, who, memory.messages(sorted(topics), after=begin), begin, limits.stream_check)


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a stream, which is authenticated again while the stream is open."""

    request: Request
    access: Access
    credential: str | None

    async def admit(self, *, counted: bool = True) -> Principal:
        principal = await self.access.admit(self.request, self.credential, counted=counted)
        if "read" not in principal.rights:
            raise Forbidden("events need the right to read, which this access token lacks")
        return principal

    async def is_admitted(self) -> bool:
        try:
            await self.admit(counted=False)
        except (Refusal, Forbidden):
            return False
        return True


class EventStream(StreamingResponse):
    """A response that lasts for as long as the client is connected and authorized."""

    _coming: asyncio.Future[Message | None] | None = None

    def __init__(
        self, caller: Caller, who: Hashable, messages: AsyncGenerator[Message], begin: str, seconds: float
    ) -> None:
        super().__init__((), headers=HEADERS, media_type=MEDIA_TYPE)
        self._caller, self._who, self._streams = caller, who, caller.access.streams
        self._messages, self._begin, self._seconds = messages, begin, seconds
        self._checked_at = asyncio.get_running_loop().time()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.give_back(self._who)

    async def stream_response(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        # An id without data: a client that loses the connection before the first message resumes here.
        part = f"retry: {RETRY_MILLISECONDS}\nid: {self._begin}\n\n".encode()
        try:
            while part:
                await send({"type": "http.response.body", "body": part, "more_body": True})
                part = await self._next()
        finally:
            with CancelScope(shield=True):
                await self._close()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next(self) -> bytes:
        """The next message, or a keep-alive comment if none has come for a while; empty at the end."""
        now = asyncio.get_running_loop().time
        if self._coming is None:
            self._coming = asyncio.ensure_future(anext(self._messages, None))
        awaited = (self._coming, self._streams.ending)
        wait = max(0, self._checked_at + self._seconds - now())
        await asyncio.wait(awaited, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        if self._streams.ending.done():
            return b""
        # Before each message too, so that none goes to a token that has been revoked.
        if now() >= self._checked_at + (TRUSTED if self._coming.done() else self._seconds):
            if not await self._caller.is_admitted():
                return b""
            self._checked_at = now()
        if not self._coming.done():
            return KEEP_ALIVE
        try:
            message = self._coming.result()
        except StoreUnavailable as error:
            log.warning("a stream of events ends: %s", error)
            return b""
        self._coming = None
        return b"" if message is None else sent(message)

    async def _close(self) -> None:
        if self._coming is not None:
            self._coming.cancel()
            await asyncio.wait([self._coming])
        await self._messages.aclose()


def sent(message: Message) -> bytes:
    """A message as a server-sent event, whose type is the topic. Long contents are cut, as in lists."""
    told = message.to_dict()
    if len(content := told["payload"].get("content") or "") > LONGEST_CONTENT:
        told["payload"] |= {"content": shortened(content, LONGEST_CONTENT), "contentLength": len(content)}
    # JSON escapes line breaks, so the data is always one line.
    return f"id: {message.cursor}\nevent: {message.topic}\ndata: {json.dumps(told)}\n\n".encode()


def _asked(request: Request) -> tuple[frozenset[str], str | None]:
    """The topics, repeated or separated by commas, and the cursor."""
    topics: list[str] = []
    after: list[str] = []
    for name, value in request.query_params.multi_items():
        if name not in ("topics", "after"):
            raise InvalidInput(f"{name:.80}", "is not a parameter", "topics, after")
        topics += value.split(",") if name == "topics" else ()
        after += [value] if name == "after" else ()
    if len(after) > 1:
        raise InvalidInput("after", "is given twice", "once")
    return chosen(topics or None), request.headers.get(LAST) or next(iter(after), None)
