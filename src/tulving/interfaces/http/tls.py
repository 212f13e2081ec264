"""TLS: the certificate of the server and its private key."""

import os
import ssl
from pathlib import Path

from tulving.errors import ConfigError

_NO_PEM = "is not a PEM file, or is damaged"


def tls_context(cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """A context for TLS 1.2 or newer with a certificate chain and its key; None without both."""
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise ConfigError("tls_key" if key is None else "tls_cert", "is missing", "--tls-cert and --tls-key together")
    for field, file in (("tls_cert", cert), ("tls_key", key)):
        try:
            with file.open("rb") as opened:
                opened.read(1)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise ConfigError(field, f"can't be read ({reason})", "a PEM file that the server may read") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key, password=_refuse)
    except _Encrypted:
        raise ConfigError("tls_key", "is encrypted", "a key without a passphrase") from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError("tls_key", "is not the key of the certificate", "the two of one pair") from None
        raise _unreadable(cert) from None
    return context


class _Encrypted(Exception):
    """The key has a passphrase."""


def _refuse() -> str:
    raise _Encrypted


def _unreadable(cert: Path) -> ConfigError:
    """The error for the file that OpenSSL could not read, which it does not name."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cert)
    except ssl.SSLError:
        return ConfigError("tls_cert", _NO_PEM, "a certificate, followed by its chain")
    return ConfigError("tls_key", _NO_PEM, "the private key of the certificate")
