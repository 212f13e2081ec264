"""The public keys of an identity provider (JWKS), from a URL or a file."""

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import jwt

from tulving.interfaces.http.credentials import KeysUnavailable

log = logging.getLogger("tulving")

LARGEST, MOST = 256 * 1024, 100
"""The limits of a key set: its bytes, and the number of keys that are read."""
SECONDS = 5.0
"""The timeout of a fetch."""
LIFETIME, PAUSE = 600.0, 10.0
"""Seconds after which the keys are refreshed, and the least time between two attempts."""
FEWEST_BITS = 2048
_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519"}


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A public key with its attributes in the key set."""

    name: str | None
    kind: str
    curve: str | None
    algorithm: str | None
    key: Any

    def suits(self, algorithm: str) -> bool:
        """Whether the key may be used with this algorithm."""
        return (
            self.kind == _KINDS.get(algorithm[:2])
            and self.algorithm in (None, algorithm)
            and _CURVES.get(algorithm) in (None, self.curve)
        )


class SigningKeys:
    """The cached key set of the provider.

    It is refreshed when it is old and when a token names an unknown key, but at most once per `pause`, so tokens with
    made-up key ids cause no load on the provider. While a refresh fails the cached keys stay valid. Redirects are not
    followed: only the configured host is trusted.
    """

    def __init__(
        self,
        place: str,
        clock: Callable[[], float],
        *,
        lifetime: float = LIFETIME,
        pause: float = PAUSE,
        seconds: float = SECONDS,
    ) -> None:
        self._place, self._clock = place, clock
        self._lifetime, self._pause, self._seconds = lifetime, pause, seconds
        self._keys: list[SigningKey] | None = None
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def key_for(self, algorithm: str, name: str | None) -> SigningKey | None:
        """The key with this id for this algorithm; without an id, the only key for it."""
        if self._keys is None:
            await self._fetch()
        elif self._clock() - self._fetched_at >= self._lifetime:
            self._begin()  # in the background, since there are keys
        if (found := self._find(algorithm, name)) is None and self._keys is not None:
            await self._fetch()
            found = self._find(algorithm, name)
        if self._keys is None:
            raise KeysUnavailable("the keys of the identity provider are not known yet")
        return found

    def _find(self, algorithm: str, name: str | None) -> SigningKey | None:
        fitting = [key for key in self._keys or () if name in (None, key.name) and key.suits(algorithm)]
        return fitting[0] if fitting and (name is not None or len(fitting) == 1) else None

    async def _fetch(self) -> None:
        """Fetch the keys, or wait for the fetch that is in progress."""
        if (fetching := self._begin()) is not None:
            await asyncio.shield(fetching)

    def _begin(self) -> asyncio.Task[None] | None:
        if self._fetching is None and self._clock() - self._tried_at >= self._pause:
            self._tried_at = self._clock()
            self._fetching = asyncio.create_task(self._refresh())
        return self._fetching

    async def _refresh(self) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                said = await self._read()
            self._keys, self._fetched_at = _keys(said), self._clock()
        except (OSError, ValueError, TimeoutError, RecursionError, httpx2.HTTPError) as error:
            log.warning("the keys of the identity provider can't be read: %s", str(error) or type(error).__name__)
        finally:
            self._fetching = None

    async def _read(self) -> bytes:
        if not self._place.startswith(("http://", "https://")):
            return await asyncio.to_thread(_beginning, Path(self._place).expanduser())
        said = bytearray()
        async with (
            httpx2.AsyncClient(follow_redirects=False, timeout=self._seconds) as web,
            web.stream("GET", self._place, headers={"accept": "application/json"}) as answer,
        ):
            if answer.status_code != 200:
                raise ValueError(f"it answered with status {answer.status_code}")
            async for part in answer.aiter_bytes(16 * 1024):
                said += part
                if len(said) > LARGEST:
                    raise ValueError(f"they have more than {LARGEST} bytes")
        return bytes(said)


def _beginning(file: Path) -> bytes:
    with file.open("rb") as opened:
        said = opened.read(LARGEST + 1)
    if len(said) > LARGEST:
        raise ValueError(f"they have more than {LARGEST} bytes")
    return said


def _keys(said: bytes) -> list[SigningKey]:
    """The signature keys of a key set, without those for encryption and unreadable ones."""
    read = json.loads(said)
    listed = read.get("keys") if isinstance(read, dict) else None
    if not isinstance(listed, list):
        raise ValueError("it is not a JSON Web Key Set")
    found = list(filter(None, map(_key, listed[:MOST])))
    if not found:
        raise ValueError("it has no usable signature key")
    return found


def _key(data: Any) -> SigningKey | None:
    # Symmetric keys ("oct") are never accepted: whoever can verify with one can also sign.
    if not isinstance(data, dict) or data.get("kty") not in _KINDS.values() or data.get("use", "sig") != "sig":
        return None
    try:
        key = jwt.PyJWK(data).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError, NotImplementedError) as error:
        log.warning("a key of the identity provider can't be read: %s", type(error).__name__)
        return None
    if "d" in data or (data["kty"] == "RSA" and key.key_size < FEWEST_BITS):
        log.warning("a key of the identity provider is not used: it is a private one, or too short")
        return None
    return SigningKey(data.get("kid"), data["kty"], data.get("crv"), data.get("alg"), key)
