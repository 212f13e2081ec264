"""A JSON service over HTTP: kept connections, a key from the environment, retries, and a pause after a failure."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

from tulving.domain.redaction import presentable
from tulving.errors import ConfigError, TulvingError

FIRST_WAIT, LONGEST_WAIT = 0.5, 20.0
PAUSE, LONGEST_PAUSE = 10.0, 300.0
LONGEST_CONNECT = 5.0
KEPT = 60.0
EXCUSES = frozenset({408, 425, 429, *range(500, 600)})
"""The statuses of a refusal that may pass."""
_REFUSALS = frozenset({400, 413, 422})


class Refused(Exception):
    """The service does not accept a request: a text is too long for it, or a setting is wrong."""


class ApiKey:
    """The key of a service. It is read from the environment at each use and kept nowhere."""

    def __init__(self, table: str, variable: str | None) -> None:
        self._table, self.variable = table, variable

    def read(self) -> str:
        """The key; empty if none is configured."""
        return os.environ.get(self.variable, "").strip() if self.variable else ""

    def unready(self) -> str | None:
        """Whether it is missing, or can't be sent."""
        if self.variable is None:
            return None
        key = self.read()
        if not key:
            return f"{self._table}.key_variable names {self.variable}, which is not set in the environment"
        if not (key.isascii() and key.isprintable()):
            return f"the key in {self.variable} holds a character that can't be sent in a header"
        return None


class JsonEndpoint:
    """Posts JSON to one address; raises `Refused`, or `error` if that fails. Safe to call from any thread.

    A refusal that may pass (429, 5xx) and a broken connection are retried; a timeout is not, because the caller has
    waited long enough. After such a failure further calls fail at once for some seconds, so that a dead service does
    not slow down every search.
    """

    def __init__(
        self,
        table: str,
        url: str,
        key_variable: str | None,
        timeout: float,
        error: type[TulvingError],
        sleep: Callable[[float], None] = time.sleep,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url, self._key, self._timeout = url, ApiKey(table, key_variable), timeout
        self._error, self._sleep, self._elapsed = error, sleep, elapsed
        self._client: Any = None
        self._connecting = Lock()
        self._paused: tuple[float, str] = (float("-inf"), "")

    def unready(self) -> str | None:
        """Why it can't be called: the key is missing or can't be sent. The service itself is not asked."""
        return self._key.unready()

    def post(self, body: Mapping[str, Any], texts: Sequence[str], retries: int = 0) -> Any:
        """The answer to a body. `texts` are private: an error that quotes one of them is not repeated."""
        until, failure = self._paused
        if problem := self.unready() or (failure if self._elapsed() < until else None):
            raise self._error(problem)
        for attempt in range(retries + 1):
            try:
                return self._answer(body, texts)
            except _Passing as passing:
                wait = passing.wait or FIRST_WAIT * 2**attempt
                if attempt == retries or wait > LONGEST_WAIT or not passing.retry:
                    pause = min(max(passing.wait, PAUSE), LONGEST_PAUSE)
                    self._paused = self._elapsed() + pause, str(passing)
                    raise self._error(str(passing)) from passing.__cause__
                self._sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def _answer(self, body: Mapping[str, Any], texts: Sequence[str]) -> Any:
        import httpx2

        key = self._key.read()
        headers = {"content-type": "application/json", **bearer(key)}
        try:
            response = self._connected().post(self._url, content=encoded(body), headers=headers)
        except httpx2.TimeoutException as error:
            raise _Passing(f"{self._url} did not answer within {self._timeout:g} seconds", retry=False) from error
        except httpx2.TransportError as error:
            raise _Passing(f"{self._url} can't be reached: {error or type(error).__name__}") from error
        except Exception as error:  # of many kinds: the environment's proxy or certificates, the answer's encoding
            raise self._error(f"{self._url} can't be asked: {error}") from error
        if response.status_code != 200:
            problem = f"{self._url} answered {response.status_code}{told(response.content, key, texts)}"
            if response.status_code in _REFUSALS:
                raise Refused(problem)
            if response.status_code not in EXCUSES:
                raise self._error(problem)
            raise _Passing(problem, seconds(response.headers.get("retry-after")))
        try:
            return response.json()
        except (ValueError, RecursionError) as error:
            raise self._error(f"{self._url} answered what is not JSON") from error

    def _connected(self) -> Any:
        import httpx2

        with self._connecting:
            if self._client is None:
                timeout = httpx2.Timeout(self._timeout, connect=min(self._timeout, LONGEST_CONNECT))
                self._client = httpx2.Client(timeout=timeout, limits=httpx2.Limits(keepalive_expiry=KEPT))
            return self._client


class _Passing(Exception):
    """A failure that may pass. `wait` is how long the service asks to wait, 0 if it does not say."""

    def __init__(self, problem: str, wait: float = 0.0, retry: bool = True) -> None:
        super().__init__(problem)
        self.wait, self.retry = wait, retry


def required(table: str, **settings: str) -> None:
    """Raise for a setting that is empty."""
    for name, value in settings.items():
        if not value:
            raise ConfigError(
                f"{table}.{name}", "is not set", f"see the settings of `{table}` in docs/configuration.md"
            )


def by_index(entries: Any, name: str, count: int) -> list[Any]:
    """The values under a name in entries that each have the `index` of what they belong to. Raises ValueError if they
    do not have each index once."""
    try:
        found = {int(entry["index"]): entry[name] for entry in entries}
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"not a list of entries with `index` and `{name}`") from error
    if len(entries) != count or found.keys() != set(range(count)):
        raise ValueError(f"not one entry for each of {count} texts")
    return [found[number] for number in range(count)]


def address(url: str, path: str) -> str:
    """Where to post: a URL of the path itself, of an API's version, or of a server."""
    url = url.rstrip("/")
    if url.endswith(f"/{path}"):
        return url
    return f"{url}/{path}" if url.endswith("/v1") else f"{url}/v1/{path}"


def bearer(key: str) -> dict[str, str]:
    """The header with a key, if there is one."""
    return {"authorization": f"Bearer {key}"} if key else {}


def encoded(body: Mapping[str, Any]) -> bytes:
    """JSON. Lone surrogates, which it could have, are left out: most servers refuse them."""
    return json.dumps(body, ensure_ascii=False).encode(errors="ignore")


def told(content: bytes, key: str, texts: Sequence[str]) -> str:
    """What a service says about its refusal, as far as it may be shown and logged; empty, or after a colon."""
    said: Any = None
    with suppress(ValueError, RecursionError):
        said = json.loads(content)
        while isinstance(said, dict):
            said = next((said[name] for name in ("error", "message", "detail") if said.get(name)), None)
    shown = presentable(said, key, texts) if isinstance(said, str) else ""
    return f": {shown}" if shown else ""


def seconds(header: str | None) -> float:
    """The seconds of a Retry-After header; 0 if there is none, or if it is a date."""
    return float(header) if header and header.isascii() and header.isdigit() else 0.0
