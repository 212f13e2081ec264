"""The gate of a server on a network: which names it answers to, and who comes in as whom."""

import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tulving.bootstrap import Served
from tulving.domain.scope import Caller
from tulving.errors import ConfigError, InvalidInput
from tulving.interfaces.calls import LazyMemory
from tulving.interfaces.mcp import Guest
from tulving.services.memory import Memory

log = logging.getLogger("tulving")

Opener = Callable[[], Awaitable[Memory]]

GUEST = "tulving.guest"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
RETRY_SECONDS = 5
_HOST = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


@dataclass(frozen=True, slots=True)
class Site:
    """Where a server is found: its address, and the names and web pages that are configured."""

    host: str
    port: int
    loopback: bool = True
    names: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    @property
    def local(self) -> bool:
        """Whether nobody comes from elsewhere: another name than its own is one for somebody else to call it by."""
        return self.loopback and not self.names

    @property
    def shown_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def hosts(self) -> set[str]:
        """What may stand in the header Host. A port of 80 is left out there."""
        found = {f"{name}:{self.port}" for name in (*LOOPBACK, self.shown_host.lower(), *self.names)} | self.names
        return found | {name.removesuffix(":80") for name in found}


class Names:
    """Answers only to its own names, so that a web page can't talk to it through a name of the page's own.

    A browser tells a server by which name it was called (Host) and which page calls (Origin); programs have no Origin.
    """

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app, self._site, self._hosts = app, site, site.hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(scope)):
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if host not in self._hosts and host != _reached_at(scope):
            log.warning("refused a request to the host %.100r: allowed_hosts does not have it", host)
            return _error(421, "misdirected_request", "this server does not answer to that host name")
        for origin in headers.getlist("origin"):
            if origin.lower() not in self._site.origins and not (self._site.loopback and _is_local(origin)):
                log.warning("refused a request from the origin %.100r: allowed_origins does not have it", origin)
                return _error(403, "forbidden_origin", "this server does not answer to pages of that origin")
        return None


class Gate:
    """Lets in who shows a good token, as the token's tenant; and anybody while it is open, as the local caller.

    It is open only where that was asked for (`--open`), only on this machine and only while the store has no token;
    each request asks anew. Once closed it stays closed until the server is started again: revoking the last token
    lets nobody in.
    """

    def __init__(self, app: ASGIApp, served: LazyMemory[Served], closed: bool) -> None:
        self._app, self._served, self.closed = app, served, closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        admitted = await self._admit(Headers(scope=scope))
        if isinstance(admitted, Guest):
            # In the scope of this one request, from which the tools take it: no two requests share anything.
            await self._app({**scope, GUEST: admitted}, receive, send)
        else:
            await admitted(scope, receive, send)

    async def _admit(self, headers: Headers) -> Guest | Response:
        shown = headers.get("authorization")
        if shown is not None:
            return await self._with_token(shown, headers)
        if not self.closed and not any(name in headers for name in _FORWARDED):
            return await self._without_token(headers)
        return _unauthorized()

    async def _with_token(self, shown: str, headers: Headers) -> Guest | Response:
        scheme, _, secret = shown.partition(" ")
        if scheme.lower() != "bearer":
            return _unauthorized("the scheme must be Bearer")
        try:
            served = await self._served()
            token = await served.authentication.authenticate(secret.strip())
        except Exception as error:
            log.error("a token can't be checked: %s", error)
            return _error(503, "temporarily_unavailable", "the store can't be reached", retry_after=True)
        if token is None:
            return _unauthorized("the token is unknown, expired or revoked")
        return _guest(served.memory, token.caller(), headers, token.rights)

    async def _without_token(self, headers: Headers) -> Guest | Response:
        try:
            served = await self._served()
            self.closed = self.closed or await served.authentication.needs_token()
        except Exception as error:
            log.error("can't look for tokens: %s", error)
            # There may be tokens, so this request must not see the store, even if it comes back meanwhile.
            return Guest(_unavailable(error))
        if self.closed:
            return _unauthorized()
        return _guest(served.memory, served.memory.caller, headers)


class Whole:
    """Passes on the requests whose body has arrived whole; a client that leaves before that is worth one line."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """After `RequestBodyLimitMiddleware`, which makes one message of the body."""
        body = await receive()
        if body["type"] != "http.request" or body.get("more_body"):
            log.warning("a client went away before its request was whole")
            return
        unread = [body]

        async def replay() -> Message:
            return unread.pop() if unread else await receive()

        await self._app(scope, replay, send)


def guest_of(context: Any) -> Guest:
    """Who sent the request that a tool is called by."""
    return context.request.scope[GUEST]


def host_names(setting: str | None) -> frozenset[str]:
    """The names under which the server is known beside its address."""
    names = _listed(setting)
    for name in names:
        if not _HOST.fullmatch(name):
            raise ConfigError("allowed_hosts", f"{name!r:.80} is not a host name", "names such as memory.example.com")
    return names


def origins(setting: str | None) -> frozenset[str]:
    """Where web pages come from that may call the server."""
    found = _listed(setting)
    for origin in found:
        scheme, _, host = origin.partition("://")
        if scheme not in ("http", "https") or not _HOST.fullmatch(host):
            raise ConfigError("allowed_origins", f"{origin!r:.80} is not an origin", "such as https://app.example.com")
    return found


def _listed(setting: str | None) -> frozenset[str]:
    return frozenset(filter(None, (part.strip().lower() for part in (setting or "").split(","))))


def _reached_at(scope: Scope) -> str | None:
    """The address that the connection was made to; a page's own name never looks like it."""
    host, port = scope.get("server") or (None, None)
    return f"[{host}]:{port}" if host and ":" in host else f"{host}:{port}"


def _is_local(origin: str) -> bool:
    try:
        parts = urlsplit(origin.lower())
        return parts.scheme in ("http", "https") and parts.hostname in ("127.0.0.1", "localhost", "::1")
    except ValueError:
        return False


def _guest(memory: Memory, caller: Caller, headers: Headers, *rights: Any) -> Guest | Response:
    """Who came in, with the label of the request and the key under which it may be repeated."""
    with suppress(InvalidInput):  # a label that can't be written down is left out
        caller = replace(caller, request_id=headers.get("x-request-id"))
    try:
        memory = memory.bind(caller=replace(caller, idempotency_key=headers.get("idempotency-key")))
    except InvalidInput as error:  # without its key the request would be done twice
        return _error(400, "invalid_idempotency_key", f"the header Idempotency-Key: {error.problem}")
    return Guest(_same(memory), *rights)


def _same(memory: Memory) -> Opener:
    async def give() -> Memory:
        return memory

    return give


def _unavailable(error: Exception) -> Opener:
    async def fail() -> Memory:
        raise error

    return fail


def _unauthorized(problem: str = "") -> Response:
    challenge = 'Bearer realm="tulving"'
    if problem:
        challenge += f', error="invalid_token", error_description="{problem}"'
    response = _error(401, "invalid_token" if problem else "token_required", problem or "a token is needed")
    response.headers["WWW-Authenticate"] = challenge
    return response


def _error(status: int, error: str, description: str, retry_after: bool = False) -> Response:
    headers = {"Retry-After": str(RETRY_SECONDS)} if retry_after else None
    return JSONResponse({"error": error, "error_description": description}, status, headers)
