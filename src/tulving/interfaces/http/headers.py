"""Response headers for browsers and caches, and CORS: which web pages may read the answers of the API."""

from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

FOR_PROGRAMS = ("/v1", "/mcp", "/health", "/livez", "/readyz")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
EXPOSED = ("ETag", "Link", "Retry-After", "X-Request-Id", "WWW-Authenticate")
SAFE = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
"""No content sniffing, no copies of private data in caches, no URLs in the Referer of other sites."""


class SafeHeaders:
    """Adds the headers in `SAFE` to every answer that does not set its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SAFE.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, safely)


class CrossOrigin(CORSMiddleware):
    """CORS for the API routes: pages of the allowed origins may read their answers. Preflight requests need no token.
    Credentials are not allowed, so cookies are never sent and the console is out of reach."""

    def __init__(self, app: ASGIApp, origins: Any) -> None:
        super().__init__(app, origins, METHODS, ["*"], expose_headers=EXPOSED)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (super().__call__ if _is_for_programs(scope) else self.app)(scope, receive, send)


def _is_for_programs(scope: Scope) -> bool:
    if scope["type"] != "http":
        return False
    # A request target need not begin with a slash: `OPTIONS *`.
    return f"/{scope['path'].removeprefix('/').partition('/')[0]}" in FOR_PROGRAMS
