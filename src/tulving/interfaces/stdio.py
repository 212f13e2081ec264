"""Standard input and output as a conversation that ends well: whatever was asked is answered before the end."""

import asyncio
import io
import json
import re
import signal
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread
from types import TracebackType
from typing import Any, Self, cast

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import (
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
"""The one version of the protocol that knows batches."""

_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)


class InputLines:
    """The lines of standard input, until it ends or is told to end.

    A thread of its own reads them, since a thread that waits for input can be neither cancelled nor joined.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        Thread(target=self._read, daemon=True, name="tulving-stdin").start()

    def _read(self) -> None:
        with suppress(OSError, RuntimeError), open(0, "rb", closefd=False) as file:
            for line in file:
                self._loop.call_soon_threadsafe(self._lines.put_nowait, line.decode(errors="replace"))
            self._loop.call_soon_threadsafe(self.end)

    def end(self) -> None:
        self._lines.put_nowait(None)

    async def next(self) -> str | None:
        """The next line that is not blank; None at the end."""
        while (line := await self._lines.get()) is not None:
            if line.strip():
                return line
        self.end()  # for whoever asks again
        return None


class Refused(Exception):
    """What a client sent is not a message; it is told so by an error under the id that it gave, if it gave one."""

    def __init__(self, code: int, problem: str, id_: object = None) -> None:
        super().__init__(problem)
        known = id_ if isinstance(id_, int | str) and not isinstance(id_, bool) else None
        self.answer = JSONRPCError(jsonrpc="2.0", id=known, error=ErrorData(code=code, message=problem))


def parse(line: str) -> JSONRPCMessage | list[Any]:
    """A message, or a batch that has not been looked into.

    Half of a surrogate pair, which a host leaves that cuts text by UTF-16 units, becomes U+FFFD: the rest is meant.
    """
    try:
        # By far the most lines are right, and this is the quick way to know.
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        if not isinstance(message, JSONRPCNotification):
            return message
    except ValidationError:
        pass
    try:
        value = json.loads(_ESCAPE.sub(lambda found: r"\ufffd" if found["lone"] else found[0], line))
    except (ValueError, RecursionError):
        raise Refused(PARSE_ERROR, "Parse error: this line is not valid JSON") from None
    return value if isinstance(value, list) else parse_value(value)


def parse_value(value: Any) -> JSONRPCMessage:
    """A message. One with an id that is not an id is not taken for a notification, which nobody answers."""
    id_ = value.get("id") if isinstance(value, dict) else None
    try:
        message = jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        raise Refused(INVALID_REQUEST, "Invalid request: this is not a JSON-RPC message", id_) from None
    if isinstance(message, JSONRPCNotification) and "id" in value:
        raise Refused(INVALID_REQUEST, "Invalid request: an id is a text or a whole number")
    return message


class Answers(RootModel[list[JSONRPCResponse | JSONRPCError]]):
    """Answers that go out as one array."""


@dataclass(slots=True)
class Batch:
    """A batch in hand: the ids that still wait for an answer, and the answers that wait for them."""

    waiting: set[str] = field(default_factory=set)
    answers: list[JSONRPCResponse | JSONRPCError] = field(default_factory=list)


class Exchange:
    """Every request gets an answer, those of a batch together; and nothing that is not a request goes unanswered."""

    def __init__(self, output: Any) -> None:
        self._output = output
        self._version: object = None
        self._opening: str | None = None
        self._in_hand: dict[str, Batch | None] = {}
        self._settled = asyncio.Event()
        self._settled.set()

    async def hear(self, line: str) -> list[JSONRPCMessage]:
        """The messages of a line."""
        try:
            heard = parse(line)
            if isinstance(heard, list):
                return await self._unpack(heard)
            await self._note(heard)
        except Refused as refused:
            await self._output.send(SessionMessage(refused.answer))
            return []
        return [heard]

    async def say(self, item: SessionMessage) -> None:
        """Send a message of the server's; an answer that belongs to a batch, with the last of the batch."""
        message = item.message
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            await self._output.send(item)
            return
        id_ = str(message.id)
        if id_ == self._opening and isinstance(message, JSONRPCResponse):
            self._version = message.result.get("protocolVersion")
        batch = self._in_hand.get(id_)
        if batch is None:
            await self._output.send(item)
        else:
            batch.answers.append(message)
        await self._done(id_)

    async def settled(self) -> None:
        """Return when nothing is in hand."""
        await self._settled.wait()

    async def _unpack(self, values: list[Any]) -> list[JSONRPCMessage]:
        if not values or self._version != BATCHES:
            problem = f"one message a line, or a batch in version {BATCHES} of the protocol"
            raise Refused(INVALID_REQUEST, f"Invalid request: {problem}")
        batch, messages = Batch(), list[JSONRPCMessage]()
        for value in values:
            try:
                message = parse_value(value)
                await self._note(message, batch)
                messages.append(message)
            except Refused as refused:
                batch.answers.append(refused.answer)
        await self._finish(batch)
        return messages

    async def _note(self, message: JSONRPCMessage, batch: Batch | None = None) -> None:
        if isinstance(message, JSONRPCRequest):
            if str(message.id) in self._in_hand:
                raise Refused(INVALID_REQUEST, "Invalid request: this id is in use", message.id)
            self._in_hand[str(message.id)] = batch
            self._settled.clear()
            if batch is not None:
                batch.waiting.add(str(message.id))
            if message.method == "initialize":
                self._opening = str(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            await self._done(str((message.params or {}).get("requestId")))  # it is not answered

    async def _done(self, id_: str) -> None:
        if batch := self._in_hand.get(id_):
            batch.waiting.discard(id_)
            await self._finish(batch)
        self._in_hand.pop(id_, None)
        if not self._in_hand:
            self._settled.set()

    async def _finish(self, batch: Batch) -> None:
        if batch.answers and not batch.waiting:
            await self._output.send(SessionMessage(cast(Any, Answers(batch.answers))))


class _Stream:
    """A stream in the form in which the server takes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Nothing by default."""


class Incoming(_Stream):
    """What the client says. The server stops work in hand where this ends, so it ends when nothing is in hand."""

    def __init__(self, lines: InputLines, exchange: Exchange) -> None:
        self._lines, self._exchange = lines, exchange
        self._unread = deque[JSONRPCMessage]()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while not self._unread:
            if (line := await self._lines.next()) is None:
                await self._exchange.settled()
                raise StopAsyncIteration
            self._unread.extend(await self._exchange.hear(line))
        return SessionMessage(self._unread.popleft())

    async def receive(self) -> SessionMessage | Exception:
        return await self.__anext__()


class Outgoing(_Stream):
    """What the server says."""

    def __init__(self, output: Any, exchange: Exchange) -> None:
        self._output, self._exchange = output, exchange

    async def send(self, item: SessionMessage, /) -> None:
        await self._exchange.say(item)

    async def aclose(self) -> None:
        await self._output.aclose()


@asynccontextmanager
async def conversation() -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Both directions of standard input and output. SIGTERM and SIGINT are taken for the end of input."""
    lines = InputLines()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, lines.end)
    # The library's own reader drops what is not a message, so it is given nothing to read.
    async with stdio_server(stdin=anyio.wrap_file(io.StringIO())) as (nothing, output), nothing:
        exchange = Exchange(output)
        yield Incoming(lines, exchange), Outgoing(output, exchange)
