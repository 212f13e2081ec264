"""The tokens of an identity provider (JWT): verification, and the mapping of claims."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from time import monotonic
from typing import Any

import jwt

from tulving.domain.access import ALL_RIGHTS
from tulving.domain.scope import Allowance, Caller, Owner
from tulving.errors import InvalidInput
from tulving.interfaces.http.credentials import BadToken
from tulving.interfaces.http.signing_keys import SigningKeys
from tulving.settings import JwtConfig

LONGEST = 8 * 1024
LONGEST_NAME = 200
NEVER = 1e12
"""Timestamps beyond this are treated as invalid."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What the claims of a token stand for: the caller, the user whose memories they reach, their rights and name."""

    caller: Caller
    user_id: str | None
    rights: tuple[str, ...]
    name: str


class IdentityProvider:
    """Verifies the tokens of one provider.

    Before the signature is verified, nothing in a token is used but the names of its key and algorithm. Times are
    compared with the memory's clock.
    """

    def __init__(self, config: JwtConfig, tenant_id: str, keys: SigningKeys | None = None) -> None:
        self._config, self._tenant_id = config, tenant_id
        self._keys = keys or SigningKeys(config.jwks, monotonic)
        self._granted = config.granted

    async def identify(self, token: str, now: datetime) -> Identity:
        """The identity of a token's holder. Raises `BadToken` or `KeysUnavailable`."""
        if len(token) > LONGEST:
            raise BadToken("the token is too long")
        claims = await self._verified(token)
        self._check_times(claims, now.timestamp())
        try:
            return self._identity(claims)
        except InvalidInput as error:  # the value of the claim must not show
            raise BadToken(f"the token has a {error.field} that can't be used") from None

    async def _verified(self, token: str) -> dict[str, Any]:
        algorithm, name = self._header(token)
        key = await self._keys.key_for(algorithm, name)
        if key is None:
            raise BadToken("the key of the token is not one of the identity provider")
        checked_by_us = ("verify_exp", "verify_nbf", "verify_iat", "verify_sub", "verify_jti")
        options: Any = {**dict.fromkeys(checked_by_us, False), "require": ["exp", "iss", "aud"]}
        try:
            return jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                audience=self._config.audience,
                issuer=self._config.issuer,
                options=options,
            )
        except jwt.MissingRequiredClaimError as error:
            raise BadToken(f"the token lacks the claim {error.claim}") from None
        except jwt.InvalidAudienceError:
            raise BadToken("the token is for another audience") from None
        except jwt.InvalidIssuerError:
            raise BadToken("the token is from another issuer") from None
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise BadToken("the signature of the token is invalid, or the token can't be read") from None

    def _header(self, token: str) -> tuple[str, str | None]:
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise BadToken("the token can't be read") from None
        algorithm, name = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._config.algorithms:
            raise BadToken("the signature algorithm of the token is not accepted")
        if "crit" in header:
            raise BadToken("the token has a critical header, which is not supported")
        if name is not None and not (isinstance(name, str) and len(name) <= LONGEST_NAME):
            raise BadToken("the token can't be read")
        return algorithm, name

    def _check_times(self, claims: Mapping[str, Any], now: float) -> None:
        leeway = self._config.leeway
        times = {name: claims[name] for name in ("exp", "nbf", "iat") if claims.get(name) is not None}
        for name, value in times.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < NEVER:
                raise BadToken(f"the token has a claim {name} that is not a time")
        if times["exp"] + leeway <= now:
            raise BadToken("the token is expired")
        if max(times.get("nbf", 0), times.get("iat", 0)) - leeway > now:
            raise BadToken("the token is not valid yet")

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        config = self._config
        tenant = _text(claims, config.tenant_claim) if config.tenant_claim else self._tenant_id
        user = _text(claims, config.user_claim) if config.user_claim else None
        actor = _text(claims, config.actor_claim)
        Owner(user_id=user)  # raises for a name that can't be stored
        who = json.dumps([config.issuer, tenant, user, actor])
        spender = f"jwt-{sha256(who.encode()).hexdigest()[:32]}"
        return Identity(Caller(tenant, actor, allowance=Allowance(spender)), user, self._rights(claims), actor)

    def _rights(self, claims: Mapping[str, Any]) -> tuple[str, ...]:
        """The rights that the values of the claim grant, or the default if none of them is known."""
        given = claims.get(self._config.rights_claim) if self._config.rights_claim else None
        values = given.split() if isinstance(given, str) else given if isinstance(given, list) else []
        found = [self._granted[value] for value in values if isinstance(value, str) and value in self._granted]
        rights = set().union(*found) if found else set(self._config.default_rights)
        return tuple(right for right in ALL_RIGHTS if right in rights)


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if value is None:
        raise BadToken(f"the token lacks the claim {name}")
    if not isinstance(value, str) or not value.strip():
        raise BadToken(f"the token has a claim {name} that is not a name")
    return value
