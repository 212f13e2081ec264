"""The page of conflicts: both sides, why, and what a person may do."""

import pytest
from learned_parts import token_of

from tulving import Memory
from tulving.interfaces.console.pages import conflicts
from tulving.settings import ConflictsConfig, MemoryModuleConfig
from tulving.testing import ManualClock

TEA, NO_TEA = "Anna drinks green tea in the morning", "Anna does not drink green tea in the morning"


@pytest.fixture
def config(request) -> MemoryModuleConfig:
    held = "held" in request.node.name
    return MemoryModuleConfig(conflicts=ConflictsConfig(review_below=0.9 if held else 0.0))


@pytest.fixture
async def conflict(memory: Memory, clock: ManualClock):
    """Two notes that say the opposite; their conflict."""
    await memory.store_note(TEA)
    clock.advance(hours=1)
    return (await memory.store_note(NO_TEA)).conflict


async def contents(memory: Memory) -> list[str]:
    return sorted(each.content for each in await memory.list_memories("fact"))


async def test_an_empty_page_says_what_a_conflict_is(visitor):
    await visitor.open("/console/conflicts")
    assert (visitor.status, visitor.heading) == (200, "Conflicts")
    assert "No conflicts here" in visitor.text and "tulving store note" in visitor.text
    await visitor.follow("Waiting for you")
    assert "Nothing waits for you" in visitor.text


async def test_both_sides_with_what_differs_and_why(visitor, conflict):
    await visitor.open("/console/conflicts")
    assert "The new note won" in visitor.text
    assert [each.text for each in visitor.tree.all("mark")] == ["drinks", "does not drink"]
    for told in ("Known note", "New note", "newer by 1 hour", "Both say anna", "merge rule default", "won settled"):
        assert told in visitor.text, told
    await visitor.follow("The new note won")
    assert visitor.path == f"/console/conflicts/{conflict.id}"
    assert visitor.links("Known note") == [f"/console/memory/fact/{conflict.existing_id}"]


async def test_a_settled_one_is_taken_back_after_a_question(visitor, memory, conflict):
    await visitor.open(f"/console/conflicts/{conflict.id}")
    await visitor.press("Take it back")
    assert visitor.heading == "Are you sure?"
    assert await contents(memory) == [NO_TEA]
    await visitor.press("Yes, do it")
    assert await contents(memory) == sorted([TEA, NO_TEA])
    assert "both notes are in use again" in visitor.text
    assert "Take it back" not in visitor.buttons()
    await visitor.open("/console/conflicts?status=reverted")
    assert "that was reverted" in visitor.text


async def test_a_held_one_is_accepted_and_taken_back(visitor, memory, conflict):
    await visitor.open("/console/conflicts")
    assert visitor.links("Waiting for you 1") == ["/console/conflicts?status=held"]
    await visitor.open("/console")
    await visitor.follow("Decide")
    assert "Waits for you: the new note would win" in visitor.text
    await visitor.press("Accept")
    assert "Settled: the new note won." in visitor.text
    assert await contents(memory) == [NO_TEA]
    await visitor.press("Take it back")
    assert await contents(memory) == sorted([TEA, NO_TEA])


async def test_a_held_one_is_dismissed_after_a_question(visitor, memory, conflict):
    await visitor.open("/console/conflicts?status=held")
    await visitor.press("Keep both")
    await visitor.press("Yes, do it")
    assert "Both notes stay in use." in visitor.text
    assert await contents(memory) == sorted([TEA, NO_TEA])
    assert "Nothing waits for you" in visitor.text


async def test_what_is_held_is_decided_only_with_the_right_to_review(entered, memory, conflict):
    agent = await entered("read", "write", "destroy")
    await agent.open("/console/conflicts?status=held")
    assert "somebody with the right to review" in agent.text
    assert not {"Accept", "Keep both"} & {*agent.buttons()}
    reviewer = await entered("read", "review")
    await reviewer.open("/console/conflicts?status=held")
    assert "Keep both" in reviewer.buttons()
    reader = await entered("read")
    for verb, right in (("accept", "review"), ("dismiss", "review"), ("revert", "write")):
        await reader.send("POST", f"/console/conflicts/{conflict.id}/{verb}", data={"_token": token_of(reader)})
        assert reader.status == 403
        assert right in reader.text
        await reader.open("/console")
    assert await contents(memory) == sorted([TEA, NO_TEA])


async def test_taking_a_held_one_back_is_offered_to_those_who_may(entered, conflict):
    reviewer = await entered("read", "review")
    await reviewer.open("/console/conflicts?status=held")
    await reviewer.press("Accept")
    assert "Settled: the new note won." in reviewer.text
    assert "Take it back" not in reviewer.buttons()


async def test_those_of_another_tenant_are_not_there(entered, conflict):
    other = await entered("read", "write", "review", tenant="other")
    await other.open("/console/conflicts")
    assert TEA not in other.page
    await other.open(f"/console/conflicts/{conflict.id}")
    assert other.status == 404
    await other.open("/console")
    token = token_of(other)
    for verb in ("accept", "dismiss", "revert"):
        await other.send("POST", f"/console/conflicts/{conflict.id}/{verb}", data={"_token": token, "_sure": "1"})
        assert other.status == 404


@pytest.mark.parametrize("query", ["status=applied&cursor=", "status=", "cursor="])
async def test_parameters_that_are_fine(visitor, conflict, query):
    await visitor.open(f"/console/conflicts?{query}")
    assert visitor.status == 200 and NO_TEA[:4] in visitor.text


async def test_many_have_pages(visitor, memory, conflict, clock, monkeypatch):
    monkeypatch.setattr(conflicts, "AT_A_TIME", 1)
    clock.advance(days=1)
    for content in ("Ben rides a red bicycle", "Ben does not ride a red bicycle"):
        await memory.store_note(content)
        clock.advance(hours=1)
    await visitor.open("/console/conflicts?status=applied")
    assert ("bicycle" in visitor.text, "green tea" in visitor.text) == (True, False)
    await visitor.follow("Next page")
    assert ("bicycle" in visitor.text, "green tea" in visitor.text) == (False, True)
    assert "status=applied" in visitor.path and not visitor.links("Next page")
    await visitor.follow("Settled")
    assert "bicycle" in visitor.text, "from the beginning again"


@pytest.mark.parametrize("path", ["?status=nonsense", "?cursor=nonsense", "/no-id"])
async def test_an_address_that_makes_no_sense(visitor, path):
    await visitor.open(f"/console/conflicts{path}")
    assert visitor.status == 422
