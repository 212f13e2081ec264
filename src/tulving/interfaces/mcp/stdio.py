"""The stdio transport: every request on standard input is answered before the server ends, malformed ones too."""

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import RootModel, ValidationError

BATCHES = "2025-03-26"
"""The one version of the protocol that has batches."""

_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)


@asynccontextmanager
async def conversation(
    first: str | None, lines: asyncio.Queue[str | None], is_greeted: bool
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of requests and responses that a server takes. The `first` line may be an `initialize` that is
    answered already."""
    to_server, requests = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async def receive() -> None:
        async with to_server:
            line = first
            while line is not None:
                for message in await exchange.receive(line) if line.strip() else ():
                    await to_server.send(SessionMessage(message))
                line = await lines.get()
            await exchange.hang_up()
            # The server stops its work where the requests end, so they end when none is left.
            await exchange.idle.wait()

    # The library's own reader drops what is not a message, so it is given nothing to read.
    async with (
        stdio_server(stdin=anyio.wrap_file(io.StringIO())) as (nothing, output),
        nothing,
        anyio.create_task_group() as tasks,
        requests,
        Exchange(output, to_server, is_greeted) as exchange,
    ):
        tasks.start_soon(receive)
        yield requests, exchange


class Refused(Exception):
    """A client sent something that is not a message. The response carries the id that it gave, if it gave one."""

    def __init__(self, code: int, problem: str, id_: object = None) -> None:
        super().__init__(problem)
        known = id_ if isinstance(id_, int | str) and not isinstance(id_, bool) else None
        self.response = JSONRPCError(jsonrpc="2.0", id=known, error=ErrorData(code=code, message=problem))


def decode(line: str) -> Any:
    """The JSON value of a line. A lone surrogate, left by a host that cuts text by UTF-16 units, becomes U+FFFD."""
    if r"\ud" in line.lower():  # seldom, and the expression is slow
        line = _ESCAPE.sub(lambda found: r"\ufffd" if found["lone"] else found[0], line)
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise Refused(PARSE_ERROR, "Parse error: this line is not valid JSON") from None


def parse(value: Any) -> JSONRPCMessage:
    """A message. One with a malformed id is refused, not taken for a notification, which would get no response."""
    id_ = value.get("id") if isinstance(value, dict) else None
    try:
        message = jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        raise Refused(INVALID_REQUEST, "Invalid request: this is not a JSON-RPC message", id_) from None
    if isinstance(message, JSONRPCNotification) and "id" in value:
        raise Refused(INVALID_REQUEST, "Invalid request: an id is a text or a whole number")
    return message


class Responses(RootModel[list[JSONRPCResponse | JSONRPCError]]):
    """The responses to a batch, sent as one array."""


@dataclass(slots=True)
class Reply:
    """What one line of input is owed: the ids without a response, with None for the line while it is being read."""

    is_batch: bool = False
    waiting: set[str | None] = field(default_factory=lambda: {None})
    responses: list[JSONRPCResponse | JSONRPCError] = field(default_factory=list)


class Exchange(AbstractAsyncContextManager[Any]):
    """The stream of responses, which matches them to requests: each gets one, those of a batch together.

    The server's own requests wait for the client's response, or for the error that they get when the client is gone.
    """

    def __init__(self, output: Any, to_server: Any, is_greeted: bool) -> None:
        self._output, self._to_server = output, to_server
        self._is_greeted = is_greeted
        self._asked: dict[str, int | str] = {}
        self._is_client_gone = False
        self._version: object = None
        self._initialize_id: str | None = None
        self._replies: dict[str | None, Reply] = {}
        self.idle = asyncio.Event()
        """Set while no request waits for its response."""
        self.idle.set()

    async def receive(self, line: str) -> list[JSONRPCMessage]:
        """The messages of a line for the server; what is refused is answered here."""
        if self._initialize_id in self._replies:
            await self.idle.wait()  # until then the version of the protocol is not known
        reply, accepted, values = Reply(), list[JSONRPCMessage](), []
        try:
            value = decode(line)
            if isinstance(value, list):
                if not value or self._version != BATCHES:
                    problem = f"one message a line, or a batch in version {BATCHES} of the protocol"
                    raise Refused(INVALID_REQUEST, f"Invalid request: {problem}")
                reply.is_batch = True
            values = value if reply.is_batch else [value]
        except Refused as refused:
            reply.responses.append(refused.response)
        for value in values:
            try:
                message = parse(value)
                await self._note(message, reply)
                accepted.append(message)
            except Refused as refused:
                reply.responses.append(refused.response)
        await self._settle(reply, None)
        return accepted

    async def send(self, item: SessionMessage) -> None:
        """Send a message of the server; a response to a part of a batch, with the last one of the batch."""
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self._asked[str(message.id)] = message.id
            if self._is_client_gone:
                await self.hang_up()
                return
        id_ = str(message.id) if isinstance(message, JSONRPCResponse | JSONRPCError) else None
        reply = self._replies.get(id_)
        if reply is None:
            await self._output.send(item)
            return
        if id_ == self._initialize_id and isinstance(message, JSONRPCResponse):
            self._version = message.result.get("protocolVersion")
        if not self._is_greeted:
            reply.responses.append(cast(JSONRPCResponse | JSONRPCError, message))
        self._is_greeted = False  # only the first request is answered already
        await self._settle(reply, id_)

    async def hang_up(self) -> None:
        """The client says nothing more, so it answers no question either."""
        self._is_client_gone = True
        while self._asked:
            _, id_ = self._asked.popitem()
            gone = ErrorData(code=CONNECTION_CLOSED, message="the client is gone")
            await self._to_server.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=id_, error=gone)))

    async def aclose(self) -> None:
        await self._output.aclose()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _note(self, message: JSONRPCMessage, reply: Reply) -> None:
        if isinstance(message, JSONRPCRequest):
            id_ = str(message.id)
            if id_ in self._replies:
                raise Refused(INVALID_REQUEST, "Invalid request: this id is in use", message.id)
            self._replies[id_] = reply
            reply.waiting.add(id_)
            self.idle.clear()
            if message.method == "initialize":
                self._initialize_id = id_
        elif isinstance(message, JSONRPCResponse | JSONRPCError):
            self._asked.pop(str(message.id), None)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            id_ = str((message.params or {}).get("requestId"))
            if id_ in self._replies:
                await self._settle(self._replies[id_], id_)  # a cancelled request gets no response

    async def _settle(self, reply: Reply, id_: str | None) -> None:
        """Stop waiting for an id, and send the responses when none is awaited any longer."""
        reply.waiting.discard(id_)
        if not reply.waiting and reply.responses:
            message = Responses(reply.responses) if reply.is_batch else reply.responses[0]
            reply.responses = []
            await self._output.send(SessionMessage(cast(Any, message)))
        self._replies.pop(id_, None)  # only now, since the server may end when none is left
        if not self._replies:
            self.idle.set()
