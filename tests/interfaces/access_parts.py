"""A service in this process, and an identity provider beside it."""

import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from http_parts import BASE, bearer, new_token, opening_by
from starlette.applications import Starlette

from tulving import open_memory
from tulving.bootstrap import Served
from tulving.config import load_config
from tulving.interfaces import console
from tulving.interfaces.calls import open_lazily
from tulving.interfaces.http import api
from tulving.interfaces.http.application import application
from tulving.interfaces.http.authentication import Access
from tulving.interfaces.http.hosts import Endpoint, host_names, origins
from tulving.interfaces.http.identity import IdentityProvider
from tulving.interfaces.http.signing_keys import SigningKeys

KEY = "tulving_" + "K" * 43
ISSUER, AUDIENCE = "https://id.example.com/", "tulving"
FACT = {"subject": "Anna", "predicate": "colour", "content": "green"}


@dataclass
class Service:
    """A service in this process, the access to it and its store."""

    app: Starlette
    access: Access
    store: Served

    async def create(self, tenant: str = "default", **options: Any) -> str:
        return await new_token(self.store.memory, tenant, **options)

    async def send(
        self, method: str, path: str, credential: str | None = None, *, client: str = "127.0.0.1", **options: Any
    ) -> httpx2.Response:
        headers = bearer(credential) | options.pop("headers", {})
        transport = httpx2.ASGITransport(self.app, client=(client, 4321))
        async with httpx2.AsyncClient(transport=transport, base_url=BASE) as web:
            return await web.request(method, path, headers=headers, **options)


@asynccontextmanager
async def service(
    keys: SigningKeys | None = None, key: str | None = None, clock: Any = time.monotonic, **settings: Any
) -> AsyncIterator[Service]:
    """A whole service over the configured store."""
    given = {name: settings.pop(name) for name, value in [*settings.items()] if hasattr(value, "unready")}
    config = load_config(**settings)
    opener = opening_by(lambda: open_memory(config=config, background=False, **given))
    address = Endpoint("127.0.0.1", 8321, True, host_names(config.allowed_hosts), origins(config.allowed_origins))
    async with open_lazily(opener) as opened:
        provider = IdentityProvider(config.jwt, config.tenant, keys) if config.jwt.chosen else None
        access = Access(opened, False, key, config.http, provider, clock)
        more = [*api.routes(config, access), *console.routes(config, access)]
        app = application(config, opened, address, access, more)
        async with app.router.lifespan_context(app):
            yield Service(app, access, await opened())


@dataclass
class Provider:
    """An identity provider: its keys, what its server answers, and how often that was asked."""

    url: str = ""
    keys: dict[str, Any] = field(default_factory=dict)
    said: bytes | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    pause: float = 0.0
    asked: int = 0

    def add(self, name: str, kind: str = "RSA", bits: int = 2048) -> None:
        """Sign with a new key, by the name of it, from now on."""
        made = {
            "RSA": lambda: rsa.generate_private_key(65537, bits),
            "EC": lambda: ec.generate_private_key(ec.SECP256R1()),
            "EC of another curve": lambda: ec.generate_private_key(ec.SECP384R1()),
            "OKP": ed25519.Ed25519PrivateKey.generate,
        }
        self.keys[name] = made[kind]()

    def token(self, key: str = "one", algorithm: str | None = None, headers: Any = None, **claims: Any) -> str:
        """A token of Anna; a claim that is None is left out."""
        now = int(time.time())
        given = {"iss": ISSUER, "aud": AUDIENCE, "sub": "anna", "exp": now + 300, "iat": now, **claims}
        private = self.keys[key]
        algorithm = algorithm or algorithm_of(private)
        payload = {name: value for name, value in given.items() if value is not None}
        named = {name: value for name, value in {"kid": key, **(headers or {})}.items() if value is not None}
        return jwt.encode(payload, private, algorithm, named)

    def published(self) -> bytes:
        """The set of its keys."""
        return json.dumps({"keys": [public(key, name) for name, key in self.keys.items()]}).encode()


def algorithm_of(key: Any) -> str:
    kinds = {rsa.RSAPrivateKey: "RS256", ec.EllipticCurvePrivateKey: "ES256", ed25519.Ed25519PrivateKey: "EdDSA"}
    return next(name for kind, name in kinds.items() if isinstance(key, kind))


def public(key: Any, name: str, **more: Any) -> dict[str, Any]:
    """A public key, as a provider shows it."""
    kind = jwt.get_algorithm_by_name(algorithm_of(key))
    return {**json.loads(kind.to_jwk(key.public_key())), "kid": name, **more}


@contextmanager
def provider() -> Iterator[Provider]:
    """An identity provider with one key, on a port of its own."""
    made = Provider()
    made.add("one")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked += 1
            time.sleep(made.pause)
            self.send_response(made.status)
            for name, value in made.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(made.published() if made.said is None else made.said)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the output belongs to the tests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}/jwks"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()


def settings(provider: Provider, **changed: Any) -> dict[str, Any]:
    """The table `jwt` for a provider."""
    return {"issuer": ISSUER, "audience": AUDIENCE, "jwks": provider.url, **changed}
