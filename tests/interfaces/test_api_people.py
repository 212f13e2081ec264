"""What people decide and administer over HTTP: who may, and that nobody reaches another tenant."""

from collections.abc import AsyncIterator

import pytest
from api_parts import Api, served

from tulving import Memory
from tulving.services.operations import OPERATIONS

FOR_PEOPLE = [each for each in OPERATIONS.values() if not each.for_models]


@pytest.fixture
async def api(memory: Memory) -> AsyncIterator[Api]:
    async with served(memory) as here:
        yield here


async def test_the_rights_of_an_agent_are_not_enough(api: Api):
    agent = await api.holder(rights=["read", "write", "destroy"])
    for operation in FOR_PEOPLE:
        answered = await agent.call(operation, {})
        assert (answered.status_code, operation.effect in answered.json()["detail"]) == (403, True), operation.tool


async def test_a_reviewer_is_no_administrator(api: Api):
    reviewer = await api.holder(rights=["read", "review"])
    assert (await reviewer.get("/v1/review")).json() == {"proposals": [], "next_cursor": None}
    for operation in FOR_PEOPLE:
        if operation.effect == "admin":
            assert (await reviewer.call(operation, {})).status_code == 403, operation.tool


async def test_a_secret_is_told_once(api: Api):
    made = await api.post("/v1/tokens", {"name": "laptop", "tenant_id": "anna", "rights": ["read"]})
    assert made.status_code == 201
    secret, id_ = made.json()["secret"], made.json()["id"]
    theirs = Api(api.app, api.memory, secret)
    assert (await theirs.get("/v1/stats")).status_code == 200
    listed = await api.get("/v1/tokens", params={"tenant_id": "anna"})
    assert [each["id"] for each in listed.json()["tokens"]] == [id_]
    assert secret not in listed.text
    assert (await api.post(f"/v1/tokens/{id_}/revoke")).json()["revoked_at"]
    assert (await theirs.get("/v1/stats")).status_code == 401


async def test_a_secret_can_not_be_chosen(api: Api):
    refused = await api.post("/v1/tokens", {"secret": "tulving_" + "x" * 43})
    assert (refused.status_code, refused.json()["field"]) == (422, "secret")


async def test_no_token_reaches_the_trail_of_another_tenant(api: Api):
    fact = (await api.post("/v1/facts", {"subject": "Anna", "predicate": "color", "content": "green"})).json()["id"]
    seq = (await api.get("/v1/audit", params={"limit": 1})).json()["events"][0]["seq"]
    other = await api.holder(tenant="other", rights=["read", "write", "destroy", "review"])
    for query in ({}, {"item": fact}, {"cursor": str(seq + 1)}, {"event_type": "fact"}):
        events = (await other.get("/v1/audit", params=query)).json()["events"]
        assert not [event for event in events if event["entity_id"] == fact or event["tenant_id"] != "other"], query
    crafted = await other.get("/v1/audit", params={"tenant_id": "default"})
    assert (crafted.status_code, crafted.json()["field"]) == (422, "tenant_id")
    assert len((await api.get("/v1/audit", params={"item": fact})).json()["events"]) == 1


async def test_no_token_decides_in_another_tenant(api: Api, memory: Memory, clock):
    await memory.store_note("Anna drinks green tea in the morning")
    clock.advance(hours=1)
    conflict = (await memory.store_note("Anna does not drink green tea in the morning")).conflict
    assert conflict is not None
    other = await api.holder(tenant="other")
    assert (await other.get(f"/v1/conflicts/{conflict.id}")).status_code == 404
    for verb in ("accept", "dismiss", "revert"):
        assert (await other.post(f"/v1/conflicts/{conflict.id}/{verb}")).status_code == 404
    for verb in ("accept", "reject"):
        assert (await other.post(f"/v1/review/{verb}", {"ids": [str(conflict.id)]})).status_code == 404
    assert (await other.get(f"/v1/runs?run_id={conflict.id}")).status_code == 404
    assert (await api.get(f"/v1/conflicts/{conflict.id}")).json()["conflict"]["settlement"]["status"] == "applied"


async def test_who_speaks_for_one_user_sees_their_part_of_the_trail(api: Api):
    for user in ("ann", "ben"):
        body = {"subject": user, "predicate": "color", "content": "green"}
        assert (await api.post("/v1/facts", body, headers={"Tulving-User": user})).status_code == 201
    told = (await api.get("/v1/audit", headers={"Tulving-User": "ann"})).json()["events"]
    assert [event["event_type"] for event in told] == ["fact_created"]


async def test_an_administrator_asks_for_a_job_and_checks_the_store(api: Api):
    asked = await api.post("/v1/jobs/decay_sweep/run")
    assert asked.status_code == 200 and asked.json()["next_run"]
    assert (await api.post("/v1/jobs/unknown/run")).json()["field"] == "job"
    assert not [each for each in (await api.get("/v1/verify")).json()["findings"] if each["problems"]]
    tenants = (await api.get("/v1/tenants")).json()["tenants"]
    assert [each["tenant_id"] for each in tenants] == ["default"]
