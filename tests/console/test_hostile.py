"""Whatever a memory says, a page shows it as text: literally, without doing anything, and without breaking the page."""

import re

import pytest
from console_parts import NARROW, Visitor
from crawling import READ, crawl
from hostile import HOSTILE, plant
from html_tree import Element

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


async def test_every_page_shows_hostile_contents_as_text(visitor, memory):
    planted = await plant(memory)
    assert all({"episode", "fact", "rule", "note", "profile"} <= fields for fields in planted.kept.values())
    seen = []

    def look() -> None:
        assert_harmless(visitor)
        seen.append(visitor.text)

    await crawl(visitor, most=8, look=look)
    everything = "\n".join(seen)
    shown = [name for name, text in HOSTILE.items() if literal(text)[:60] in everything]
    assert len(shown) > len(HOSTILE) / 2, shown


async def test_the_page_of_a_memory_shows_all_that_it_says(visitor, memory):
    planted = await plant(memory)
    for path, text in planted.paths.items():
        await visitor.open(path)
        assert visitor.status == 200
        assert_harmless(visitor)
        shown = [visitor.text, *(literal(each.raw_text) for each in visitor.tree.all("textarea", "pre"))]
        assert any(literal(text) in each for each in shown), path


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
        pages = await crawl(reader, most=3, more=tuple(planted.paths)[:2])
    await browser.page.set_viewport_size(NARROW)
    for addresses in pages.values():
        for address in addresses[:2]:
            await browser.open(address)
            assert await browser.page.evaluate("document.scripts.length") < 10
            assert await browser.overflow() == 0, (address, await browser.page.evaluate(WIDEST))
            for _ in range(8):
                await browser.page.keyboard.press("Tab")
