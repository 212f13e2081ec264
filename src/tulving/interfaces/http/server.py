"""The HTTP server: it listens at an address and runs the application there until the process is told to end."""

import asyncio
import ipaddress
import logging
import os
import re
import signal
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from tulving.bootstrap import Served, new_secret, open_served
from tulving.errors import ConfigError, InvalidInput
from tulving.interfaces import logs, traces
from tulving.interfaces.calls import Opened, open_lazily
from tulving.interfaces.http.application import PATH, application
from tulving.interfaces.http.authentication import Access
from tulving.interfaces.http.connections import Network, limited
from tulving.interfaces.http.health import Health
from tulving.interfaces.http.hosts import Endpoint, host_names, origins
from tulving.interfaces.http.observability import Observability
from tulving.settings import HttpConfig, MemoryModuleConfig

if TYPE_CHECKING:
    from tulving.interfaces.http.identity import IdentityProvider

log = logging.getLogger("tulving")

BACKLOG = 2048
SIGNALS = signal.SIGTERM, signal.SIGINT
FORCED_SECONDS = 2
"""How long requests that are cancelled at once may take to end."""
_ADDRESS = re.compile(r"(?:([A-Za-z0-9._-]+)|\[([0-9A-Fa-f:.]+)\]):([0-9]{1,5})")


def serve(
    config: MemoryModuleConfig,
    address: str,
    is_open: bool = False,
    *,
    whole: bool = False,
    tls: ssl.SSLContext | None = None,
    proxies: Sequence[Network] = (),
) -> None:
    """Serve the memory at an address until the process is told to end; requests under way are answered first: over
    MCP, and as a `whole` service with its HTTP API and console.

    A request needs a token; `is_open` admits every program on this machine while the store has none. What `proxies` say
    about their clients is believed.
    """
    host, port = parse_address(address)
    names, pages = host_names(config.allowed_hosts), origins(config.allowed_origins)
    with listen(host, port) as listener, closing(Observability(config.metrics, traces.configured())) as observability:
        bound, port = listener.getsockname()[:2]
        is_loopback = ipaddress.ip_address(bound.partition("%")[0]).is_loopback
        at = Endpoint(host, port, is_loopback, names, pages, tls is not None)
        if is_open and not at.is_local:
            allowed = "a loopback address without allowed_hosts; for others, `tulving token create` and no --open"
            raise ConfigError("open", "is not possible where others can reach the server", allowed)
        if is_open and proxies:
            raise ConfigError("open", "is not possible behind a proxy", "no --open, or no --proxy-headers")
        if is_open and config.jwt.chosen:
            raise ConfigError("open", "is not possible with an identity provider", "no --open, or no jwt.issuer")
        asyncio.run(_serve(config, at, listener, is_open, whole, observability, tls, proxies))


async def _serve(
    config: MemoryModuleConfig,
    address: Endpoint,
    listener: socket.socket,
    is_open: bool,
    whole: bool,
    observability: Observability,
    tls: ssl.SSLContext | None,
    proxies: Sequence[Network],
) -> None:
    async with open_lazily(lambda: open_served(config, observability.observer)) as served:
        needs_token = not (whole and address.is_local) and not config.jwt.chosen
        has_tokens = await _check_tokens(served, is_open, needs_token)
        # Who starts a whole service on their own machine sees its console without creating a token first. A log for
        # programs is no place for a secret.
        needs_key = whole and address.is_local and not has_tokens and not is_open and config.logs.format == "text"
        key = new_secret() if needs_key else None
        access = Access(served, is_open, key, config.http, _provider(config))
        more: list[BaseRoute] = [*observability.routes(served, access, address)]
        said = [f"Tulving serves {address.url}{PATH} {_to_whom(is_open)}"]
        if whole:
            from tulving.interfaces import console
            from tulving.interfaces.http import api, openapi

            more += [*api.routes(config, access), *console.routes(config, access)]
            said.append(f"Console: {address.url}{console.PATH}{f'/login?key={key}' if key else ''}")
            said.append(f"API: {address.url}{api.PATH}, described by {openapi.PATH}")

        def announce() -> None:
            logs.announce(said, config.logs)

        health = Health(served, access)
        watching = observability.middleware
        app = application(config, served, address, access, more, announce, watching=watching, health=health)
        server = web_server(app, config.http, access.streams.end, health.leave, tls, proxies)
        for number in SIGNALS:
            # Uvicorn ends at the signal, and afterwards raises it again for the handler that was there before.
            signal.signal(number, lambda *_: None)
        await server.serve([listener])
        for number in SIGNALS:  # only the store is left to be closed, which a kill can't harm
            signal.signal(number, signal.SIG_DFL)


