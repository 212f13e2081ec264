"""Middleware around the whole application: each request is measured, and traced and logged if that is configured."""

import re
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tulving.interfaces import logs
from tulving.interfaces.current_request import CurrentRequest, answering, is_id
from tulving.interfaces.traces import Traces

if TYPE_CHECKING:
    from tulving.interfaces.http.metrics import Metrics

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
OTHER = "other"
"""The label for unknown methods and routes, of which clients could make up any number."""
_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


class Instrumentation:
    """Measures, traces and logs requests. They are named by the path template of their route, never by the path or the
    query, which may hold content."""

    def __init__(self, app: ASGIApp, metrics: "Metrics | None" = None, traces: Traces | None = None) -> None:
        self._app, self._metrics, self._traces = app, metrics, traces
        self._templates: dict[Any, str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        answer = _Answer(send, _new_request(headers), self._metrics)
        method = scope["method"] if scope["method"] in METHODS else OTHER
        with ExitStack() as watching:
            watching.enter_context(answering(answer.request))
            if self._metrics is not None:
                watching.enter_context(self._metrics.in_flight())
            span: Any = None
            if self._traces is not None:
                span = watching.enter_context(self._traces.request(method, headers))
                answer.request.trace_id = f"{span.get_span_context().trace_id:032x}"
            try:
                await self._app(scope, receive, answer.send)
            finally:
                self._tell(answer, method, self._template(scope), span)

    def _template(self, scope: Scope) -> str:
        """The path template of the route that handled the request."""
        if not self._templates:
            self._templates = dict(_templates(scope["app"].routes))
        return self._templates.get(scope.get("endpoint"), OTHER)

    def _tell(self, answer: "_Answer", method: str, route: str, span: Any) -> None:
        seconds = time.perf_counter() - answer.begun
        status, request = str(answer.status or "none"), answer.request
        if self._metrics is not None:
            if answer.is_stream:
                self._metrics.stream(-1)
            self._metrics.answered(method, route, status, None if answer.is_stream else seconds)
        if span is not None:
            span.update_name(f"{method} {route}")
            told = {"http.route": route, "http.response.status_code": answer.status, "tulving.request_id": request.id}
            span.set_attributes(told)
        told = {"method": method, "route": route, "status": answer.status, "duration": round(seconds, 6)}
        logs.access.info("%s %s %s %.1f ms", method, route, status, seconds * 1000, extra={"tells": told})


@dataclass(slots=True)
class _Answer:
    """The response to a request. Its status stays 0 if the client disconnected or the application failed before it."""

    onward: Send
    request: CurrentRequest
    metrics: "Metrics | None"
    begun: float = field(default_factory=time.perf_counter)
    status: int = 0
    is_stream: bool = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if Headers(raw=message.get("headers", [])).get("content-type", "").startswith("text/event-stream"):
                self.is_stream = True
                if self.metrics is not None:
                    self.metrics.stream(1)
        await self.onward(message)


def _new_request(headers: Mapping[str, str]) -> CurrentRequest:
    """The request with the id that `RequestIds` has put into the headers, if that may be logged, and with the client's
    trace id."""
    given = headers.get("x-request-id", "")
    trace = _TRACE.fullmatch(headers.get("traceparent", ""))
    return CurrentRequest(given if is_id(given) else secrets.token_hex(8), trace[1] if trace else "")


def _templates(routes: Sequence[BaseRoute], prefix: str = "") -> Iterable[tuple[Any, str]]:
    """Each endpoint with the path template of its route."""
    for route in routes:
        match route:
            case Route():
                yield route.endpoint, prefix + route.path_format
                yield from _templates(getattr(route.endpoint, "routes", ()))
            case Mount():
                yield route.app, f"{prefix}{route.path}/*"
                yield from _templates(route.routes, prefix + route.path)
            case _:
                pass
