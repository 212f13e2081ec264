"""Limits of HTTP connections: how many there may be, and how long a client may keep the server waiting."""

import asyncio
import ipaddress
import logging
import resource
import socket
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from tulving.errors import ConfigError
from tulving.settings import HttpConfig

log = logging.getLogger("tulving")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
LONGEST_ADDRESS = 100

LEAST_TAKEN = 64 * 1024
"""Bytes of a response that a client must read within the time limit to be given more time."""
LEAST_SENT = 1024 * 1024
"""Bytes of a request body that it must send for that."""


def limited(limits: HttpConfig, proxies: Sequence[Network] = ()) -> Any:
    """A factory of Uvicorn's protocol with these limits, for the connections of one server. The limit per address does
    not apply to `proxies`, which stand for many clients."""
    return partial(LimitedConnection, _within_the_files(limits), Counter[str](), proxies)


class Listener(socket.socket):
    """A listening socket for TLS with the same limits: it closes further connections before their handshake.

    Asyncio makes a `LimitedConnection` of a connection after the handshake only, and until then a client may be silent.
    """

    def __init__(self, listening: socket.socket, limits: HttpConfig, proxies: Sequence[Network] = ()) -> None:
        super().__init__(fileno=listening.detach())
        self._limits, self._proxies = _within_the_files(limits), proxies
        self._accepted = WeakKeyDictionary[socket.socket, str]()

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        place = network(address[0])
        open_ = Counter(known for each, known in self._accepted.items() if each.fileno() >= 0)
        if (problem := _full(self._limits, open_, address[0], self._proxies)) is not None:
            log.warning("refused a connection from %s: %s", place, problem)
            connection.close()
            raise ConnectionAbortedError(problem)
        self._accepted[connection] = place
        return connection, address


class LimitedConnection(H11Protocol):
    """A connection that is refused beyond the limits, and closed when the client keeps the server waiting too long.

    The timeout runs while a request is incomplete or a response is not being read, and a trickle of bytes does not
    extend it. It does not run while the server works on a response.
    """

    _network = ""
    _admitted = False
    _timer: asyncio.TimerHandle | None = None
    _unsent = 0
    _received = 0

    def __init__(
        self, limits: HttpConfig, networks: Counter[str], proxies: Sequence[Network], *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._limits, self._networks, self._proxies = limits, networks, proxies

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        self._network = network(address)
        if (problem := _full(self._limits, self._networks, address, self._proxies)) is not None:
            log.warning("refused a connection from %s: %s", self._network, problem)
            self._end("503 Service Unavailable")
        else:
            self._admitted = True
            self._networks[self._network] += 1
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        if self._admitted:
            self._networks[self._network] -= 1
            if not self._networks[self._network]:
                del self._networks[self._network]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._received += len(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._rest()  # the client is reading
        self._watch()

    def _watch(self) -> None:
        """Start the timeout if the server waits for the client, else stop it."""
        unsent = self.transport.get_write_buffer_size()
        if not unsent and self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._rest()
        elif self._timer is None:
            self._unsent, self._received = unsent, 0
            self._timer = self.loop.call_later(self._limits.request_timeout, self._overdue)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _overdue(self) -> None:
        self._timer = None
        unsent, seconds = self.transport.get_write_buffer_size(), self._limits.request_timeout
        if self._unsent - unsent >= LEAST_TAKEN or (not unsent and (self.flow.read_paused or self._is_sent_more)):
            self._watch()  # the client reads or sends fast enough, or the server itself has paused reading
        elif unsent:
            log.warning("closed a connection from %s: it did not read the response in %g s", self._network, seconds)
            self.transport.abort()
        elif self.conn.their_state is h11.SEND_BODY or self.conn.trailing_data[0]:
            log.warning("closed a connection from %s: no complete request in %g s", self._network, seconds)
            self._end("408 Request Timeout" if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) else None)
        else:
            self._end()

    @property
    def _is_sent_more(self) -> bool:
        """Whether the body of a request that has not been answered yet arrives fast enough."""
        return (
            self._received >= LEAST_SENT
            and self.conn.their_state is h11.SEND_BODY
            and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE)
        )

    def _end(self, status: str | None = None) -> None:
        if status is not None:
            self.transport.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        self.transport.close()


def network(address: str) -> str:
    """The key under which a client's connections are counted: its IPv4 address, or its IPv6 /64 network, since one host
    may use all addresses of that."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:  # X-Forwarded-For may hold anything
        return address[:LONGEST_ADDRESS]
    return str(found) if found.version == 4 else str(ipaddress.ip_network((found, 64), strict=False))


def networks(setting: str | None) -> list[Network]:
    """The addresses and networks of a comma-separated list."""
    found: list[Network] = []
    for part in filter(None, (each.strip() for each in (setting or "").split(","))):
        try:
            found.append(ipaddress.ip_network(part))
        except ValueError as error:
            allowed = "addresses or networks of proxies, such as 127.0.0.1 or 10.0.0.0/8, separated by commas"
            raise ConfigError("proxy_headers", str(error)[:200], allowed) from None
    return found


def is_among(address: str, named: Sequence[Network]) -> bool:
    """Whether an address is in one of the networks."""
    found = ipaddress.ip_address(address.partition("%")[0])
    return any(found in each for each in named)


def _full(limits: HttpConfig, networks: Counter[str], address: str, proxies: Sequence[Network]) -> str | None:
    """Why there can't be another connection from an address, beside those of the `networks`; None if there can."""
    most, most_each = limits.max_connections, limits.max_connections_per_address
    if networks.total() >= most:
        return f"all {most} are in use"
    is_proxy = address != "" and is_among(address, proxies)
    if most_each is not None and networks[network(address)] >= most_each and not is_proxy:
        return f"it has {most_each} already"
    return None


def _within_the_files(limits: HttpConfig) -> HttpConfig:
    """The limits with at most half of the process's file descriptors: the store needs some of them too."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = 10_000 if most == resource.RLIM_INFINITY else max(most // 2, 1)
    return replace(limits, max_connections=min(limits.max_connections, files))
