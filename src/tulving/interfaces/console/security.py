"""Security of the console: response headers, cookies and CSRF tokens."""

import base64
import hashlib
import hmac
import json
import posixpath
import re
import secrets
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

PATH = "/console"
LOGIN = f"{PATH}/login"
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: with that, browsers send the Origin of a form as "null", which the origin check refuses.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
ACCESS, VISITOR, SAID, THEME = "access", "visitor", "said", "theme"
"""The cookies: the credential, a random key for visitors without one, a message for the next page, the theme."""
YEAR = 365 * 24 * 3600
LONGEST_COOKIE = 3_800
"""The length of a value that every browser accepts, with room for the cookie's name and attributes."""
_CREDENTIAL = re.compile(r"[A-Za-z0-9_.~+/=-]+")


def get_cookie(request: Request, name: str) -> str | None:
    """A cookie of this server."""
    return request.cookies.get(_named(request, name))


def set_cookie(request: Request, response: Response, name: str, value: str, max_age: int | None = None) -> None:
    """Set a cookie for the console only.

    SameSite is Lax, not Strict, so that links to memories in a mail or chat open with the reader logged in. GET
    requests change nothing.
    """
    response.set_cookie(
        _named(request, name),
        value,
        max_age=max_age,
        path=PATH,
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",
    )


def drop_cookie(request: Request, response: Response, name: str) -> None:
    """Delete a cookie."""
    set_cookie(request, response, name, "", max_age=0)


def may_be_kept(credential: str) -> bool:
    """Whether a credential fits into a cookie."""
    return len(credential) <= LONGEST_COOKIE and _CREDENTIAL.fullmatch(credential) is not None


def new_visitor() -> str:
    """A random key from which CSRF tokens are derived for a visitor without a credential."""
    return secrets.token_urlsafe(32)


def form_token(key: str) -> str:
    """The CSRF token of a visitor. It is derived from a secret of their browser, so that no process of a service has to
    store it."""
    return hmac.new(key.encode(), b"form", hashlib.sha256).hexdigest()


def is_form_token(key: str, token: Any) -> bool:
    """Whether this is the CSRF token of a visitor."""
    return isinstance(token, str) and hmac.compare_digest(form_token(key).encode(), token.encode(errors="replace"))


def sealed(key: str, value: Any) -> str:
    """A signed value for a cookie."""
    body = base64.urlsafe_b64encode(json.dumps(value, ensure_ascii=False).encode(errors="replace")).decode()
    return f"{body}.{_seal(key, body)}"


def unsealed(key: str, text: str | None) -> Any:
    """The value of a signed cookie; None if it is missing or its signature is invalid."""
    body, _, seal = (text or "").partition(".")
    if not hmac.compare_digest(_seal(key, body).encode(), seal.encode(errors="replace")):
        return None
    return json.loads(base64.urlsafe_b64decode(body))


def is_foreign(request: Request) -> bool:
    """Whether the browser reports that a page of another origin makes this request (Sec-Fetch-Site)."""
    return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def is_within(path: Any) -> bool:
    """Whether a redirect target is a path of the console, and not of another host."""
    if not isinstance(path, str) or not re.fullmatch(rf"{PATH}(?:[/?][!-\[\]-~]*)?", path):
        return False
    plain = unquote(path.partition("?")[0])
    return posixpath.normpath(plain) == plain.rstrip("/")


def _seal(key: str, body: str) -> str:
    return hmac.new(key.encode(), b"cookie" + body.encode(errors="replace"), hashlib.sha256).hexdigest()


def _named(request: Request, name: str) -> str:
    """The name of a cookie with the port, since browsers share cookies between the ports of a host."""
    return f"tulving_{name}_{request.url.port}" if request.url.port else f"tulving_{name}"
