"""Ask: three answers to one question, why each memory is among them, and that looking leaves no trace."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from console_parts import query_of

from tulving.interfaces.console import hits
from tulving.settings import MemoryModuleConfig, RetrievalConfig

PLACES = "/console/ask"


def part(visitor, name):
    """The element of a page with this id."""
    return next(each for each in visitor.tree.all() if each["id"] == name)


@pytest.fixture
async def mira(memory, clock):
    """A few memories about Mira, one of which has faded."""
    await memory.store_fact("Mira", "car", "drives a small red car", permanence="ephemeral")
    clock.advance(days=20)
    await memory.store_episode("I moved to Porto last week.", butler="home", source="Mira")
    await memory.store_fact("Mira", "home", "lives in Porto", tags=["people"])
    await memory.store_rule("Ask Mira before planning a dinner.")
    return memory


async def test_a_question_is_answered_in_three_ways(visitor, mira):
    await visitor.open(PLACES, q="Where does Mira live?")
    assert visitor.status == 200
    search, recall, context = [part(visitor, name) for name in ("by-search", "by-recall", "as-context")]
    fact = (await mira.search("Where does Mira live?")).hits[0]
    for answer in (search, recall, context):
        [link, *_] = [each for each in answer.all("a") if "lives in Porto" in each.text]
        assert link["href"].startswith(f"/console/memory/fact/{fact.id}?q=Where")
    assert "relevance" in recall.text
    assert "importance" in recall.text
    assert re.search(r"\d ms", search.text)
    assert re.search(r"\d ms", recall.text)


async def test_a_bar_shows_what_each_signal_adds(visitor, mira):
    """To the relevance of a hit of search, and to the score of one of recall."""
    question = "Where does Mira live?"
    found, recalled = (await mira.search(question)).hits[0], (await mira.recall(question)).hits[0]
    await visitor.open(PLACES, q=question)
    for name, whole in (("by-search", found.parts["relevance"]), ("by-recall", recalled.score)):
        bar = next(each for each in part(visitor, name).all("figure") if each["class"] == "bar")
        drawn = {each.text.split(":")[0]: float(each["width"]) for each in bar.all("rect")}
        assert len(drawn) > 1 and sum(drawn.values()) == pytest.approx(whole * 100, abs=1), drawn
        assert [each.text.split()[0] for each in bar.one("figcaption").all("span")] == [*drawn]


async def test_the_block_is_the_one_that_an_agent_gets(visitor, mira):
    block = await mira.context("Where does Mira live?", token_budget=30)
    await visitor.open(PLACES, q="Where does Mira live?", budget=30)
    context = part(visitor, "as-context")
    assert context.one("pre").raw_text.strip() == block.strip()
    assert f"{-(-len(block) // 4)} of 30 tokens" in context.text
    assert "No room for" in context.text
    told, left_out = context.text.split("No room for")
    assert "lives in Porto" in told
    assert "planning a dinner" in left_out


async def test_the_block_is_for_one_agent_and_others_are_offered(visitor, mira):
    await mira.store_fact("Mira", "shift", "works nights in Porto", scope="ops")
    await visitor.open(PLACES, q="Mira in Porto")
    assert "works nights" in part(visitor, "by-search").text
    assert "works nights" not in part(visitor, "as-context").one("pre").text
    await visitor.follow("ops")
    assert query_of(visitor.path) == {"q": "Mira in Porto", "butler": "ops"}
    block = await mira.context("Mira in Porto", butler="ops")
    assert part(visitor, "as-context").one("pre").raw_text.strip() == block.strip()
    assert "works nights" in block
    assert "lives in Porto" in part(visitor, "by-search").text


async def test_looking_leaves_no_trace(visitor, mira, sql):
    tables = ("facts", "episodes", "rules", "memory_events")

    def rows():
        return [sql(f"SELECT * FROM {name} ORDER BY id") for name in tables]

    question, before = "Where does Mira live?", rows()
    first = [(hit.id, hit.score) for hit in await mira.search(question)]
    await visitor.open(PLACES, q=question)
    await visitor.open(PLACES, q=question)
    for link in visitor.links():
        if link.startswith("/console/memory/"):
            await visitor.open(link)
            assert visitor.status == 200
    await mira.settle()
    assert rows() == before
    assert [(hit.id, hit.score) for hit in await mira.search(question)] == first
    recalled = await mira.recall(question)
    await mira.settle()
    assert rows() != before
    assert all(hit.item.reference_count == 1 for hit in recalled)


async def test_a_person_sees_the_order_that_agents_get(visitor, mira, clock):
    """What was recalled through this server does not come first only because of that, here neither."""
    question = "Mira"
    await mira.recall(question, types=["rule"])
    await mira.settle()
    clock.advance(minutes=1)
    await visitor.open(PLACES, q=question)
    links = [each["href"] for each in part(visitor, "by-recall").all("a") if each["class"] == "hit-text"]
    shown = [link.split("?")[0].split("/")[-1] for link in links]
    assert shown == [str(hit.id) for hit in await mira.recall(question)]


async def test_what_came_close_is_told_with_the_reason(visitor, mira):
    await visitor.open(PLACES, q="What does Mira drive?")
    near = part(visitor, "by-search").text.split("Near misses")[1]
    assert "drives a small red car" in near
    assert "Its confidence 0.13 is below 0.2." in near
    await visitor.follow("Show them")
    assert query_of(visitor.path)["min_confidence"] == "0"
    assert "drives a small red car" in part(visitor, "by-search").text.split("Near misses")[0]
    await visitor.open(PLACES, q="Where does Mira live?", limit=1)
    assert "is less than that of the" in visitor.text
    await visitor.open(PLACES, q="Where does Mira live?", min_relevance="0.99")
    assert "is below 0.99" in visitor.text
    assert "Nothing was found" in visitor.text


async def test_weak_hits_are_marked(visitor, mira):
    await visitor.open(PLACES, q="How is the weather in Lisbon?")
    assert "weak" in part(visitor, "by-search").text
    assert "probably does not answer" in visitor.text


async def test_all_conditions_are_in_the_address_and_apply(visitor, mira, clock):
    await visitor.open(PLACES)
    await visitor.press("Ask", q="Mira", types="fact", tags="people")
    asked = query_of(visitor.path)
    assert (asked["q"], asked["types"], asked["tags"]) == ("Mira", "fact", "people")
    search = part(visitor, "by-search").text
    assert "lives in Porto" in search
    assert "I moved" not in search
    await visitor.open(PLACES, q="Mira", mode="keyword", type="knowledge", scope="x", project="none")
    assert "keyword" in visitor.text
    assert "Nothing was found" in visitor.text


async def test_the_past_can_be_asked(visitor, memory, clock):
    old = await memory.store_fact("Mira", "home", "lives in Lisbon")
    clock.advance(days=10)
    between = clock.now
    clock.advance(days=10)
    await memory.store_fact("Mira", "home", "lives in Porto")
    await visitor.open(PLACES, q="Where does Mira live?", as_of=between.strftime("%Y-%m-%dT%H:%M"))
    assert "As the memory stood on" in visitor.text
    assert "lives in Lisbon" in visitor.text
    assert "lives in Porto" not in visitor.text
    slider = next(each for each in visitor.tree.all("input") if each["type"] == "range")
    assert slider["value"] == "200"
    assert float(slider["data-from"]) == (clock.now - timedelta(days=20)).timestamp()
    assert f"/console/memory/fact/{old.id}" in visitor.page
    await visitor.follow("Back to now")
    assert "lives in Porto" in visitor.text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"since": "yesterday"}, "is not a time"),
        ({"limit": "many"}, "is not a whole number"),
        ({"limit": "0"}, "Limit: "),
        ({"types": "thought"}, "Types: "),
        ({"mode": "psychic"}, "Mode: "),
        ({"min_confidence": "nan"}, "Min confidence: "),
        ({"as_of": "2026-01-01T00:00+99:00"}, "is not a time"),
    ],
)
async def test_what_can_not_be_asked_is_told_on_the_page(visitor, mira, given, said):
    await visitor.open(PLACES, q="Mira", **given)
    assert visitor.status == 422
    assert said in next(each for each in visitor.tree.all("p") if each["role"] == "alert").text


async def test_htmx_gets_the_answers_alone(visitor, mira):
    await visitor.send("GET", PLACES, params={"q": "Mira"}, headers={"hx-request": "true"})
    assert visitor.status == 200
    assert "<html" not in visitor.page
    assert "lives in Porto" in visitor.page
    await visitor.send("GET", PLACES, params={"q": "Mira", "since": "x"}, headers={"hx-request": "true"})
    assert visitor.status == 422
    assert "is not a time" in visitor.page


async def test_without_a_question_it_offers_some_that_the_memory_can_answer(visitor, mira):
    await visitor.open(PLACES)
    await visitor.follow("What is known about Mira?")
    assert "lives in Porto" in visitor.text
    assert query_of(visitor.path)["q"] == "What is known about Mira?"


@pytest.mark.parametrize("kind", ["episode", "rule", "note"])
async def test_other_memories_are_examples_too(visitor, memory, kind):
    store = {"episode": memory.store_episode, "rule": memory.store_rule, "note": memory.store_note}[kind]
    await store("The boiler is in the cellar")
    await visitor.open(PLACES)
    await visitor.follow("The boiler is in the cellar")
    assert "The boiler is in the cellar" in part(visitor, "by-search").text


async def test_a_memory_that_holds_nothing_today_says_so(visitor, memory, clock):
    await memory.store_episode("gone soon", butler="b")
    clock.advance(days=30)
    await visitor.open(PLACES)
    assert "Nothing is remembered today" in visitor.text


async def test_the_profile_is_named_where_the_block_begins_with_it(visitor, memory):
    await memory.store_fact("Mira", "home", "lives in Porto")
    await visitor.open(PLACES, q="Mira")
    assert "It begins with the" not in visitor.text
    await memory.set_profile("work", "Mira is an architect")
    await visitor.open(PLACES, q="Mira")
    assert "It begins with the profile" in visitor.text


async def test_an_empty_memory_says_what_to_do_first(visitor):
    await visitor.open(PLACES)
    assert "Nothing is remembered yet" in visitor.text
    assert "tulving store fact" in visitor.text
    await visitor.open(PLACES, q="anything")
    assert "Nothing was found" in visitor.text


async def test_nobody_sees_the_memories_of_another_tenant(entered, mira):
    other = await entered("read", tenant="other")
    await other.open(PLACES, q="Where does Mira live?")
    assert "lives in Porto" not in other.page


async def test_contents_are_shown_as_they_are(visitor, memory):
    hostile = '<script>alert(1)</script> & "quoted" {{ 7 * 7 }}'
    await memory.store_fact("<b>Mira</b>", "says", hostile)
    await visitor.open(PLACES, q="Mira says")
    assert hostile in part(visitor, "by-search").text
    assert "<script>alert" not in visitor.page


class TestByRanks:
    """With the literal order of ranks there are no signals."""

    @pytest.fixture
    def config(self) -> MemoryModuleConfig:
        return MemoryModuleConfig(retrieval=RetrievalConfig(fusion="rrf"))

    async def test_places_in_the_lanes_are_told(self, visitor, mira):
        await visitor.open(PLACES, q="Where does Mira live?")
        assert "place 1 by meaning" in visitor.text


async def test_each_bar_adds_up(mira):
    found = await mira.search("Where does Mira live?")
    trust = mira._env.embedding.trust("Where does Mira live?")
    for shown in hits.searched(found.hits, trust):
        assert sum(value for _, value, _ in shown.bar) == pytest.approx(shown.hit.parts["relevance"])
    recalled = await mira.recall("Where does Mira live?")
    for shown in hits.recalled(recalled.hits, mira.config.retrieval.score_weights):
        assert sum(value for _, value, _ in shown.bar) == pytest.approx(shown.hit.score)


@pytest.mark.usefixtures("path")
async def test_in_a_browser_answers_are_swapped_and_shared(browser):
    """Typing and Enter, the slider, the back button; and what axe says of it."""
    past = datetime.now(UTC) - timedelta(days=100)
    await browser.memory.store_fact("Mira", "home", "lives in Lisbon", occurred_at=past)
    await browser.memory.store_fact("Mira", "home", "lives in Porto")
    await browser.open(PLACES)
    page = browser.page
    await page.get_by_role("searchbox").fill("Where does Mira live?")
    await page.keyboard.press("Enter")
    await page.get_by_role("heading", name="Recall").wait_for()
    assert "lives in Porto" in await browser.text()
    assert query_of(page.url) == {"q": "Where does Mira live?"}
    slider = page.get_by_role("slider")
    await slider.focus()
    await page.keyboard.press("Home")
    await page.get_by_text("As the memory stood on").wait_for()
    assert "lives in Lisbon" in await page.locator("#by-search").inner_text()
    assert "as_of=" in page.url
    shared = page.url
    await page.go_back()
    await page.get_by_text("As the memory stood on").wait_for(state="detached")
    await page.goto(shared)
    assert "lives in Lisbon" in await page.locator("#by-search").inner_text()
    assert await browser.barriers() == []
    await browser.theme("dark")
    await page.set_viewport_size({"width": 360, "height": 740})
    assert await browser.overflow() == 0
    assert await browser.barriers() == []
    await browser.pictures("ask")
