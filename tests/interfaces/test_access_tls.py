"""TLS, and proxies in front of the server."""

import datetime
import ipaddress
import re
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from access_parts import service
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from service_parts import service_process
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from tulving.errors import ConfigError
from tulving.interfaces.http.connections import is_among, networks
from tulving.interfaces.http.hosts import Endpoint
from tulving.interfaces.http.tls import tls_context

PEM, PLAIN = serialization.Encoding.PEM, serialization.NoEncryption()


def pair(folder: Path, name: str = "server", passphrase: bytes = b"") -> tuple[Path, Path]:
    """A certificate for this machine, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    files = folder / f"{name}.pem", folder / f"{name}.key"
    encrypted = serialization.BestAvailableEncryption(passphrase) if passphrase else PLAIN
    files[0].write_bytes(certificate.public_bytes(PEM))
    files[1].write_bytes(key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, encrypted))
    return files


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
@pytest.mark.usefixtures("path")
def test_it_serves_over_tls_and_nothing_else(environ, tmp_path: Path):
    cert, key = pair(tmp_path)
    with service_process("--tls-cert", str(cert), "--tls-key", str(key)) as served:
        assert f"https://127.0.0.1:{served.port}/mcp" in served.said
        base = f"https://127.0.0.1:{served.port}"
        trust = ssl.create_default_context(cafile=str(cert))
        with httpx2.Client(verify=trust, base_url=base, timeout=30) as web:
            assert web.get("/readyz").text == "ready"
            assert web.get("/health", headers={"host": f"localhost:{served.port}"}).status_code == 200
            page = web.get("/console/login")
            assert page.status_code == 200
            assert all("secure" in each.lower() for each in page.headers.get_list("set-cookie"))
        with pytest.raises(httpx2.HTTPError):
            httpx2.get(f"http://127.0.0.1:{served.port}/livez", timeout=10)
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with (
            socket.create_connection(("127.0.0.1", served.port), timeout=10) as plain,
            pytest.raises((ssl.SSLError, OSError)),
        ):
            old.wrap_socket(plain)
        code, err = served.end()
        assert (code, "Traceback" in err) == (0, False), err


def test_files_that_do_not_fit_are_named(tmp_path: Path):
    cert, key = pair(tmp_path)
    other, _ = pair(tmp_path, "other")
    _, locked = pair(tmp_path, "locked", b"passphrase")
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n")
    missing = tmp_path / "missing.pem"
    for given, field, problem in (
        ((cert, None), "tls_key", "is missing"),
        ((None, key), "tls_cert", "is missing"),
        ((missing, key), "tls_cert", "can't be read (No such file or directory)"),
        ((cert, missing), "tls_key", "can't be read (No such file or directory)"),
        ((tmp_path, key), "tls_cert", "can't be read (Is a directory)"),
        ((other, key), "tls_key", "is not the key of the certificate"),
        ((cert, locked), "tls_key", "is encrypted"),
        ((broken, key), "tls_cert", "is not a PEM file"),
        ((cert, broken), "tls_key", "is not a PEM file"),
        ((key, key), "tls_cert", "is not a PEM file"),
    ):
        with pytest.raises(ConfigError, match=re.escape(problem)) as refused:
            tls_context(*given)
        assert refused.value.field == field, given
    assert tls_context(None, None) is None
    context = tls_context(cert, key)
    assert context is not None and context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_half_a_pair_is_refused_before_anything_is_opened(cli, tmp_path: Path):
    cert, _ = pair(tmp_path)
    ran = cli("serve", "127.0.0.1:0", "--tls-cert", str(cert))
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "tls_key: is missing; allowed: --tls-cert and --tls-key together" in ran.err


def test_the_usual_port_of_tls_may_be_left_out():
    assert "localhost" in Endpoint("127.0.0.1", 443, is_tls=True).hosts
    assert "localhost" not in Endpoint("127.0.0.1", 80, is_tls=True).hosts
    assert Endpoint("127.0.0.1", 443, is_tls=True).url == "https://127.0.0.1:443"


# -- proxies ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting", ["*", "proxy.example.com", "10.0.0.0/33", "10.0.0.1/8", "127.0.0.1;10.0.0.1", "::g"]
)
def test_what_is_not_an_address_is_refused(setting: str):
    with pytest.raises(ConfigError, match="proxy_headers"):
        networks(f"127.0.0.1,{setting}")


def test_addresses_and_networks_of_proxies():
    named = networks("127.0.0.1, 10.0.0.0/8,,2001:db8::/32")
    for address, is_one in {"127.0.0.1": 1, "127.0.0.2": 0, "10.255.0.1": 1, "2001:db8::7": 1, "::1": 0}.items():
        assert is_among(address, named) == bool(is_one), address
    assert networks(None) == []


async def test_only_named_proxies_are_believed(environ):
    """Who connects from elsewhere can't pretend to be another client, nor that the way is safe."""
    wrong = "tulving_" + "W" * 43
    async with service(http={"failures_per_minute": 2}, allowed_hosts="memory.example.com") as here:
        here.app = ProxyHeadersMiddleware(here.app, ["10.0.0.1"])  # pyright: ignore
        of = lambda client, proto="https": {  # noqa: E731
            "x-forwarded-for": client,
            "x-forwarded-proto": proto,
            "host": "memory.example.com",
        }
        for number in range(4):
            forged = await here.send("GET", "/v1/health", wrong, client="10.9.9.9", headers=of(f"192.0.2.{number}"))
            assert forged.status_code == (401 if number < 2 else 429)
        for number in range(4):
            told = await here.send("GET", "/v1/health", wrong, client="10.0.0.1", headers=of(f"192.0.2.{number}"))
            assert told.status_code == 401
        spoofed = of("198.51.100.7, 192.0.2.99")  # the last part is the proxy's own
        for status in (401, 401, 429):
            spoofed["x-forwarded-for"] = spoofed["x-forwarded-for"].replace("51", "52")
            answer = await here.send("GET", "/v1/health", wrong, client="10.0.0.1", headers=spoofed)
            assert answer.status_code == status
        for odd in ("", "unknown", "x" * 5000, "1.2.3.4.5", "[::1"):
            assert (await here.send("GET", "/v1/health", wrong, client="10.0.0.1", headers=of(odd))).status_code in (
                401,
                429,
            )
        for client, secure in (("10.0.0.1", True), ("10.9.9.8", False)):
            page = await here.send("GET", "/console/login", client=client, headers=of("192.0.2.1"))
            cookies = page.headers.get_list("set-cookie")
            assert cookies and all(("secure" in each.lower()) == secure for each in cookies), client


