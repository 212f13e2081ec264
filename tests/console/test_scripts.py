"""What the scripts add: keys, the theme, copying, questions in a dialog, and pages that keep themselves up to date."""

import asyncio

import httpx2
import pytest
from administration import administer
from playwright.async_api import Route, expect

from tulving.bootstrap import new_secret

ONE_ENGINE = pytest.mark.usefixtures("path")


FOLLOWED = "document.querySelector('main').dataset.live = 'all'"
SEEN = """(isSeen) => {
    Object.defineProperty(document, "hidden", { value: !isSeen, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


async def here(browser) -> str:
    return browser.page.url.removeprefix(browser.service.base)


@ONE_ENGINE
async def test_keys_lead_to_the_pages(browser):
    await browser.open("/console")
    keys = await browser.page.locator(".side [data-key]").evaluate_all(
        "links => links.map(each => [each.dataset.key, each.getAttribute('href')])"
    )
    assert len({key for key, _ in keys}) == len(keys)
    for key, path in keys:
        await browser.page.keyboard.press("Escape")  # Ask begins in its field
        await browser.page.keyboard.press("g")
        async with browser.page.expect_navigation():
            await browser.page.keyboard.press(key)
        assert await here(browser) == path


@ONE_ENGINE
async def test_keys_do_nothing_while_somebody_types_or_with_modifiers(browser):
    await browser.open("/console")
    await browser.page.evaluate(
        """() => document.querySelector("main").insertAdjacentHTML("beforeend",
            '<input id="field"><textarea id="text"></textarea><div id="free" contenteditable>x</div>')"""
    )
    for field in ("#field", "#text", "#free"):
        await browser.page.locator(field).focus()
        await browser.page.keyboard.type("?go/jk")
    await browser.page.locator("main").focus()
    for keys in ("Control+/", "Alt+?", "Meta+?", "Control+g"):
        await browser.page.keyboard.press(keys)
    await browser.page.keyboard.press("o")
    assert await browser.page.locator("dialog").count() == 0
    assert await browser.page.locator("#field").input_value() == "?go/jk"
    assert await here(browser) == "/console"


@ONE_ENGINE
async def test_the_keys_are_explained(browser):
    await browser.open("/console")
    await browser.page.keyboard.press("?")
    shown = browser.page.get_by_role("dialog", name="Keys")
    await expect(shown).to_contain_text("Overview")
    await expect(shown.get_by_role("button", name="Close")).to_be_focused()
    assert await browser.barriers() == []
    await browser.page.keyboard.press("g")
    await browser.page.keyboard.press("o")
    await expect(shown).to_be_visible()
    await browser.page.keyboard.press("Escape")
    await expect(shown).to_have_count(0)
    await browser.press("Keys")
    await expect(shown).to_contain_text("Overview")


@ONE_ENGINE
async def test_entries_of_a_list_are_walked_and_acted_on_by_keys(browser):
    await browser.open("/console")
    await browser.page.evaluate(
        """() => {
            const item = (number) => `<li data-item><a href="#${number}">${number}</a>
                <button type="button" data-press="a" id="accept-${number}">Accept</button></li>`;
            document.querySelector("main").insertAdjacentHTML("beforeend", `<ul>${[1, 2, 3].map(item).join("")}</ul>`);
            window.pressed = [];
            document.addEventListener("click", (event) => event.target.id && window.pressed.push(event.target.id));
        }"""
    )
    items = browser.page.locator("[data-item]")
    for key, number in (("j", 0), ("j", 1), ("j", 2), ("j", 2), ("k", 1)):
        await browser.page.keyboard.press(key)
        await expect(items.nth(number)).to_be_focused()
    await browser.page.keyboard.press("a")
    await browser.page.evaluate("document.activeElement.blur()")
    await browser.page.keyboard.press("a")
    assert await browser.page.evaluate("window.pressed") == ["accept-2", "accept-1"]


@ONE_ENGINE
async def test_every_list_is_walked_and_its_entries_opened_by_keys(browser):
    await browser.service.tell_the_story(browser.tenant)
    for path, leads_to in (
        ("/console/ask?q=Jon", "/console/memory/"),
        ("/console/timeline", "/console/memory/episode/"),
        ("/console/facts", "/console/memory/fact/"),
        ("/console/facts?tab=notes", "/console/memory/fact/"),
        ("/console/entities", "/console/entities/"),
        ("/console/rules", "/console/memory/rule/"),
        ("/console/conflicts", "/console/conflicts/"),
        ("/console/runs", "/console/runs/"),
    ):
        await browser.open(path)
        await browser.page.keyboard.press("j")
        await browser.page.keyboard.press("j")
        async with browser.page.expect_navigation():
            await browser.page.keyboard.press("Enter")
        assert (await here(browser)).startswith(leads_to), path


@ONE_ENGINE
async def test_the_theme_changes_without_a_new_page_and_is_kept(browser):
    await browser.open("/console")
    await browser.page.evaluate("window.stayed = true")
    await browser.press("Dark theme")
    assert await browser.page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert await browser.page.evaluate("window.stayed")
    await expect(browser.page.get_by_role("button", name="Light theme").first).to_be_visible()
    named = {cookie["name"].rsplit("_", 1)[0]: cookie["value"] for cookie in await browser.context.cookies()}
    while "tulving_theme" not in named:
        await asyncio.sleep(0.05)
        named = {cookie["name"].rsplit("_", 1)[0]: cookie["value"] for cookie in await browser.context.cookies()}
    assert named["tulving_theme"] == "dark"
    await browser.open("/console")
    assert await browser.page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert await browser.page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"


@ONE_ENGINE
async def test_the_theme_follows_the_system_until_it_is_chosen(browser):
    await browser.theme("dark")
    await browser.open("/console")
    dark = await browser.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    await browser.press("Light theme")
    light = await browser.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert dark != light


@ONE_ENGINE
async def test_an_act_asks_in_a_dialog(browser):
    sent = []
    await browser.open("/console")
    browser.page.on("request", lambda request: sent.append(request.method) if request.method == "POST" else None)
    await browser.page.evaluate(
        """() => {
            const token = document.querySelector("meta[name=form-token]").content;
            document.querySelector("main").insertAdjacentHTML("beforeend",
                `<form method="post" action="/console/theme" data-ask="Really?"><input type="hidden" name="_token"
                value="${token}"><button name="theme" value="dark">Make it dark</button></form>
                <form method="post" action="/console/theme"><button name="_ask" value="Surely?">Other</button></form>`);
        }"""
    )
    await browser.press("Other")
    await browser.page.get_by_role("dialog", name="Surely?").get_by_role("button", name="Cancel").click()
    await browser.press("Make it dark")
    shown = browser.page.get_by_role("dialog", name="Really?")
    await expect(shown.get_by_role("button", name="Cancel")).to_be_focused()
    await browser.page.keyboard.press("Escape")
    await expect(shown).to_have_count(0)
    assert sent == []
    await browser.press("Make it dark")
    async with browser.page.expect_navigation():
        await shown.get_by_role("button", name="Make it dark").click()
    assert sent == ["POST"]
    assert await browser.page.evaluate("document.documentElement.dataset.theme") == "dark"


@ONE_ENGINE
async def test_a_text_is_copied(browser):
    await browser.open("/console")
    await browser.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await browser.page.evaluate(
        """() => document.querySelector("main").insertAdjacentHTML("beforeend",
            '<div class="copyable"><pre><code>one &lt;two&gt;</code></pre><button data-copy>Copy</button></div>')"""
    )
    await browser.press("Copy")
    await expect(browser.page.get_by_role("button", name="Copied")).to_be_visible()
    assert await browser.page.evaluate("navigator.clipboard.readText()") == "one <two>"


async def follow(browser) -> None:
    """Let the whole content of a page be kept up to date, besides the blocks that are."""
    await browser.open("/console")
    await browser.page.evaluate(FOLLOWED)
    await expect(browser.page.locator("[data-live-mark].is-live")).to_have_text("live")


async def store(browser, content: str) -> None:
    """By another process than the test's, as an agent does."""
    async with httpx2.AsyncClient(base_url=browser.service.base) as web:
        headers = {"authorization": f"Bearer {browser.secret}"}
        answer = await web.post(
            "/v1/facts", json={"subject": "a", "predicate": content, "content": content}, headers=headers
        )
        assert answer.status_code == 201, answer.text


