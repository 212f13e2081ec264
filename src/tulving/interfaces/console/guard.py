"""Middleware around the console: security headers on every response, and error pages for early failures."""

import logging
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tulving.interfaces.console import presentation, security
from tulving.interfaces.console.visit import page, theme_of

log = logging.getLogger("tulving")

UNEXPECTED = "Something failed that should not. The server's log says more."


class Guard:
    """Adds the headers of `security` to every response, and `no-store` unless a response sets its own cache control."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                headers.update(security.HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            await self._app(scope, receive, sent)
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
    log.error("%s %s failed unexpectedly", request.method, request.url.path, exc_info=error)
    return problem_page(request, HTTPStatus.INTERNAL_SERVER_ERROR, "This did not work", UNEXPECTED)
