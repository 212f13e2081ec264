"""`GET /metrics`: the metrics, and who may read them."""

import asyncio
import logging

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tulving.bootstrap import Served
from tulving.interfaces.calls import Opened
from tulving.interfaces.http.authentication import FORWARDED, Access
from tulving.interfaces.http.credentials import Refusal
from tulving.interfaces.http.hosts import Endpoint
from tulving.interfaces.http.metrics import TEXT, Metrics
from tulving.services.vitals import read_vitals

log = logging.getLogger("tulving")

PATH = "/metrics"
LOOK_SECONDS = 5
LOOK_EVERY = 10.0
"""Seconds between two looks at the store: several scrapers cost no more than one."""


class MetricsRoute:
    """The metrics in the text format of Prometheus. They name all tenants, so the right `admin` is needed, except for
    requests from this machine to a server that only this machine can reach, and where `metrics.open` is set."""

    def __init__(
        self, metrics: Metrics, served: Opened[Served], access: Access, address: Endpoint, is_open: bool
    ) -> None:
        self._metrics, self._served, self._access = metrics, served, access
        self._address, self._is_open = address, is_open
        self._turn, self._known_until = asyncio.Lock(), 0.0

    @property
    def route(self) -> Route:
        return Route(PATH, self.answer)

    async def answer(self, request: Request) -> Response:
        try:
            await self._check(request)
        except Refusal as refusal:
            return refusal.respond()
        await self._look()
        self._metrics.waiting(self._access.queue.waiting)
        return PlainTextResponse(self._metrics.text(), media_type=TEXT)

    async def _check(self, request: Request) -> None:
        from_here = self._address.is_local and not any(name in request.headers for name in FORWARDED)
        if self._is_open or (from_here and "authorization" not in request.headers):
            return
        principal = await self._access.admit(request)
        if "admin" not in principal.rights:
            raise Refusal(403, "insufficient_scope", "the metrics need a token with the right to admin")

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        async with self._turn:
            if loop.time() < self._known_until:
                return
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    vitals = await read_vitals((await self._served()).memory)
            except Exception as error:
                log.error("the metrics of the store are missing: %s", str(error) or "it did not answer in time")
                vitals = None
            self._metrics.look(vitals)
            self._known_until = loop.time() + LOOK_EVERY
