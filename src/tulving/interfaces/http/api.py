"""The HTTP API: a route for each operation of the registry."""

import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from tulving.domain.access import NewToken
from tulving.domain.model import EntityCreated, Session, Stored
from tulving.errors import InvalidInput, NotFound
from tulving.interfaces.http import arguments, batches, openapi, problems
from tulving.interfaces.http.authentication import Access
from tulving.interfaces.http.events import event_stream
from tulving.interfaces.http.problems import Problem
from tulving.interfaces.http.transfers import Transfers
from tulving.interfaces.wire import answer
from tulving.services.operations import OPERATIONS, Operation
from tulving.settings import MemoryModuleConfig

PATH = "/v1"
Handler = Callable[[Request], Awaitable[Response]]


def routes(config: MemoryModuleConfig, access: Access) -> list[BaseRoute]:
    """The routes of the API."""
    paths: dict[str, dict[str, Handler]] = defaultdict(dict)
    for operation in OPERATIONS.values():
        method, path = operation.http.split()
        paths[path][method] = Call(access, operation)
        if operation.batch:
            paths[f"{path}/batch"][method] = Batch(access, operation)
    paths[f"{problems.TYPES}{{name}}"]["GET"] = _problem_type
    transfers = Transfers(access, config.http)
    paths[f"{PATH}/export"]["GET"], paths[f"{PATH}/import"]["POST"] = transfers.export, transfers.import_
    paths[f"{PATH}/events"]["GET"] = partial(event_stream, access=access, limits=config.http)
    paths[openapi.PATH]["GET"] = Document(config)
    # Starlette takes the first route that matches, so fixed path segments come before parameters.
    ordered = sorted(paths.items(), key=lambda each: [part.startswith("{") for part in each[0].split("/")])
    nowhere = (Route(path, Resource()) for path in (PATH, f"{PATH}/{{rest:path}}"))
    # An id has no slash, but the name of a rule may.
    named = ((path.replace("{name}", "{name:path}"), methods) for path, methods in ordered)
    return [*(Route(path, Resource(methods)) for path, methods in named), *nowhere]


class Resource:
    """The handlers of one path by method, as an ASGI application. Every error becomes problem details."""

    def __init__(self, methods: Mapping[str, Handler] | None = None) -> None:
        self.methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        try:
            response = await self._handler(request)(request)
        except Exception as error:
            response = problems.respond(error, "admin" in getattr(request.state, "rights", ()))
        # Memories are private: neither a proxy nor the disk cache of a browser may keep them.
        response.headers.setdefault("Cache-Control", "private, no-cache" if "ETag" in response.headers else "no-store")
        await response(scope, receive, send)

    def _handler(self, request: Request) -> Handler:
        if self.methods is None:
            raise Problem(404, "unknown-route", f"there is no route {request.url.path:.200}; {openapi.PATH} lists them")
        method = "GET" if request.method == "HEAD" else request.method
        if method not in self.methods:
            allowed = ", ".join(sorted({*self.methods, *(("HEAD",) if "GET" in self.methods else ())}))
            raise Problem(405, "method-not-allowed", f"only {allowed} is possible here", {"Allow": allowed})
        return self.methods[method]


@dataclass(frozen=True, slots=True)
class Call:
    """The handler of an operation."""

    access: Access
    operation: Operation

    async def __call__(self, request: Request) -> Response:
        operation = self.operation
        principal = await self.access.admit(request)
        principal.check(operation)
        given = await arguments.given(request, operation, principal.largest_body)
        result = await principal.carry_out(operation, given, failed=_raise)
        if result is None:
            raise NotFound(f"there is no {operation.answer}")
        headers: dict[str, str] = {}
        if (tag := arguments.etag(result)) is not None:
            headers["ETag"] = tag
            if request.method in ("GET", "HEAD") and arguments.is_known(request, tag):
                return Response(status_code=304, headers=headers)
        told = answer(operation, result)
        if request.method in ("GET", "HEAD") and told.get("next_cursor"):
            headers["Link"] = _next(request, told["next_cursor"])
        return JSONResponse(told, _status(operation, result), headers)


@dataclass(frozen=True, slots=True)
class Batch:
    """The handler of an operation's batch route."""

    access: Access
    operation: Operation

    async def __call__(self, request: Request) -> Response:
        batch = batches.batched(self.operation)
        principal = await self.access.admit(request)
        principal.check(batch)
        given = await batches.given(request, self.operation, principal.largest_body)
        try:
            result = await principal.carry_out(batch, given, failed=_raise)
        except InvalidInput as error:
            raise batches.named(self.operation, error, given["offers"]) from error
        return JSONResponse(answer(batch, result), max(_status(batch, each) for each in result))


class Document:
    """The handler of the OpenAPI document, which needs no token."""

    def __init__(self, config: MemoryModuleConfig) -> None:
        self._config = config
        self._written: bytes | None = None

    async def __call__(self, request: Request) -> Response:
        if self._written is None:
            self._written = json.dumps(openapi.document(self._config), ensure_ascii=False).encode()
        return Response(self._written, media_type=openapi.JSON)


def _raise(operation: Operation, error: Exception) -> None:
    """Let every failure become a status: unlike a model, a program can't go on with a fallback answer."""
    raise error


def _status(operation: Operation, result: Any) -> int:
    """201 if the call created something, else 200."""
    match result:
        case Stored():
            return 201 if result.outcome not in ("confirmed", "duplicate") else 200
        case EntityCreated() | NewToken():
            return 201
        case Session():
            return 201 if "{" not in operation.http else 200
    return 200


def _next(request: Request, cursor: str) -> str:
    """The Link header of the next page: a path without a host, since a proxy may serve under another name."""
    asked = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
    return f'<{quote(request.url.path)}?{urlencode([*asked, ("cursor", cursor)])}>; rel="next"'


async def _problem_type(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in problems.TITLES:
        raise Problem(404, "unknown-route", "there is no such type of problem")
    return JSONResponse({"type": problems.TYPES + name, "title": problems.TITLES[name]})
