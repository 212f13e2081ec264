"""The HTTP API in this process, on the memory of a test, and its callers."""

import re
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from administration import administer, authentication
from http_document import in_query
from http_parts import bearer
from starlette.applications import Starlette

from tulving import Caller, Memory
from tulving.bootstrap import Served
from tulving.domain.access import ALL_RIGHTS
from tulving.interfaces.calls import open_lazily
from tulving.interfaces.http import api
from tulving.interfaces.http.application import application
from tulving.interfaces.http.arguments import IN_QUERY
from tulving.interfaces.http.authentication import Access
from tulving.interfaces.http.hosts import Endpoint
from tulving.services.operations import Operation
from tulving.testing import SequentialIds

BASE = "http://127.0.0.1:8321"
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
        method, path = operation.http.split()
        path, rest = filled(path, arguments)
        asked = {"params": in_query(rest)} if method in IN_QUERY else {"json": rest}
        return await self.send(method, path, **asked, **options)

    async def holder(self, tenant: str = "default", **given: Any) -> "Api":
        """The API as the holder of a new token sees it, who has all rights unless others are given."""
        secret = f"tulving_{secrets.token_urlsafe(32)}"
        given = {"rights": ALL_RIGHTS, **given}
        await administer(self.memory.bind(caller=Caller(tenant))).create_token(secret, **given)
        return Api(self.app, self.memory, secret)


def filled(path: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A path with its parameters, and the arguments that are left."""
    names = re.findall(r"{(\w+)}", path)
    full = path
    for name in names:
        full = full.replace(f"{{{name}}}", _quoted(str(arguments.get(name, "-"))))
    return full, {name: value for name, value in arguments.items() if name not in names}


def _quoted(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode(errors="surrogatepass"))


@asynccontextmanager
async def served(memory: Memory) -> AsyncIterator[Api]:
    """The API of a memory, to the holder of a token with all rights."""

    @asynccontextmanager
    async def opener() -> AsyncIterator[Served]:
        yield Served(memory, authentication(memory), administer(memory))

    async with open_lazily(opener) as opened:
        access = Access(opened)
        more = api.routes(memory.config, access)
        app = application(memory.config, opened, Endpoint("127.0.0.1", 8321), access, more, ids=SequentialIds(10**9))
        yield await Api(app, memory).holder()
