"""The whole service in this process, watched, and a client that calls it."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from administration import administer
from http_parts import asked, bearer, new_token, opening

from tulving import Administration, Memory, open_memory
from tulving.domain.access import ALL_RIGHTS
from tulving.interfaces import console
from tulving.interfaces.calls import open_lazily
from tulving.interfaces.http import api
from tulving.interfaces.http.application import application
from tulving.interfaces.http.authentication import Access
from tulving.interfaces.http.hosts import Endpoint
from tulving.interfaces.http.metrics import Metrics
from tulving.interfaces.http.observability import Observability
from tulving.interfaces.traces import Traces
from tulving.services.operations import Operation
from tulving.settings import HttpConfig, MemoryModuleConfig
from tulving.testing import WordEmbedder

PATIENT = HttpConfig(failures_per_minute=100_000)
"""A server that lets a test send as many bad tokens as it likes."""
_SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass
class WatchedService:
    """A service that is watched, and a client with a token that has all rights."""

    web: httpx2.AsyncClient
    memory: Memory
    administration: Administration
    secret: str
    metrics: Metrics
    access: Access
    address: Endpoint = field(default_factory=lambda: Endpoint("127.0.0.1", 8765))

    async def call(self, operation: Operation, arguments: Mapping[str, Any], **headers: str) -> httpx2.Response:
        """Call an operation by its route."""
        method, path, given = asked(operation, arguments)
        return await self.web.request(method, path, headers=headers, **given)

    async def post(self, path: str, **body: Any) -> httpx2.Response:
        return await self.web.post(path, json=body)

    async def figures(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """The samples that are served, by name and labels."""
        answered = await self.web.get("/metrics")
        assert answered.status_code == 200, answered.text
        return samples(answered.text)

    async def figure(self, name: str, **labels: str) -> float | None:
        return (await self.figures()).get((name, tuple(sorted(labels.items()))))


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The samples of an exposition, by name and labels."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = _SAMPLE.fullmatch(line)
            assert match, line
            found[match[1], tuple(sorted(_LABEL.findall(match[2] or "")))] = float(match[3])
    return found


@asynccontextmanager
async def watched(
    url: str,
    config: MemoryModuleConfig | None = None,
    traces: Traces | None = None,
    address: Endpoint | None = None,
    **options: Any,
) -> AsyncIterator[WatchedService]:
    """Serve a store in this process."""
    config, address = config or MemoryModuleConfig(http=PATIENT), address or Endpoint("127.0.0.1", 8765)
    watch = Observability(config.metrics, traces)
    given = {"embedder": WordEmbedder(), "background": False, **options}
    async with (
        open_memory(url, config=config, observer=watch.observer, **given) as memory,
        open_lazily(opening(memory)) as opened,
    ):
        secret = await new_token(memory, name="tester", rights=ALL_RIGHTS)
        access = Access(opened, False, None, config.http)
        more = [*watch.routes(opened, access, address), *api.routes(config, access), *console.routes(config, access)]
        app = application(config, opened, address, access, more, watching=watch.middleware)
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url=f"http://{address}", headers=bearer(secret)) as web,
        ):
            assert watch.metrics is not None
            yield WatchedService(web, memory, administer(memory), secret, watch.metrics, access, address)
