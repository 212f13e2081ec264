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
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tulving.bootstrap import open_memory
from tulving.config import MemoryModuleConfig
from tulving.errors import ConfigError, InvalidInput
from tulving.interfaces.calls import LazyMemory
from tulving.interfaces.gate import Gate, Names, Site, guest_of, host_names, origins
from tulving.interfaces.mcp import build_shared

log = logging.getLogger("tulving")

PATH = "/mcp"
LARGEST_BODY = 4 * 1024 * 1024
GRACE_SECONDS = 30
_ADDRESS = re.compile(r"(?:([A-Za-z0-9._-]+)|\[([0-9A-Fa-f:.]+)\]):([0-9]{1,5})")


def serve(config: MemoryModuleConfig, address: str) -> None:
    """Serve the memory at an address until the process is told to end; requests in hand are answered first."""
    host, port = parse_address(address)
    names, pages = host_names(config.allowed_hosts), origins(config.allowed_origins)
    with listen(host, port) as listener:
        bound, port = listener.getsockname()[:2]
        loopback = ipaddress.ip_address(bound.partition("%")[0]).is_loopback
        asyncio.run(_serve(config, Site(host, port, loopback, names, pages), listener))


async def _serve(config: MemoryModuleConfig, site: Site, listener: socket.socket) -> None:
    async with LazyMemory(lambda: open_memory(config=config)) as memory:
        closed = await _is_closed(memory, site)
        await _run(application(config, memory, site, closed), listener)


def application(config: MemoryModuleConfig, memory: LazyMemory, site: Site, closed: bool) -> Starlette:
    """What is served at a site; while it is closed, to those who have a token only."""
    manager = StreamableHTTPSessionManager(
        build_shared(config, guest_of), json_response=True, stateless=True, max_request_body_size=LARGEST_BODY
    )

    @asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            typer.echo(f"Tulving serves http://{site.shown_host}:{site.port}{PATH} {_to_whom(closed)}", err=True)
            yield

    return Starlette(
        routes=[Route("/health", health), Route(PATH, Gate(manager.handle_request, memory, closed), methods=["POST"])],
        middleware=[Middleware(Names, site), *_cross_origin(site)],
        lifespan=running,
    )


async def health(request: Request) -> PlainTextResponse:
    """That somebody is there; no more, since anybody may ask."""
    return PlainTextResponse("ok")


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
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise OSError(f"can't listen on {host}, port {port}: {error.strerror or error}") from error
    return listener


async def _is_closed(memory: LazyMemory, site: Site) -> bool:
    """Whether every request needs a token. Where others can come, there must be one before the server starts."""
    try:
        needed = await (await memory()).needs_token()
    except Exception as error:
        log.error("the store can't be used yet: %s", error)
        return not site.local
    if not needed and not site.local:
        problem = "is to be reached from elsewhere, and there is no token yet"
        raise ConfigError("http", problem, "a loopback address without allowed_hosts, or first `tulving token create`")
    return needed


def _to_whom(closed: bool) -> str:
    if closed:
        return "to those who have a token"
    return "to every program on this machine; `tulving token create` closes it"


def _cross_origin(site: Site) -> list[Middleware]:
    """What browsers want to hear before they let a page of another origin read an answer."""
    if not site.origins:
        return []
    pages = sorted(site.origins)
    return [Middleware(CORSMiddleware, allow_origins=pages, allow_methods=["POST"], allow_headers=["*"])]


async def _run(app: Starlette, listener: socket.socket) -> None:
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        # Uvicorn takes the signal for its end, and when it has ended well, raises it again for whoever was before it.
        signal.signal(number, lambda *_: None)
    await server.serve([listener])
