"""What somebody shows to be admitted: a token of ours or of an identity provider, and why one is not good."""

from dataclasses import dataclass, field

from tulving.domain.access import SECRET_PREFIX
from tulving.errors import TulvingError


class BadToken(Exception):
    """Why a token is not accepted, in words that hold nothing of it."""


class KeysUnavailable(TulvingError):
    """The identity provider has not shown its keys yet."""


@dataclass
class Refusal(Exception):
    """Why a request is not admitted. `error` is a word for programs, as in RFC 6750."""

    status: int
    error: str
    problem: str
    headers: dict[str, str] = field(default_factory=dict)


def is_foreign(credential: str) -> bool:
    """Whether a credential has the form of a provider's token and not of one of ours."""
    return credential.count(".") == 2 and not credential.startswith(SECRET_PREFIX)
