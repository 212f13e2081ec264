"""The console's scripts and styles."""

from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from tulving.interfaces.console.presentation import STATIC


class Files(StaticFiles):
    """Static files with their entity tags. Under an address with a version they may be kept for ever."""

    def __init__(self) -> None:
        super().__init__(directory=STATIC)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kept = b"public, max-age=31536000, immutable" if scope["query_string"].startswith(b"v=") else b"no-cache"

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(b"cache-control", kept), (b"x-content-type-options", b"nosniff")]
            await send(message)

        await super().__call__(scope, receive, sent)
