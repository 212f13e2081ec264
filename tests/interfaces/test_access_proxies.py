"""Behind a proxy: a real server believes the forwarding headers of those that are named, and of nobody else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from service_parts import service_process
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tulving.interfaces.http.connections import networks
from tulving.interfaces.http.server import listen, web_server
from tulving.settings import HttpConfig

FORWARDED = {"x-forwarded-for": "203.0.113.9, 192.0.2.7", "x-forwarded-proto": "https"}


@asynccontextmanager
async def told_what_is_seen(proxies: str) -> AsyncIterator[str]:
    """Where a server answers who its client is, and by which scheme they came."""

    async def seen(request: Request) -> JSONResponse:
        assert request.client is not None
        return JSONResponse([request.client.host, request.url.scheme])

    app = Starlette(routes=[Route("/seen", seen)])
    with listen("127.0.0.1", 0) as listener:
        server = web_server(app, HttpConfig(drain_time=0), proxies=networks(proxies))
        running = asyncio.create_task(server.serve([listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/seen"
        server.should_exit = True
        await running


@pytest.mark.parametrize(
    ("proxies", "headers", "told"),
    [
        ("127.0.0.1", FORWARDED, ["192.0.2.7", "https"]),
        ("10.0.0.0/8,127.0.0.0/8", FORWARDED, ["192.0.2.7", "https"]),
        ("127.0.0.1,192.0.2.0/24", FORWARDED, ["203.0.113.9", "https"]),
        ("127.0.0.1", {}, ["127.0.0.1", "http"]),
        ("10.0.0.1,::1", FORWARDED, ["127.0.0.1", "http"]),
        ("", FORWARDED, ["127.0.0.1", "http"]),
    ],
    ids=["named", "network", "two in a row", "nothing forwarded", "not named", "none named"],
)
async def test_only_a_named_peer_says_for_whom_it_speaks(monkeypatch, proxies, headers, told):
    monkeypatch.delenv("FORWARDED_ALLOW_IPS", raising=False)
    async with told_what_is_seen(proxies) as url, httpx2.AsyncClient() as web:
        assert (await web.get(url, headers=headers)).json() == told


@pytest.mark.usefixtures("path")
def test_the_option_of_the_command_names_them(token):
    """A cookie is then for safe ways only, and failures are counted for each client behind the proxy."""
    token()
    wrong = {"authorization": "Bearer tulving_" + "W" * 43, "x-forwarded-proto": "https"}
    with service_process("--proxy-headers", "127.0.0.1", TULVING_HTTP__FAILURES_PER_MINUTE="2") as served:
        with httpx2.Client(base_url=f"http://127.0.0.1:{served.port}", timeout=30) as web:
            page = web.get("/console/login", headers=FORWARDED)
            cookies = page.headers.get_list("set-cookie")
            assert cookies and all("secure" in each.lower() for each in cookies)
            tried = [
                web.get("/v1/health", headers=wrong | {"x-forwarded-for": f"192.0.2.{number}"}).status_code
                for number in (1, 2, 3, 4, 4, 4)
            ]
        assert tried == [401] * 5 + [429]
