"""Connections over HTTP whose clients are slow, silent or many; on real sockets, while good clients are served."""

import asyncio
import http.client
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from http_parts import JSON, LIST, Served, bearer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tulving.config import load_config, parse
from tulving.errors import ConfigError
from tulving.interfaces.http.connections import LEAST_TAKEN, network
from tulving.interfaces.http.server import listen, web_server
from tulving.settings import HttpConfig

PATIENCE = 0.3
HEAD = "POST /{} HTTP/1.1\r\nhost: x\r\n"
LARGE = 24 * 1024 * 1024


async def read(request: Request) -> Response:
    return PlainTextResponse(f"read {len(await request.body())}")


async def refuse(request: Request) -> Response:
    """Answers without having read the body, as a refusal does."""
    return PlainTextResponse("refused " * 10_000, 401)


async def think(request: Request) -> Response:
    """Works longer than a client may take, before it reads on and after."""
    await asyncio.sleep(1.2)
    size = len(await request.body())
    await asyncio.sleep(1.2)
    return PlainTextResponse(f"thought about {size}")


async def stream(request: Request) -> Response:
    async def parts() -> AsyncIterator[str]:
        for number in range(8):
            yield f"data: {number}\n\n"
            await asyncio.sleep(PATIENCE / 2)

    return StreamingResponse(parts(), media_type="text/event-stream")


async def large(request: Request) -> Response:
    return Response(bytes(LARGE))


