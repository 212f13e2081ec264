"""Every page as people have it before them: in both themes, narrow and wide, by keyboard, and read aloud."""

import re
from itertools import pairwise

import pytest
import pytest_asyncio
from console_parts import NARROW, WIDE, Visitor
from crawling import crawl

ONE_ENGINE = pytest.mark.usefixtures("path")
SIZES = (NARROW, {"width": 768, "height": 1000}, {"width": 1600, "height": 1000})


@pytest.fixture(scope="module")
def tenant(service) -> str:
    """What is written here once is only read by the tests."""
    return service.new_tenant()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def addresses(service, tenant) -> list[str]:
    """One address of each page, in the story of the demo."""
    await service.tell_the_story(tenant)
    learned = (await service.memory(tenant).search("Jon birthday", ["fact"], limit=1))[0].item
    reader = Visitor(None, service.base)
    async with reader.web:
        await reader.log_in(await service.token(tenant))
        found = await crawl(reader, most=1, more=[f"/console/memory/fact/{learned.id}"])
    return [first for first, *_ in found.values()]


def name_of(address: str) -> str:
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]+|[^a-z]+", "-", address.removeprefix("/console")).strip("-") or "overview"


@ONE_ENGINE
@pytest.mark.timeout(300)
async def test_every_page_can_be_read_by_everybody(browser, addresses):
    """axe-core finds nothing serious in either theme, and no page is wider than its window."""
    found = []
    for address in addresses:
        await browser.open(address)
        await browser.pictures(name_of(address))
        for theme, rules in (("light", ()), ("dark", ("color-contrast",))):  # in which nothing but colours differs
            await browser.theme(theme)
            found += [f"{theme}: {barrier}" for barrier in await browser.barriers(*rules)]
        for size in SIZES:
            await browser.page.set_viewport_size(size)
            if wider := await browser.overflow():
                found.append(f"{address} is {wider} px too wide at {size['width']}")
        await browser.page.set_viewport_size(WIDE)
    assert not found, "\n".join(found)


@ONE_ENGINE
async def test_the_form_for_a_token_can_be_read_by_everybody(browser):
    await browser.context.clear_cookies()
    await browser.open("/console/login")
    await browser.pictures("login")
    for theme in ("light", "dark"):
        await browser.theme(theme)
        assert await browser.barriers() == []
    await browser.page.set_viewport_size(NARROW)
    assert await browser.overflow() == 0


@ONE_ENGINE
async def test_every_page_is_walked_by_keyboard_alone(browser, addresses):
    """What has the focus is seen to have it, and the walk leads to all that can be used and around again."""
    for address in addresses:
        await browser.open(address)
        if await browser.page.evaluate("document.activeElement === document.body"):
            await browser.page.keyboard.press("Tab")
            assert await browser.page.evaluate("document.activeElement.className") == "skip", address
        steps, most = 0, await browser.page.evaluate(f"document.querySelectorAll('{USED}').length") * 8
        while (step := await browser.page.evaluate(STEP)) != "again":
            assert step == "", f"{address}: {step}"
            assert steps < most, f"{address}: the walk comes to no end"
            await browser.page.keyboard.press("Tab")
            steps += 1
        assert await browser.page.evaluate(MISSED, USED) == [], address


USED = "a[href], button, input, select, textarea, summary, [tabindex]"
STEP = """() => {
    const at = document.activeElement;
    if (!at || at === document.body || at === window.last) return "";  // a date has several stops
    window.reached ??= new Set();
    if (window.reached.has(at)) return "again";
    window.reached.add(window.last = at);
    const box = at.getBoundingClientRect();
    const style = getComputedStyle(at);
    const isOutlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    if (!isOutlined) return `no outline: ${at.outerHTML.slice(0, 120)}`;
    if (box.width === 0 || box.height === 0) return `not shown: ${at.outerHTML.slice(0, 120)}`;
    return "";
}"""
MISSED = """(used) => [...document.querySelectorAll(used)]
    .filter((each) => each.checkVisibility({visibilityProperty: true}) && !each.disabled && each.tabIndex >= 0)
    .filter((each) => each.type !== "radio" && !window.reached.has(each))
    .map((each) => each.outerHTML.slice(0, 120))"""


@ONE_ENGINE
async def test_headings_are_in_order_and_titles_tell_pages_apart(browser, addresses):
    titles = {}
    async with browser.reader() as reader:
        for address in addresses:
            await reader.open(address)
            levels = [int(each.tag[1]) for each in reader.tree.all("h1", "h2", "h3", "h4", "h5", "h6")]
            assert levels.count(1) == 1, (address, levels)
            skipped = [(a, b) for a, b in pairwise(levels) if b > a + 1]
            assert not skipped and levels[0] == 1, (address, levels)
            titles[address] = reader.tree.one("title").text
            for each in reader.tree.all("th"):
                assert each["scope"] in ("col", "row"), (address, each.text)
            ids = [each["id"] for each in reader.tree.all() if each["id"]]
            assert len(ids) == len(set(ids)), (address, ids)
            for each in reader.tree.all():
                assert "data-live" not in each or each["id"], (address, "a block with data-live needs an id")
    assert len(set(titles.values())) == len(titles), titles
