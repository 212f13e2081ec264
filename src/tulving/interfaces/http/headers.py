"""What answers to programs say to browsers and caches, and which web pages may read them."""

from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

FOR_PROGRAMS = ("/v1", "/mcp", "/health", "/livez", "/readyz")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
EXPOSED = ("ETag", "Link", "Retry-After", "X-Request-Id", "WWW-Authenticate")
SAFE = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
"""Nobody guesses a type, keeps what is personal, or learns an address from which a link was followed."""


class SafeHeaders:
    """Adds `SAFE` to what is answered to programs, unless the answer says otherwise. The console has its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SAFE.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, safely if _is_for_programs(scope) else send)


class CrossOrigin(CORSMiddleware):
    """Lets pages of the allowed origins read what is answered to programs. Browsers ask beforehand, without a token;
    cookies are never part of it, so the console is not."""

    def __init__(self, app: ASGIApp, origins: Any) -> None:
        super().__init__(app, origins, METHODS, ["*"], expose_headers=EXPOSED)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (super().__call__ if _is_for_programs(scope) else self.app)(scope, receive, send)


def _is_for_programs(scope: Scope) -> bool:
    if scope["type"] != "http":
        return False
    # A target without a slash, as `*`, is a path too.
    return f"/{scope['path'].removeprefix('/').partition('/')[0]}" in FOR_PROGRAMS
