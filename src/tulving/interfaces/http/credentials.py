"""Bearer tokens: which ones come from an identity provider, and why one is not accepted."""

from dataclasses import dataclass, field

from starlette.responses import JSONResponse, Response

from tulving.domain.access import SECRET_PREFIX
from tulving.errors import TulvingError


class BadToken(Exception):
    """A token is not accepted. The message never contains any part of the token."""


class KeysUnavailable(TulvingError):
    """The keys of the identity provider have not been fetched yet."""


@dataclass
class Refusal(Exception):
    """Why a request is refused before it is handled. `error` is an error code as in RFC 6750."""

    status: int
    error: str
    problem: str
    headers: dict[str, str] = field(default_factory=dict)

    def respond(self) -> Response:
        """The response, for routes outside of `/v1`."""
        return JSONResponse({"error": self.error, "error_description": self.problem}, self.status, self.headers)


def is_foreign(credential: str) -> bool:
    """Whether a credential has the form of a JWT rather than of a token of this store."""
    return credential.count(".") == 2 and not credential.startswith(SECRET_PREFIX)
