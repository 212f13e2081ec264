"""The profile of a person: whose it is, its blocks with their versions, and what a prompt gets of it."""

import pytest
from console_parts import query_of


@pytest.fixture
async def mira(memory, clock):
    await memory.set_profile("work", "Leads the booking team.", user_id="mira")
    clock.advance(days=1)
    await memory.set_profile("work", "Leads the booking and search teams.", user_id="mira")
    await memory.bind(user_id="mira").store_note("Mira prefers window seats", category="preference")
    clock.advance(days=1)


async def test_an_empty_profile_says_what_it_is(visitor):
    await visitor.open("/console/profile")
    assert "There is no profile here" in visitor.text
    assert "a prompt gets no profile" in visitor.text


async def test_whose_it_is_can_be_chosen(visitor, memory, mira):
    await memory.set_profile("personal", "Has two dogs.", user_id="jon", household_id="home")
    await visitor.open("/console/profile")
    assert "There is no profile here" in visitor.text
    await visitor.follow("mira 1 of 6 blocks")
    assert visitor.heading == "Profile of mira"
    assert "Leads the booking and search teams." in visitor.text and "two dogs" not in visitor.text
    await visitor.press("Show", user="jon", household="home")
    assert visitor.heading == "Profile of jon · household home" and "two dogs" in visitor.text
    await visitor.press("Show", user="jon", household="")
    assert "two dogs" not in visitor.text, "the profile of somebody else"


async def test_versions_are_shown_as_what_changed(visitor, mira):
    await visitor.open("/console/profile?user=mira")
    assert "version 2, written 1 d ago" in visitor.text and "2 versions" in visitor.text
    added = [each.text for each in visitor.tree.all("ins")]
    assert "and search" in " ".join(added)
    assert [each.text for each in visitor.tree.all("del")] != []


async def test_an_earlier_version_is_brought_back(visitor, memory, mira, clock):
    [first, last] = await memory.profile_versions("work", user_id="mira")
    await visitor.open("/console/profile?user=mira")
    clock.advance(hours=1)
    await visitor.press("Back to this version")
    assert "Work is saved." in visitor.text and "3 versions" in visitor.text
    assert [each.content for each in await memory.profile_versions("work", user_id="mira")][1:] == [
        last.content,
        first.content,
    ]


async def test_the_prompt_shows_its_tokens_and_the_budget(visitor, memory, mira):
    await visitor.open("/console/profile?user=mira")
    text = await memory.profile(user_id="mira")
    assert text in visitor.tree.one("pre").raw_text
    assert f"{-(-len(text) // 4)} of 2,000 tokens" in visitor.text
    assert "Mira prefers window seats" in visitor.text


async def test_a_block_is_written_as_it_was_when_it_was_read(visitor, memory, mira, clock):
    await visitor.open("/console/profile?user=mira")
    await visitor.press("Save work", content="Retired.\nHappily.")
    assert "Work is saved." in visitor.text and query_of(visitor.path) == {"user": "mira"}
    assert (await memory.profile_block("work", user_id="mira")).content == "Retired.\nHappily."
    await visitor.press("Save work")
    assert "Work is unchanged." in visitor.text
    clock.advance(minutes=1)
    await memory.set_profile("work", "Somebody else wrote.", user_id="mira")
    await visitor.press("Save work", content="Lost.")
    assert visitor.status == 412
    assert (await memory.profile_block("work", user_id="mira")).content == "Somebody else wrote."


async def test_a_block_that_was_empty_is_not_overwritten_either(visitor, memory, mira):
    await visitor.open("/console/profile?user=mira")
    await memory.set_profile("personal", "Somebody else wrote.", user_id="mira")
    await visitor.press("Save personal", content="Lost.")
    assert visitor.status == 422 and "since you read it" in visitor.text
    await visitor.open("/console/profile?user=mira")
    await visitor.press("Save current focus", content="The dinner.")
    assert "Current Focus is saved." in visitor.text
    assert "The dinner." in await memory.profile(user_id="mira")


async def test_a_block_is_deleted_after_a_question(visitor, memory, mira):
    await visitor.open("/console/profile?user=mira")
    await visitor.press("Delete")
    assert visitor.heading == "Are you sure?"
    await visitor.press("Yes, do it")
    assert "Deleted 2 versions." in visitor.text and query_of(visitor.path) == {"user": "mira"}
    assert await memory.profile_versions("work", user_id="mira") == []


async def test_a_reader_can_not_write_or_delete(entered, mira):
    reader = await entered("read")
    await reader.open("/console/profile?user=mira")
    assert "Leads the booking and search teams." in reader.text
    assert not {"Save work", "Delete"} & {*reader.buttons()}


@pytest.mark.usefixtures("path")
async def test_it_looks_as_it_should(browser):
    for text in ("Leads the team.", "Leads both teams. " * 20):
        await browser.memory.set_profile("work", text, user_id="mira")
    await browser.open("/console/profile?user=mira")
    await browser.page.locator("summary", has_text="2 versions").click()
    assert await browser.barriers() == []
    await browser.theme("dark")
    assert await browser.barriers() == []
    await browser.page.set_viewport_size({"width": 360, "height": 740})
    assert await browser.overflow() == 0
