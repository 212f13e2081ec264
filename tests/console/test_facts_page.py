"""Facts: by subject, their history, notes, and storing them."""

import pytest
from console_parts import query_of


@pytest.fixture
async def known(memory, clock):
    await memory.store_fact("Mira", "home", "Lisbon", source="chat")
    clock.advance(days=3)
    await memory.store_fact("mira", "Home", "Porto", category="knowledge")
    await memory.store_fact("Mira", "drink", "green tea", category="preference")
    await memory.store_fact("Jon", "home", "Faro")
    await memory.bind(user_id="anna").store_fact("Mira", "drink", "coffee")
    await memory.store_note("The team meets on Tuesdays", category="knowledge")


def values(visitor) -> list[str]:
    """The facts that are shown, in their order."""
    return [each.one("a").text for each in visitor.tree.all("dd")]


async def test_an_empty_page_says_what_a_fact_is(visitor):
    for path, said in (("/console/facts", "There are no facts"), ("/console/facts?tab=notes", "There are no notes")):
        await visitor.open(path)
        assert said in visitor.text


async def test_facts_stand_under_their_subject(visitor, known):
    await visitor.open("/console/facts")
    assert [each.text for each in visitor.tree.one("main").all("h2")][:2] == ["Jon", "Mira"]
    assert sorted(values(visitor)) == ["Faro", "Porto", "coffee", "green tea"]
    assert "Tuesdays" not in visitor.text and "Lisbon" not in visitor.text
    assert "of anna" in visitor.text
    await visitor.follow("Mira")
    assert visitor.heading == "Mira" and "Faro" not in visitor.text


@pytest.mark.parametrize(
    ("filled", "shown"),
    [
        ({"state": "superseded"}, ["Lisbon"]),
        ({"state": "any", "subject": "MIRA"}, ["coffee", "green tea", "Porto", "Lisbon"]),
        ({"category": "preference"}, ["green tea"]),
        ({"user": "anna"}, ["coffee"]),
        ({"user": "nobody"}, []),
        ({"scope": "kitchen"}, ["Faro", "coffee", "green tea", "Porto"]),
        ({"text": "porto"}, ["Porto"]),
        ({"text": "tea", "user": "anna"}, []),
        ({"text": "tuesdays"}, []),
    ],
)
async def test_filters(visitor, known, filled, shown):
    await visitor.open("/console/facts")
    await visitor.press("Show", **filled)
    assert visitor.status == 200
    assert sorted(values(visitor)) == sorted(shown)
    if not shown:
        assert "No fact fits" in visitor.text


async def test_notes_have_a_tab(visitor, known, memory):
    await memory.bind(user_id="anna").store_note("Anna sleeps late")
    await visitor.open("/console/facts")
    await visitor.follow("Notes")
    assert "The team meets on Tuesdays" in visitor.text and "Anna sleeps late" in visitor.text
    assert "Porto" not in visitor.text
    await visitor.press("Show", user="anna")
    assert "Anna sleeps late" in visitor.text and "Tuesdays" not in visitor.text
    await visitor.press("Show", user="", text="tuesdays")
    assert "The team meets on Tuesdays" in visitor.text and "Anna" not in visitor.text


async def test_pages_keep_the_filters(visitor, memory):
    await memory.store_facts([{"subject": f"s{n:03}", "predicate": "p", "content": f"v{n:03}"} for n in range(120)])
    await visitor.open("/console/facts?category=")
    assert len(values(visitor)) == 100
    await visitor.follow("Next page")
    assert values(visitor) == [f"v{n:03}" for n in range(100, 120)]


