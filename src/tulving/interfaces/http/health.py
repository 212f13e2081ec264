"""Health endpoints for supervisors, load balancers and monitoring."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from tulving.bootstrap import Served
from tulving.interfaces.calls import Opened
from tulving.interfaces.http.authentication import Access
from tulving.interfaces.http.credentials import Refusal
from tulving.ports import Finding
from tulving.services.health import readiness_of

log = logging.getLogger("tulving")

LIVE, READY, HEALTH = PATHS = ("/livez", "/readyz", "/health")
LOOK_SECONDS = 5
KNOWN_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Look:
    """The result of a health check: the findings, or that the store can't be reached."""

    findings: tuple[Finding, ...] = ()
    reached: bool = True

    @property
    def state(self) -> str:
        """ready, warming, degraded or unavailable."""
        return readiness_of(self.findings).state if self.reached else "unavailable"


class Health:
    """Liveness, readiness and health.

    Without the right `admin` only the names of the failed checks are shown: their details may name files and tenants.
    The store is checked once a second at most, and the result is shared by all requests.
    """

    def __init__(self, served: Opened[Served], access: Access) -> None:
        self._served, self._access = served, access
        self._turn, self._look, self._known_until = asyncio.Lock(), Look(), 0.0
        self._is_leaving = False

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes at `PATHS`."""
        return [Route(LIVE, self.live), Route(READY, self.ready), Route(HEALTH, self.health)]

    def leave(self) -> None:
        """Report from now on that the server is not ready, since it is about to shut down."""
        self._is_leaving = True

    async def live(self, request: Request) -> Response:
        """Liveness: the process answers. A store that can't be reached is no reason to restart it."""
        return PlainTextResponse("ok")

    async def ready(self, request: Request) -> Response:
        """Readiness: whether to send requests here. A server without its embedder is ready, and searches by keyword."""
        state = await self._state()
        return PlainTextResponse(state, 503 if state in ("unavailable", "shutting down") else 200)

    async def health(self, request: Request) -> Response:
        """The state, with `reasons` for what does not work, and `warnings` for what is still being prepared."""
        state, look = await self._state(), self._look
        told: dict[str, Any] = {
            "state": state,
            "reasons": [f"{each.check}: has problems" for each in look.findings if each.problems],
            "warnings": [f"{each.check}: is being prepared" for each in look.findings if each.warming],
        }
        if state == "unavailable":
            told["reasons"].append("the store can't be reached")
        if state == "shutting down":
            told["reasons"].append("the server is shutting down")
        try:
            principal = await self._access.admit(request, counted=False)
            if principal.administration is not None:
                told["findings"] = [each.to_dict() for each in look.findings]
        except Refusal as refusal:
            if "authorization" in request.headers and refusal.status != 503:
                return refusal.respond()
        return JSONResponse(told, 503 if state in ("unavailable", "shutting down") else 200)

    async def _state(self) -> str:
        loop = asyncio.get_running_loop()
        async with self._turn:
            if loop.time() >= self._known_until:
                self._look = await self._looked()
                self._known_until = loop.time() + KNOWN_SECONDS
        return "shutting down" if self._is_leaving else self._look.state

    async def _looked(self) -> Look:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                served = await self._served()
                await served.authentication.needs_token()
                return Look(tuple(await served.memory.readiness_findings()))
        except Exception as error:
            log.error("the store can't be reached: %s", str(error) or f"no answer in {LOOK_SECONDS} s")
            return Look(reached=False)
