"""The ASGI application: MCP, health checks and further routes behind the middleware that they share."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tulving.bootstrap import Served, uuid7
from tulving.domain.access import BODY_SIZES
from tulving.interfaces.calls import Opened
from tulving.interfaces.http.authentication import Access, McpAuthentication, principal_of
from tulving.interfaces.http.headers import CrossOrigin, SafeHeaders
from tulving.interfaces.http.health import PATHS, Health
from tulving.interfaces.http.hosts import Endpoint, HostCheck
from tulving.interfaces.http.request_ids import RequestIds
from tulving.interfaces.http.turns import Turns, replayed
from tulving.interfaces.mcp.server import build_server
from tulving.ports import Ids
from tulving.settings import MemoryModuleConfig

log = logging.getLogger("tulving")

PATH = "/mcp"
TRANSFERS = ("/metrics", "/v1/events", "/v1/export", "/v1/import")
"""Paths without a time limit; those that stream have concurrency limits of their own."""
PROGRESS = b'"progressToken"'


def application(
    config: MemoryModuleConfig,
    served: Opened[Served],
    address: Endpoint,
    access: Access,
    more: Sequence[BaseRoute] = (),
    announce: Callable[[], None] = lambda: None,
    ids: Ids = uuid7,
    health: Health | None = None,
    watching: Sequence[Middleware] = (),
) -> Starlette:
    """The application for an address: MCP, health checks and the routes in `more`. `announce` is called at startup."""
    manager = Manager(build_server(config, principal_of), stateless=True, max_request_body_size=BODY_SIZES.high)
    refused = lambda _, error: error.args[0]  # noqa: E731
    checks = [
        Middleware(AuthenticationMiddleware, backend=McpAuthentication(access), on_error=refused),
        Middleware(limited_bodies),
        Middleware(whole_requests),
    ]
    health = health or Health(served, access)
    pages = sorted(address.allowed_origins)

    @asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            announce()
            yield

    return Starlette(
        routes=[
            *health.routes,
            Route(PATH, manager, methods=["POST"], middleware=checks),
            *more,
        ],
        middleware=[
            Middleware(RequestIds, ids),
            *watching,
            Middleware(SafeHeaders),
            Middleware(HostCheck, address),
            *([Middleware(CrossOrigin, pages)] if pages else []),
            Middleware(Turns, access.queue, (*PATHS, *TRANSFERS)),
        ],
        lifespan=running,
    )


class Manager(StreamableHTTPSessionManager):
    """Answers with one JSON object, or with an event stream if the client accepts one and asked for progress."""

    _streams = ContextVar("streams", default=False)
    json_response = property(lambda self: not self._streams.get(), lambda self, value: None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        accepted = dict(scope["headers"]).get(b"accept", b"")
        self._streams.set(PROGRESS in message.get("body", b"") and b"text/event-stream" in accepted)
        await self.asgi_app(scope, replayed([message], receive), send)


def limited_bodies(app: ASGIApp) -> ASGIApp:
    """Middleware that refuses a body larger than the caller's limit."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        await RequestBodyLimitMiddleware(app, scope["user"].largest_body)(scope, receive, send)

    return handle


def whole_requests(app: ASGIApp) -> ASGIApp:
    """Middleware that drops a request whose client disconnected before the body was complete.

    It comes after `limited_bodies`, which joins the body into one message.
    """

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        if message.get("more_body", message["type"] != "http.request"):
            log.warning("a client disconnected before its request was complete")
        else:
            await app(scope, replayed([message], receive), send)

    return handle