@pytest.mark.usefixtures("path")
def test_a_proxy_has_more_connections_than_a_client(token):
    token()
    few = {"TULVING_HTTP__MAX_CONNECTIONS_PER_ADDRESS": "2"}
    for options, most in (((), 2), (("--proxy-headers", "127.0.0.1"), 6)):
        with service_process(*options, **few) as served:
            opened = [socket.create_connection(("127.0.0.1", served.port), timeout=5) for _ in range(6)]
            answered = 0
            for each in opened:
                each.sendall(f"GET /livez HTTP/1.1\r\nhost: 127.0.0.1:{served.port}\r\n\r\n".encode())
                answered += each.recv(100).startswith(b"HTTP/1.1 200")
            assert answered == most
            for each in opened:
                each.close()


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("limit", ["MAX_CONNECTIONS", "MAX_CONNECTIONS_PER_ADDRESS"])
def test_a_connection_counts_before_its_handshake(token, tmp_path: Path, limit: str):
    """Else silent ones could take all files of the process."""
    token()
    cert, key = pair(tmp_path)
    few: dict[str, Any] = {f"TULVING_HTTP__{limit}": "3"}
    with service_process("--tls-cert", str(cert), "--tls-key", str(key), **few) as served:
        at = "127.0.0.1", served.port
        silent = [socket.create_connection(at, timeout=10) for _ in range(3)]
        with socket.create_connection(at, timeout=10) as further:
            assert further.recv(1) == b"", "closed at once"
        for each in silent:
            each.close()
        trust, answered = ssl.create_default_context(cafile=str(cert)), ""
        with httpx2.Client(verify=trust, base_url=f"https://127.0.0.1:{served.port}", timeout=30) as web:
            while not answered:
                with suppress(httpx2.TransportError):  # it may not have seen yet that they are closed
                    answered = web.get("/livez").text
        assert answered == "ok"
        code, err = served.end()
        assert code == 0 and "refused a connection from 127.0.0.1" in err and "Traceback" not in err, err


@pytest.mark.usefixtures("path")
def test_an_open_server_has_no_proxy(cli):
    ran = cli("serve", "127.0.0.1:0", "--open", "--proxy-headers", "127.0.0.1")
    assert (ran.code, "open: is not possible behind a proxy" in ran.err) == (2, True)
