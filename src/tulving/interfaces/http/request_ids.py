"""Request ids: the client's own (X-Request-Id) or a generated one, for the response and the audit events."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tulving.domain.intake import identifier
from tulving.errors import InvalidInput
from tulving.ports import Ids

HEADER = "x-request-id"
LONGEST = 200


class RequestIds:
    """Middleware that puts the id into the headers of each request and response."""

    def __init__(self, app: ASGIApp, ids: Ids) -> None:
        self._app, self._ids = app, ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            name = identifier("request_id", Headers(scope=scope).get(HEADER), LONGEST)
        except InvalidInput:
            name = str(self._ids())
        scope = {**scope, "headers": [*scope["headers"]]}
        MutableHeaders(scope=scope)[HEADER] = name

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = name
            await send(message)

        await self._app(scope, receive, named)
