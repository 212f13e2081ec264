"""Uploads that begin and then stall: everybody else is answered meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from service_parts import client_of, service_process

CONNECTIONS = 64
"""As many as the server works on at once."""
DECLARED = 4_000_000
LIMITS: Any = {
    "TULVING_HTTP__REQUEST_TIMEOUT": "600",  # nothing ends by itself while the test runs
    "TULVING_HTTP__ANSWER_TIMEOUT": "600",
    "TULVING_HTTP__MAX_CONNECTIONS_PER_ADDRESS": "200",  # others have addresses of their own
}


@asynccontextmanager
async def uploads(port: int, path: str, kind: str, sent: int, secret: str = "") -> AsyncIterator[list[asyncio.Task]]:
    """Connections that each declare a large body, send the beginning of it and then nothing; what they are answered."""
    admitted = f"authorization: Bearer {secret}\r\n" if secret else ""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{admitted}"
        f"content-type: {kind}\r\ncontent-length: {DECLARED}\r\n\r\n"
    )
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS)]
    try:
        for _, writer in opened:
            writer.write(head.encode() + b'{"content": "'.ljust(sent, b"x"))
            await writer.drain()
        yield [asyncio.create_task(reader.readline()) for reader, _ in opened]
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def is_served(other: httpx2.AsyncClient) -> None:
    """A client that reads, and writes bodies of its own, small and large."""
    for length in (5, 100_000):
        stored = await other.post("/v1/episodes", json={"content": "garden " * (length // 7 + 1), "butler": "b"})
        assert stored.status_code == 201, stored.text
    assert (await other.post("/v1/recall", json={"topic": "garden"})).status_code == 200


@pytest.mark.usefixtures("path")
async def test_uploads_that_stall_keep_nobody_waiting(environ, token):
    """With a token, and to the form by which people log in, without one."""
    secret = token()["secret"]
    form = "application/x-www-form-urlencoded"
    with service_process(**LIMITS) as served:
        async with (
            client_of(served, secret) as other,
            uploads(served.port, "/v1/facts", "application/json", 66_000, secret) as facts,
            uploads(served.port, "/console/login", form, 10_000) as logins,
            uploads(served.port, "/console/login", form, 66_000) as too_long,
        ):
            await is_served(other)
            assert not any(each.done() for each in (*facts, *logins)), "all of them have waited"
            assert {(await each).split()[1] for each in too_long} == {b"413"}
            await is_served(other)
            assert not any(each.done() for each in (*facts, *logins))
