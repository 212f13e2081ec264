"""Whatever a memory says, a page shows it as text: literally, without doing anything, and without breaking the page."""

import re
from collections import defaultdict

import pytest
from console_parts import NARROW, Visitor
from crawling import READ, crawl, route_of
from hostile import HOSTILE, PROFILE, plant
from html_tree import Element
from playwright.async_api import expect

LINKS = re.compile(r"/console([/?#]|$)|#|\?|https://tulving\b")
ATTRIBUTES = {"href", "src", "action", "formaction", "poster", "xlink:href", "srcset", "data", "hx-get", "hx-post"}
NEVER = {"iframe", "object", "embed", "base", "animate", "img", "style", "frame", "audio", "video"}

WORDS = "q subject predicate kind state cursor tag as_of item session day next scope actor butler view limit".split()


def literal(text: str) -> str:
    return " ".join(text.split())


def dangers(tree: Element) -> list[str]:
    """What a page has in it that no template puts there."""
    found = []
    for each in tree.all():
        if each.tag in NEVER or (each.tag == "script" and not each["src"].startswith("/console/static/")):
            found.append(f"<{each.tag} {each.attributes}>"[:200])
        for name, value in each.attributes.items():
            if name.startswith("on") or name == "style" or name.startswith("hx-on"):
                found.append(f"{each.tag} {name}={value:.80}")
            if name in ATTRIBUTES and value and not LINKS.match(value):
                found.append(f"{each.tag} {name}={value:.80}")
    return found


def assert_harmless(visitor: Visitor) -> None:
    assert dangers(visitor.tree) == [], visitor.path
    assert "1337" not in visitor.tree.one("main").text, f"{visitor.path} computes what a content says"


ALL = {*HOSTILE}
SHOWN = {
    **dict.fromkeys(("/facts", "/review", "/rules", "/runs/{id}", "/runs/{id}/undo", "/timeline"), ALL),
    **dict.fromkeys(("/entities", "/tokens"), ALL - {"control"}),  # which no name may have
    "/conflicts": ALL - {"right to left"},  # of which no two notes contradict each other
    "/profile": {*[*HOSTILE][-len(PROFILE) :]},  # of what was written before, only what has changed
}
"""Which contents stand on a page, or on it and those that follow."""
OF_ONE = {"/memory/{kind}/{id}", "/conflicts/{id}", "/entities/{entity_id}", "/entities/{entity_id}/merge"}
"""Pages of one thing, each of which says what that is."""
LATEST = {"/", "/ask"}
WITHOUT = {"/audit", "/runs", "/settings", "/tenants", "/workers"}
"""Pages of names, numbers and times."""


def shown(text: str) -> set[str]:
    """The contents that can be read literally, or their beginning where they are long."""
    return {name for name, content in HOSTILE.items() if literal(content)[:50] in text}


async def test_every_page_shows_hostile_contents_as_text(visitor, memory):
    planted = await plant(memory)
    assert all({"episode", "fact", "rule", "note", "profile"} <= fields for fields in planted.kept.values())
    seen = defaultdict[str | None, list[str]](list)

    def look():
        assert_harmless(visitor)
        route = route_of(visitor.path)
        seen[route].append(visitor.text)
        assert route not in OF_ONE or shown(visitor.text), visitor.path

    await crawl(visitor, most=8, look=look)
    assert seen.keys() == SHOWN.keys() | OF_ONE | LATEST | WITHOUT
    missing = {route: names - shown("\n".join(seen[route])) for route, names in SHOWN.items()}
    assert not any(missing.values()), missing
    assert all(shown("\n".join(seen[route])) for route in LATEST)


