"""Access over a network: a token stands for a tenant, an actor and their rights."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from tulving.domain import intake
from tulving.domain.records import Record
from tulving.domain.scope import Allowance, Caller
from tulving.errors import InvalidInput

RIGHTS = ("read", "write", "destroy")
"""A right is the effect of an operation that the token's holder may call. These are the rights for agents."""
ALL_RIGHTS = (*RIGHTS, "review", "admin")
"""Including those for people: to decide on what models propose, and to administer the whole store."""

PER_MINUTE, PER_DAY = intake.Between(1, 1_000_000), intake.Between(0, 2**53)
BODY_SIZES = intake.Between(1024, 1 << 30)
"""The bounds of the limits: requests per minute, language model tokens per day, and bytes of a body."""

SECRET_PREFIX = "tulving_"
_SECRET = re.compile(SECRET_PREFIX + r"[A-Za-z0-9_-]{43,200}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Token(Record):
    """What the store knows of a token. Only its holder knows the secret. A limit of None means that of the server."""

    tenant_id: str
    id: UUID
    name: str | None
    actor: str | None
    rights: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    requests_per_minute: int | None = None
    model_tokens_per_day: int | None = None
    largest_body: int | None = None

    def state(self, now: datetime) -> str:
        """active, expired or revoked."""
        if self.revoked_at is not None:
            return "revoked"
        return "active" if self.expires_at is None or self.expires_at > now else "expired"

    def caller(self, request_id: str | None = None) -> Caller:
        """On whose behalf its holder acts."""
        allowance = Allowance(str(self.id), self.model_tokens_per_day)
        return Caller(self.tenant_id, self.actor, request_id, allowance=allowance)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NewToken(Token):
    """A new token with its secret, which is not stored and can't be shown again."""

    _shown = ("tenant_id", "id", "name", "actor", "rights", "expires_at")

    secret: str


def digest(secret: str) -> str:
    """What is stored of a secret. Its 256 random bits can't be guessed, so a plain hash is enough."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def check_secret(secret: str) -> str:
    """A secret of our form and length."""
    if not isinstance(secret, str) or not _SECRET.fullmatch(secret):
        raise InvalidInput("secret", "is not of our form", f"{SECRET_PREFIX} and 32 random bytes as URL-safe base64")
    return secret


def check_rights(rights: Sequence[str]) -> tuple[str, ...]:
    """Rights without duplicates, in the order of `ALL_RIGHTS`."""
    for right in intake.items("rights", rights, None, ", ".join(ALL_RIGHTS)):
        if right not in ALL_RIGHTS:
            raise InvalidInput("rights", f"{right!r:.80} is not known", ", ".join(ALL_RIGHTS))
    if not rights:
        raise InvalidInput("rights", "is empty", ", ".join(ALL_RIGHTS))
    return tuple(right for right in ALL_RIGHTS if right in rights)
