"""Middleware around the console: security headers on every response, limited bodies, and error pages for early
failures."""

import logging
from collections.abc import Sequence
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tulving.interfaces.console import presentation, security
from tulving.interfaces.console.visit import LARGEST_FORM, page, theme_of

log = logging.getLogger("tulving")

LARGEST_LOGIN = 16 * 1024
UNEXPECTED = "Something failed that should not. The server's log says more."


class Guard:
    """Adds the headers of `security` to every response, and `no-store` unless a response sets its own cache control.
    A body is refused when it is larger than a form, or than that of the login, which is read without a token, or than
    the limit of the visitor's token."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.routes: Sequence[BaseRoute] = getattr(app, "routes", ())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun, size = False, 0
        largest = LARGEST_LOGIN if scope["path"] == security.LOGIN else LARGEST_FORM
        state = scope.setdefault("state", {})

        async def received() -> Message:
            nonlocal size
            most = min(largest, state.get("largest_body", largest))
            message = await receive()
            size += len(message.get("body", b""))
            if size > most:
                raise HTTPException(413, f"The form has more than {most:,} bytes.")
            return message

        async def sent(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                headers.update(security.HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            await self._app(scope, received, sent)
        except ClientDisconnect:
            return
        except Exception as error:
            if begun:
                raise
            await _answer(Request(scope), error)(scope, receive, sent)


def problem_page(request: Request, status: int, title: str, problem: str) -> Response:
    """An error page without navigation, for visitors who are not authenticated."""
    values = {"code": status, "title": title, "problem": problem, "theme": theme_of(request)}
    return page(presentation.rendered("error.html", visit=None, **values), status)


def _answer(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        response = problem_page(request, error.status_code, "This can't be done", error.detail)
        response.headers.update(error.headers or {})
        return response
    log.error("a page failed unexpectedly", exc_info=error)
    return problem_page(request, HTTPStatus.INTERNAL_SERVER_ERROR, "This did not work", UNEXPECTED)
