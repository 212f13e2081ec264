"""How many requests are worked on at once, and how long one may take."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from access_parts import BASE, FACT, service
from http_parts import JSON
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from tulving import Memory
from tulving.interfaces.http.queue import Queue
from tulving.interfaces.http.turns import LARGE, Turns
from tulving.settings import HttpConfig
from tulving.storage.backpressure import BoundedWrites


class Slow:
    """An application whose answers wait until they are let go, and which notes what was cancelled."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.working = self.most = self.cancelled = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.working += 1
        self.most = max(self.most, self.working)
        try:
            if scope["path"] == "/v1/stream":
                await StreamingResponse(self._parts(), media_type="text/event-stream")(scope, receive, send)
            else:
                await self.go.wait()
                await PlainTextResponse("done")(scope, receive, send)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.working -= 1

    async def _parts(self) -> AsyncIterator[str]:
        yield "begun"
        await self.go.wait()


@asynccontextmanager
async def client(app: Any) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=BASE) as web:
        yield web


def limited(slow: Any, **limits: Any) -> Turns:
    return Turns(slow, Queue(HttpConfig(**limits)), ["/livez"])


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.005)


async def test_so_many_are_worked_on_and_so_many_wait_and_the_others_are_told_at_once():
    """However many come in one moment."""
    slow = Slow()
    async with client(limited(slow, max_working=3, max_waiting=2)) as web:
        tasks = [asyncio.create_task(web.get("/v1/x")) for _ in range(50)]
        await until(lambda: sum(task.done() for task in tasks) == 45)
        assert {task.result().status_code for task in tasks if task.done()} == {429}
        tasks = [task for task in tasks if not task.done()]
        for path, form in (("/v1/x", "application/problem+json"), ("/mcp", "application/json")):
            busy = await web.get(path)
            assert (busy.status_code, busy.headers["retry-after"]) == (429, "1")
            assert busy.headers["content-type"] == form
            assert "busy" in busy.text
        assert (await web.get("/console")).status_code == 429
        slow.go.set()
        assert {answer.text for answer in await asyncio.gather(*tasks)} == {"done"}
        assert slow.most == 3
        assert (await web.get("/v1/x")).status_code == 200


async def test_health_and_streams_take_no_turn():
    slow = Slow()
    async with client(limited(slow, max_working=1, max_waiting=0)) as web:
        streams = []
        for number in range(3):
            streams.append(asyncio.create_task(web.get("/v1/stream")))
            await until(lambda open=number + 1: slow.working == open)
        tasks = [asyncio.create_task(web.get(path)) for path in ("/v1/x", "/livez")]
        await until(lambda: slow.working == 5)
        assert (await web.get("/v1/x")).status_code == 429
        slow.go.set()
        assert {answer.status_code for answer in await asyncio.gather(*tasks, *streams)} == {200}


async def test_exports_and_imports_take_no_turn_and_have_their_time(environ, monkeypatch):
    held, export = asyncio.Event(), Memory.export

    async def late(self, *args, **kwargs):
        await held.wait()
        return await export(self, *args, **kwargs)

    monkeypatch.setattr(Memory, "export", late)
    async with service(http={"max_working": 1, "max_waiting": 0, "answer_timeout": 1.0}) as here:
        secret = await here.create(rights=["read", "write", "review"])
        exporting = asyncio.create_task(here.send("GET", "/v1/export", secret))
        await asyncio.sleep(1.5)
        assert (await here.send("GET", "/v1/problems/busy")).status_code == 200
        held.set()
        exported = await exporting
        assert exported.status_code == 200
        lines = {"content-type": "application/x-ndjson"}
        assert (
            await here.send("POST", "/v1/import", secret, content=exported.content, headers=lines)
        ).status_code == 200