async def pieces(request: Request) -> Response:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(LARGE // LEAST_TAKEN):
            yield bytes(LEAST_TAKEN)

    return StreamingResponse(parts())


HANDLERS = (read, refuse, think, stream, large, pieces)


class Serving:
    """A server in this process, and ways to speak to it badly."""

    def __init__(self, port: int, server: Any) -> None:
        self.port, self._server = port, server
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, sent: str = "", source: str = "127.0.0.1") -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(source, 0))
        self._writers.append(writer)
        writer.write(sent.encode())
        return reader

    @property
    def last(self) -> asyncio.StreamWriter:
        return self._writers[-1]

    @property
    def open(self) -> int:
        return len(self._server.server_state.connections)

    async def settle(self, number: int) -> None:
        """Wait until so many connections are open."""
        async with asyncio.timeout(30):
            while self.open != number:
                await asyncio.sleep(0.01)

    def let_go(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def serving(**limits: Any) -> AsyncIterator[Serving]:
    routes = [Route(f"/{each.__name__}", each, methods=["POST"]) for each in HANDLERS]
    server = web_server(Starlette(routes=routes), HttpConfig(**limits))
    with listen("127.0.0.1", 0) as listener:
        running = asyncio.create_task(server.serve([listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        here = Serving(listener.getsockname()[1], server)
        try:
            yield here
        finally:
            here.let_go()
            server.should_exit = True
            await running


def quick() -> Any:
    return serving(request_timeout=PATIENCE)


def whole(path: str = "read", size: int = 1) -> str:
    return f"{HEAD.format(path)}content-length: {size}\r\n\r\n{'x' * size}"


async def rest(reader: asyncio.StreamReader) -> str:
    """What comes until the server ends the connection, however it does."""
    said = b""
    async with asyncio.timeout(30):
        try:
            while chunk := await reader.read(65_536):
                said += chunk
        except ConnectionResetError:
            pass
    return said.decode()


async def answer(reader: asyncio.StreamReader) -> str:
    """The first line and the body of one answer."""
    async with asyncio.timeout(30):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(head.split("content-length: ")[1].split("\r\n")[0])
        return head.split("\r\n")[0] + " " + (await reader.readexactly(size)).decode()


# -- time ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        ("", ""),
        ("POST", "HTTP/1.1 408 "),
        (HEAD.format("read"), "HTTP/1.1 408 "),
        (HEAD.format("read") + "content-length: 100\r\n\r\n", "HTTP/1.1 408 "),
        (HEAD.format("read") + "content-length: 100\r\n\r\n{", "HTTP/1.1 408 "),
        (HEAD.format("read") + "transfer-encoding: chunked\r\n\r\n5\r\n{", "HTTP/1.1 408 "),
        (HEAD.format("refuse") + "content-length: 100\r\n\r\n{", "HTTP/1.1 401 "),
        (whole() + "POST", "HTTP/1.1 200 OK"),
    ],
    ids=["silence", "word", "headers", "no-body", "body", "chunk", "refused", "second"],
)
async def test_an_unfinished_request_ends_with_its_time(sent: str, answered: str):
    async with quick() as here:
        for said in await asyncio.gather(*[rest(await here.connect(sent)) for _ in range(20)]):
            assert said.startswith(answered) if answered else not said
        await here.settle(0)
        assert await answer(await here.connect(whole())) == "http/1.1 200 ok read 1"


@pytest.mark.parametrize("path", ["read", "refuse", None])
async def test_what_trickles_in_gains_no_time(path: str | None):
    begun = "POST /" if path is None else HEAD.format(path) + "content-length: 100000\r\n\r\n"
    async with quick() as here:
        reader = await here.connect(begun)
        ending = asyncio.create_task(rest(reader))
        for _ in range(1000):  # each byte comes well within the time
            if ending.done():
                break
            here.last.write(b"x")
            await asyncio.sleep(PATIENCE / 10)
        assert (await ending).startswith("HTTP/1.1 401 " if path == "refuse" else "HTTP/1.1 408 ")


async def test_each_request_of_a_connection_has_its_own_time_and_an_idle_one_ends():
    async with serving(request_timeout=1.5) as here:
        reader = await here.connect()
        for _ in range(3):
            await asyncio.sleep(0.6)
            here.last.write(whole().encode())
            assert await answer(reader) == "http/1.1 200 ok read 1"
        assert await rest(reader) == ""


@pytest.mark.parametrize("size", [1, 500_000])
async def test_time_in_which_the_server_works_or_does_not_read_is_not_the_clients(size: int):
    async with serving(request_timeout=1) as here:
        assert await answer(await here.connect(whole("think", size))) == f"http/1.1 200 ok thought about {size}"


async def test_a_stream_is_not_cut():
    async with quick() as here:
        said = await rest(await here.connect(whole("stream")))
        assert [f"data: {number}\n\n" in said for number in range(8)] == [True] * 8


@pytest.mark.parametrize("header", ["", "connection: close\r\n"])
async def test_an_answer_that_is_not_taken_is_given_up(header: str):
    async with quick() as here:
        for _ in range(3):  # a reader that is not read from takes little from its socket
            reader = await here.connect(f"{HEAD.format('large')}{header}\r\n")
            await reader.readuntil(b"\r\n\r\n")
        await here.settle(0)
        assert await answer(await here.connect(whole())) == "http/1.1 200 ok read 1"


async def test_requests_whose_answers_are_not_taken_are_given_up():
    async with quick() as here:
        reader = await here.connect(whole("refuse"))
        await reader.readuntil(b"\r\n\r\n")
        flood = asyncio.create_task(_flood(here.last))
        await here.settle(0)
        flood.cancel()


async def _flood(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(whole("refuse").encode() * 10)
        await writer.drain()


@pytest.mark.parametrize("path", ["large", "pieces"])
async def test_an_answer_that_is_taken_slowly_is_given_whole(path: str):
    async with serving(request_timeout=1) as here:
        reader = await here.connect(f"{HEAD.format(path)}connection: close\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        taken = 0
        while part := await reader.read(2 * 1024 * 1024):
            taken += len(part)
            if taken % (2 * 1024 * 1024) < len(part):
                await asyncio.sleep(0.15)
        assert taken >= LARGE


# -- number ----------------------------------------------------------------------------------------------------


async def test_beyond_the_limit_connections_are_refused_until_others_end():
    async with serving(max_connections=3) as here:
        first = [await here.connect() for _ in range(3)]
        await here.settle(3)
        for _ in range(20):
            assert (await rest(await here.connect())).startswith("HTTP/1.1 503 ")
        await here.settle(3)
        here.let_go()
        await here.settle(0)
        assert await answer(await here.connect(whole())) == "http/1.1 200 ok read 1"
        assert len(first) == 3


async def test_an_address_has_a_limit_of_its_own():
    async with serving(max_connections_per_address=2) as here:
        kept = [await here.connect() for _ in range(2)]
        await here.settle(2)
        assert (await rest(await here.connect())).startswith("HTTP/1.1 503 ")
        assert await answer(await here.connect(whole(), source="127.0.0.2")) == "http/1.1 200 ok read 1"
        assert await answer(await here.connect(whole(), source="127.0.0.3")) == "http/1.1 200 ok read 1"
        here.let_go()
        await here.settle(0)
        assert await answer(await here.connect(whole())) == "http/1.1 200 ok read 1"
        assert len(kept) == 2


async def test_without_a_limit_for_an_address_one_may_have_all():
    async with serving(max_connections=70, max_connections_per_address=None) as here:
        kept = [await here.connect() for _ in range(70)]
        await here.settle(70)
        assert (await rest(await here.connect())).startswith("HTTP/1.1 503 ")
        assert len(kept) == 70


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:2", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_a_host_with_many_addresses_is_counted_once(address: str, counted: str):
    assert network(address) == counted


# -- a whole server --------------------------------------------------------------------------------------------


@contextmanager
def hanging(served: Served, number: int, sent: str) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        opened = []
        for _ in range(number):
            opened.append(stack.enter_context(socket.create_connection(("127.0.0.1", served.port), 30)))
            opened[-1].sendall(sent.encode())
        yield opened


def served_well(served: Served, secret: str) -> bool:
    """Whether a client with a good token gets its answer, at another address."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30, source_address=("127.0.0.2", 0))
    try:
        connection.request("POST", "/mcp", json.dumps(LIST), JSON | bearer(secret))
        answered = connection.getresponse()
        return answered.status == 200 and b"memory_recall" in answered.read()
    finally:
        connection.close()


def test_more_half_requests_than_there_are_files_stop_no_other_client_and_fill_no_log(path: Path, server, token):
    secret = token()["secret"]
    served = server(files=128, TULVING_HTTP__MAX_CONNECTIONS_PER_ADDRESS="40")
    for sent in (
        "POST /mcp HTTP/1.1\r\n",
        "POST /mcp HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{",
        "this is no HTTP\r\n\r\n",
    ):
        with hanging(served, 250, sent):
            assert all(served_well(served, secret) for _ in range(5))
    code, err = served.end()
    assert code == 0
    assert "refused a connection from 127.0.0.1: it has 40 already" in err
    assert "Traceback" not in err
    assert len(err) < 10_000


# -- settings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("request_timeout", value) for value in (0, -1, 3601, "nan", "soon", None)),
        *(("max_connections", value) for value in (0, 10_001, 1.5, None)),
        *(("max_connections_per_address", value) for value in (0, 10_001, "x")),
        ("backlog", 5),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused_by_name(setting: str, value: Any):
    with pytest.raises(ConfigError) as refused:
        parse({"http": {setting: value}})
    assert refused.value.field == f"http.{setting}"


def test_limits_are_settings_like_others(tmp_path: Path):
    environ = {"TULVING_HTTP__MAX_CONNECTIONS_PER_ADDRESS": "none", "TULVING_HTTP__REQUEST_TIMEOUT": "2.5"}
    assert load_config(tmp_path, environ).http == HttpConfig(2.5, 512, None)
    text = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    assert all(f"`http.{field.name}`" in text for field in fields(HttpConfig))
