"""Bearer tokens: which ones come from an identity provider, and why one is not accepted."""

from tulving.domain.access import SECRET_PREFIX
from tulving.errors import TulvingError


class BadToken(Exception):
    """A token is not accepted. The message never contains any part of the token."""


class KeysUnavailable(TulvingError):
    """The keys of the identity provider have not been fetched yet."""


def is_foreign(credential: str) -> bool:
    """Whether a credential has the form of a JWT rather than of a token of this store."""
    return credential.count(".") == 2 and not credential.startswith(SECRET_PREFIX)