async def test_a_page_shows_what_happens_elsewhere(browser):
    await follow(browser)
    before = await browser.text()
    await store(browser, "first")
    await expect(browser.page.locator("main")).not_to_have_text(before, use_inner_text=True)
    assert await browser.page.evaluate("document.getElementById('content').isConnected")


@ONE_ENGINE
async def test_an_entry_keeps_the_focus_when_the_list_changes(browser):
    await browser.memory.create_entity("Mira", "person")
    await browser.open("/console/entities")
    await expect(browser.page.locator("[data-live-mark].is-live")).to_have_text("live")
    await browser.page.keyboard.press("j")
    await browser.memory.create_entity("Jon", "person")
    await expect(browser.page.locator("[data-item]")).to_have_count(2)
    await expect(browser.page.locator("[data-item]").filter(has_text="Mira")).to_be_focused()


@ONE_ENGINE
async def test_what_is_read_stays_where_it_is_when_something_is_added_above(browser):
    for number in range(30):
        await browser.memory.store_episode(f"It is cup {number}", butler="home")
    await browser.open("/console/timeline")
    await expect(browser.page.locator("[data-live-mark].is-live")).to_have_text("live")
    read = browser.page.get_by_role("link", name="It is cup 9", exact=True)
    await read.evaluate("link => scrollTo(0, link.getBoundingClientRect().top - 100)")
    top = "link => link.getBoundingClientRect().top"
    before = await read.evaluate(top)
    await browser.memory.store_episode("Something new", butler="home")
    await expect(browser.page.locator("[data-item]")).to_have_count(31)
    assert abs(await read.evaluate(top) - before) < 2


