"""Entities over MCP and on the command line."""

import json
from typing import Any
from uuid import UUID

import pytest

UNKNOWN = str(UUID(int=1))


async def ask(client: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    return result.structured_content


async def refused(client: Any, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return result.content[0].text


@pytest.mark.scenario("001-085")
async def test_a_session_over_stdio(connect):
    async with connect() as client:
        create = {"canonical_name": "Bob", "entity_type": "person", "tenant_id": "default"}
        bob = (await ask(client, "entity_create", **create, aliases=["Bobby"], metadata={"city": "Rome"}))["entity_id"]
        robert = (await ask(client, "entity_create", canonical_name="Robert", entity_type="person"))["entity_id"]
        assert "already" in await refused(client, "entity_create", **create)
        assert "organization, other, person, place" in await refused(
            client, "entity_create", canonical_name="x", entity_type="robot"
        )
        assert "tenant_id" in await refused(client, "entity_resolve", name="Bob", tenant_id="other")
        fact = {"subject": "Bob", "predicate": "drinks", "content": "tea", "entity_id": bob}
        stored = await ask(client, "memory_store_fact", **fact)
        entity = (await ask(client, "entity_get", entity_id=bob))["entity"]
        assert (entity["canonical_name"], entity["aliases"], entity["metadata"]) == ("Bob", ["Bobby"], {"city": "Rome"})
        assert await ask(client, "entity_get", entity_id=UNKNOWN) == {"entity": None}
        changed = await ask(client, "entity_update", entity_id=robert, metadata={"age": 40})
        assert changed["entity"]["metadata"] == {"age": 40}
        found = await ask(client, "entity_resolve", name="bob", context_hints={"topic": "tea"}, enable_fuzzy=True)
        assert [(each["entity_id"], each["name_match"], each["score"]) for each in found["candidates"]] == [
            (bob, "exact", 390.0)
        ]
        merged = await ask(client, "entity_merge", source_entity_id=bob, target_entity_id=robert)
        assert (merged["facts_repointed"], merged["facts_superseded"], merged["aliases_added"]) == (1, 0, 2)
        memory = (await ask(client, "memory_get", memory_type="fact", memory_id=stored["id"]))["memory"]
        assert memory["entity_id"] == robert
        assert (await ask(client, "entity_get", entity_id=bob))["entity"]["metadata"]["merged_into"] == robert


@pytest.mark.usefixtures("fuzzy")
def test_commands(cli):
    made = cli("entity", "create", "Anna Smith", "person", "--aliases", "Annie", "--aliases", "Nan")
    assert (made.code, made.err) == (0, "")
    anna = made.out.split()[-1]
    shown = cli("entity", "show", anna)
    assert shown.out.startswith(f"person  {anna}\n  Anna Smith\n")
    assert "Annie, Nan" in shown.out
    found = cli("entity", "resolve", "ann")
    assert "50.000  person  Anna Smith" in found.out
    assert "prefix · also Annie, Nan" in found.out
    fuzzy = cli("entity", "resolve", "Ana Smyth", "--enable-fuzzy")
    assert "fuzzy (0.40)" in fuzzy.out
    assert cli("entity", "resolve", "Zoe").out == "no entity is known by that name\n"
    updated = json.loads(cli("entity", "update", anna, "--metadata", '{"born": 1990}', "--json").out)
    assert updated["entity"]["metadata"] == {"born": 1990}
    nan = json.loads(cli("entity", "create", "Nan", "person", "--json").out)["entity_id"]
    merged = cli("entity", "merge", nan, anna)
    assert merged.code == 0
    assert "aliases added     0" in merged.out
    again = cli("entity", "merge", nan, anna)
    assert (again.code, "was merged into" in again.err) == (2, True)
    assert cli("entity", "create", "R2", "robot").code == 2
