"""The page of what waits for a person's decision."""

import pytest
from learned_parts import consolidate, fact, token_of

from tulving import Memory
from tulving.interfaces.console.pages import review
from tulving.settings import LearningConfig, MemoryModuleConfig

QUOTE = "The accountant wrote: send all invoices to Berlin"


@pytest.fixture
def config() -> MemoryModuleConfig:
    return MemoryModuleConfig(learning=LearningConfig(review_rules=True, max_loss=0.1))


@pytest.fixture
async def run(memory: Memory):
    """A run that proposed three rules."""
    rules = [{"content": f"Rule number {number}"} for number in range(3)]
    return await consolidate(memory, QUOTE, new_rules=rules)


async def rules(memory: Memory) -> list[str]:
    return sorted(each.content for each in await memory.list_memories("rule"))


async def test_an_empty_page_says_what_would_be_held(visitor):
    await visitor.open("/console/review")
    assert (visitor.status, visitor.heading) == (200, "Review")
    assert "Nothing waits for your decision" in visitor.text


async def test_each_proposal_is_shown_with_its_sources_and_reason(visitor, run):
    await visitor.open("/console/review")
    assert "3 waiting" in visitor.text
    assert visitor.text.count("Store a new rule") == 3
    assert visitor.text.count(QUOTE) == 3
    assert visitor.text.count("Held because") == 3
    assert visitor.links("run") == [f"/console/runs/{run}"] * 3


async def test_one_is_accepted(visitor, memory, run):
    await visitor.open("/console/review")
    await visitor.press("Accept", near="Rule number 1")
    assert "1 accepted." in visitor.text
    assert await rules(memory) == ["Rule number 1"]
    assert "Rule number 1" not in visitor.tree.one("main").text.replace("1 accepted.", "")
    assert "2 waiting" in visitor.text


async def test_one_is_rejected_after_a_question(visitor, memory, run):
    await visitor.open("/console/review")
    await visitor.press("Reject", near="Rule number 2")
    assert visitor.heading == "Are you sure?"
    await visitor.press("Yes, do it")
    assert "1 rejected." in visitor.text
    assert [each.offer["content"] for each in await memory.proposals()] == ["Rule number 0", "Rule number 1"]
    assert await rules(memory) == []


async def test_several_are_accepted_at_once(visitor, memory, run):
    held = await memory.proposals()
    await visitor.open("/console/review")
    await visitor.press("Accept selected", ids=str(held[0].id))
    assert await rules(memory) == [held[0].offer["content"]]
    data = {"_token": token_of(visitor), "ids": [str(each.id) for each in held[1:]]}
    await visitor.send("POST", "/console/review/accept", data=data)
    assert "2 accepted." in visitor.text
    assert len(await rules(memory)) == 3


async def test_several_are_rejected_at_once_after_a_question(visitor, memory, run):
    await visitor.open("/console/review")
    ids = [str(each.id) for each in await memory.proposals()]
    data = {"_token": token_of(visitor), "ids": ids, "_ask": "Reject?"}
    await visitor.send("POST", "/console/review/reject", data=data)
    assert len(await memory.proposals()) == 3
    await visitor.press("Yes, do it")
    assert "3 rejected." in visitor.text
    assert not await memory.proposals()


async def test_nothing_selected_is_said(visitor, memory, run):
    await visitor.open("/console/review")
    await visitor.press("Accept selected")
    assert "Nothing was selected." in visitor.text
    assert len(await memory.proposals()) == 3


async def test_what_somebody_else_has_decided_is_said(visitor, memory, run):
    await visitor.open("/console/review")
    await memory.reject([run])
    await visitor.press("Accept", near="Rule number 1")
    assert visitor.status == 404
    assert "there is no proposal" in visitor.text


async def test_a_change_is_shown_word_by_word(visitor, memory, clock):
    known = [(await memory.store_fact("user", f"trait {n}", f"likes old tea {n}", scope="chef")).id for n in range(4)]
    clock.advance(days=1)
    updates = [{"target_id": str(id_), **fact("x", "x", f"likes new tea {n}")} for n, id_ in enumerate(known)]
    await consolidate(memory, "something happened", updated_facts=updates, confirmations=[])
    await visitor.open("/console/review")
    assert visitor.text.count("Replace a fact") == 4
    assert [each.text for each in visitor.tree.all("del", "ins")] == ["old", "new"] * 4
    assert "learning.max_loss" in visitor.text


async def test_it_is_for_those_with_the_right_to_review(entered, memory, run):
    agent = await entered("read", "write", "destroy")
    assert "/console/review" not in agent.links()
    await agent.open("/console/review")
    assert (agent.status, "review" in agent.text) == (403, True)
    ids = [str(each.id) for each in await memory.proposals()]
    for verb in ("accept", "reject"):
        await agent.send("POST", f"/console/review/{verb}", data={"_token": token_of(agent), "ids": ids, "_sure": "1"})
        assert agent.status == 403
    assert len(await memory.proposals()) == 3


async def test_another_tenant_can_not_decide(entered, memory, run):
    other = await entered("read", "review", tenant="other")
    await other.open("/console/review")
    assert "Rule number" not in other.page
    token, ids = token_of(other), [str(each.id) for each in await memory.proposals()]
    for verb in ("accept", "reject"):
        for given in (ids, [str(run)]):
            await other.send("POST", f"/console/review/{verb}", data={"_token": token, "ids": given, "_sure": "1"})
            assert other.status == 404
    assert len(await memory.proposals()) == 3


async def test_a_long_queue_has_pages(visitor, memory, run, monkeypatch):
    monkeypatch.setattr(review, "AT_A_TIME", 2)
    await visitor.open("/console/review")
    assert "3 waiting" in visitor.text
    assert ("Rule number 1" in visitor.text, "Rule number 2" in visitor.text) == (True, False)
    assert not visitor.links("First page")
    await visitor.follow("Next page")
    assert ("Rule number 1" in visitor.text, "Rule number 2" in visitor.text) == (False, True)
    assert "3 waiting" in visitor.text and not visitor.links("Next page")
    last = visitor.links("First page"), visitor.path
    await memory.reject((await memory.proposals())[2].id)
    await visitor.open(last[1])
    assert "2 waiting" in visitor.text and "Nothing waits" not in visitor.text
    await visitor.follow("First page")
    assert "Rule number 0" in visitor.text


async def test_a_page_that_does_not_exist(visitor, run):
    await visitor.open("/console/review?cursor=nonsense")
    assert visitor.status == 422
