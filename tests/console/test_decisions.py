"""Deciding in a real browser, with dialogs and keys."""

from dataclasses import replace

from console_parts import Browser
from learned_parts import consolidate, fact

from tulving import Memory
from tulving.settings import ConflictsConfig, LearningConfig

LONG = "https://example.org/" + "a" * 120


async def story(memory: Memory) -> str:
    """A memory with something on each page; the run of a model in it."""
    env = memory._env
    env.config = replace(
        env.config, conflicts=ConflictsConfig(review_below=0.9), learning=LearningConfig(review_rules=True)
    )
    await memory.store_note("Anna drinks green tea in the morning")
    await memory.store_note("Anna does not drink green tea in the morning")
    await memory.store_note("The workshop in the harbour is closed on Mondays and Tuesdays, also in summer")
    second = await memory.store_note(
        "The workshop in the harbour is not closed on Mondays and Tuesdays, also in summer"
    )
    if second.conflict is not None:
        await memory.accept_conflict(second.conflict.id)
    await memory.store_fact("Anna", "drink", "green tea", scope="chef")
    rules = [{"content": f"Ask Anna before {act}"} for act in ("booking a train", "sending an invoice", LONG)]
    new = [fact("Anna", "drink", "black tea with a little milk"), fact("Anna", "pet", "a cat called Countess")]
    told = ("Anna told about her cat. She calls it Countess.", "Anna wants to be asked before anything is booked")
    return str(await consolidate(memory, *told, new_facts=new, new_rules=rules))


async def test_a_queue_is_worked_off_by_keys(browser: Browser):
    await story(browser.memory)
    await browser.open("/console/review")
    keys = browser.page.keyboard
    await keys.press("j")
    await keys.press("x")
    await keys.press("j")
    await keys.press("a")
    await browser.page.get_by_text("1 accepted.").wait_for()
    await browser.page.wait_for_load_state("load")
    assert len(await browser.memory.proposals()) == 2
    await keys.press("j")
    await keys.press("r")
    await browser.page.get_by_role("dialog").get_by_role("button", name="Reject").click()
    await browser.page.get_by_text("1 rejected.").wait_for()
    assert len(await browser.memory.proposals()) == 1


async def test_a_question_is_asked_in_a_dialog(browser: Browser):
    await story(browser.memory)
    await browser.open("/console/conflicts?status=held")
    await browser.press("Keep both")
    await browser.page.get_by_role("dialog").get_by_role("button", name="Keep both").click()
    await browser.page.get_by_text("Both notes stay in use.").wait_for()
    assert [each.settlement.status for each in await browser.memory.conflicts()].count("dismissed") == 1


async def test_a_token_is_made_and_copied(browser: Browser):
    await browser.open("/console/tokens")
    await browser.page.get_by_text("Create a token", exact=True).click()
    await browser.page.locator("input[name=name]").fill("laptop")
    await browser.press("Create the token")
    await browser.page.get_by_role("button", name="Copy").wait_for()
    await browser.pictures("tokens-made")
    assert await browser.barriers() == []
    await browser.follow("Done")
    assert "laptop" in await browser.text()
