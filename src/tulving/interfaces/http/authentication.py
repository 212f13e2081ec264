"""Authentication over HTTP: a request acts for the tenant and with the rights of its token."""

import hmac
import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from starlette.authentication import AuthCredentials, AuthenticationBackend, AuthenticationError
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from tulving.bootstrap import Served
from tulving.domain.access import ALL_RIGHTS, RIGHTS
from tulving.domain.scope import Caller
from tulving.errors import Forbidden, InvalidInput
from tulving.interfaces.calls import Opened
from tulving.interfaces.http.hosts import error_response
from tulving.interfaces.http.narrowing import narrowed
from tulving.interfaces.http.open_streams import OpenStreams
from tulving.interfaces.principal import Principal
from tulving.services.memory import Memory

log = logging.getLogger("tulving")

FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
RETRY_SECONDS = "5"
LOCAL_OWNER = "local owner"


@dataclass
class Refusal(Exception):
    """Why a request is not admitted. `error` is a word for programs, as in RFC 6750."""

    status: int
    error: str
    problem: str
    headers: dict[str, str] = field(default_factory=dict)


class Access:
    """Who may use the server: the holder of a token as its tenant, the holder of the server's own `key` as the local
    owner and, while the server is open, a request without either as the local caller.

    It is open only where that was asked for (`--open`), only on this machine and only while the store has no token;
    each request asks anew. Once closed it stays closed until the server is started again, even after the last token is
    revoked. The key is drawn at each start and shown to the person who started the server.
    """

    def __init__(self, served: Opened[Served], is_open: bool = False, key: str | None = None) -> None:
        self._served, self._is_open, self._key = served, is_open, key
        self.streams = OpenStreams()
        """The streams that callers have open."""

    async def admit(self, headers: Headers, credential: str | None = None) -> Principal:
        """Who makes a request, by the header Authorization or, where a browser keeps it, by the `credential` itself.
        Raises `Refusal`."""
        if (authorization := headers.get("authorization")) is not None:
            scheme, _, credential = authorization.partition(" ")
            if scheme.lower() != "bearer":
                raise unauthorized("the scheme must be Bearer")
        if credential is not None:
            return await self._with_secret(credential.strip(), headers)
        if self._is_open and not any(name in headers for name in FORWARDED):
            return await self._without_secret(headers)
        raise unauthorized()

    async def _with_secret(self, secret: str, headers: Headers) -> Principal:
        try:
            served = await self._served()
            if self._key is not None and hmac.compare_digest(secret.encode(), self._key.encode()):
                return _principal(served, served.memory.caller, headers, ALL_RIGHTS, LOCAL_OWNER)
            token = await served.authentication.authenticate(secret)
        except Refusal:
            raise
        except Exception as error:
            log.error("a token can't be checked: %s", error)
            problem = "temporarily_unavailable", "the store can't be reached"
            raise Refusal(503, *problem, {"Retry-After": RETRY_SECONDS}) from error
        if token is None:
            raise unauthorized("the token is unknown, expired or revoked")
        name = token.name or token.actor or f"token {str(token.id)[:8]}"
        return _principal(served, token.caller(), headers, token.rights, name)

    async def _without_secret(self, headers: Headers) -> Principal:
        try:
            served = await self._served()
            if await served.authentication.needs_token():
                self._is_open = False
        except Exception as error:
            log.error("can't look for tokens: %s", error)
            # There may be tokens, so this request must not see the store, even if it is back a moment later.
            return Principal(partial(_fail, error))
        if not self._is_open:
            raise unauthorized()
        return _principal(served, served.memory.caller, headers, ALL_RIGHTS, LOCAL_OWNER)


class McpAuthentication(AuthenticationBackend):
    """Access for the MCP endpoint. The argument of an `AuthenticationError` is the response."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, Any]:
        try:
            return AuthCredentials(), await self._access.admit(conn.headers)
        except Refusal as refusal:
            response = error_response(refusal.status, refusal.error, refusal.problem, **refusal.headers)
            raise AuthenticationError(response) from refusal


def principal_of(context: Any) -> Principal:
    """Who sent the request of a tool call. It is kept in the request's own scope, which no two requests share."""
    return context.request.user


def unauthorized(problem: str = "") -> Refusal:
    """A request without a good token, and the challenge of RFC 6750."""
    error = "invalid_token" if problem else "token_required"
    reason = f', error="{error}", error_description="{problem}"' if problem else ""
    return Refusal(401, error, problem or "a token is needed", {"WWW-Authenticate": f'Bearer realm="tulving"{reason}'})


def _principal(
    served: Served, caller: Caller, headers: Headers, rights: tuple[str, ...] = RIGHTS, name: str = ""
) -> Principal:
    """The caller with the id of the request and the key under which it may be repeated."""
    with suppress(InvalidInput):  # an id that can't be stored is left out
        caller = replace(caller, request_id=headers.get("x-request-id"))
    try:
        caller = replace(caller, idempotency_key=headers.get("idempotency-key"))
    except InvalidInput as error:  # without its key a repeated request would be carried out twice
        problem = f"the header Idempotency-Key: {error.problem}"
        raise Refusal(400, "invalid_idempotency_key", problem) from error
    try:
        memory = narrowed(served.memory.bind(caller=caller), headers)
    except InvalidInput as error:
        raise Refusal(400, "invalid_header", str(error)) from error
    except Forbidden as error:
        raise Refusal(403, "forbidden", str(error)) from error
    administration = partial(_given, served.administration.bind(caller=caller)) if "admin" in rights else None
    return Principal(partial(_given, memory), rights, (caller.tenant_id, caller.actor), name, administration)


async def _given(opened: Any) -> Any:
    return opened


async def _fail(error: Exception) -> Memory:
    raise error