def _provider(config: MemoryModuleConfig) -> "IdentityProvider | None":
    """The configured identity provider, if any."""
    if not config.jwt.chosen:
        return None
    from tulving.interfaces.http.identity import IdentityProvider

    return IdentityProvider(config.jwt, config.tenant)


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT; port 0 takes any that is free."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[3]) > 65_535:
        raise InvalidInput("http", f"{text!r:.80} is not an address", "HOST:PORT, as 127.0.0.1:8765 or [::1]:8765")
    return match[1] or match[2], int(match[3])


def listen(host: str, port: int) -> socket.socket:
    """A socket at the first address of a host; clients that connect early wait in its queue."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise InvalidInput("http", f"the host {host!r:.80} is not known ({error})") from error
    family, _, _, _, place = min(found, key=lambda each: each[0] != socket.AF_INET)
    try:
        return socket.create_server(place, family=family, backlog=BACKLOG)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(f"can't listen on {host}, port {port}: {reason}") from error


async def _check_tokens(served: Opened[Served], is_open: bool, needs_one: bool) -> bool:
    """Whether the store has a token. A closed server may need one, and an open one must not have any.

    While the store can't be reached the server starts nevertheless: each request asks again.
    """
    try:
        has_tokens = await (await served()).authentication.needs_token()
    except Exception as error:
        log.error("the store can't be used yet: %s", error)
        return True
    if has_tokens and is_open:
        raise ConfigError("open", "is not possible, since the store has tokens", "no --open, or `tulving token revoke`")
    if needs_one and not has_tokens and not is_open:
        allowed = "first `tulving token create`, or --open for every program on this machine"
        raise ConfigError("http", "there is no token yet, so every request would be refused", allowed)
    return has_tokens


def _to_whom(is_open: bool) -> str:
    if not is_open:
        return "to those who have a token"
    return (
        "WITHOUT A TOKEN (--open): to every program on this machine, and to everybody for whom a proxy or tunnel"
        " forwards requests to it; `tulving token create` closes it"
    )


class WebServer(uvicorn.Server):
    """Accepts a few connections at a time out of a long queue.

    Asyncio has one number for both, and accepts as many as it says before the first of them can be refused: enough to
    use up the file descriptors of the process.
    """

    AT_A_TIME = 8

    def __init__(
        self, config: uvicorn.Config, ending: Callable[[], None], leaving: Callable[[], None], drain_time: float
    ) -> None:
        super().__init__(config)
        self._app, config.app = config.app, self._answer
        self._ending, self._leaving, self._drain_time = ending, leaving, drain_time

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A first signal ends the server when what was begun is done, a second one at once, a third one the process."""
        super().handle_exit(signal.SIGINT, frame)
        if self.force_exit:
            signal.signal(sig, signal.SIG_DFL)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; one that is cut off at the end of the server is no error of the application."""
        try:
            await self._app(scope, receive, send)  # pyright: ignore
        except asyncio.CancelledError:
            if not self.should_exit or scope["type"] != "http":
                raise
            log.warning("cut off a request, since the server ends")
            with suppress(RuntimeError):  # if its answer has begun
                await Response(status_code=503, headers={"Connection": "close"})(scope, receive, send)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._leaving()
        loop = asyncio.get_running_loop()
        until = loop.time() + self._drain_time
        while loop.time() < until and not self.force_exit:
            await asyncio.sleep(min(0.1, self._drain_time))
        self._ending()
        await super().shutdown(sockets)
        if self.force_exit and (tasks := self.server_state.tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=FORCED_SECONDS)


def web_server(
    app: Starlette,
    limits: HttpConfig,
    ending: Callable[[], None] = lambda: None,
    leaving: Callable[[], None] = lambda: None,
    tls: ssl.SSLContext | None = None,
    proxies: Sequence[Network] = (),
) -> uvicorn.Server:
    """The server beneath the application, kept to the limits. When it is told to end it says so by `leaving`, goes on
    for a while, calls `ending`, and waits for the answers that are under way."""
    return WebServer(
        uvicorn.Config(
            app,
            http=limited(limits, proxies),
            interface="asgi3",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=bool(proxies),
            forwarded_allow_ips=[str(each) for each in proxies],
            server_header=False,
            backlog=WebServer.AT_A_TIME,
            timeout_graceful_shutdown=limits.grace_time,  # pyright: ignore[reportArgumentType]
            ssl_context_factory=None if tls is None else lambda config, default: tls,
        ),
        ending,
        leaving,
        limits.drain_time,
    )
