"""The service under clients that are hostile, broken or many: afterwards it answers as before, and nothing is left."""

import asyncio
import gc
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from bus_parts import START, until
from http_parts import Served
from service_parts import Service, client_of, listening, service, service_process
from test_connections import quick, rest

from tulving.interfaces.http import connections

ROOM = 8
"""Files by which the store may differ."""
SOON = {"request_timeout": 0.5}
GARBAGE = (
    b"\x00" * 1_000,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 4,
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /v1/stats HTTP/1.1\r\n\r\n",
    b"GET /v1/stats HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
    b"POST /v1/recall HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
    b"POST /v1/recall HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    b"POST /v1/recall HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n",
    b"POST /v1/recall HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n",
    b"GET /v1/stats HTTP/1.1\r\nhost: x\r\nx: \x00\r\n\r\n",
    b"\r\n" * 5_000,
    b"GET\t/v1/stats\tHTTP/1.1\r\n\r\n",
    "GET /v1/☃ HTTP/1.1\r\nhost: x\r\n\r\n".encode(),
)


@asynccontextmanager
async def unharmed(**http: float) -> AsyncIterator[tuple[Service, str]]:
    """A service which, after the block, answers as before it and has nothing open that it had not."""
    async with service(http) as here:
        secret = await here.create()

        async def answer() -> tuple[int, str]:
            async with here.client(secret) as client:
                stored = await client.post("/v1/episodes", json={"content": "a garden", "butler": "b"})
                found = await client.post("/v1/recall", json={"topic": "garden"})
                return stored.status_code, found.json()["results"][0]["content"]

        # The store opens its connections, too, when it has several readers at once.
        await asyncio.gather(*(answer() for _ in range(20)))
        await until(lambda: not here.connections)
        tasks, files = len(asyncio.all_tasks()), psutil.Process().num_fds()
        yield here, secret
        await until(lambda: not here.connections)
        assert await answer() == (201, "a garden")
        await until(lambda: not here.connections and len(asyncio.all_tasks()) <= tasks)
        gc.collect()
        assert psutil.Process().num_fds() <= files + ROOM


def head(here: Service, secret: str, path: str = "/v1/stats", method: str = "GET", more: str = "") -> bytes:
    return (
        f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{here.port}\r\nauthorization: Bearer {secret}\r\n{more}\r\n"
    ).encode()


@pytest.mark.usefixtures("path")
async def test_bytes_that_are_no_request_harm_nobody(environ):
    chance = random.Random(3)
    noise = [chance.randbytes(chance.randint(1, 5_000)) for _ in range(10)]
    async with unharmed(**SOON) as (here, _):

        async def send(garbage: bytes) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(garbage)
            said = await rest(reader)
            assert not said or said.split()[1] in ("400", "401", "404", "408", "421"), (garbage[:60], said[:200])
            assert "Traceback" not in said
            writer.transport.abort()

        await asyncio.gather(*map(send, (*GARBAGE, *noise)))


@pytest.mark.usefixtures("path")
async def test_requests_that_are_sent_at_once_are_answered_in_their_order(environ):
    async with unharmed() as (here, secret):
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
        paths = [("/v1/stats", 200), ("/v1/nowhere", 404), ("/v1/profile?x=1", 422)] * 10
        writer.write(b"".join(head(here, secret, path) for path, _ in paths))
        for _, status in paths:
            async with asyncio.timeout(20):
                answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                assert int(answer.split()[1]) == status
                await reader.readexactly(int(answer.split("content-length: ")[1].split("\r\n")[0]))
        writer.transport.abort()


async def test_clients_that_vanish_leave_nothing(environ):
    """At any place of a request, of its answer, and of a stream."""
    chance = random.Random(5)
    async with unharmed() as (here, secret):
        body = b'{"content": "half of it", "butler": "b"}'
        length = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        store = head(here, secret, "/v1/episodes", "POST", length) + body
        stream = head(here, secret, f"/v1/events?after={START}")
        for number in range(30):
            _, writer = await asyncio.open_connection("127.0.0.1", here.port)
            sent = (store, stream, head(here, secret, "/v1/export"))[number % 3]
            writer.write(sent if chance.random() < 0.5 else sent[: chance.randint(1, len(sent) - 1)])
            await writer.drain()
            await asyncio.sleep(chance.random() / 50)
            writer.transport.abort()
        await until(lambda: not here.access.streams._of)


@pytest.mark.usefixtures("path")
async def test_silent_and_half_open_connections_end_while_others_are_served(environ):
    async with unharmed(**SOON) as (here, secret):
        silent = [await asyncio.open_connection("127.0.0.1", here.port) for _ in range(30)]
        for number, (_, writer) in enumerate(silent):
            writer.write(head(here, secret)[: number * 3])
            if number % 3 == 0 and writer.can_write_eof():
                writer.write_eof()
        async with here.client(secret) as client:
            for _ in range(10):
                assert (await client.get("/v1/stats")).status_code == 200
        for reader, writer in silent:
            await rest(reader)
            writer.transport.abort()


