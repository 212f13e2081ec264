"""The MCP server over streamable HTTP: no sessions, one JSON answer to each request, a gate before it all."""

import asyncio
import ipaddress
import logging
import re
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import typer
import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tulving.bootstrap import Served, open_served
from tulving.config import HttpConfig, MemoryModuleConfig
from tulving.errors import ConfigError, InvalidInput
from tulving.interfaces.calls import LazyMemory
from tulving.interfaces.connections import limited
from tulving.interfaces.gate import Gate, Names, Site, Whole, guest_of, host_names, origins
from tulving.interfaces.mcp import build_shared

log = logging.getLogger("tulving")

PATH = "/mcp"
LARGEST_BODY = 4 * 1024 * 1024
GRACE_SECONDS = 30
HEALTH_SECONDS = 5
BACKLOG = 2048
_ADDRESS = re.compile(r"(?:([A-Za-z0-9._-]+)|\[([0-9A-Fa-f:.]+)\]):([0-9]{1,5})")


def serve(config: MemoryModuleConfig, address: str, to_all: bool = False) -> None:
    """Serve the memory at an address until the process is told to end; requests in hand are answered first.

    Whoever asks needs a token; `to_all` lets every program on this machine in while the store has none.
    """
    host, port = parse_address(address)
    names, pages = host_names(config.allowed_hosts), origins(config.allowed_origins)
    with listen(host, port) as listener:
        bound, port = listener.getsockname()[:2]
        loopback = ipaddress.ip_address(bound.partition("%")[0]).is_loopback
        site = Site(host, port, loopback, names, pages)
        if to_all and not site.local:
            allowed = "a loopback address without allowed_hosts; for others, `tulving token create` and no --open"
            raise ConfigError("open", "is not possible where others can reach the server", allowed)
        asyncio.run(_serve(config, site, listener, to_all))


async def _serve(config: MemoryModuleConfig, site: Site, listener: socket.socket, to_all: bool) -> None:
    async with LazyMemory(lambda: open_served(config)) as served:
        await _check_tokens(served, to_all)
        await _run(web_server(application(config, served, site, not to_all), config.http), listener)


def application(config: MemoryModuleConfig, memory: LazyMemory[Served], site: Site, closed: bool) -> Starlette:
    """What is served at a site; while it is closed, to those who have a token only."""
    manager = StreamableHTTPSessionManager(
        build_shared(config, guest_of), json_response=True, stateless=True, max_request_body_size=LARGEST_BODY
    )

    @asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            typer.echo(f"Tulving serves http://{site.shown_host}:{site.port}{PATH} {_to_whom(closed)}", err=True)
            yield

    served = RequestBodyLimitMiddleware(Whole(manager.handle_request), LARGEST_BODY)
    return Starlette(
        routes=[
            Route("/live", live),
            Route("/health", Health(memory).answer),
            Route(PATH, Gate(served, memory, closed), methods=["POST"]),
        ],
        middleware=[Middleware(Names, site), *_cross_origin(site)],
        lifespan=running,
    )


async def live(request: Request) -> PlainTextResponse:
    """That the process is there, whatever the store does: for those who would start it again otherwise."""
    return PlainTextResponse("ok")


class Health:
    """Whether requests can be answered well. Anybody may ask: it gives no details and looks at most once a second."""

    def __init__(self, served: LazyMemory[Served]) -> None:
        self._served = served
        self._look: asyncio.Task[str | None] | None = None
        self._good_until = 0.0

    async def answer(self, request: Request) -> PlainTextResponse:
        loop = asyncio.get_running_loop()
        if self._look is None or (self._look.done() and loop.time() >= self._good_until):
            self._good_until = loop.time() + 1
            self._look = loop.create_task(self._problem())
        problem = await asyncio.shield(self._look)
        return PlainTextResponse(problem or "ok", 503 if problem else 200)

    async def _problem(self) -> str | None:
        try:
            async with asyncio.timeout(HEALTH_SECONDS):
                served = await self._served()
                await served.authentication.needs_token()
        except Exception as error:
            log.error("the store can't be reached: %s", str(error) or f"no answer in {HEALTH_SECONDS} s")
            return "the store can't be reached"
        return "the embedder is not ready: memories are found by keyword only" if served.memory.warning else None


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT; port 0 takes any that is free."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[3]) > 65_535:
        raise InvalidInput("http", f"{text!r:.80} is not an address", "HOST:PORT, as 127.0.0.1:8321 or [::1]:8321")
    return match[1] or match[2], int(match[3])


def listen(host: str, port: int) -> socket.socket:
    """A socket at the first address of a host; whoever connects waits there until the server is ready."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise InvalidInput("http", f"the host {host!r:.80} is not known ({error})") from error
    family, kind, protocol, _, place = min(found, key=lambda each: each[0] != socket.AF_INET)
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(place)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise OSError(f"can't listen on {host}, port {port}: {error.strerror or error}") from error
    return listener


async def _check_tokens(served: LazyMemory[Served], to_all: bool) -> None:
    """Without a token in the store nobody could use a server that asks for one; with one, none is open to all.

    While the store can't be asked the server starts nevertheless: each request asks again.
    """
    try:
        needed = await (await served()).authentication.needs_token()
    except Exception as error:
        log.error("the store can't be used yet: %s", error)
        return
    if needed and to_all:
        raise ConfigError("open", "is not possible, since the store has tokens", "no --open, or `tulving token revoke`")
    if not needed and not to_all:
        allowed = "first `tulving token create`, or --open for every program on this machine"
        raise ConfigError("http", "nobody could come in: there is no token yet", allowed)


def _to_whom(closed: bool) -> str:
    if closed:
        return "to those who have a token"
    return (
        "WITHOUT A TOKEN (--open): to every program on this machine, and to everybody for whom a proxy or tunnel"
        " forwards requests to it; `tulving token create` closes it"
    )


def _cross_origin(site: Site) -> list[Middleware]:
    """What browsers want to hear before they let a page of another origin read an answer."""
    if not site.origins:
        return []
    pages = sorted(site.origins)
    return [Middleware(CORSMiddleware, allow_origins=pages, allow_methods=["POST"], allow_headers=["*"])]


class WebServer(uvicorn.Server):
    """Takes a few connections at a time out of a long queue.

    Asyncio has one number for both, and accepts as many as it says before the first of them can be refused: enough to
    use up the files of the process.
    """

    AT_A_TIME = 8

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)


def web_server(app: Starlette, limits: HttpConfig) -> uvicorn.Server:
    """The server beneath the application, kept to the limits."""
    return WebServer(
        uvicorn.Config(
            app,
            http=limited(limits),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=WebServer.AT_A_TIME,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )


async def _run(server: uvicorn.Server, listener: socket.socket) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        # Uvicorn takes the signal for its end, and when it has ended well, raises it again for whoever was before it.
        signal.signal(number, lambda *_: None)
    await server.serve([listener])
