"""A stranger finds a wrong fact, sees where it came from, corrects it, and sees the correction take effect."""

import re

import httpx2
from playwright.async_api import expect

QUESTION = "When is Jon's birthday?"


async def test_a_stranger_corrects_a_wrong_fact(browser):
    await browser.service.tell_the_story(browser.tenant)
    page = browser.page
    await browser.log_in()
    await browser.open("/")
    await page.get_by_role("navigation", name="Pages").get_by_role("link", name="Ask", exact=True).click()
    await page.get_by_label("Question").fill(QUESTION)
    await page.keyboard.press("Enter")
    await page.get_by_role("link", name=re.compile("12 March")).first.click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Jon · birthday")

    source = page.get_by_role("link", name=re.compile("my birthday is on the 21st of March")).first
    await expect(source).to_be_visible()
    await browser.pictures("journey")
    await source.click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Jon said")
    await page.go_back()

    await page.get_by_text("It was wrong", exact=True).click()
    text = page.get_by_label("What it should say")
    await expect(text).to_have_value("has his birthday on 12 March")
    await text.fill("has his birthday on 21 March")
    await page.get_by_role("button", name="Save the correction").click()
    await expect(page.get_by_text("Corrected.")).to_be_visible()
    await expect(page.locator("main")).to_contain_text("has his birthday on 21 March")

    await page.get_by_role("link", name=re.compile("Ask again")).click()
    answers = page.locator("main")
    await expect(answers.get_by_role("link", name=re.compile("21 March")).first).to_be_visible()
    await expect(answers.get_by_role("link", name=re.compile("12 March"))).to_have_count(0)
    # What an agent is told from now on.
    async with httpx2.AsyncClient(base_url=browser.service.base) as agent:
        asked = {"query": QUESTION}
        told = await agent.post("/v1/search", json=asked, headers={"authorization": f"Bearer {browser.secret}"})
    assert told.status_code == 200, told.text
    assert "21 March" in told.text
    assert "12 March" not in told.text
