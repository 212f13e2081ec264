"""Authentication over HTTP: a credential determines the tenant, the user and the rights of a request."""

import hmac
import logging
import math
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from starlette.authentication import AuthCredentials, AuthenticationBackend, AuthenticationError
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from tulving.bootstrap import Served
from tulving.domain.access import ALL_RIGHTS, Token, digest
from tulving.domain.scope import Caller
from tulving.errors import Forbidden, InvalidInput
from tulving.interfaces.calls import Opened
from tulving.interfaces.http.connections import network
from tulving.interfaces.http.credentials import BadToken, KeysUnavailable, Refusal, is_foreign
from tulving.interfaces.http.narrowing import narrowed
from tulving.interfaces.http.open_streams import OpenStreams
from tulving.interfaces.http.problems import RETRY_SECONDS
from tulving.interfaces.http.queue import Queue
from tulving.interfaces.http.rates import MOST_KNOWN, Rates
from tulving.interfaces.principal import Principal
from tulving.services.memory import Memory
from tulving.settings import HttpConfig

if TYPE_CHECKING:
    from tulving.interfaces.http.identity import IdentityProvider

log = logging.getLogger("tulving")

FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")
LOCAL_OWNER = "local owner"


class Access:
    """Authenticates requests and applies their rate limits. Accepted are the tokens of the store, those of an identity
    `provider`, whose claims the settings map to a tenant, user and rights, and the server's own `key`, which stands for
    the local owner. While the server is open, a request without a credential stands for the local owner too.

    A server is open only with `--open`, on a loopback address, and as long as the store has no token, which is checked
    for each request. Once closed it stays closed until it is restarted, even if the last token is revoked. The key is
    generated at each start and shown to the person who started the server.

    Requests per minute are counted in this process for each token, and failed attempts for each client network. An
    attempt with a credential that has succeeded before is never throttled: its address may be shared with the one who
    guesses.
    """

    def __init__(
        self,
        served: Opened[Served],
        is_open: bool = False,
        key: str | None = None,
        limits: HttpConfig | None = None,
        provider: "IdentityProvider | None" = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._served, self._is_open, self._key = served, is_open, key
        self._limits, self._provider = limits or HttpConfig(), provider
        self._requests, self._failures = Rates(clock), Rates(clock)
        self._good: OrderedDict[str, None] = OrderedDict()
        self.streams = OpenStreams()
        """The event streams that are open."""
        self.queue = Queue(self._limits)
        """The requests that are worked on or wait."""

    async def admit(self, request: HTTPConnection, credential: str | None = None, *, counted: bool = True) -> Principal:
        """Authenticate a request by its Authorization header, else by the `credential` of a cookie, and count it
        against the rate limit if `counted`. Raises `Refusal`."""
        principal = await self._admitted(request, credential, counted)
        request.state.rights, request.state.largest_body = principal.rights, principal.largest_body
        return principal

    async def _admitted(self, request: HTTPConnection, credential: str | None, counted: bool) -> Principal:
        headers = request.headers
        if (authorization := headers.get("authorization")) is not None:
            if len(headers.getlist("authorization")) > 1:
                raise unauthorized("the header Authorization is given twice")
            scheme, _, credential = authorization.partition(" ")
            if scheme.lower() != "bearer":
                raise unauthorized("the authorization scheme must be Bearer")
        if credential is not None:
            principal = await self._guarded(credential.strip(), request)
            if counted:
                self._count(principal)
            return principal
        if self._is_open and not any(name in headers for name in FORWARDED) and not _is_forged(request):
            return await self._without_secret(headers)
        raise unauthorized()

    def is_key(self, secret: str) -> bool:
        """Whether this is the server's own key."""
        return self._key is not None and hmac.compare_digest(secret.encode(errors="replace"), self._key.encode())

    async def _guarded(self, credential: str, request: HTTPConnection) -> Principal:
        """The principal of a credential, unless too many attempts from the same network have failed."""
        place = network(request.client.host) if request.client else ""
        most, mark = self._limits.failures_per_minute, digest(credential)
        if mark not in self._good and (wait := self._failures.wait(place, most)):
            problem = "too many invalid access tokens came from this address"
            raise Refusal(429, "too_many_failures", problem, _retry(wait))
        try:
            principal = await self._with_secret(credential, request.headers)
        except Refusal as refusal:
            if refusal.status == 401:
                self._good.pop(mark, None)
                self._failures.take(place, most)
            raise
        self._good[mark] = None
        self._good.move_to_end(mark)
        if len(self._good) > MOST_KNOWN:
            self._good.popitem(last=False)
        return principal

    async def _with_secret(self, secret: str, headers: Headers) -> Principal:
        try:
            served = await self._served()
            if self.is_key(secret):
                return self._owner(served, headers)
            if self._provider is not None and is_foreign(secret):
                found = await self._provider.identify(secret, served.memory.now())
                return self._limited(served, found.caller, headers, found.rights, found.name, found.user_id)
            token = await served.authentication.authenticate(secret)
        except BadToken as error:
            raise unauthorized(str(error)) from None
        except Refusal:
            raise
        except Exception as error:
            log.error("a token can't be checked: %s", error)
            what = "the identity provider" if isinstance(error, KeysUnavailable) else "the store"
            problem = "temporarily_unavailable", f"{what} can't be reached"
            raise Refusal(503, *problem, {"Retry-After": RETRY_SECONDS}) from error
        if token is None:
            raise unauthorized("the token is unknown, expired or revoked")
        name = token.name or token.actor or f"token {str(token.id)[:8]}"
        return self._limited(served, token.caller(), headers, token.rights, name, token=token)

    def _limited(
        self,
        served: Served,
        caller: Caller,
        headers: Headers,
        rights: tuple[str, ...],
        name: str,
        user_id: str | None = None,
        token: Token | None = None,
    ) -> Principal:
        """The principal of a token, with the limits of the token or else of the server."""
        limits, allowance = self._limits, caller.allowance
        assert allowance is not None
        if allowance.tokens_per_day is None:
            caller = replace(caller, allowance=replace(allowance, tokens_per_day=limits.model_tokens_per_day))
        principal = _principal(served, caller, headers, rights, name, user_id)
        return replace(
            principal,
            credential=allowance.spender,
            requests_per_minute=(token and token.requests_per_minute) or limits.requests_per_minute,
            largest_body=(token and token.largest_body) or limits.largest_body,
        )

    def _count(self, principal: Principal) -> None:
        most = principal.requests_per_minute
        if most is not None and (wait := self._requests.take(principal.credential, most)):
            problem = f"this access token may make {most} requests in a minute"
            raise Refusal(429, "too_many_requests", problem, _retry(wait))

    async def _without_secret(self, headers: Headers) -> Principal:
        try:
            served = await self._served()
            if await served.authentication.needs_token():
                self._is_open = False
        except Exception as error:
            log.error("can't look for tokens: %s", error)
            # There may be tokens, so this request must not reach the store even if that recovers in the meantime.
            return Principal(partial(_fail, error))
        if not self._is_open:
            raise unauthorized()
        return self._owner(served, headers)

    def _owner(self, served: Served, headers: Headers) -> Principal:
        principal = _principal(served, served.memory.caller, headers, ALL_RIGHTS, LOCAL_OWNER)
        return replace(principal, largest_body=self._limits.largest_body)


class McpAuthentication(AuthenticationBackend):
    """Authentication of the MCP endpoint. An `AuthenticationError` carries the response."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, Any]:
        try:
            return AuthCredentials(), await self._access.admit(conn)
        except Refusal as refusal:
            raise AuthenticationError(refusal.respond()) from refusal


def principal_of(context: Any) -> Principal:
    """The principal of a tool call, which the authentication middleware has put into the scope of its request."""
    return context.request.user


def unauthorized(problem: str = "") -> Refusal:
    """The refusal of a missing or invalid token, with the challenge of RFC 6750."""
    error = "invalid_token" if problem else "token_required"
    reason = f', error="{error}", error_description="{problem}"' if problem else ""
    return Refusal(401, error, problem or "a token is needed", {"WWW-Authenticate": f'Bearer realm="tulving"{reason}'})


def _is_forged(request: HTTPConnection) -> bool:
    """Whether a page of another origin makes the browser of its visitor change something."""
    site = request.headers.get("sec-fetch-site", "none")
    return request.scope["method"] not in ("GET", "HEAD") and site not in ("none", "same-origin")


def _retry(wait: float) -> dict[str, str]:
    return {"Retry-After": str(math.ceil(wait))}


def _principal(
    served: Served,
    caller: Caller,
    headers: Headers,
    rights: tuple[str, ...],
    name: str,
    user_id: str | None = None,
) -> Principal:
    """The principal for a caller, whose memory is bound to what the headers of the request say."""
    with suppress(InvalidInput):  # an id that can't be stored is ignored
        caller = replace(caller, request_id=headers.get("x-request-id"))
    try:
        if len(headers.getlist("idempotency-key")) > 1:
            raise InvalidInput("idempotency_key", "is given twice", "once")
        caller = replace(caller, idempotency_key=headers.get("idempotency-key"))
    except InvalidInput as error:  # ignoring the key would let a repeated request take effect twice
        problem = f"the header Idempotency-Key: {error.problem}"
        raise Refusal(400, "invalid_idempotency_key", problem) from error
    if user_id is not None and served.memory.bound.owner.user_id not in (None, user_id):
        raise Refusal(403, "forbidden", "this server is for another user")
    try:
        memory = narrowed(served.memory.bind(caller=caller, user_id=user_id), headers)
    except InvalidInput as error:
        raise Refusal(400, "invalid_header", str(error)) from error
    except Forbidden as error:
        raise Refusal(403, "forbidden", str(error)) from error
    administration = partial(_given, served.administration.bind(caller=caller)) if "admin" in rights else None
    who = caller.tenant_id, caller.actor, user_id
    return Principal(partial(_given, memory), rights, who, name, administration)


async def _given(opened: Any) -> Any:
    return opened


async def _fail(error: Exception) -> Memory:
    raise error
