"""What keeps the console's visitors safe: headers of every page, cookies, and tokens against forged requests."""

import base64
import hashlib
import hmac
import json
import re
import secrets
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

PATH = "/console"
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: under it browsers send the origin of a form as "null", which the check of origins refuses.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
ACCESS, VISITOR, SAID, THEME = "access", "visitor", "said", "theme"
"""The cookies: the credential, a random value for visitors without one, a message for the next page, the theme."""
YEAR = 365 * 24 * 3600
LONGEST_COOKIE = 3_800
"""Characters that every browser keeps, with room for the cookie's name and attributes."""
_CREDENTIAL = re.compile(r"[A-Za-z0-9_.~+/=-]+")


def get_cookie(request: Request, name: str) -> str | None:
    """A cookie of this server."""
    return request.cookies.get(_named(request, name))


def set_cookie(request: Request, response: Response, name: str, value: str, max_age: int | None = None) -> None:
    """Keep a value in the browser, for the pages of the console only.

    Lax, not Strict: a link to a memory in a mail or a chat must find its reader logged in. Nothing is changed by GET.
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
    """Make the browser forget a value."""
    set_cookie(request, response, name, "", max_age=0)


def may_be_kept(credential: str) -> bool:
    """Whether a credential fits into a cookie."""
    return len(credential) <= LONGEST_COOKIE and _CREDENTIAL.fullmatch(credential) is not None


def new_visitor() -> str:
    """A random value from which tokens are derived for a visitor that has no credential."""
    return secrets.token_urlsafe(32)


def form_token(key: str) -> str:
    """The token that the forms of a visitor carry: derived from what only their browser and the server know, so that
    every process of a service makes the same one and none has to remember it."""
    return hmac.new(key.encode(), b"form", hashlib.sha256).hexdigest()


def is_form_token(key: str, token: Any) -> bool:
    """Whether a form was made for this visitor."""
    return isinstance(token, str) and hmac.compare_digest(form_token(key).encode(), token.encode(errors="replace"))


def sealed(key: str, value: Any) -> str:
    """A value for a cookie, which only the holder of the key can have made."""
    body = base64.urlsafe_b64encode(json.dumps(value, ensure_ascii=False).encode(errors="replace")).decode()
    return f"{body}.{_seal(key, body)}"


def unsealed(key: str, text: str | None) -> Any:
    """The value of a sealed cookie; None if there is none or it was made by somebody else."""
    body, _, seal = (text or "").partition(".")
    if not hmac.compare_digest(_seal(key, body).encode(), seal.encode(errors="replace")):
        return None
    return json.loads(base64.urlsafe_b64decode(body))


def is_foreign(request: Request) -> bool:
    """Whether a browser says that a page of another origin makes this request."""
    return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def is_within(path: Any) -> bool:
    """Whether a path leads to a page of the console, and not to another host."""
    if not isinstance(path, str) or not re.fullmatch(rf"{PATH}(?:[/?][!-\[\]-~]*)?", path):
        return False
    return ".." not in unquote(path.partition("?")[0])


def _seal(key: str, body: str) -> str:
    return hmac.new(key.encode(), b"cookie" + body.encode(errors="replace"), hashlib.sha256).hexdigest()


def _named(request: Request, name: str) -> str:
    """Browsers share the cookies of a host among its ports, so that two servers on one machine need two names."""
    return f"tulving_{name}_{request.url.port}" if request.url.port else f"tulving_{name}"