@ONE_ENGINE
async def test_what_is_open_stays_open_when_something_is_added_above(browser):
    await browser.memory.store_rule("Pour slowly")
    await browser.open("/console/rules")
    await expect(browser.page.locator("[data-live-mark].is-live")).to_have_text("live")
    entries = browser.page.locator("[data-item]")
    await entries.get_by_text("Harmful…").click()
    await browser.memory.store_rule("Ask first")
    await expect(entries).to_have_count(2)
    await expect(entries.filter(has_text="Pour slowly").locator("details")).to_have_attribute("open", "")
    await expect(entries.filter(has_text="Ask first").locator("details")).not_to_have_attribute("open", "")


@ONE_ENGINE
async def test_a_mark_is_seen_without_asking_for_it(browser):
    rule = await browser.memory.store_rule("Pour slowly")
    await browser.open("/console/rules")
    await expect(browser.page.locator("[data-live-mark].is-live")).to_have_text("live")
    await browser.memory.mark_helpful(rule.id)
    await expect(browser.page.locator("main")).to_contain_text("1 helpful")


@ONE_ENGINE
async def test_a_memory_shows_what_becomes_of_it_elsewhere_unless_it_is_being_corrected(browser):
    made = await browser.memory.store_fact("Anna", "city", "Porto")
    main = browser.page.locator("main")
    await browser.open(f"/console/memory/fact/{made.id}")
    await expect(browser.page.locator("[data-live-mark].is-live")).to_have_text("live")
    await browser.memory.edit("fact", made.id, content="Braga")
    await expect(browser.page.locator("#now .says")).to_have_text("Braga")
    await browser.page.get_by_text("It was wrong").click()
    await browser.page.locator("[name=content]").fill("Coimbra")
    await browser.page.evaluate("document.activeElement.blur()")
    await browser.memory.store_fact("Anna", "city", "Faro")
    await expect(browser.page.locator("#state")).to_contain_text("superseded")
    await expect(main.locator("[name=content]")).to_have_value("Coimbra")


@ONE_ENGINE
async def test_a_field_in_which_somebody_types_is_left_alone(browser):
    await follow(browser)
    await browser.page.evaluate(
        """() => document.querySelector("main").insertAdjacentHTML("beforeend", '<input id="mine">')"""
    )
    await browser.page.locator("#mine").fill("half a wor")
    await store(browser, "second")
    await browser.page.wait_for_timeout(1_000)
    assert await browser.page.locator("#mine").input_value() == "half a wor"
    await browser.page.evaluate("document.activeElement.blur()")
    await expect(browser.page.locator("#mine")).to_have_count(0)


@ONE_ENGINE
async def test_a_page_that_is_not_looked_at_rests_and_misses_nothing(browser):
    await follow(browser)
    before = await browser.text()
    await store(browser, "third")
    await expect(browser.page.locator("main")).not_to_have_text(before, use_inner_text=True)
    await browser.page.evaluate(SEEN, False)
    await expect(browser.page.locator("[data-live-mark]")).to_have_text("not live")
    before = await browser.text()
    await store(browser, "fourth")
    await browser.page.evaluate(FOLLOWED)
    async with browser.page.expect_request(lambda request: "/console/live" in request.url and "after=" in request.url):
        await browser.page.evaluate(SEEN, True)
    await expect(browser.page.locator("[data-live-mark]")).to_have_text("live")
    await expect(browser.page.locator("main")).not_to_have_text(before, use_inner_text=True)


@ONE_ENGINE
async def test_a_server_that_refuses_is_asked_less_and_less_often(browser):
    browser.forgive("503")
    asked: list[str] = []

    async def refuse(route: Route) -> None:
        asked.append(route.request.url)
        await route.fulfill(status=503)

    await browser.page.clock.install()
    await follow(browser)
    before = await browser.text()
    await browser.page.route(browser.page.url, refuse)
    await store(browser, "fifth")
    while not asked:
        await browser.page.clock.run_for(1_000)
    for _ in range(20):
        await browser.page.clock.run_for(3_000)
    assert 3 <= len(asked) <= 7, "not twenty times in this minute"
    await browser.page.unroute(browser.page.url, refuse)
    await browser.page.clock.run_for(30_000)
    await expect(browser.page.locator("main")).not_to_have_text(before, use_inner_text=True)


@pytest.mark.parametrize("headers", [{}, {"cookie": "tulving_access_8321=tulving_wrong"}])
async def test_the_stream_is_for_those_who_are_logged_in(stranger, headers):
    await stranger.send("GET", "/console/live", headers=headers)
    assert stranger.status == 401
    assert stranger.response.headers["content-security-policy"]


@ONE_ENGINE
async def test_the_stream_is_for_pages_of_the_console(visitor, stranger, memory):
    await visitor.send("GET", "/console/live", headers={"sec-fetch-site": "same-site"})
    assert visitor.status == 403
    secret = new_secret()
    await administer(memory).create_token(secret, rights=["write"])
    await stranger.send("GET", "/console/live", headers={"authorization": f"Bearer {secret}"})
    assert stranger.status == 403
    await visitor.send("GET", "/console/live?after=nonsense")
    assert visitor.status == 422
