"""Protection against DNS rebinding: the host names and web origins that a server accepts."""

import logging
import re
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from tulving.errors import ConfigError
from tulving.interfaces.http.credentials import Refusal
from tulving.interfaces.http.problems import refused

log = logging.getLogger("tulving")

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_HOST = r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?"
_LOOPBACK_ORIGIN = re.compile(rf"https?://({'|'.join(map(re.escape, LOOPBACK))})(:[0-9]{{1,5}})?")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a server, and the host names and web origins that it accepts in addition."""

    host: str
    port: int
    is_loopback: bool = True
    allowed_hosts: frozenset[str] = frozenset()
    allowed_origins: frozenset[str] = frozenset()
    is_tls: bool = False

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http{'s' if self.is_tls else ''}://{self}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it. Other host names are set for clients elsewhere, as behind a proxy."""
        return self.is_loopback and not self.allowed_hosts

    def __str__(self) -> str:
        return _with_port(self.host, self.port)

    @property
    def hosts(self) -> set[str]:
        """The accepted values of the header Host, in which clients leave out the default port."""
        names = (*LOOPBACK, *self.allowed_hosts)
        found = {str(self).lower(), *(f"{name}:{self.port}" for name in names)} | self.allowed_hosts
        usual = ":443" if self.is_tls else ":80"
        return found | {name.removesuffix(usual) for name in found}

    def accepts_origin(self, origin: str) -> bool:
        """Whether a page of this origin may call the server."""
        origin = origin.lower()
        return origin in self.allowed_origins or (self.is_loopback and _LOOPBACK_ORIGIN.fullmatch(origin) is not None)


class HostCheck:
    """Middleware that refuses requests for an unknown host name, from a page of an unknown origin, with two lengths, or
    with a line break in their path, which the patterns of routes do not expect.

    Browsers send the host name of the URL (Host) and the origin of the page (Origin); other clients send no Origin. The
    checks of the MCP library and of Starlette are not enough: the former is case-sensitive, ignores an empty or second
    Origin and covers its own route only; the latter ignores ports.
    """

    def __init__(self, app: ASGIApp, address: Endpoint) -> None:
        self._app, self._address, self._hosts = app, address, address.hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (self._app if refusal is None else refused(scope, refusal))(scope, receive, send)

    def _refusal(self, scope: Scope) -> Refusal | None:
        headers = Headers(scope=scope)
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy may go by the other one, and take a part of the body for another client's request (RFC 9112, 6.3).
            problem = "a request has either a Content-Length or a Transfer-Encoding"
            return Refusal(400, "invalid_header", problem, {"Connection": "close"})
        if "\n" in scope["path"]:
            return Refusal(404, "unknown_route", "there is no route with a line break")
        host, reached = headers.get("host", "").lower(), scope.get("server")
        # The socket's own address is safe to accept: DNS rebinding needs a host name.
        if host not in self._hosts and not (reached and host == _with_port(*reached)):
            log.warning("refused a request to the host %.100r: allowed_hosts does not have it", host)
            return Refusal(421, "misdirected_request", "this server does not answer to that host name")
        for origin in headers.getlist("origin"):
            # Forms of the console have its own origin, whose host was checked above.
            if not self._address.accepts_origin(origin) and origin not in (f"http://{host}", f"https://{host}"):
                log.warning("refused a request from the origin %.100r: allowed_origins does not have it", origin)
                return Refusal(403, "forbidden_origin", "this server does not answer to pages of that origin")
        return None


def host_names(setting: str | None) -> frozenset[str]:
    """The setting `allowed_hosts`: further names of the server."""
    return _listed("allowed_hosts", setting, _HOST, "a host name", "names such as memory.example.com")


def origins(setting: str | None) -> frozenset[str]:
    """The setting `allowed_origins`: the origins of web pages that may call the server."""
    return _listed("allowed_origins", setting, rf"https?://{_HOST}", "an origin", "such as https://app.example.com")


def _listed(field: str, setting: str | None, form: str, meant: str, allowed: str) -> frozenset[str]:
    found = frozenset(filter(None, (part.strip().lower() for part in (setting or "").split(","))))
    for each in found:
        if not re.fullmatch(form, each):
            raise ConfigError(field, f"{each!r:.80} is not {meant}", allowed)
    return found


def _with_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
