"""How the server is: `/livez`, `/readyz` and `/health`."""

import asyncio
import json

import pytest
from access_parts import KEY, service
from http_parts import bearer

from tulving.errors import StoreUnavailable
from tulving.interfaces.http import health
from tulving.ports import Finding
from tulving.services.tokens import Authentication
from tulving.storage.backpressure import BoundedWrites
from tulving.testing import WordEmbedder

SECRET = "/secret/place of the tenant acme"


async def test_all_is_well_and_no_more_is_told(environ):
    async with service() as here:
        for path, said in (("/livez", "ok"), ("/readyz", "ready")):
            answer = await here.send("GET", path)
            assert (answer.status_code, answer.text) == (200, said)
            assert (await here.send("POST", path, json={})).status_code == 405
        answer = await here.send("GET", "/health")
        assert (answer.status_code, answer.json()) == (200, {"state": "ready", "reasons": [], "warnings": []})
        assert (await here.send("GET", "/live")).status_code == 404


async def test_a_store_that_is_down_is_known_and_that_it_is_back(environ, monkeypatch):
    async def fail(self) -> bool:
        raise StoreUnavailable(SECRET)

    async with service() as here:
        with monkeypatch.context() as patch:
            patch.setattr(Authentication, "needs_token", fail)
            assert (await here.send("GET", "/livez")).status_code == 200
            answer = await here.send("GET", "/readyz")
            assert (answer.status_code, answer.text) == (503, "unavailable")
            answer = await here.send("GET", "/health")
            told = {"state": "unavailable", "reasons": ["the store can't be reached"], "warnings": []}
            assert (answer.status_code, answer.json()) == (503, told)
        async with asyncio.timeout(10):
            while (await here.send("GET", "/readyz")).status_code != 200:
                await asyncio.sleep(0.05)


async def test_without_its_embedder_it_answers_by_keyword_and_says_so(environ):
    embedder = WordEmbedder()
    embedder.problem = f"the weights at {SECRET} are gone"
    async with service(embedder=embedder) as here:
        assert (await here.send("GET", "/readyz")).status_code == 200
        answer = await here.send("GET", "/health")
        told = {"state": "degraded", "reasons": ["embedder: has problems"], "warnings": []}
        assert (answer.status_code, answer.json()) == (200, told)


@pytest.mark.parametrize(
    ("finding", "told"),
    [
        ({"warming": SECRET}, {"state": "warming", "reasons": [], "warnings": ["index: is being prepared"]}),
        ({"problems": (SECRET,)}, {"state": "degraded", "reasons": ["index: has problems"], "warnings": []}),
    ],
)
async def test_details_are_for_administrators(environ, monkeypatch, finding, told):
    async def health(self):
        return [Finding("index", **finding)]

    monkeypatch.setattr(BoundedWrites, "health", health)
    async with service(key=KEY) as here:
        token, admin = await here.create(), await here.create(rights=["read", "admin"])
        for headers in ({}, bearer(token)):
            answer = await here.send("GET", "/health", headers=headers)
            assert (answer.status_code, answer.json()) == (200, told)
        for secret in (admin, KEY):
            whole = (await here.send("GET", "/health", secret)).json()
            assert SECRET in json.dumps(whole["findings"])
            assert told.items() <= whole.items()
        assert (await here.send("GET", "/health", "tulving_" + "W" * 43)).status_code == 401


async def test_it_looks_once_for_all_who_ask_at_once(environ, monkeypatch):
    looks = []
    look = Authentication.needs_token
    monkeypatch.setattr(health, "KNOWN_SECONDS", 60)
    monkeypatch.setattr(Authentication, "needs_token", lambda self: looks.append(1) or look(self))
    async with service() as here:
        paths = ["/health", "/readyz"] * 25
        answers = await asyncio.gather(*(here.send("GET", path) for path in paths))
        assert {answer.status_code for answer in answers} == {200}
        assert len(looks) == 1


async def test_asking_uses_up_no_requests(environ):
    async with service(http={"requests_per_minute": 1}) as here:
        token = await here.create()
        for _ in range(3):
            assert (await here.send("GET", "/health", token)).status_code == 200
        assert (await here.send("GET", "/v1/health", token)).status_code == 200
