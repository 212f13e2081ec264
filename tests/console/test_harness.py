"""The visitors themselves: they see what a browser shows, and a fault on a page fails its test."""

import asyncio
import os

import pytest
from html_tree import Tree


async def test_a_visitor_without_scripts_reads_and_goes_about(visitor, memory):
    await memory.store_fact("Anna", "drink", "green tea")
    await visitor.open("/console")
    assert visitor.status == 200
    assert visitor.heading == "Overview"
    assert "/console" in visitor.links("Overview")
    await visitor.press("Dark theme")
    assert visitor.tree.one("html")["data-theme"] == "dark"
    await visitor.press("Log out")
    assert visitor.path.startswith("/console/login")


async def test_a_visitor_with_other_rights_and_tenant(entered):
    reader = await entered("read", tenant="other", name="Rita")
    assert "Rita" in reader.tree.text


@pytest.mark.parametrize("page", ["<p><b>x</p></b>", "<div>", "<p/>", '<a href="x" href="y"></a>', "</p>"])
def test_a_page_that_is_not_well_formed_is_an_error(page):
    with pytest.raises(ValueError):
        Tree(page)


@pytest.mark.usefixtures("path")
async def test_tests_with_a_browser_share_one_process(browser, request):
    """Else each process starts a browser and services of its own."""
    assert request.node.nodeid.endswith("@browser") or "PYTEST_XDIST_WORKER" not in os.environ


async def test_a_browser_shows_the_console(browser):
    await browser.memory.store_fact("Anna", "drink", "green tea")
    await browser.open("/console")
    assert "Overview" in await browser.text()
    assert await browser.overflow() == 0


@pytest.mark.usefixtures("path")
async def test_what_goes_wrong_in_the_browser_is_seen(browser):
    await browser.open("/console")
    await browser.page.evaluate(
        """() => {
            console.error("a word of error");
            document.body.insertAdjacentHTML("beforeend", '<p style="color:red">x</p>');
            fetch("http://127.0.0.2:1/elsewhere").catch(() => {});
            setTimeout(() => { throw new Error("thrown"); });
            setTimeout(() => alert("canary"));
        }"""
    )
    signs = {"a word of error", "Content Security Policy", "127.0.0.2", "thrown", "a dialog: canary"}
    async with asyncio.timeout(20):
        while missing := {sign for sign in signs if not any(sign in fault for fault in browser.faults)}:
            await browser.page.wait_for_timeout(20)
    assert not missing
    with pytest.raises(AssertionError):
        browser.check()
    browser.forgive("")
