"""What people do in a real browser: what they are shown before, what the page says afterwards, and what has become of
the memory."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from console_parts import Browser
from http_parts import bearer, new_token
from learned_parts import consolidate, fact
from playwright.async_api import Locator, expect

from tulving import Memory
from tulving.bootstrap import utc_now
from tulving.settings import ConflictsConfig
from tulving.testing import ManualClock
from tulving.workers.jobs import JOBS
from tulving.workers.schedule import Schedule
from tulving.workers.scheduler import Scheduler

ONE_ENGINE = pytest.mark.usefixtures("path")
TEA, NO_TEA = "Anna drinks green tea in the morning", "Anna does not drink green tea in the morning"


async def contents(memory: Memory) -> list[str]:
    """The facts that are in use."""
    return sorted(each.content for each in await memory.list_memories("fact"))


async def says(browser: Browser, text: str | re.Pattern[str]) -> None:
    """What the page says after an act."""
    await expect(browser.page.get_by_role("status").filter(has_text=text)).to_be_visible()


async def act(browser: Browser, button: Locator, question: str, same: Callable[[], Awaitable[Any]]) -> None:
    """Press a button that asks first: who cancels has changed nothing, who then agrees has."""
    dialog, before = browser.page.get_by_role("dialog", name=question), await same()
    for answer in ("Cancel", await button.inner_text()):
        await button.click()
        await dialog.get_by_role("button", name=answer, exact=True).click()
        if answer == "Cancel":
            await expect(dialog).to_have_count(0)
            assert await same() == before


def part(browser: Browser, name: str) -> Locator:
    """The section under a heading."""
    heading = browser.page.get_by_role("heading", name=name, exact=True)
    return browser.page.locator("section, article").filter(has=heading)


async def test_a_run_is_undone_after_a_look_at_what_that_does(browser):
    memory, page = browser.memory, browser.page
    await memory.store_fact("Anna", "drink", "green tea", scope="chef")
    new = [fact("Anna", "drink", "black tea"), fact("Anna", "pet", "a cat"), fact("Anna", "car", "a van")]
    run = await consolidate(memory, "Anna told about her cat", new_facts=new)
    [car] = [each for each in await memory.list_memories("fact") if each.content == "a van"]
    await memory.edit("fact", car.id, "an old van")
    learned = await contents(memory)
    await browser.open("/console/runs")
    await page.get_by_role("link", name="Learning from episodes").click()
    await browser.follow("Undo …")
    told = part(browser, "Undo this run?")
    for shown in (
        "would be taken out of use",
        "black tea",
        "a cat",
        "as they were before",
        "green tea",
        "edited since",
    ):
        await expect(told).to_contain_text(shown)
    await browser.follow("Leave it")
    assert await contents(memory) == learned
    await browser.follow("Undo …")
    await browser.press("Undo this run")
    await says(browser, "Undone: 2 retracted, 1 restored. 1 left as they are.")
    assert await contents(memory) == ["an old van", "green tea"]
    [report] = await memory.runs()
    assert (report.run.id, report.run.status) == (run, "undone")
    await expect(page.get_by_role("link", name="Undo …")).to_have_count(0)


async def test_a_conflict_is_settled_and_taken_back(browser):
    memory, page = browser.memory, browser.page
    memory._env.config = replace(memory._env.config, conflicts=ConflictsConfig(review_below=1.0))
    await memory.store_note(TEA)
    await memory.store_note(NO_TEA)
    await browser.open("/console/conflicts?status=held")
    await expect(page.locator("article mark")).to_have_text(["drinks", "does not drink"])
    await browser.press("Accept")
    await says(browser, "Settled: the new note won.")
    await expect(page.locator("main")).to_contain_text("Nothing waits for you")
    assert await contents(memory) == [NO_TEA]
    await browser.follow("Settled")
    await page.locator("article h2 a").click()
    await expect(page.locator(".side-won")).to_contain_text(NO_TEA)
    button = page.locator("article").get_by_role("button", name="Take it back")
    await act(browser, button, "Put both notes back into use?", lambda: contents(memory))
    await says(browser, "Taken back: both notes are in use again.")
    assert await contents(memory) == [NO_TEA, TEA]
    [report] = await memory.conflicts()
    assert report.settlement.status == "reverted"


async def test_two_entities_become_one_after_a_look_at_what_that_does(browser):
    memory, page = browser.memory, browser.page
    mira, other = [
        (await memory.create_entity(name, "person", aliases=[alias])).entity_id
        for name, alias in (("Mira Santos", "Mira"), ("M. Santos", "Mimi"))
    ]
    await memory.store_fact("Mira", "home", "Lisbon", entity_id=mira)
    await memory.store_fact("M. Santos", "home", "Porto", entity_id=other, confidence=0.5)
    await memory.store_fact("M. Santos", "drink", "tea", entity_id=other)

    async def of_mira() -> list[str]:
        known = await memory.list_memories("fact")
        return sorted(each.content for each in known if each.entity_id == mira)

    await browser.open(f"/console/entities/{other}")
    await browser.follow("Merge into another…")
    await page.get_by_role("searchbox", name="Merge into").fill("mira")
    await browser.press("Find")
    await browser.follow("Mira Santos")
    told = page.locator("main")
    for shown in ("2 facts of M. Santos", "would also be called M. Santos, Mimi", "1 fact would be superseded", "tea"):
        await expect(told).to_contain_text(shown)
    question = "Merge M. Santos into Mira Santos? This can't be undone."
    await act(browser, page.get_by_role("button", name="Merge them"), question, of_mira)
    await says(browser, "Merged: 1 fact moved here, 1 superseded.")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Mira Santos")
    assert await of_mira() == ["Lisbon", "tea"]
    assert (await memory.get_entity(other)).merged_into == mira
    await browser.open(f"/console/entities/{other}")
    await expect(told).to_contain_text("It was merged into Mira Santos")


async def test_memories_are_forgotten_with_what_came_of_them_or_deleted(browser):
    memory, page = browser.memory, browser.page
    said = await memory.store_episode("I like tea and I hate coffee", butler="home", source="Mira")
    for predicate, content in (("drink", "likes tea"), ("dislike", "hates coffee")):
        stored = await memory.store_fact("Mira", predicate, content, source_episode_id=said.id)
        await memory.create_link("fact", stored.id, "episode", said.id, "derived_from")
    kept = await memory.store_fact("Mira", "home", "Lisbon")

    async def in_use() -> list[str]:
        return [*await contents(memory), str((await memory.look("episode", said.id)).forgotten)]

    await browser.open(f"/console/memory/episode/{said.id}")
    await page.get_by_text("Remove it").click()
    removal = page.locator("details", has=page.get_by_text("Remove it"))
    for shown in ("Forget with what was learned from it alone", "likes tea", "hates coffee"):
        await expect(removal).to_contain_text(shown)
    question = "Forget this episode and 2 learned from it alone? They can't be brought back."
    await act(browser, removal.get_by_role("button", name="Forget it and these 2"), question, in_use)
    await says(browser, "Forgotten, and 2 memories that came from it alone.")
    await expect(page.locator("main")).to_contain_text("It was forgotten: nothing finds it")
    assert await in_use() == ["Lisbon", "True"]

    await browser.open(f"/console/memory/fact/{kept.id}")
    await page.get_by_text("Remove it").click()
    button = removal.get_by_role("button", name="Delete", exact=True)
    await act(browser, button, "Delete this fact for good? This can't be undone.", in_use)
    await says(browser, "Deleted for good.")
    assert await memory.look("fact", kept.id) is None
    browser.forgive("404")
    await browser.open(f"/console/memory/fact/{kept.id}")
    await expect(page.locator("main")).to_contain_text("was deleted on")


@ONE_ENGINE
async def test_a_fact_a_mark_and_a_profile_are_written_by_forms(browser):
    memory, page = browser.memory, browser.page
    await browser.open("/console/facts")
    form = page.locator("#store")
    for field, value in {"Subject": "Mira", "Predicate": "home", "Value": "lives in Porto"}.items():
        await form.get_by_label(field).fill(value)
    await form.get_by_text("More", exact=True).click()
    await form.get_by_label("Tags").fill("people, places")
    await form.get_by_role("button", name="Store fact").click()
    await says(browser, "Stored.")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Mira · home")
    await expect(page.get_by_role("link", name="lives in Porto")).to_be_visible()
    [stored] = await memory.list_memories("fact")
    assert (stored.subject, stored.predicate, stored.content) == ("Mira", "home", "lives in Porto")
    assert list(stored.tags) == ["people", "places"]

    rule = await memory.store_rule("Run the tests before deploying")
    await browser.open("/console/rules")
    await browser.press("Helpful")
    await says(browser, "Marked as helpful. It is a candidate now, with an effectiveness of 100%.")
    await page.get_by_text("Harmful…").click()
    await page.get_by_label("What went wrong?").fill("it took an hour")
    await browser.press("Mark as harmful")
    await says(browser, "Marked as harmful. It is a candidate now")
    await expect(page.locator(".judged")).to_contain_text("1 helpful, 1 harmful")
    marked = await memory.look("rule", rule.id)
    assert (marked.success_count, marked.harmful_count) == (1, 1)
    assert list(marked.metadata["harmful_reasons"]) == ["it took an hour"]

    await browser.open("/console/profile?user=mira")
    work = part(browser, "Work")
    for text in ("Leads the booking team.", "Leads two teams."):
        await work.get_by_text("Edit", exact=True).click()
        await work.get_by_label("Work").fill(text)
        await work.get_by_role("button", name="Save work").click()
        await says(browser, "Work is saved.")
        await expect(work.locator("p.prose")).to_have_text(text)
        assert (await memory.profile_block("work", user_id="mira")).content == text
    await expect(page.locator(".prompted")).to_contain_text("Leads two teams.")


@ONE_ENGINE
async def test_a_token_is_revoked_and_a_job_run_now(browser):
    memory, page = browser.memory, browser.page
    secret = await new_token(memory, name="laptop")
    async with httpx2.AsyncClient(base_url=browser.service.base, headers=bearer(secret)) as agent:

        async def answered() -> int:
            return (await agent.get("/v1/health")).status_code

        assert await answered() == 200
        await browser.open(f"/console/tokens?tenant={browser.tenant}")
        row = page.get_by_role("row").filter(has_text="laptop")
        question = (
            f"Revoke the token “laptop” of {browser.tenant}? Its next request is refused, and that can't be undone."
        )
        await act(browser, row.get_by_role("button", name="Revoke"), question, answered)
        await says(browser, "Revoked laptop. Its next request is refused.")
        await expect(row).to_contain_text("revoked")
        await expect(row.get_by_role("button", name="Revoke")).to_have_count(0)
        assert await answered() == 401

    long_ago = browser.service.memory(browser.tenant, clock=ManualClock(utc_now() - timedelta(days=400)))
    old = await long_ago.store_fact("Mira", "mood", "cheerful", permanence="ephemeral")
    env = browser.service.administration._env
    scheduler = Scheduler(
        Schedule(env.store, env.clock, "a worker", env.config.schedule), browser.service.administration, JOBS
    )

    async def planned() -> Any:
        return (await scheduler.schedule.entries()).get("decay_sweep")

    await browser.open("/console/workers")
    button = part(browser, "Decay sweep").get_by_role("button", name="Run now")
    await act(browser, button, "Run decay sweep now, for all tenants?", planned)
    # The server has a worker too, which may have begun by the time that the page is made.
    await says(browser, re.compile("Requested decay sweep; the next worker runs it.|Decay sweep is running"))
    async with asyncio.timeout(20):
        while (await memory.look("fact", old.id)).validity == "active":
            await scheduler.look()
            await asyncio.sleep(0.05)
    # No event tells that a job has ended: the page asks until it has.
    await expect(part(browser, "Decay sweep")).to_contain_text("just now")
