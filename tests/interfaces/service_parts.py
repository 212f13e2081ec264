"""A whole service in this process, on a real socket, and ways to listen to its events."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from http_parts import Served, bearer, new_token, opening_by, started

from tulving import Memory, open_memory
from tulving.bootstrap import Served as Store
from tulving.bootstrap import utc_now
from tulving.config import load_config
from tulving.interfaces.calls import Opened, open_lazily
from tulving.interfaces.http import api
from tulving.interfaces.http.application import application
from tulving.interfaces.http.authentication import Access
from tulving.interfaces.http.hosts import Endpoint
from tulving.interfaces.http.identity import IdentityProvider
from tulving.interfaces.http.server import WebServer, listen, web_server
from tulving.ports import Clock
from tulving.settings import HttpConfig


@dataclass
class Service:
    """A service, and the memory behind it."""

    port: int
    opened: Opened[Store]
    access: Access
    server: WebServer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)

    async def memory(self) -> Memory:
        return (await self.opened()).memory

    async def create(self, tenant: str = "default", **options: Any) -> str:
        """A token for a tenant."""
        return await new_token(await self.memory(), tenant, **options)

    async def revoke(self, secret: str) -> None:
        served = await self.opened()
        token = await served.authentication.authenticate(secret)
        assert token is not None
        await served.administration.revoke_token(str(token.id))

    def client(self, secret: str | None = None) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.url, headers=bearer(secret), timeout=30)


@asynccontextmanager
async def service(
    http: dict[str, Any] | None = None, closed: bool = True, clock: Clock = utc_now, **settings: Any
) -> AsyncIterator[Service]:
    config = load_config(**settings, http=HttpConfig(**(http or {})))
    provider = IdentityProvider(config.jwt, config.tenant) if config.jwt.chosen else None

    async with open_lazily(opening_by(lambda: open_memory(config=config, clock=clock, background=False))) as opened:
        with listen("127.0.0.1", 0) as listener:
            port = listener.getsockname()[1]
            access = Access(opened, is_open=not closed, limits=config.http, provider=provider)
            at = Endpoint("127.0.0.1", port)
            app = application(config, opened, at, access, api.routes(config, access))
            server = web_server(app, config.http, access.streams.end)
            running = asyncio.create_task(server.serve([listener]))
            while not server.started:
                await asyncio.sleep(0.01)
            try:
                yield Service(port, opened, access, server)  # pyright: ignore[reportArgumentType]
            finally:
                server.should_exit = True
                await running


@dataclass
class Heard:
    """One server-sent event, as a browser takes it."""

    id: str
    event: str
    data: Any


@dataclass
class Listener:
    """A client that reads a stream as browsers do."""

    response: httpx2.Response
    last: str = ""
    retry: int = 0
    comments: int = 0
    _lines: Any = field(init=False)

    def __post_init__(self) -> None:
        self._lines = self.response.aiter_lines()

    async def next(self, seconds: float = 20) -> Heard:
        """The next event. Raises StopAsyncIteration where the stream ends."""
        async with asyncio.timeout(seconds):
            event, data = "", ""
            while True:
                name, colon, value = (await anext(self._lines)).partition(":")
                value = value.removeprefix(" ")
                match name:
                    case "id":
                        self.last = value
                    case "event":
                        event = value
                    case "data":
                        data += value
                    case "retry":
                        self.retry = int(value)
                    case "" if colon:
                        self.comments += 1
                    case "" if data:
                        return Heard(self.last, event, json.loads(data))

    async def end(self, seconds: float = 20) -> list[Heard]:
        """What comes until the stream ends."""
        found: list[Heard] = []
        async with asyncio.timeout(seconds):
            while True:
                try:
                    found.append(await self.next(seconds))
                except StopAsyncIteration:
                    return found


@asynccontextmanager
async def listening(
    client: httpx2.AsyncClient, after: str | None = None, last: str | None = None, **query: Any
) -> AsyncIterator[Listener]:
    headers = {} if last is None else {"last-event-id": last}
    query |= {} if after is None else {"after": after}
    async with client.stream("GET", "/v1/events", params=query, headers=headers) as response:
        assert response.status_code == 200, (await response.aread()).decode()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Listener(response)


def service_process(
    *options: str, address: str = "127.0.0.1", port: int = 0, **changed: str
) -> AbstractContextManager[Served]:
    """`tulving serve` as a process of its own, killed at the end."""
    return started("serve", f"{address}:{port}", *options, environ=os.environ | changed)


def client_of(served: Served, secret: str | None = None, **options: Any) -> httpx2.AsyncClient:
    """A client of a service in another process."""
    at = f"http://127.0.0.1:{served.port}"
    return httpx2.AsyncClient(base_url=at, headers=bearer(secret), **{"timeout": 30, **options})