async def test_a_slot_tells_what_was_true_and_why_it_ended(visitor, known, memory, clock):
    await visitor.open("/console/facts?subject=Mira")
    await visitor.follow("Home")
    assert visitor.heading == "mira · Home"
    text = visitor.text
    assert text.index("Porto") < text.index("Lisbon")
    assert "Since 1 Jan 2026 until 4 Jan 2026, from chat" in text
    assert "Ended because a newer value replaced it: Porto" in text
    assert "In use, last confirmed" in text
    await memory.store_fact("Mira", "home", "Evora", occurred_at=clock.now.replace(year=2020))
    [tea] = [each for each in await memory.facts("Mira") if each.content == "green tea"]
    await memory.forget("fact", tea.id)
    await visitor.open("/console/facts?subject=Mira&predicate=drink")
    assert "it was forgotten" in visitor.text
    await visitor.open("/console/facts?subject=Mira&predicate=home")
    assert "Evora" in visitor.text
    await visitor.open("/console/facts?subject=Mira&predicate=shoe")
    assert "Nothing was ever stored here" in visitor.text


async def test_what_faded_says_so(visitor, memory, clock):
    await memory.store_fact("tea", "colour", "green", permanence="ephemeral", confidence=0.25)
    clock.advance(days=10)
    await memory.run_decay_sweep()
    await visitor.open("/console/facts?subject=tea&predicate=colour")
    assert "Still in use, but fading" in visitor.text
    clock.advance(days=10)
    await memory.run_decay_sweep()
    await visitor.open("/console/facts?subject=tea&predicate=colour")
    assert "Ended because nothing had confirmed it" in visitor.text


async def test_a_fact_is_stored_and_its_history_shown(visitor, known, memory):
    await visitor.open("/console/facts")
    await visitor.press("Store fact", subject="Mira", predicate="home", content="Braga", tags="a, b", importance="7.5")
    assert visitor.heading == "Mira · home"
    assert "Stored. The value before it is kept as history." in visitor.text
    [braga] = [each for each in await memory.facts("Mira", state="active") if each.content == "Braga"]
    assert (braga.importance, list(braga.tags), braga.source) == (7.5, ["a", "b"], "console")
    await visitor.press("Store fact", content="Braga")
    assert "known already, and is confirmed" in visitor.text
    await visitor.open("/console/facts?tab=notes")
    await visitor.press("Store note", content="Invoices go out on the 3rd", category="knowledge")
    assert query_of(visitor.path) == {"tab": "notes"}
    assert "Invoices go out on the 3rd" in visitor.text
    await visitor.press("Forget it")
    await visitor.open("/console/facts?tab=notes")
    assert "Invoices go out on the 3rd" not in visitor.text


async def test_what_was_typed_is_not_lost_where_it_is_refused(visitor, memory):
    await visitor.open("/console/facts")
    await visitor.press("Store fact", subject="Mira", predicate="home", content="Braga", importance="much")
    assert visitor.status == 422
    assert "Importance" in visitor.text
    assert any(each["value"] == "much" for each in visitor.tree.all("input"))
    await visitor.press("Store fact", importance="99")
    assert visitor.status == 422
    await visitor.press("Store fact", importance="5")
    assert visitor.status == 200 and "Stored." in visitor.text


async def test_a_reader_can_not_store(entered, known):
    reader = await entered("read")
    await reader.open("/console/facts")
    assert "Store fact" not in reader.buttons()
    assert "Porto" in reader.text


async def test_contents_are_shown_literally(visitor, memory):
    hostile = '<script>alert("canary")</script> {{ 7 * 7 }} \u202e'
    await memory.store_fact(hostile, "<b>p</b>", hostile)
    await visitor.open("/console/facts")
    assert '<script>alert("canary")' in visitor.text and "{{ 7 * 7 }}" in visitor.text
    await visitor.follow("<b>p</b>")
    assert "<b>p</b>" in visitor.heading


@pytest.mark.usefixtures("path")
async def test_it_looks_as_it_should(browser):
    memory = browser.memory
    for subject in ("Mira", "Jon", "a subject with a long name that goes on and on"):
        await memory.store_fact(subject, "home", "Lisbon")
        await memory.store_fact(subject, "home", "Porto " * 60)
    for path in ("/console/facts", "/console/facts?subject=Mira&predicate=home", "/console/facts?tab=notes"):
        await browser.open(path)
        assert await browser.barriers() == []
    await browser.open("/console/facts?subject=Mira&predicate=home")
    await browser.theme("dark")
    assert await browser.barriers() == []
    await browser.page.set_viewport_size({"width": 360, "height": 740})
    assert await browser.overflow() == 0
