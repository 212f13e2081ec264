"""Access tokens: who may use this store over a network, as which actor, and with which rights."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tulving import storage
from tulving.domain import intake
from tulving.domain.access import BODY_SIZES, MOST_PER_MINUTE, RIGHTS, Token, check_rights, check_secret, digest
from tulving.domain.events import Audit
from tulving.domain.scope import Caller
from tulving.errors import InvalidInput, NotFound
from tulving.services.service import Service

LONGEST_DAYS = 36_500
SHORTEST_PREFIX = 4


class Authentication(Service):
    """What a network server needs to authenticate a caller whose tenant is not known yet."""

    async def authenticate(self, secret: str) -> Token | None:
        """The token with this secret, if it is valid now."""
        return await self._env.store.read(None, storage.tokens.find, digest(secret), self._env.clock())

    async def needs_token(self) -> bool:
        """Whether callers need a token: there is one that was not revoked."""
        return await self._env.store.read(None, storage.tokens.any_kept)


class Tokens(Service):
    """Verbs for operators; part of an `Administration`."""

    async def create_token(
        self,
        secret: str,
        *,
        name: str | None = None,
        actor: str | None = None,
        rights: Sequence[str] = RIGHTS,
        days: float | None = None,
        requests_per_minute: int | None = None,
        model_tokens_per_day: int | None = None,
        largest_body: int | None = None,
    ) -> Token:
        """Grant the holder of a secret access to the caller's tenant, for some days or until it is revoked. Its limits
        are those that are configured for a server over HTTP, except those given here.

        The secret is injected like all randomness: `tulving token create` generates one. Only its hash is stored.
        Without an actor, the token's name is the actor.
        """
        now = self._env.clock()
        name = None if name is None else intake.name("name", name, most=200)
        token = Token(
            tenant_id=self.caller.tenant_id,
            id=self._env.ids(),
            name=name,
            actor=actor or name,
            rights=check_rights(rights),
            created_at=now,
            expires_at=_expiry(now, days),
            requests_per_minute=_limit("requests_per_minute", requests_per_minute, 1, MOST_PER_MINUTE),
            model_tokens_per_day=_limit("model_tokens_per_day", model_tokens_per_day, 0, 2**53),
            largest_body=_limit("largest_body", largest_body, *BODY_SIZES),
        )
        token.caller()  # raises for an invalid actor
        event = self._audit(now).event(
            "token_created",
            "token",
            token.id,
            rights=list(token.rights),
            expires_at=token.expires_at and token.expires_at.isoformat(),
        )
        await self._write(storage.tokens.create, token, digest(check_secret(secret)), event)
        return token

    async def list_tokens(self) -> list[Token]:
        """The tokens of all tenants in any state, oldest first."""
        return await self._read(storage.tokens.everyone)

    async def revoke_token(self, token_id: str) -> Token:
        """Revoke a token at once, by its id or the beginning of it. Idempotent."""
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
        event = theirs.event("token_revoked", "token", token.id)
        revoked = await self._write(storage.tokens.revoke, token.id, now, event)
        return replace(token, revoked_at=now) if revoked else token


def _limit(name: str, value: int | None, least: int, most: int) -> int | None:
    return None if value is None else intake.whole(name, value, least, most)


def _expiry(now: datetime, days: float | None) -> datetime | None:
    if days is None:
        return None
    if not intake.number("expires", days, 0, LONGEST_DAYS):
        raise InvalidInput("expires", "is 0", f"a number of days up to {LONGEST_DAYS}")
    return now + timedelta(days=days)