async def test_the_page_of_a_memory_shows_all_that_it_says(visitor, memory):
    planted = await plant(memory)
    for path, text in planted.paths.items():
        await visitor.open(path)
        assert visitor.status == 200
        assert_harmless(visitor)
        said = [visitor.text, *(literal(each.raw_text) for each in visitor.tree.all("textarea", "pre"))]
        assert any(literal(text) in each for each in said), path


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("page", READ, ids=lambda page: page.path)
async def test_hostile_words_in_an_address_are_text_too(visitor, page):
    for name in HOSTILE:
        if "{" in page.path:
            path = re.sub(r"\{[^}]*\}", "x", page.path)
            await visitor.open(f"/console{path}", q=HOSTILE[name])
            assert visitor.status in (422, 404), path
            assert_harmless(visitor)
            continue
        await visitor.open(f"/console{page.path}", **dict.fromkeys(WORDS, HOSTILE[name]))
        assert visitor.status in (200, 422, 404), page.path
        assert_harmless(visitor)
    for word in WORDS:
        if "{" not in page.path:
            await visitor.open(f"/console{page.path}", **{word: HOSTILE["attribute"]})
            assert visitor.status in (200, 422, 404), word
            assert_harmless(visitor)


WIDEST = """() => [...document.querySelectorAll("main *")]
    .filter((each) => each.getBoundingClientRect().right > document.documentElement.clientWidth)
    .slice(0, 4).map((each) => each.outerHTML.slice(0, 160))"""


@pytest.mark.usefixtures("path")
@pytest.mark.timeout(240)
async def test_a_browser_does_nothing_of_what_contents_say(browser):
    """Neither now, nor on pointing at it or going through it by keys; and the page keeps its width."""
    planted = await plant(browser.memory)
    async with browser.reader() as reader:
        pages = await crawl(reader, most=2, more=tuple(planted.paths)[:2])
    await browser.page.set_viewport_size(NARROW)
    for addresses in pages.values():
        for address in addresses:
            await browser.open(address)
            assert await browser.page.evaluate("document.scripts.length") < 10
            assert await browser.overflow() == 0, (address, await browser.page.evaluate(WIDEST))
            for _ in range(8):
                await browser.page.keyboard.press("Tab")


DRAWN = ("script", "attribute", "image", "closing", "htmx", "template")
"""What is drawn at once, so that nothing is so small that it has to be moved."""
NOTED = """() => {
    const told = document.querySelector("[data-graph-told]");
    window.told = new Set();
    new MutationObserver(() => window.told.add(told.textContent)).observe(told, {childList: true, characterData: true});
}"""
CHARTED = """(texts) => {
    const series = texts.map((name) => ({name, values: texts.map((_, at) => at)}));
    const spec = {title: texts[0], x: texts, series, unit: texts[1], marks: [{x: 1, label: texts[0]}]};
    document.querySelector(".chart").dataset.chart = JSON.stringify(spec);
}"""


@pytest.mark.usefixtures("path")
async def test_pointing_at_a_drawing_shows_contents_as_text(browser):
    memory, page = browser.memory, browser.page
    texts = [HOSTILE[name] for name in DRAWN]
    said = await memory.store_episode(texts[0], butler="b")
    facts = [
        await memory.store_fact("user", f"p{number}", text, source_episode_id=said.id)
        for number, text in enumerate(texts[1:])
    ]
    await browser.open(f"/console/memory/episode/{said.id}")
    graph = page.locator(".graph")
    await graph.locator("canvas").first.wait_for()
    await graph.scroll_into_view_if_needed()
    await page.evaluate(NOTED)
    box = await graph.bounding_box()
    for across in range(20, int(box["width"]), 90):
        for down in range(10, int(box["height"]), 25):
            await page.mouse.move(box["x"] + across, box["y"] + down)
    told = "\n".join(await page.evaluate("[...window.told]"))
    assert [text for text in texts if text[:10] not in told] == [], told

    await browser.open(f"/console/memory/fact/{facts[0].id}")
    chart = page.locator(".chart")
    await chart.locator("canvas").wait_for()
    await chart.scroll_into_view_if_needed()
    await page.evaluate(CHARTED, texts)
    tip, plot = chart.locator(".chart-tip"), chart.locator(".u-over")
    box = await plot.bounding_box()
    for across, at in ((5, 0), (box["width"] - 5, len(texts) - 1)):
        await plot.hover(position={"x": across, "y": box["height"] / 2})
        await expect(tip.locator("b")).to_have_text(texts[at])
        await expect(tip.locator("span")).to_have_text([f"{text} {at}" for text in texts])
    assert (
        await page.evaluate("document.querySelectorAll('main script, main img, main iframe, main [onerror]').length")
        == 0
    )
