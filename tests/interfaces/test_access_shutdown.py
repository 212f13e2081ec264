"""How a service ends: what was begun is finished, nobody is sent here, and it is over in time."""

import asyncio
import re
import signal
import socket
import subprocess
from pathlib import Path

import httpx2
import pytest
from service_parts import client_of, listening, service_process

ADMITTED = (200, 201)


async def writing(served, secret: str, acknowledged: list[str], name: str) -> None:
    """Store one fact after the other until the service is gone."""
    async with client_of(served, secret) as web:
        for number in range(10_000):
            content = f"{name} {number}"
            body = {"subject": name, "predicate": f"p{number}", "content": content}
            try:
                answer = await web.post("/v1/facts", json=body)
            except httpx2.HTTPError:
                return
            assert answer.status_code in ADMITTED, answer.text
            acknowledged.append(content)


def begun(served) -> socket.socket:
    """A request of which the server has half."""
    made = socket.create_connection(("127.0.0.1", served.port))
    made.sendall(b"POST /v1/facts HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-length: 9\r\n\r\n{" % served.port)
    # What came before a request that was answered has been read.
    assert httpx2.get(f"http://127.0.0.1:{served.port}/livez", timeout=30).status_code == 200
    return made


async def ended(served) -> int:
    """Its exit status, before the time that it gives by itself to what was begun."""
    return await asyncio.wait_for(asyncio.to_thread(served.process.wait), 20)


async def test_under_load_it_ends_soon_and_loses_nothing_that_it_acknowledged(token, cli, tmp_path: Path):
    secret = token()["secret"]
    with service_process() as served:
        acknowledged: list[str] = []
        tasks = [asyncio.create_task(writing(served, secret, acknowledged, f"w{number}")) for number in range(8)]
        async with client_of(served, secret) as web, listening(web) as stream:
            while len(acknowledged) < 50:
                await asyncio.sleep(0.01)
            served.process.send_signal(signal.SIGTERM)
            await stream.end()
        await asyncio.gather(*tasks)
        assert await ended(served) == 0
        assert "Traceback" not in served.later, served.later
    assert (await asyncio.to_thread(cli, "export", "--all-tenants", "all.jsonl")).code == 0
    stored = re.findall(r'"content": ?"(w[0-9]+ [0-9]+)"', (tmp_path / "all.jsonl").read_text())
    assert sorted(set(stored)) == sorted(stored), "nothing is there twice"
    assert set(acknowledged) <= set(stored)
    assert len(stored) <= len(acknowledged) + 8, "what was not acknowledged is whole or not there"


@pytest.mark.usefixtures("path")
async def test_a_request_that_was_begun_is_finished(token, cli):
    secret, body = token()["secret"], b'{"content": "half before, half after", "butler": "b"}'
    with service_process() as served, socket.create_connection(("127.0.0.1", served.port)) as request:
        head = (
            f"POST /v1/episodes HTTP/1.1\r\nhost: 127.0.0.1:{served.port}\r\nauthorization: Bearer {secret}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        request.sendall(head.encode() + body[:20])
        assert httpx2.get(f"http://127.0.0.1:{served.port}/livez", timeout=30).status_code == 200  # it was read
        served.process.send_signal(signal.SIGTERM)
        with pytest.raises(OSError):  # no further connection is accepted
            while True:
                socket.create_connection(("127.0.0.1", served.port), timeout=5).close()
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)
        request.sendall(body[20:])
        assert request.recv(10_000).startswith(b"HTTP/1.1 201 ")
        assert await ended(served) == 0
    assert "half before, half after" in (await asyncio.to_thread(cli, "list", "episode", "--json")).out


@pytest.mark.usefixtures("path")
async def test_the_balancer_is_told_before_the_door_is_closed(token):
    secret = token()["secret"]
    with service_process(TULVING_HTTP__DRAIN_TIME="60") as served:
        async with client_of(served, secret) as web:
            assert (await web.get("/readyz")).status_code == 200
            served.process.send_signal(signal.SIGTERM)
            while (answer := await web.get("/readyz")).status_code == 200:
                await asyncio.sleep(0.02)
            assert (answer.status_code, answer.text) == (503, "shutting down")
            assert (await web.get("/health")).json()["reasons"] == ["the server is shutting down"]
            assert (await web.get("/livez")).status_code == 200
            fresh = client_of(served, secret)
            async with fresh:
                assert (await fresh.get("/v1/health")).status_code == 200
            served.process.send_signal(signal.SIGTERM)  # nobody need wait any longer
        assert await ended(served) == 0


@pytest.mark.usefixtures("path")
async def test_a_second_signal_ends_it_at_once(token):
    token()
    with service_process(TULVING_HTTP__GRACE_TIME="60") as served, begun(served):
        served.process.send_signal(signal.SIGTERM)
        with pytest.raises(OSError):  # no further connection is accepted
            while True:
                socket.create_connection(("127.0.0.1", served.port), timeout=5).close()
                await asyncio.sleep(0.02)
        with pytest.raises(subprocess.TimeoutExpired):  # it waits for what was begun
            served.process.wait(0.5)
        served.process.send_signal(signal.SIGTERM)
        assert await ended(served) == 0
        assert "Traceback" not in served.later, served.later


@pytest.mark.usefixtures("path")
async def test_it_does_not_wait_longer_than_its_grace(token):
    token()
    with service_process(TULVING_HTTP__GRACE_TIME="1") as served:
        with begun(served) as request:
            served.process.send_signal(signal.SIGTERM)
            assert await ended(served) == 0
            said = request.recv(10_000)
            assert said.startswith(b"HTTP/1.1 503 ") and b'"type": "/v1/problems/unavailable"' in said
        assert "Traceback" not in served.later, served.later
