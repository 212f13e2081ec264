"""What is not seen at once can be read by everybody too: errors, questions, and forms and dialogs that are opened."""

import pytest
from console_parts import NARROW
from playwright.async_api import expect

pytestmark = pytest.mark.usefixtures("path")  # nothing here depends on the engine
LONG = "a-word-that-can-not-be-broken-" * 4
OPEN = """() => {
    let opened = 0;
    const closed = [...document.querySelectorAll("main details:not([open])")].filter((each) => !each.dataset.seen);
    const names = new Set();
    for (const each of closed) {
        if (each.name && names.has(each.name)) continue;  // of those with one name a single one can be open
        names.add(each.name);
        each.open = true;
        each.dataset.seen = "yes";
        opened++;
    }
    return opened;
}"""


async def unreadable(browser, what: str) -> list[str]:
    """What hinders somebody on the page as it is, in either theme, on a narrow screen."""
    found = []
    for theme, rules in (("light", ()), ("dark", ("color-contrast",))):  # in which nothing but colours differs
        await browser.theme(theme)
        found += [f"{theme}: {barrier}" for barrier in await browser.barriers(*rules)]
    if wider := await browser.overflow():
        found.append(f"{browser.page.url} is {wider} px too wide")
    return [f"{what}: {each}" for each in found]


async def test_errors_and_questions(browser):
    """With the frame of the console, and without it."""
    page = browser.page
    browser.forgive("40[04]|422")
    await page.set_viewport_size(NARROW)
    rule = await browser.memory.store_rule(f"Ask {LONG}")
    for path, said in (
        (f"/console/memory/fact/{rule.id}", "There is no fact"),
        (f"/console/memory/{LONG}", LONG[:40]),
        (f"/console/nowhere/{LONG}", "To the overview"),
        (f"/console/facts?cursor={LONG}", "cursor"),
    ):
        await browser.open(path)
        await expect(page.locator("main")).to_contain_text(said)
        assert await unreadable(browser, path) == []
    await page.set_extra_http_headers({"tulving-user": "%FF"})
    await browser.open("/console")
    await expect(page.locator("main")).to_contain_text("is not percent-encoded UTF-8")
    await expect(page.get_by_role("navigation")).to_have_count(0)
    assert await unreadable(browser, "an error for nobody") == []
    await page.set_extra_http_headers({})

    await browser.open(f"/console/memory/rule/{rule.id}")
    await page.get_by_text("Remove it").click()
    await browser.press("Delete")
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    assert await unreadable(browser, "dialog") == []
    await page.keyboard.press("Escape")

    form = page.locator("form", has=page.get_by_role("button", name="Delete", exact=True))
    async with page.expect_navigation():
        await form.evaluate("form => form.submit()")  # as without scripts, whom the server asks on a page
    await expect(page.get_by_role("heading", level=1)).to_have_text("Are you sure?")
    await expect(page.locator("main")).to_contain_text("Delete this rule for good? This can't be undone.")
    assert await unreadable(browser, "question") == []
    await browser.follow("No, go back")
    assert await browser.memory.look("rule", rule.id) is not None


async def test_everything_that_opens_on_a_page(browser):
    memory, page = browser.memory, browser.page
    await page.set_viewport_size(NARROW)
    said = await memory.store_episode(f"I like {LONG}", butler="home")
    fact = await memory.store_fact(LONG, "drink", f"likes {LONG}", source_episode_id=said.id, metadata={LONG: LONG})
    await memory.create_link("fact", fact.id, "episode", said.id, "derived_from")
    rule = await memory.store_rule(f"Serve {LONG}")
    await memory.mark_harmful(rule.id, f"spilled {LONG}")
    entity = (await memory.create_entity("Mira", "person", aliases=[LONG])).entity_id
    for text in ("Leads a team.", f"Leads {LONG}"):
        await memory.set_profile("work", text)
    found, opened = [], 0
    for path in (
        "facts",
        "facts?tab=notes",
        "rules",
        "profile",
        "tokens",
        "entities",
        f"entities/{entity}",
        f"memory/fact/{fact.id}",
        f"memory/rule/{rule.id}",
        f"memory/episode/{said.id}",
    ):
        await browser.open(f"/console/{path}")
        while now := await page.evaluate(OPEN):
            opened += now
            found += await unreadable(browser, path)
    assert opened > 20
    assert not found, "\n".join(found)
