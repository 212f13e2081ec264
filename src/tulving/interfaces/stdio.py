"""Standard input and output as a conversation that ends well: whatever was asked is answered before the end."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from threading import Thread
from types import TracebackType
from typing import Any, Self, cast

from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse


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

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._lines.get()) is not None:
            yield line


class _Stream:
    """What both directions have in common: a stream inside, and the requests that still wait for an answer."""

    def __init__(self, stream: Any, waiting: "Waiting") -> None:
        self._stream, self._waiting = stream, waiting

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._stream.aclose()


class Requests(_Stream):
    """What the client says. The server stops work in hand where this ends, so it ends when nothing is in hand."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            item = await self._stream.__anext__()
        except StopAsyncIteration:
            await self._waiting.settled()
            raise
        self._waiting.heard(item)
        return item

    async def receive(self) -> SessionMessage | Exception:
        return await self.__anext__()


class Answers(_Stream):
    """What the server says."""

    async def send(self, item: SessionMessage, /) -> None:
        await self._stream.send(item)
        self._waiting.said(item)


class Waiting:
    """The requests that have been heard and not been answered."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._none = asyncio.Event()
        self._none.set()

    def heard(self, item: SessionMessage | Exception) -> None:
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCRequest):
            self._ids.add(str(message.id))
            self._none.clear()
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._answered((message.params or {}).get("requestId"))

    def said(self, item: SessionMessage) -> None:
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._answered(item.message.id)

    def _answered(self, id_: object) -> None:
        self._ids.discard(str(id_))
        if not self._ids:
            self._none.set()

    async def settled(self) -> None:
        await self._none.wait()


@asynccontextmanager
async def conversation() -> AsyncIterator[tuple[Requests, Answers]]:
    """Both directions of standard input and output. SIGTERM and SIGINT are taken for the end of input."""
    lines = InputLines()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, lines.end)
    async with stdio_server(stdin=cast(Any, lines)) as (incoming, outgoing):
        waiting = Waiting()
        yield Requests(incoming, waiting), Answers(outgoing, waiting)
