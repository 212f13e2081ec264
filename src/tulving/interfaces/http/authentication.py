"""Authentication over HTTP: a request acts for the tenant and with the rights of its token."""

import logging
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.authentication import AuthCredentials, AuthenticationBackend, AuthenticationError
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from tulving.bootstrap import Served
from tulving.domain.access import RIGHTS
from tulving.domain.scope import Caller
from tulving.errors import InvalidInput
from tulving.interfaces.calls import Opened
from tulving.interfaces.http.hosts import error_response
from tulving.interfaces.mcp.principal import Principal
from tulving.services.memory import Memory

log = logging.getLogger("tulving")

FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
RETRY_SECONDS = "5"


class TokenAuthentication(AuthenticationBackend):
    """Admits a good token as its tenant and, while the server is open, a request without one as the local caller.

    It is open only where that was asked for (`--open`), only on this machine and only while the store has no token;
    each request asks anew. Once closed it stays closed until the server is started again, even after the last token is
    revoked. The argument of an `AuthenticationError` is the response.
    """

    def __init__(self, served: Opened[Served], is_open: bool) -> None:
        self._served, self._is_open = served, is_open

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, Any]:
        headers = conn.headers
        if (authorization := headers.get("authorization")) is not None:
            return AuthCredentials(), await self._with_token(authorization, headers)
        if self._is_open and not any(name in headers for name in FORWARDED):
            return AuthCredentials(), await self._without_token(headers)
        raise _unauthorized()

    async def _with_token(self, authorization: str, headers: Headers) -> Principal:
        scheme, _, secret = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise _unauthorized("the scheme must be Bearer")
        try:
            served = await self._served()
            token = await served.authentication.authenticate(secret.strip())
        except Exception as error:
            log.error("a token can't be checked: %s", error)
            problem = "temporarily_unavailable", "the store can't be reached"
            raise AuthenticationError(error_response(503, *problem, **{"Retry-After": RETRY_SECONDS})) from error
        if token is None:
            raise _unauthorized("the token is unknown, expired or revoked")
        return _principal(served.memory, token.caller(), headers, token.rights)

    async def _without_token(self, headers: Headers) -> Principal:
        try:
            served = await self._served()
            if await served.authentication.needs_token():
                self._is_open = False
        except Exception as error:
            log.error("can't look for tokens: %s", error)
            # There may be tokens, so this request must not see the store, even if it is back a moment later.
            return Principal(partial(_fail, error))
        if not self._is_open:
            raise _unauthorized()
        return _principal(served.memory, served.memory.caller, headers)


def principal_of(context: Any) -> Principal:
    """Who sent the request of a tool call. It is kept in the request's own scope, which no two requests share."""
    return context.request.user


def _principal(memory: Memory, caller: Caller, headers: Headers, rights: tuple[str, ...] = RIGHTS) -> Principal:
    """The caller with the id of the request and the key under which it may be repeated."""
    with suppress(InvalidInput):  # an id that can't be stored is left out
        caller = replace(caller, request_id=headers.get("x-request-id"))
    try:
        caller = replace(caller, idempotency_key=headers.get("idempotency-key"))
    except InvalidInput as error:  # without its key a repeated request would be carried out twice
        problem = f"the header Idempotency-Key: {error.problem}"
        raise AuthenticationError(error_response(400, "invalid_idempotency_key", problem)) from error

    return Principal(partial(_bound, memory, caller), rights, (caller.tenant_id, caller.actor))


async def _bound(memory: Memory, caller: Caller) -> Memory:
    return memory.bind(caller=caller)


async def _fail(error: Exception) -> Memory:
    raise error


def _unauthorized(problem: str = "") -> AuthenticationError:
    error = "invalid_token" if problem else "token_required"
    reason = f', error="{error}", error_description="{problem}"' if problem else ""
    challenge = {"WWW-Authenticate": f'Bearer realm="tulving"{reason}'}
    return AuthenticationError(error_response(401, error, problem or "a token is needed", **challenge))
