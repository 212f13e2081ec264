"""The static files of the console."""

import os

from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from tulving.interfaces.console.presentation import STATIC


class Files(StaticFiles):
    """Static files with ETags. URLs with a version may be cached indefinitely."""

    def __init__(self) -> None:
        super().__init__(directory=STATIC)

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        if "\0" in path:
            raise HTTPException(404)
        return super().lookup_path(path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kept = b"public, max-age=31536000, immutable" if scope["query_string"].startswith(b"v=") else b"no-cache"

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(b"cache-control", kept)]
            await send(message)

        await super().__call__(scope, receive, sent)
