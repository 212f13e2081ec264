"""The HTTP API in this process, on the memory of a test, and its callers."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from http_parts import BASE, asked, bearer, new_token, opening
from starlette.applications import Starlette

from tulving import Memory
from tulving.domain.access import ALL_RIGHTS
from tulving.interfaces.calls import open_lazily
from tulving.interfaces.http import api
from tulving.interfaces.http.application import application
from tulving.interfaces.http.authentication import Access
from tulving.interfaces.http.hosts import Endpoint
from tulving.services.operations import Operation
from tulving.settings import HttpConfig
from tulving.testing import SequentialIds

PROBLEM = "application/problem+json"


@dataclass(frozen=True)
class Api:
    """The API as the holder of one token sees it."""

    app: Starlette
    memory: Memory
    secret: str | None = None

    async def send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        transport = httpx2.ASGITransport(self.app, raise_app_exceptions=False)
        headers = bearer(self.secret) | options.pop("headers", {})
        async with httpx2.AsyncClient(transport=transport, base_url=BASE) as web:
            return await web.request(method, path, headers=headers, **options)

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        return await self.send("GET", path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> httpx2.Response:
        return await self.send("POST", path, json={} if body is None else body, **options)

    async def call(self, operation: Operation, arguments: Mapping[str, Any], **options: Any) -> httpx2.Response:
        """Call an operation: each argument where it belongs."""
        method, path, given = asked(operation, arguments)
        return await self.send(method, path, **given, **options)

    async def holder(self, tenant: str = "default", **given: Any) -> "Api":
        """The API as the holder of a new token sees it, who has all rights unless others are given."""
        return Api(self.app, self.memory, await new_token(self.memory, tenant, **{"rights": ALL_RIGHTS, **given}))


@asynccontextmanager
async def served(memory: Memory, **http: Any) -> AsyncIterator[Api]:
    """The API of a memory, to the holder of a token with all rights, under limits of its own if such are given."""
    async with open_lazily(opening(memory)) as opened:
        access = Access(opened, limits=HttpConfig(**http))
        more = api.routes(memory.config, access)
        app = application(memory.config, opened, Endpoint("127.0.0.1", 8321), access, more, ids=SequentialIds(10**9))
        yield await Api(app, memory).holder()
