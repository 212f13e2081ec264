"""The Overview: what there is at a glance, and what needs attention."""

from datetime import timedelta

import pytest
from administration import administer
from learned_parts import consolidate, fact

from tulving import Memory, MemoryModuleConfig
from tulving.interfaces.console.pages.overview import _concerns
from tulving.services.health import JobState, Readiness
from tulving.workers.jobs import JOBS
from tulving.workers.schedule import Schedule
from tulving.workers.scheduler import Scheduler


async def test_an_empty_memory_says_what_to_do(visitor):
    await visitor.open("/console")
    assert visitor.status == 200
    assert "Nothing is remembered yet" in visitor.text
    assert "tulving init" in visitor.text
    assert "All is well" in visitor.text


async def test_it_counts_by_kind_and_state(visitor, memory, clock):
    await memory.store_fact("Mira", "home", "Lisbon")
    clock.advance(days=1)
    await memory.store_fact("Mira", "home", "Porto")
    await memory.store_rule("pour slowly")
    await memory.store_episode("Mira has moved", butler="a")
    await visitor.open("/console")
    assert "superseded 1" in visitor.text and "candidate 1" in visitor.text and "waiting 1" in visitor.text
    assert "Memories stored on each of the last 28 days" in visitor.page
    assert "2 Jan 1 1 1" in visitor.text, "the chart's table"
    assert "1 Jan 0 1 0" in visitor.text
    assert "Mira · home Porto" in visitor.text
    assert "Nothing is remembered yet" not in visitor.text


async def test_it_tells_what_will_fade(visitor, memory):
    await visitor.open("/console")
    assert "will fade in the next seven days" in visitor.text
    await memory.store_fact("tea", "colour", "green", permanence="ephemeral", confidence=0.25)
    await visitor.open("/console")
    assert "Sat 3 1 0" in visitor.text
    assert "green fades in 2 d" in visitor.text


async def test_it_tells_of_the_jobs_and_of_what_learning_costs(visitor, memory, clock):
    await consolidate(memory, "Anna has told about her cat", new_facts=[fact("Anna", "pet", "a cat")])
    env = memory._env
    schedule = Schedule(env.store, clock, "here", env.config.schedule, env.observer)
    await Scheduler(schedule, administer(memory), JOBS).once("decay_sweep")
    clock.advance(hours=2)
    await visitor.open("/console")
    [row] = [each for each in visitor.tree.all("tr") if "Decay sweep" in each.text]
    assert "ok 2 h ago" in row.text
    [report] = await memory.runs()
    spent = f"{report.run.input_tokens + report.run.output_tokens:,}"
    [row] = [each for each in visitor.tree.all("li") if "for chef" in each.text]
    assert f"{spent} tokens" in row.text and "2 h ago" in row.text
    assert f"{spent} of {memory.config.llm.tokens_per_day:,}" in visitor.text


async def test_what_waits_for_a_person_leads_there(visitor, memory, embedder):
    embedder.problem = "the weights are missing"
    await memory.store_note("Mira likes tea")
    await visitor.open("/console")
    assert "All is well" not in visitor.text
    assert "1 memory without a vector" in visitor.text
    assert "the weights are missing" in visitor.text
    assert "<code>tulving health</code> on the server" in visitor.page


@pytest.mark.parametrize(
    ("state", "said"),
    [("failed", "The job decay_sweep failed"), ("ok", "")],
)
async def test_a_job_that_failed_is_a_concern(memory, state, said):
    jobs = [JobState("decay_sweep", state, None, None)]
    concerns = [each.text for each in _concerns(await memory.overview(), Readiness("ready", []), jobs)]
    assert [each for each in concerns if said and said in each] == concerns
    assert bool(concerns) == bool(said)


async def test_a_job_that_never_ran_does_not_seem_to_wait_for_something(visitor, monkeypatch, clock):
    async def jobs(memory: Memory) -> list[JobState]:
        return [JobState("decay_sweep", "waiting", None, clock() + timedelta(hours=6))]

    monkeypatch.setattr(Memory, "jobs", jobs)
    await visitor.open("/console")
    row = next(each.text for each in visitor.tree.all("tr") if "Decay sweep" in each.text)
    assert "never ran" in row and "waiting" not in row


async def test_the_tokens_of_a_day_are_a_concern_before_they_are_spent(memory):
    counts = await memory.overview()
    most = MemoryModuleConfig().llm.tokens_per_day
    for spent, is_told in ((0.79, False), (0.81, True)):
        counts.learning["tokens_today"] = int(most * spent)
        concerns = [each.text for each in _concerns(counts, Readiness("ready", []), None)]
        assert any("tokens of today" in each for each in concerns) == is_told
    counts.learning.update(tokens_today=0, tokens_per_day=0)
    assert not [*_concerns(counts, Readiness("ready", []), None)], "learning is switched off"


async def test_a_reader_sees_their_own_tenant_only(entered, memory):
    await memory.store_fact("Mira", "home", "Timbuktu")
    other = await entered("read", tenant="other")
    await other.open("/console")
    assert "Timbuktu" not in other.text
    assert "Nothing is remembered yet" in other.text


@pytest.mark.usefixtures("path")
async def test_it_looks_as_it_should(browser):
    memory = browser.memory
    await memory.store_fact("Mira", "home", "Lisbon")
    await memory.store_fact("tea", "colour", "green", permanence="ephemeral", confidence=0.25)
    await browser.open("/console")
    await browser.page.wait_for_selector(".uplot canvas")
    assert await browser.page.locator(".uplot").count() == 2
    assert await browser.barriers() == []
    await browser.theme("dark")
    await browser.page.locator(".u-over").first.hover(position={"x": 20, "y": 20})
    assert "Episodes" in await browser.page.locator(".chart-tip:visible").inner_text()
    assert await browser.barriers() == []
    await browser.page.set_viewport_size({"width": 360, "height": 740})
    assert await browser.overflow() == 0
    await browser.pictures("overview")


async def test_it_follows_what_happens_with_its_charts(browser):
    await browser.memory.store_rule("pour slowly")
    await browser.open("/console")
    await browser.page.wait_for_selector(".uplot canvas")
    await browser.memory.store_fact("tea", "price", "high", permanence="ephemeral", confidence=0.25)
    await browser.page.wait_for_selector("text=tea · price")
    await browser.page.wait_for_function("document.querySelectorAll('.uplot canvas').length === 2")
