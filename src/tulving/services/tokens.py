"""Access tokens: who may use this store over a network, as which actor, and with which rights."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Annotated, Any

from tulving import storage
from tulving.domain import intake
from tulving.domain.access import (
    ALL_RIGHTS,
    BODY_SIZES,
    PER_DAY,
    PER_MINUTE,
    RIGHTS,
    NewToken,
    Token,
    check_rights,
    check_secret,
    digest,
)
from tulving.domain.events import Audit, Event
from tulving.domain.scope import Caller
from tulving.errors import InvalidInput, NotFound
from tulving.services.operations import operation
from tulving.services.service import Service

LONGEST_DAYS = 36_500
SHORTEST_PREFIX = 4
REVOKED = "token_revoked"
TRUSTED = 1.0
"""Seconds for which a valid token is cached."""
MOST_TRUSTED = 10_000


class Authentication(Service):
    """What a network server needs to authenticate a caller whose tenant is not known yet.

    Valid tokens are cached for a moment, so that busy callers do not cost a lookup for each request. A token that this
    process revokes is dropped from the cache at once; one that another process revokes, within `TRUSTED` seconds.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._good: OrderedDict[str, tuple[Token, float]] = OrderedDict()
        self._looking: dict[str, asyncio.Task[Token | None]] = {}
        self._env.subscribers.add(None, self._forget_revoked)

    async def authenticate(self, secret: str) -> Token | None:
        """The token with this secret, if it is valid now."""
        hash_, now = digest(secret), asyncio.get_running_loop().time()
        token, since = self._good.get(hash_, (None, 0.0))
        if token is None or now - since >= TRUSTED:
            if hash_ not in self._looking:
                self._looking[hash_] = asyncio.create_task(self._look(hash_, now))
            token = await asyncio.shield(self._looking[hash_])
        return token if token is not None and token.state(self._env.clock()) == "active" else None

    async def _look(self, hash_: str, began: float) -> Token | None:
        """Look a token up once for all requests that wait for it. One that is revoked in the meantime is not cached."""
        mine = asyncio.current_task()
        try:
            token = await self._env.store.look_up(None, storage.tokens.find, hash_, self._env.clock())
            if self._looking.get(hash_) is mine:
                self._good.pop(hash_, None)
                if token is not None:
                    self._good[hash_] = token, began
                if len(self._good) > MOST_TRUSTED:
                    self._good.popitem(last=False)
            return token
        finally:
            if self._looking.get(hash_) is mine:
                del self._looking[hash_]

    def _forget_revoked(self, events: Sequence[Event]) -> None:
        if any(event.event_type == REVOKED for event in events):
            self._good.clear()
            self._looking.clear()

    async def needs_token(self) -> bool:
        """Whether callers need a token: there is one that was not revoked."""
        return await self._env.store.look_up(None, storage.tokens.any_kept)


class Tokens(Service):
    """Verbs for operators; part of an `Administration`."""

    @operation("memory_create_token", http="POST /v1/tokens", effect="admin", standard=False)
    async def create_token(
        self,
        secret: str | None = None,
        *,
        name: Annotated[str | None, "Its name for people"] = None,
        actor: Annotated[str | None, "Who acts, in the audit trail; by default its name"] = None,
        rights: Annotated[Sequence[str], "What its holder may do", intake.OneOf(ALL_RIGHTS)] = RIGHTS,
        days: Annotated[float | None, "Days until it expires; by default never"] = None,
        tenant_id: Annotated[str | None, "Its tenant; by default your own"] = None,
        requests_per_minute: Annotated[int | None, "To each server; by default as configured", PER_MINUTE] = None,
        model_tokens_per_day: Annotated[int | None, "For language models; by default as configured", PER_DAY] = None,
        largest_body: Annotated[int | None, "Bytes of a request body; by default as configured", BODY_SIZES] = None,
    ) -> NewToken:
        """Create an access token for a tenant, for some days or until it is revoked.

        The answer has its secret, which is shown only this once: the store keeps no more than a hash of it.
        """
        now, secret = self._env.clock(), check_secret(self._env.new_secret() if secret is None else secret)
        name = None if name is None else intake.name("name", name, most=200)
        caller = replace(self.caller, tenant_id=self.caller.tenant_id if tenant_id is None else tenant_id)
        token = Token(
            tenant_id=caller.tenant_id,
            id=self._env.ids(),
            name=name,
            actor=actor or name,
            rights=check_rights(rights),
            created_at=now,
            expires_at=_expiry(now, days),
            requests_per_minute=_limit("requests_per_minute", requests_per_minute, PER_MINUTE),
            model_tokens_per_day=_limit("model_tokens_per_day", model_tokens_per_day, PER_DAY),
            largest_body=_limit("largest_body", largest_body, BODY_SIZES),
        )
        token.caller()  # raises for an invalid actor
        event = Audit(caller, now, self._env.ids).event(
            "token_created",
            "token",
            token.id,
            rights=list(token.rights),
            expires_at=token.expires_at and token.expires_at.isoformat(),
        )
        await self._write(storage.tokens.create, token, digest(secret), event)
        return NewToken(**asdict(token), secret=secret)

    @operation("memory_tokens", http="GET /v1/tokens", effect="admin", answer="tokens", standard=False)
    async def list_tokens(self, tenant_id: Annotated[str | None, "Only those of this tenant"] = None) -> list[Token]:
        """List the tokens of all tenants in any state, oldest first; never their secrets."""
        found = await self._read(storage.tokens.everyone)
        return [token for token in found if tenant_id in (None, token.tenant_id)]

    @operation("memory_revoke_token", http="POST /v1/tokens/{token_id}/revoke", effect="admin", standard=False)
    async def revoke_token(self, token_id: Annotated[str, "Its id, or the beginning of it"]) -> Token:
        """Revoke a token at once: its next request is refused. A second time does nothing."""
        now = self._env.clock()
        start = intake.identifier("token_id", token_id, most=40).lower()
        if len(start) < SHORTEST_PREFIX:
            raise InvalidInput("token_id", "is too short", f"an id, or its first {SHORTEST_PREFIX} or more characters")
        found = [token for token in await self.list_tokens() if str(token.id).startswith(start)]
        if not found:
            raise NotFound(f"there is no token {token_id}")
        if len(found) > 1:
            raise InvalidInput("token_id", f"{len(found)} tokens begin like this", "more of the id")
        [token] = found
        theirs = Audit(Caller(token.tenant_id, self.caller.actor, self.caller.request_id), now, self._env.ids)
        event = theirs.event(REVOKED, "token", token.id)
        revoked = await self._write(storage.tokens.revoke, token.id, now, event)
        return replace(token, revoked_at=now) if revoked else token


def _limit(name: str, value: int | None, allowed: intake.Between) -> int | None:
    return None if value is None else intake.whole(name, value, *allowed)


def _expiry(now: datetime, days: float | None) -> datetime | None:
    if days is None:
        return None
    if not intake.number("days", days, 0, LONGEST_DAYS):
        raise InvalidInput("days", "is 0", f"a number of days up to {LONGEST_DAYS}")
    return now + timedelta(days=days)
