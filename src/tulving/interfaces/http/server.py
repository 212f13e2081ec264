"""The HTTP server: listening, startup checks and graceful shutdown."""

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
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from tulving.bootstrap import Served, new_secret, open_served
from tulving.errors import ConfigError, InvalidInput
from tulving.interfaces import logs, traces
from tulving.interfaces.calls import Opened, open_lazily
from tulving.interfaces.http.application import PATH, application
from tulving.interfaces.http.authentication import Access
from tulving.interfaces.http.connections import Listener, Network, limited
from tulving.interfaces.http.credentials import Refusal
from tulving.interfaces.http.health import Health
from tulving.interfaces.http.hosts import Endpoint, host_names, origins
from tulving.interfaces.http.observability import Observability
from tulving.interfaces.http.problems import RETRY_SECONDS, refused
from tulving.settings import HttpConfig, MemoryModuleConfig

if TYPE_CHECKING:
    from tulving.interfaces.http.identity import IdentityProvider

log = logging.getLogger("tulving")

BACKLOG = 2048
SIGNALS = signal.SIGTERM, signal.SIGINT
FORCED_SECONDS = 2
"""The time for requests to end that are cancelled by a forced shutdown."""
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
    """Serve the memory at an address until the process receives a signal: MCP, and for a `whole` service the HTTP API
    and the console too.

    Requests need a token; with `is_open` programs on this machine need none while the store has none. The forwarding
    headers of `proxies` are trusted.
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
        # A person who starts a service locally gets a login link instead of having to create a token. It holds a
        # secret, so it is not written to a JSON log.
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
            # After its shutdown uvicorn raises the signal again for the previous handler.
            signal.signal(number, lambda *_: None)
        await server.serve([listener if tls is None else Listener(listener, config.http, proxies)])
        for number in SIGNALS:  # only the store is left to be closed, which may safely be interrupted
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
    """A listening socket at the first address of a host; early clients wait in its backlog."""
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
    """Whether the store has a token. Raises if one is needed and missing, or if the server is open and there is one.

    The server starts even if the store can't be reached: each request tries again.
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
        "WITHOUT A TOKEN (--open): to every program on this machine, and to anyone whose requests a proxy or tunnel"
        " forwards to it; `tulving token create` closes it"
    )


class WebServer(uvicorn.Server):
    """Uvicorn with a long backlog, a drain phase before shutdown, and forced shutdown by a second signal.

    Asyncio uses the backlog also as the number of connections that it accepts at a time, before any of them can be
    refused: enough to exhaust the file descriptors of the process. So it is told a small number, and the socket gets a
    long backlog afterwards.
    """

    AT_A_TIME = 8

    def __init__(
        self, config: uvicorn.Config, ending: Callable[[], None], leaving: Callable[[], None], drain_time: float
    ) -> None:
        super().__init__(config)
        self._app, config.app = config.app, self._answer
        self._ending, self._leaving, self._drain_time = ending, leaving, drain_time

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down gracefully at the first signal, immediately at the second; the third one kills the process."""
        super().handle_exit(signal.SIGINT, frame)
        if self.force_exit:
            signal.signal(sig, signal.SIG_DFL)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; a request that is cancelled by the shutdown is answered 503."""
        try:
            await self._app(scope, receive, send)  # pyright: ignore
        except asyncio.CancelledError:
            if not self.should_exit or scope["type"] != "http":
                raise
            log.warning("cancelled a request, since the server is shutting down")
            with suppress(RuntimeError):  # if the response has started
                headers = {"Retry-After": RETRY_SECONDS, "Connection": "close"}
                refusal = Refusal(503, "unavailable", "the server is shutting down", headers)
                await refused(scope, refusal)(scope, receive, send)

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
        if self.force_exit:
            if tasks := self.server_state.tasks:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks, timeout=FORCED_SECONDS)
            with suppress(TimeoutError):  # Uvicorn leaves it out, and the application would be cancelled with an error
                await asyncio.wait_for(self.lifespan.shutdown(), FORCED_SECONDS)


def web_server(
    app: Starlette,
    limits: HttpConfig,
    ending: Callable[[], None] = lambda: None,
    leaving: Callable[[], None] = lambda: None,
    tls: ssl.SSLContext | None = None,
    proxies: Sequence[Network] = (),
) -> uvicorn.Server:
    """The server for an application, with these limits. At shutdown it calls `leaving`, keeps serving for the drain
    time, calls `ending`, and waits for the open requests."""
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