@pytest.mark.parametrize("begun", [b"a", b"a" * 2 * LARGE], ids=["little", "much"])
async def test_who_sends_slowly_takes_nobodys_turn(begun: bytes):
    reached, arrived = asyncio.Event(), asyncio.Event()

    async def reading(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/v1/slow":
            reached.set()
            await Request(scope, receive).body()
        await PlainTextResponse("done")(scope, receive, send)

    async def body() -> AsyncIterator[bytes]:
        yield begun
        await arrived.wait()
        yield b"b" * LARGE

    async with client(limited(reading, max_working=1, max_waiting=0, answer_timeout=0.2)) as web:
        sending = asyncio.create_task(web.post("/v1/slow", content=body()))
        if len(begun) > LARGE:
            await reached.wait()
        for _ in range(5):
            assert (await web.get("/v1/x")).status_code == 200
        await asyncio.sleep(0.3)
        arrived.set()
        assert (await sending).status_code == 200, "the time for the answer begins when the body has arrived"


async def test_a_large_body_that_has_arrived_waits_for_its_turn():
    slow, arrived = Slow(), asyncio.Event()

    async def reading(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()
        await slow(scope, receive, send)

    async def body() -> AsyncIterator[bytes]:
        yield b"a" * 2 * LARGE
        await arrived.wait()
        yield b"b"

    turns = limited(reading, max_working=1, max_waiting=1)
    async with client(turns) as web:
        sending = asyncio.create_task(web.post("/v1/large", content=body()))
        first = asyncio.create_task(web.get("/v1/x"))
        await until(lambda: slow.working == 1)
        arrived.set()
        await until(lambda: turns._queue.is_full)
        assert turns._queue.waiting == 1
        assert (await web.get("/v1/x")).status_code == 429
        assert slow.most == 1
        slow.go.set()
        assert [each.status_code for each in await asyncio.gather(first, sending)] == [200, 200]
        await until(lambda: turns._queue.length == turns._queue.waiting == 0)


async def test_a_length_that_is_only_declared_gets_nobody_past_the_queue():
    slow = Slow()
    async with client(limited(slow, max_working=1, max_waiting=0)) as web:
        first = asyncio.create_task(web.get("/v1/x"))
        await until(lambda: slow.working == 1)
        for method in ("GET", "HEAD", "DELETE"):
            declared = {"content-length": "5000000"}
            assert (await web.request(method, "/v1/x", headers=declared)).status_code == 429
        slow.go.set()
        assert (await first).status_code == 200


async def test_a_large_body_may_be_refused_before_it_has_arrived():
    async def refusing(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("no", 401)(scope, receive, send)

    async def body() -> AsyncIterator[bytes]:
        yield b"a" * 2 * LARGE

    async with client(limited(refusing, max_working=1, max_waiting=0)) as web:
        for _ in range(3):
            assert (await web.post("/v1/x", content=body())).status_code == 401


async def test_a_body_arrives_as_it_was_sent():
    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        found = b""
        while (message := await receive())["type"] == "http.request":
            found += message["body"]
            if not message["more_body"]:
                break
        await PlainTextResponse(f"{len(found)} {hash(found)}")(scope, receive, send)

    async def parts(body: bytes) -> AsyncIterator[bytes]:
        for start in range(0, len(body), 10_000):
            yield body[start : start + 10_000]

    async with client(limited(echo)) as web:
        for size in (0, 1, LARGE - 1, LARGE, LARGE + 1, 10 * LARGE):
            body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
            for content in (body, parts(body)):
                assert (await web.post("/v1/x", content=content)).text == f"{size} {hash(body)}"


async def test_what_takes_too_long_is_given_up_and_cancelled(caplog):
    slow = Slow()
    async with client(limited(slow, max_working=1, max_waiting=1, answer_timeout=0.1)) as web:
        with caplog.at_level(logging.WARNING):
            tasks = [asyncio.create_task(web.get(path)) for path in ("/v1/x", "/v1/waits")]
            for answer in await asyncio.gather(*tasks):
                assert answer.status_code == 503
                assert (answer.json()["type"], answer.headers["retry-after"]) == ("/v1/problems/timed-out", "5")
        await until(lambda: slow.cancelled > 0 and slow.working == 0)
        assert "was not answered in 0.1 s" in caplog.text
        slow.go.set()
        assert (await web.get("/v1/x")).status_code == 200


async def test_a_turn_ends_when_the_work_has_even_if_it_is_overdue():
    """Else more would be worked on than the limit says."""
    ended = asyncio.Event()

    async def stubborn(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await ended.wait()
            raise

    async with client(limited(stubborn, max_working=1, max_waiting=0, answer_timeout=0.05)) as web:
        first = asyncio.create_task(web.get("/v1/x"))
        await asyncio.sleep(0.2)
        assert (await web.get("/v1/x")).status_code == 429
        ended.set()
        assert (await first).status_code == 503
        assert (await web.get("/v1/x")).status_code == 503


async def test_a_request_that_is_cut_off_ends_its_work():
    """As at the end of the server, whether it is worked on or waits."""
    slow = Slow()
    turns = limited(slow, max_working=1, max_waiting=1)
    async with client(turns) as web:
        tasks = [asyncio.create_task(web.get("/v1/x")) for _ in range(2)]
        await until(lambda: slow.working == 1)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert (slow.cancelled, slow.working) == (1, 0)
        slow.go.set()
        assert (await web.get("/v1/x")).status_code == 200


async def test_an_error_is_nobody_elses_and_gives_its_turn_back():
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("broken")

    async with client(limited(failing, max_working=1, max_waiting=0)) as web:
        for _ in range(3):
            with pytest.raises(RuntimeError, match="broken"):
                await web.get("/v1/x")


@pytest.mark.parametrize("surface", ["api", "mcp"])
async def test_a_write_that_is_given_up_is_whole_or_not_there(environ, monkeypatch, surface: str):
    """It is cancelled while it waits for the store; what comes later is not harmed."""
    write, held = BoundedWrites.write, asyncio.Event()

    async def late(self, tenant_id, transaction, *args, **kwargs):
        if tenant_id is not None and not held.is_set():
            await asyncio.sleep(30)
        return await write(self, tenant_id, transaction, *args, **kwargs)

    call = {"name": "memory_store_fact", "arguments": FACT}
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    path, body, headers = ("/mcp", rpc, JSON) if surface == "mcp" else ("/v1/facts", FACT, {})
    async with service(http={"answer_timeout": 1}) as here:
        secret = await here.create()
        monkeypatch.setattr(BoundedWrites, "write", late)
        given_up = await here.send("POST", path, secret, json=body, headers=headers)
        assert given_up.status_code == 503, given_up.text
        held.set()
        await asyncio.sleep(0.1)
        assert (await here.send("POST", "/v1/search", secret, json={"query": "green"})).json()["results"] == []
        assert (await here.send("POST", path, secret, json=body, headers=headers)).status_code in (200, 201)
        found = (await here.send("POST", "/v1/search", secret, json={"query": "green"})).json()["results"]
        assert len(found) == 1
