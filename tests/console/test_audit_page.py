"""The page of the audit trail."""

import pytest
from administration import administer
from learned_parts import consolidate, fact

from tulving import Caller


async def test_an_empty_trail(entered):
    reader = await entered("read")
    await reader.open("/console/audit?event_type=fact")
    assert (reader.status, reader.heading) == (200, "Audit")
    assert "Nothing fits" in reader.text


async def test_who_changed_what(visitor, memory, clock):
    ben = memory.bind(caller=Caller("default", "ben"))
    known = await ben.store_fact("Anna", "drink", "tea")
    clock.advance(hours=3)
    await ben.edit("fact", known.id, "green tea")
    await visitor.open("/console/audit")
    rows = [each.text for each in visitor.tree.all("tr") if "fact" in each.text]
    assert len(rows) == 2 and "fact edited" in rows[0] and "fact created" in rows[1]
    assert "revision 1" in rows[0] and "ben" in rows[0]
    assert f"/console/memory/fact/{known.id}" in visitor.links()
    assert "tea" not in visitor.text.replace("green tea", ""), "an event has no content"
    await visitor.follow("ben")
    assert "actor=ben" in visitor.path
    assert "token created" not in visitor.text


async def test_filters_are_kept_in_the_form(visitor, memory):
    known = await memory.store_fact("Anna", "drink", "tea")
    run = await consolidate(memory, "something", new_facts=[fact("Anna", "pet", "a cat")])
    await visitor.open("/console/audit")
    await visitor.press("Show", event_type="fact", item=str(known.id))
    assert visitor.text.count("fact created") == 1
    await visitor.press("Show", item="", run=str(run))
    assert "fact created" in visitor.text and "episode" not in visitor.tree.one("table").text
    await visitor.press("Show", event_type="", since="2026-01-01T00:00", until="2026-01-02T00:00")
    assert "episode consolidated" in visitor.text
    await visitor.press("Show", since="2027-01-01T00:00", until="")
    assert "Nothing fits" in visitor.text
    await visitor.follow("Show everything")
    assert visitor.path == "/console/audit"


async def test_pages(visitor, memory):
    for number in range(60):
        await memory.store_fact("Anna", f"trait {number}", "yes")
    await visitor.open("/console/audit?event_type=fact")
    assert visitor.text.count("fact created") == 50
    await visitor.follow("Next page")
    assert visitor.text.count("fact created") == 10
    await visitor.follow("First page")
    assert visitor.text.count("fact created") == 50


@pytest.mark.parametrize("query", ["since=soon", "item=none", "run=none", "cursor=x", "actor=%00"])
async def test_bad_filters_are_said(visitor, query):
    await visitor.open(f"/console/audit?{query}")
    assert visitor.status == 422


async def test_no_address_leads_into_another_tenant(entered, memory):
    known = await memory.store_fact("Anna", "drink", "tea")
    run = await consolidate(memory, "something", new_facts=[fact("Anna", "pet", "a cat")])
    token = await administer(memory).create_token(name="canary")
    cursor = (await memory.audit(limit=1)).events[0].seq
    other = await entered("read", tenant="other")
    for query in ("", f"item={known.id}", f"item={token.id}", f"run={run}", f"cursor={cursor}", "event_type=fact"):
        await other.open(f"/console/audit?{query}")
        assert other.status == 200
        for secret in (str(known.id), str(run), str(token.id), "fact created", "episode created"):
            assert secret not in other.tree.one("main").text.replace(query, ""), query
