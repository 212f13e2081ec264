"""Connections over HTTP: how many there may be, and how long a client may keep the server waiting."""

import asyncio
import ipaddress
import logging
import resource
from collections import Counter
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from tulving.config import HttpConfig

log = logging.getLogger("tulving")

LEAST_TAKEN = 64 * 1024
"""How much of a large answer a client must take within the time limit to be given more time."""


def limited(limits: HttpConfig) -> type[H11Protocol]:
    """Uvicorn's protocol, kept to these limits; the connections of one server share the class that is returned."""

    class Connection(LimitedConnection):
        most_connections = min(limits.max_connections, _half_of_the_files())
        most_per_network = limits.max_connections_per_address
        patience = limits.request_timeout
        networks: ClassVar = Counter[str]()

    return Connection


class LimitedConnection(H11Protocol):
    """A connection that is refused beyond the limits, and ends when it has been the client's turn for too long.

    It is the client's turn while a request is not whole or an answer is not taken, and what trickles in does not
    extend the time. While the server works on an answer there is no limit.
    """

    most_connections: int
    most_per_network: int | None
    patience: float
    networks: ClassVar[Counter[str]]

    _network = ""
    _admitted = False
    _timer: asyncio.TimerHandle | None = None
    _unsent = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._network = network(self.client[0]) if self.client else ""
        if self.networks.total() >= self.most_connections:
            log.warning("refused a connection from %s: all %d are in use", self._network, self.most_connections)
            self._end("503 Service Unavailable")
        elif self.most_per_network is not None and self.networks[self._network] >= self.most_per_network:
            log.warning("refused a connection from %s: it has %d already", self._network, self.most_per_network)
            self._end("503 Service Unavailable")
        else:
            self._admitted = True
            self.networks[self._network] += 1
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        if self._admitted:
            self.networks[self._network] -= 1
            if not self.networks[self._network]:
                del self.networks[self._network]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._rest()  # the answer is being taken
        self._watch()

    def _watch(self) -> None:
        """Let the time run while it is the client's turn."""
        unsent = self.transport.get_write_buffer_size()
        if not unsent and self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._rest()
        elif self._timer is None:
            self._unsent = unsent
            self._timer = self.loop.call_later(self.patience, self._overdue)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _overdue(self) -> None:
        self._timer = None
        unsent = self.transport.get_write_buffer_size()
        if self._unsent - unsent >= LEAST_TAKEN or (not unsent and self.flow.read_paused):
            self._watch()  # the answer is being taken, or it is we who do not read on
        elif unsent:
            log.warning("closed a connection from %s: its answer was not taken in %g s", self._network, self.patience)
            self.transport.abort()
        elif self.conn.their_state is h11.SEND_BODY or self.conn.trailing_data[0]:
            log.warning("closed a connection from %s: no whole request in %g s", self._network, self.patience)
            self._end("408 Request Timeout" if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) else None)
        else:
            self._end()

    def _end(self, status: str | None = None) -> None:
        if status is not None:
            self.transport.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        self.transport.close()


def network(address: str) -> str:
    """Who is counted together: an IPv4 address, or the /64 network of an IPv6 one, all of which a host can have."""
    found = ipaddress.ip_address(address.partition("%")[0])
    return str(found) if found.version == 4 else str(ipaddress.ip_network((found, 64), strict=False))


def _half_of_the_files() -> int:
    """How many connections leave the store enough of the files that this process may open."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 10_000 if most == resource.RLIM_INFINITY else max(most // 2, 1)
