"""`tulving top`: live figures of a running service in a terminal."""

import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from tulving import extras
from tulving.errors import Forbidden, InvalidInput, StoreUnavailable
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.serve import ADDRESS
from tulving.interfaces.cli.terminal import is_terminal, print_json

if TYPE_CHECKING:
    from tulving.interfaces.figures import Reading

TOKEN = "TULVING_TOKEN"
PATIENCE = 5.0
ENOUGH = 32 * 1024 * 1024
"""Metrics are never larger: whatever sends more bytes is another service."""


def top(
    service: Annotated[str, typer.Argument(metavar="HOST:PORT|URL", help="Its address", show_default=True)] = ADDRESS,
    once: Annotated[bool, typer.Option("--once", help="Print the figures once and exit")] = False,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.2, max=3600, help="Time between updates", show_default=True)
    ] = 1.0,
    token: Annotated[
        str | None,
        typer.Option(metavar="SECRET", envvar=TOKEN, help="A token with the right admin, if required"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Watch a running service: its operations, latencies, queues and jobs. Press q to quit."""
    extras.require("server", "tulving top")
    watched = Service(address_of(service), token)
    if as_json or once or not (is_terminal() and sys.stdin.isatty()):
        told = watched.next(interval)
        print_json(told) if as_json else _print(told)
    else:
        _live(watched, interval)


def address_of(text: str) -> str:
    """The base URL of a service."""
    parts = urlsplit(text if "://" in text else f"http://{text}")
    try:
        fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fine = False
    if not fine or "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment:
        raise InvalidInput(
            "service", f"{text!r:.80} is not the address of a service", "HOST:PORT, or https://HOST:PORT"
        )
    return f"{parts.scheme}://{parts.netloc}"


@dataclass
class Service:
    """A client that scrapes a service repeatedly."""

    url: str
    token: str | None = field(default=None, repr=False)
    _last: "Reading | None" = None

    def next(self, interval: float) -> dict[str, Any]:
        """The figures since the previous scrape. The first call scrapes twice, an interval apart."""
        from tulving.bootstrap import utc_now
        from tulving.interfaces.figures import Figures

        if self._last is None:
            self._last = self._read()
            time.sleep(interval)
        before, self._last = self._last, self._read()
        figures = Figures(before, self._last).told()
        return {"at": utc_now().timestamp(), "service": self.url, "health": self._health(), **figures}

    def forget(self) -> None:
        """Drop the previous scrape, since the service was unreachable."""
        self._last = None

    def _read(self) -> "Reading":
        from tulving.interfaces.figures import read

        status, text = self._get("/metrics")
        if status in (401, 403):
            given = "the token given is unknown or expired" if status == 401 else "the token given lacks it"
            needed = f"a token with the right admin, in {TOKEN}: `tulving token create --rights admin`"
            raise Forbidden(f"the metrics of {self.url} need {needed}{f' ({given})' if self.token else ''}")
        if status in (429, 503):
            raise StoreUnavailable(f"{self.url} is busy or ending (it answers {status})")
        try:
            return read(text if status == 200 else "", time.monotonic())
        except ValueError as error:
            raise StoreUnavailable(f"{self.url} has no metrics of Tulving: is it the right address?") from error

    def _health(self) -> str:
        """Its readiness on one line."""
        _, text = self._get("/readyz")
        return " ".join(text.split())[:120]

    def _get(self, path: str) -> tuple[int, str]:
        """The status and the text of a response."""
        import httpx2

        headers = {"authorization": f"Bearer {self.token}"} if self.token and path == "/metrics" else {}
        body = bytearray()
        try:
            with httpx2.stream("GET", self.url + path, headers=headers, timeout=PATIENCE, trust_env=False) as answer:
                for part in answer.iter_bytes():
                    body += part
                    if len(body) > ENOUGH:
                        raise StoreUnavailable(f"{self.url} sends more than metrics of Tulving: is it the right one?")
                return answer.status_code, body.decode(errors="replace")
        except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
            reason = f"{self.url} ({str(error) or type(error).__name__})"
            raise StoreUnavailable(f"no service answers at {reason}: is `tulving serve` running?") from error


def _print(told: dict[str, Any]) -> None:
    from rich.console import Console

    from tulving.interfaces.cli.screen import screen
    from tulving.interfaces.cli.terminal import columns

    width = columns() if is_terminal() else 100
    Console(highlight=False, width=width).print(screen(told, width, None))


def _live(service: Service, interval: float) -> None:
    """Update the screen until q or Ctrl-C. A service that becomes unreachable is tried again."""
    from rich.console import Console
    from rich.live import Live

    from tulving.interfaces.cli.screen import AWAY_LINES, away, screen

    told = service.next(min(interval, 1.0))
    console = Console(highlight=False)
    with _keys(), Live(console=console, screen=True, auto_refresh=False) as live:
        problem = ""
        while True:
            width, height = console.size
            shown = screen(told, width, height - (AWAY_LINES if problem else 0))
            live.update(away(problem, shown) if problem else shown, refresh=True)
            if _quits(interval):
                return
            try:
                told, problem = service.next(interval), ""
            except StoreUnavailable as error:
                service.forget()
                problem = str(error)


@contextmanager
def _keys() -> Iterator[None]:
    """Read single keys without echo within a `with` block."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _quits(seconds: float) -> bool:
    """Whether q is pressed within so many seconds. Any other key updates at once."""
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready) and sys.stdin.read(1) in ("q", "Q", "\x03", "\x04", "")
