"""The HTTP API: its statuses, headers, pages, versions and repeated requests, on both engines."""

from collections.abc import AsyncIterator

import pytest
from api_parts import Api, served

from tulving import Memory

ANNA = {"subject": "Anna", "predicate": "color", "content": "green"}


@pytest.fixture
async def api(memory: Memory) -> AsyncIterator[Api]:
    async with served(memory) as here:
        yield here


async def test_smoke(api: Api):
    made = await api.post("/v1/facts", ANNA)
    assert made.status_code == 201, made.text
    assert made.headers["x-request-id"]
    batch = await api.post("/v1/facts/batch", {"items": [ANNA, {**ANNA, "predicate": "size", "content": "small"}]})
    assert batch.status_code == 201, batch.text
    assert [each["outcome"] for each in batch.json()["items"]] == ["confirmed", "stored"]
    said = await api.get("/v1/openapi.json")
    assert said.json()["openapi"] == "3.1.0"
