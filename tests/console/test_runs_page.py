"""The pages of what models have learned: the runs, one of them, and undoing it."""

from uuid import UUID

import pytest
from learned_parts import ask, consolidate, fact, token_of

from tulving import Memory
from tulving.errors import ModelUnavailable
from tulving.interfaces.console.pages import runs


@pytest.fixture
async def run(memory: Memory, clock):
    """A run that replaced a fact and added another."""
    await memory.store_fact("Anna", "drink", "green tea", scope="chef")
    clock.advance(days=1)
    new = [fact("Anna", "drink", "black tea"), fact("Anna", "pet", "a cat")]
    return await consolidate(memory, "Anna told about her cat", new_facts=new)


async def contents(memory: Memory) -> list[str]:
    return sorted(each.content for each in await memory.list_memories("fact"))


async def test_an_empty_page_says_how_to_begin(visitor):
    await visitor.open("/console/runs")
    assert (visitor.status, visitor.heading) == (200, "Runs")
    assert "No model has learned anything yet" in visitor.text and "tulving consolidate" in visitor.text


async def test_the_runs_with_model_outcome_and_tokens(visitor, run, memory):
    [report] = await memory.runs()
    await visitor.open("/console/runs")
    row = next(each for each in visitor.tree.all("tr") if "Learning from episodes" in each.text)
    assert "2 new facts" in row.text and "done" in row.text and "scripted" in row.text and "of chef" in row.text
    assert f"{report.run.input_tokens + report.run.output_tokens:,}" in row.text
    await visitor.follow("Learning from episodes")
    assert visitor.path == f"/console/runs/{run}"


async def test_one_run_with_what_it_changed_and_cost(visitor, run, memory):
    await visitor.open(f"/console/runs/{run}")
    [report] = await memory.runs()
    assert f"{report.run.input_tokens:,} read, {report.run.output_tokens:,} written" in visitor.text
    assert [each.text for each in visitor.tree.all("del", "ins")] == ["green", "black"]
    assert "a cat" in visitor.text
    assert len(visitor.links("this episode")) == 2
    assert visitor.links("Its audit trail") == [f"/console/audit?run={run}"]


async def test_undoing_shows_first_what_it_would_do(visitor, memory, run):
    await visitor.open(f"/console/runs/{run}")
    await visitor.follow("Undo …")
    told = visitor.tree.one("main").text
    assert "These would be taken out of use" in told and "These would be as they were before" in told
    assert await contents(memory) == ["a cat", "black tea"], "nothing has happened yet"
    await visitor.press("Undo this run")
    assert "Undone: 2 retracted, 1 restored." in visitor.text
    assert await contents(memory) == ["green tea"]
    assert "undone" in visitor.text and not visitor.links("Undo …")
    await visitor.open(f"/console/runs/{run}/undo")
    assert visitor.status == 422 and "was undone before" in visitor.text


async def test_what_somebody_has_changed_since_stays(visitor, memory, run, clock):
    [cat] = [each for each in await memory.list_memories("fact") if each.content == "a cat"]
    clock.advance(hours=1)
    await memory.edit("fact", cat.id, "a black cat")
    await visitor.open(f"/console/runs/{run}/undo")
    assert "These would stay as they are" in visitor.text and "edited since" in visitor.text
    await visitor.press("Undo this run")
    assert "1 left as they are." in visitor.text
    assert await contents(memory) == ["a black cat", "green tea"]


async def test_a_dry_run_leaves_no_trace(memory, run):
    before = [event.seq for event in await memory.audit()]
    told = await memory.undo(run, dry_run=True)
    assert (len(told.retracted), len(told.restored)) == (2, 1)
    assert [event.seq for event in await memory.audit()] == before
    assert await memory.undo(run) == told


async def test_a_failure_with_its_error(visitor, memory):
    ask(memory, ModelUnavailable("the endpoint answered 500"))
    await memory.store_episode("something", butler="chef")
    await memory.run_consolidation(butler="chef")
    await visitor.open("/console/runs")
    assert "failed" in visitor.text and "the endpoint answered 500" in visitor.text
    await visitor.follow("Learning from episodes")
    assert "It failed:" in visitor.text and "It has changed nothing" in visitor.text


async def test_undoing_needs_the_right_to_destroy(entered, memory, run):
    reader = await entered("read", "write", "review")
    await reader.open(f"/console/runs/{run}")
    assert not reader.links("Undo …")
    token = token_of(reader)
    await reader.open(f"/console/runs/{run}/undo")
    assert reader.status == 403
    await reader.send("POST", f"/console/runs/{run}/undone", data={"_token": token, "_sure": "1"})
    assert reader.status == 403
    assert len(await contents(memory)) == 2


async def test_those_of_another_tenant_are_not_there(entered, memory, run):
    other = await entered("read", "write", "destroy", "review", tenant="other")
    await other.open("/console/runs")
    assert str(run) not in other.page
    token = token_of(other)
    for path in (f"/console/runs/{run}", f"/console/runs/{run}/undo", f"/console/runs/{UUID(int=3)}"):
        await other.open(path)
        assert other.status == 404
    await other.send("POST", f"/console/runs/{run}/undone", data={"_token": token, "_sure": "1"})
    assert other.status == 404
    assert len(await contents(memory)) == 2


async def test_many_have_pages(visitor, memory, run, monkeypatch):
    monkeypatch.setattr(runs, "AT_A_TIME", 1)
    newer = await consolidate(memory, "Anna told about her dog", new_facts=[fact("Anna", "second pet", "a dog")])
    await visitor.open("/console/runs")
    assert visitor.links("Learning from episodes") == [f"/console/runs/{newer}"]
    await visitor.follow("Next page")
    assert visitor.links("Learning from episodes") == [f"/console/runs/{run}"]
    assert not visitor.links("Next page")
    await visitor.follow("First page")
    assert visitor.links("Learning from episodes") == [f"/console/runs/{newer}"]
    await visitor.open("/console/runs?cursor=nonsense")
    assert visitor.status == 422
