"""Entities: their names and facts, and two made one after a look at what that does."""

import pytest
from playwright.async_api import expect


@pytest.fixture
async def mira(memory):
    made = await memory.create_entity("Mira Santos", "person", aliases=["Mira"], metadata={"role": "lead"})
    await memory.store_fact("Mira", "home", "Lisbon", entity_id=made.entity_id)
    return made.entity_id


@pytest.fixture
async def other(memory):
    made = await memory.create_entity("M. Santos", "person", aliases=["Mimi"])
    await memory.store_fact("M. Santos", "Home", "Porto", entity_id=made.entity_id, confidence=0.5)
    await memory.store_fact("M. Santos", "drink", "tea", entity_id=made.entity_id)
    return made.entity_id


async def test_an_empty_page_says_what_an_entity_is(visitor):
    await visitor.open("/console/entities")
    assert "There are no entities" in visitor.text
    await visitor.open("/console/entities?name=x")
    assert "No entity fits" in visitor.text


async def test_entities_are_found_by_any_name(visitor, memory, mira, other):
    await memory.create_entity("Acme", "organization")
    await visitor.open("/console/entities")
    assert "Mira Santos person Mira 1" in visitor.text and "M. Santos person Mimi 2" in visitor.text
    await visitor.press("Show", name="mimi")
    assert "M. Santos" in visitor.text and "Mira Santos" not in visitor.text
    await visitor.press("Show", name="", type="organization")
    assert "Acme" in visitor.text and "M. Santos" not in visitor.text


async def test_facts_that_only_name_an_entity_are_led_to(visitor, memory, mira):
    await visitor.open(f"/console/entities/{mira}")
    assert "By its name only" not in visitor.text
    await memory.store_fact("Mira", "pet", "a cat")
    await visitor.open(f"/console/entities/{mira}")
    assert "1 fact in use" in visitor.text and "By its name only: 1 fact about Mira." in visitor.text
    await visitor.follow("1 fact about Mira")
    assert "a cat" in visitor.text


async def test_pages_of_entities(visitor, memory):
    for number in range(55):
        await memory.create_entity(f"thing {number:02}", "other")
    await visitor.open("/console/entities")
    assert "thing 49" in visitor.text and "thing 50" not in visitor.text
    await visitor.follow("Next page")
    assert "thing 54" in visitor.text and "thing 49" not in visitor.text


async def test_an_entity_is_registered(visitor, memory):
    await visitor.open("/console/entities")
    await visitor.press("Register", canonical_name="Lisbon", entity_type="place", aliases="Lisboa\n\n Lissabon ")
    assert visitor.heading == "Lisbon" and "Lisbon is registered." in visitor.text
    [found] = await memory.list_entities()
    assert list(found.entity.aliases) == ["Lisboa", "Lissabon"]
    await visitor.open("/console/entities")
    await visitor.press("Register", canonical_name="Lisbon", entity_type="place")
    assert visitor.status == 422 and "already an entity of that name" in visitor.text
    assert any(each["value"] == "Lisbon" for each in visitor.tree.all("input"))


async def test_names_are_changed_as_they_were_read(visitor, memory, mira, clock):
    await visitor.open(f"/console/entities/{mira}")
    assert "home Lisbon" in visitor.text and "role" in visitor.text
    clock.advance(minutes=1)
    await visitor.press("Change names", canonical_name="Mira S.", aliases="Mira\nMi")
    assert visitor.heading == "Mira S." and "The names are changed." in visitor.text
    before = visitor.page
    clock.advance(minutes=1)
    await memory.update_entity(mira, canonical_name="Somebody Else")
    assert "Mira S." in before
    await visitor.press("Change names", canonical_name="Lost")
    assert visitor.status == 412 and visitor.heading == "It was changed in the meantime"
    assert (await memory.get_entity(mira)).canonical_name == "Somebody Else"


async def test_a_name_that_is_refused_is_not_lost(visitor, memory, mira, other):
    await visitor.open(f"/console/entities/{mira}")
    await visitor.press("Change names", canonical_name="M. Santos")
    assert visitor.status == 422 and "already an entity" in visitor.text
    assert any(each["value"] == "M. Santos" for each in visitor.tree.all("input"))


async def test_a_merge_shows_what_it_does_and_asks(visitor, memory, mira, other):
    await visitor.open(f"/console/entities/{other}")
    await visitor.follow("Merge into another…")
    assert "Mira Santos" in visitor.text, "a similar name"
    await visitor.press("Find", name="mira")
    await visitor.follow("Mira Santos")
    assert visitor.heading == "Merge M. Santos into Mira Santos"
    assert "2 facts of M. Santos, in any state, would move" in visitor.text
    assert "would also be called M. Santos, Mimi" in visitor.text
    assert "Lisbon 1.00, was there Porto 0.50, moves" in visitor.text
    assert "drink" in visitor.text
    await visitor.press("Merge them")
    assert visitor.heading == "Are you sure?" and (await memory.get_entity(other)).merged_into is None
    await visitor.press("Yes, do it")
    assert visitor.heading == "Mira Santos"
    assert "Merged: 1 fact moved here, 1 superseded." in visitor.text
    assert (await memory.get_entity(other)).merged_into == mira
    await visitor.open(f"/console/entities/{other}")
    assert "It was merged into Mira Santos" in visitor.text
    assert "Merge into another…" not in visitor.text and "Change names" not in visitor.buttons()


async def test_who_may_not_merge_or_write(entered, mira):
    writer = await entered("read", "write")
    await writer.open(f"/console/entities/{mira}")
    assert "Merge into another…" not in writer.text and "Change names" in writer.buttons()
    await writer.open(f"/console/entities/{mira}/merge")
    assert writer.status == 403
    reader = await entered("read")
    await reader.open(f"/console/entities/{mira}")
    assert "Change names" not in reader.buttons() and "Mira" in reader.text


@pytest.mark.parametrize(("id_", "status"), [("00000000-0000-0000-0000-0000000000ff", 404), ("nobody", 422)])
async def test_an_entity_that_is_not_there(visitor, id_, status):
    for path in (f"/console/entities/{id_}", f"/console/entities/{id_}/merge"):
        await visitor.open(path)
        assert visitor.status == status


@pytest.mark.usefixtures("path")
async def test_it_looks_as_it_should(browser):
    memory = browser.memory
    one, two = [(await memory.create_entity(name, "person")).entity_id for name in ("Mira", "Mira Santos")]
    for id_, home in ((one, "Lisbon"), (two, "Porto")):
        await memory.store_fact("Mira", "home", home, entity_id=id_)
    await browser.page.set_viewport_size({"width": 360, "height": 740})
    await browser.open("/console/entities")
    unnamed = browser.page.locator('[data-label="Also called"]').first
    await expect(unnamed).to_have_css("display", "none")  # else its label is written over that of the next line
    await browser.page.set_viewport_size({"width": 1280, "height": 900})
    for path in ("", f"/{one}", f"/{one}/merge", f"/{one}/merge?into={two}"):
        await browser.open(f"/console/entities{path}")
        assert await browser.barriers() == []
    await browser.theme("dark")
    assert await browser.barriers() == []
    await browser.page.set_viewport_size({"width": 360, "height": 740})
    assert await browser.overflow() == 0
    await browser.press("Merge them")
    await browser.page.locator("dialog").get_by_role("button", name="Merge them").click()
    await browser.page.wait_for_url(f"**/entities/{two}")
    assert "Merged" in await browser.text()
