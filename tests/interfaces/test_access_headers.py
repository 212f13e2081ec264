"""Which web pages may read answers, and what answers say to browsers and caches."""

import pytest
import service_parts
from access_parts import FACT, service
from administration import administer
from http_parts import JSON, LIST, bearer

from tulving import Memory
from tulving.domain.access import ALL_RIGHTS, RIGHTS
from tulving.errors import StoreUnavailable

pytestmark = pytest.mark.usefixtures("path")  # whatever the engine

APP = "https://app.example.com"
ASKED = {"access-control-request-method": "PATCH", "access-control-request-headers": "authorization, if-match"}


@pytest.mark.parametrize("path", ["/v1/facts", "/v1/memories/fact/x", "/v1/events", "/mcp", "/v1/no/such/route"])
async def test_a_page_of_an_allowed_origin_is_asked_for_no_token_beforehand(environ, path: str):
    async with service(allowed_origins=APP) as here:
        answer = await here.send("OPTIONS", path, headers={**ASKED, "origin": APP})
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == APP
        assert set(answer.headers["access-control-allow-methods"].split(", ")) >= {"GET", "POST", "PATCH", "DELETE"}
        assert "if-match" in answer.headers["access-control-allow-headers"]
        assert "access-control-allow-credentials" not in answer.headers


async def test_what_it_may_read_of_an_answer(environ):
    async with service(allowed_origins=f"{APP},https://other.example.com") as here:
        secret = await here.create()
        origin = {"origin": APP}
        for answer in (
            await here.send("POST", "/v1/facts", secret, json=FACT, headers=origin),
            await here.send("GET", "/v1/health", headers=origin),
            await here.send("POST", "/mcp", secret, json=LIST, headers={**JSON, **origin}),
            await here.send("GET", "/health", headers=origin),
        ):
            assert answer.headers["access-control-allow-origin"] == APP
            exposed = {name.strip() for name in answer.headers["access-control-expose-headers"].split(",")}
            assert exposed >= {"ETag", "Link", "Retry-After", "X-Request-Id"}
            assert "access-control-allow-credentials" not in answer.headers
            assert "Origin" in answer.headers["vary"]


async def test_the_console_is_for_no_other_page(environ):
    async with service(allowed_origins=APP) as here:
        for method in ("GET", "OPTIONS"):
            answer = await here.send(method, "/console/login", headers={**ASKED, "origin": APP})
            assert not any(name.startswith("access-control") for name in answer.headers), method


@pytest.mark.parametrize(
    "path", ["/v1/facts", "/mcp", "/console", "/console/static/console.css", "/health", "/readyz", "/"]
)
async def test_without_origins_and_for_others_there_is_nothing(environ, path: str):
    for settings in ({}, {"allowed_origins": APP}):
        async with service(**settings) as here:
            for method in ("OPTIONS", "GET", "POST"):
                stranger = await here.send(method, path, headers={**ASKED, "origin": "https://evil.example"})
                assert stranger.status_code == 403, method
                assert not any(name.startswith("access-control") for name in stranger.headers)
                rebound = await here.send(method, path, headers={"host": "evil.example"})
                assert rebound.status_code == 421, method


async def test_a_page_of_this_machine_may_ask_and_read_nothing(environ):
    """It is no stranger to a server on a loopback address, but nobody has named it."""
    async with service() as here:
        for method, path in (("GET", "/v1/stats"), ("GET", "/health"), ("OPTIONS", "/v1/stats")):
            headers = {**ASKED, "origin": "http://localhost:3000"}
            answer = await here.send(method, path, await here.create(), headers=headers)
            assert answer.status_code in (200, 405)
            assert not any(name.startswith("access-control") for name in answer.headers), (method, path)


async def test_answers_to_programs_are_kept_by_nobody_and_are_what_they_say(environ):
    async with service() as here:
        secret = await here.create()
        stored = await here.send("POST", "/v1/facts", secret, json=FACT)
        for answer in (
            stored,
            await here.send("GET", f"/v1/memories/fact/{stored.json()['id']}", secret),
            await here.send("GET", "/v1/health"),
            await here.send("GET", "/v1/no/such/route", secret),
            await here.send("GET", "/v1/health", headers={"host": "evil.example"}),
            await here.send("POST", "/mcp", secret, json=LIST, headers=JSON),
            await here.send("GET", "/health", headers=bearer(secret)),
            await here.send("GET", "/no/such/page"),
            await here.send("GET", "/console", headers={"host": "evil.example"}),
        ):
            assert answer.headers["x-content-type-options"] == "nosniff"
            # Who asks again whether a version is still the newest may keep it; a proxy may not.
            kept = "private, no-cache" if "etag" in answer.headers else "no-store"
            assert answer.headers["cache-control"] == kept
        style = await here.send("GET", "/console/static/console.css")
        assert (style.status_code, style.headers.get("cache-control")) != (200, "no-store")


async def test_a_request_has_one_length(environ):
    """A proxy that goes by the other one could be made to send a part of it as another client's request."""
    async with service() as here:
        secret = await here.create()
        refused = await here.send(
            "POST", "/v1/facts", secret, json=FACT, headers={"transfer-encoding": "chunked", "content-length": "4"}
        )
        assert refused.status_code == 400 and refused.headers["connection"] == "close"


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
async def test_a_page_of_another_port_changes_nothing_on_an_open_server(environ, site: str):
    """Browsers send such a request without asking, and without a body it needs no content type."""
    async with service_parts.service(closed=False) as here, here.client() as client:
        headers = {"sec-fetch-site": site}
        for path in ("/v1/tokens", "/v1/sessions", "/v1/timeline/rotate"):
            assert (await client.post(path, headers=headers)).status_code == 401, path
        assert await administer(await here.memory()).list_tokens() == []
        assert (await client.get("/v1/stats", headers=headers)).status_code == 200
        assert (await client.post("/v1/sessions")).status_code == 201


async def test_only_administrators_are_told_what_names_files_and_hosts(environ, monkeypatch):
    async def broken(*_, **__):
        raise StoreUnavailable("/var/lib/private.db can't be opened")

    monkeypatch.setattr(Memory, "_counts", broken)
    async with service() as here:
        for rights, is_told in ((RIGHTS, False), (ALL_RIGHTS, True)):
            failed = await here.send("GET", "/v1/stats", await here.create(rights=rights))
            assert (failed.status_code, "private.db" in failed.text) == (503, is_told)