async def test_an_upload_goes_on_as_long_as_it_comes(monkeypatch):
    monkeypatch.setattr(connections, "LEAST_SENT", 1_000)
    for piece, status in ((2_000, b"200"), (10, b"408")):
        async with quick() as here:
            reader = await here.connect(f"POST /read HTTP/1.1\r\nhost: x\r\ncontent-length: {piece * 12}\r\n\r\n")
            said = asyncio.create_task(reader.readline())
            for _ in range(12):
                if not said.done():
                    here.last.write(b"x" * piece)
                    await asyncio.wait([said], timeout=0.1)
            assert (await said).split()[1] == status


# -- many ------------------------------------------------------------------------------------------------------


async def hammer(port: int, requests: list[bytes], count: int, at_once: int = 16, per_connection: int = 100) -> int:
    """Small requests, some at a time, over ever new connections; how many were answered."""
    answered = 0

    async def client(number: int) -> None:
        nonlocal answered
        left = count // at_once
        while left:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(min(left, per_connection)):
                writer.write(requests[(number + left) % len(requests)])
                answer = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(answer.split(b"content-length: ")[1].split(b"\r\n")[0]))
                left -= 1
                answered += 1
            writer.close()
            await writer.wait_closed()

    await asyncio.gather(*map(client, range(at_once)))
    return answered


def small_requests(port: int, secret: str) -> list[bytes]:
    def request(path: str, more: str = "") -> bytes:
        return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{more}\r\n".encode()

    admitted = f"authorization: Bearer {secret}\r\n"
    return [
        request("/livez"),
        request("/v1/profile/context", admitted),
        request("/v1/stats", admitted),
        request("/v1/stats"),
        request("/v1/nowhere"),
        request("/v1/stats?unknown=1", admitted),
    ]


@pytest.mark.usefixtures("path")
async def test_many_small_requests_leave_nothing(environ):
    async with unharmed(failures_per_minute=100_000) as (here, secret):
        assert await hammer(here.port, small_requests(here.port, secret), 480, per_connection=10) == 480


@pytest.mark.soak
@pytest.mark.timeout(1_800)
async def test_a_hundred_thousand_small_requests_take_no_more_memory(environ, token):
    """Of the server, whose files and threads are also the same as before."""
    secret = token()["secret"]
    with service_process(TULVING_HTTP__FAILURES_PER_MINUTE="1000000") as served:
        process = psutil.Process(served.process.pid)
        requests = small_requests(served.port, secret)
        await hammer(served.port, requests, 10_000)
        before, files, threads = process.memory_info().rss, process.num_fds(), process.num_threads()
        async with asyncio.timeout(1_500):
            assert await hammer(served.port, requests, 100_000) == 100_000
        await asyncio.sleep(1)
        assert process.memory_info().rss < before + 16_000_000
        assert process.num_fds() <= files + 2 and process.num_threads() <= threads + 2
        await answers(served, secret)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
async def test_streams_come_and_go_for_a_minute_beside_writers(environ, token):
    """Slow, vanishing and good readers of events; the good ones hear of everything."""
    secret, chance = token()["secret"], random.Random(11)
    with service_process(TULVING_HTTP__REQUEST_TIMEOUT="2", TULVING_HTTP__MAX_STREAMS_PER_TOKEN="64") as served:
        process = psutil.Process(served.process.pid)
        made: list[str] = []
        async with client_of(served, secret) as client, client_of(served, secret) as reading:
            end = asyncio.get_running_loop().time() + 60

            async def write() -> None:
                while asyncio.get_running_loop().time() < end:
                    sent = {"content": f"{len(made)} " + "x" * 2_000, "butler": "b"}
                    made.append((await client.post("/v1/episodes", json=sent)).json()["id"])

            async def vanish() -> None:
                while asyncio.get_running_loop().time() < end:
                    _, writer = await asyncio.open_connection("127.0.0.1", served.port)
                    writer.write(
                        f"GET /v1/events?after={START} HTTP/1.1\r\nhost: 127.0.0.1:{served.port}\r\n"
                        f"authorization: Bearer {secret}\r\n\r\n".encode()
                    )
                    await asyncio.sleep(chance.random() * 4)
                    writer.transport.abort()

            async with listening(reading, after=START) as stream:
                heard: list[str] = []

                async def hear() -> None:
                    while True:
                        heard.append((await stream.next(90)).data["payload"]["id"])

                hearing = asyncio.create_task(hear())
                await asyncio.gather(write(), *(vanish() for _ in range(20)))
                await until(lambda: len(heard) >= len(made))
                hearing.cancel()
                await asyncio.wait([hearing])
            assert heard == made
        await until(lambda: not process.net_connections(kind="tcp")[1:])
        assert process.memory_info().rss < 400_000_000
        await answers(served, secret)


async def answers(served: Served, secret: str) -> None:
    async with client_of(served, secret) as client:
        assert (await client.post("/v1/recall", json={"topic": "garden"})).status_code == 200
        assert (await client.get("/livez")).status_code == 200
    assert Path("/proc", str(served.process.pid)).exists()
