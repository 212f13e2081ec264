"""The page of a memory: what it shows, the ways to correct it, and the journey from a wrong answer to a right one."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from tulving.domain.forecast import Forecast
from tulving.domain.model import Episode, Fact
from tulving.domain.provenance import Provenance, own_links
from tulving.interfaces.console import dossier

ASK = "/console/ask"
QUESTION = "Where does Mira live?"
UNKNOWN = UUID("00000000-0000-4000-8000-0123456789ab")


def part(visitor, name):
    """The element of a page with this id."""
    return next(each for each in visitor.tree.all() if each["id"] == name)


def search(visitor):
    return part(visitor, "by-search").text.split("Near misses")[0]


def linked(visitor):
    """What is linked with the memory, in words, and where that leads."""
    lists = [each for each in part(visitor, "provenance").all("ul") if "linked" in each["class"].split()]
    lines = [line for each in lists for line in each.all("li")]
    return {each.one("span").text: each.one("a")["href"] for each in lines}


def place(kind, id_):
    return f"/console/memory/{kind}/{id_}"


@pytest.fixture
async def home(memory, clock):
    """A fact that was learned from an episode and has replaced another one: its id and the episode's."""
    old = await memory.store_fact("Mira", "home", "lives in Lisbon")
    clock.advance(days=5)
    said = await memory.store_episode("I have moved to Porto!", butler="home", source="Mira")
    clock.advance(days=1)
    new = await memory.store_fact("Mira", "home", "lives in Braga", source_episode_id=said.id, tags=["people"])
    assert new.superseded_id == old.id
    return new.id, said.id


# -- the journeys ----------------------------------------------------------------------------------------------


async def test_a_stranger_finds_a_wrong_fact_and_corrects_it(visitor, memory, home):
    await visitor.open(ASK, q=QUESTION)
    assert "lives in Braga" in search(visitor)
    await visitor.follow("Mira · home lives in Braga")
    assert "I have moved to Porto!" in part(visitor, "provenance").text, "where it came from"
    await visitor.press("Save the correction", content="lives in Porto")
    assert "Corrected" in visitor.text
    assert "lives in Braga" in part(visitor, "past").text, "the diff"
    await visitor.follow(f"Ask again: {QUESTION}")
    assert "lives in Porto" in search(visitor)
    assert "lives in Braga" not in search(visitor)
    item = await memory.look("fact", home[0])
    assert (item.content, item.tags, item.reference_count) == ("lives in Porto", ["people"], 0)


async def test_what_has_changed_is_stored_as_a_new_value(visitor, memory, home, clock):
    clock.advance(days=3)
    await visitor.open(place("fact", home[0]), q=QUESTION)
    await visitor.press("Store the new value", value="lives in Faro")
    assert "The old one stays as history" in visitor.text
    assert "lives in Faro" in part(visitor, "slot").text
    current, before, first = [each.content for each in reversed(await memory.history("Mira", "home"))]
    assert (current, before, first) == ("lives in Faro", "lives in Braga", "lives in Lisbon")
    await visitor.follow(f"Ask again: {QUESTION}")
    assert "lives in Faro" in search(visitor)
    assert "lives in Braga" not in search(visitor)
    await visitor.open(place("fact", home[0]))
    assert "It is history. Today:" in visitor.text
    assert "Store the new value" not in visitor.buttons()


async def test_a_new_value_belongs_to_the_owner_of_the_old_one(visitor, memory):
    hers = memory.bind(user_id="mira", household_id="h1")
    old = await hers.store_fact("user", "color", "red", scope="home", project="flat", importance=8)
    await visitor.open(place("fact", old.id))
    await visitor.press("Store the new value", value="green", occurred_at="2025-12-31T10:00")
    [item] = [each for each in await hers.history("user", "color", scope="home") if each.content == "green"]
    assert (item.user_id, item.household_id, item.scope, item.project) == ("mira", "h1", "home", "flat")
    assert (await hers.look("fact", old.id)).state == "active"
    assert (item.state, item.supersedes_id) == ("superseded", None), "it was so before the other was stored"


async def test_without_its_form_nothing_is_changed(visitor, memory, home):
    await visitor.open(place("fact", home[0]))
    await visitor.send("POST", place("fact", home[0]) + "/edit", data={"content": "forged"})
    assert visitor.status == 403
    await visitor.send("GET", place("fact", home[0]) + "/edit")
    assert visitor.status in (404, 405)
    assert (await memory.look("fact", home[0])).content == "lives in Braga"


# -- corrections -----------------------------------------------------------------------------------------------


async def test_a_lost_update_is_told_and_the_text_is_kept(visitor, memory, home, clock):
    await visitor.open(place("fact", home[0]))
    clock.advance(minutes=1)
    await memory.edit("fact", home[0], content="lives in Coimbra")
    await visitor.press("Save the correction", content="lives in Porto")
    assert visitor.status == 412
    assert "Somebody changed it while you were writing" in visitor.text
    assert "lives in Coimbra" in visitor.text
    assert (await memory.look("fact", home[0])).content == "lives in Coimbra"
    await visitor.press("Save the correction")
    assert (await memory.look("fact", home[0])).content == "lives in Porto"


async def test_a_correction_can_be_undone_with_all_of_it(visitor, memory, home):
    before = await memory.edit("fact", home[0], category="knowledge", confidence=0.7, importance=3)
    await visitor.open(place("fact", home[0]))
    await visitor.press(
        "Save the correction",
        content="lives in Porto\nby the river",
        tags="people, address",
        importance="9",
        confidence="0.9",
        category="correction",
    )
    item = await memory.look("fact", home[0])
    assert (item.content, item.tags) == ("lives in Porto\nby the river", ["people", "address"])
    assert (item.importance, item.confidence, item.type) == (9, 0.9, "correction")
    await visitor.press("Undo")
    back = await memory.look("fact", home[0])
    for name in ("content", "tags", "importance", "confidence", "type"):
        assert getattr(back, name) == getattr(before, name), name
    await visitor.press("Undo")
    assert (await memory.look("fact", home[0])).type == "correction"


async def test_an_undo_does_not_overwrite_what_came_after(visitor, memory, home, clock):
    await visitor.open(place("fact", home[0]))
    await visitor.press("Save the correction", content="lives in Porto")
    clock.advance(minutes=1)
    await memory.edit("fact", home[0], content="lives in Evora")
    await visitor.press("Undo")
    assert visitor.status == 412
    assert (await memory.look("fact", home[0])).content == "lives in Evora"


async def test_saving_what_it_says_changes_nothing(visitor, memory, home):
    await visitor.open(place("fact", home[0]))
    await visitor.press("Save the correction")
    assert "Nothing was changed" in visitor.text
    assert await memory.revisions("fact", home[0]) == []


async def test_what_can_not_be_saved_is_told_beside_the_text(visitor, memory, home):
    for fields, said in (({"content": "  "}, "Content: "), ({"importance": "eleven"}, "not a number")):
        await visitor.open(place("fact", home[0]))
        await visitor.press("Save the correction", **fields)
        assert visitor.status == 422
        assert said in next(each for each in visitor.tree.all("p") if each["role"] == "alert").text
    await visitor.open(place("fact", home[0]))
    await visitor.press("Store the new value", value="lives in Faro", occurred_at="soon")
    assert visitor.status == 422
    kept = next(each for each in visitor.tree.all("textarea") if each["name"] == "value")
    assert kept.raw_text.strip() == "lives in Faro"
    assert (await memory.look("fact", home[0])).content == "lives in Braga"


async def test_an_earlier_version_is_brought_back(visitor, memory, home, clock):
    for content in ("lives in Porto", "lives in Faro"):
        clock.advance(minutes=1)
        await memory.edit("fact", home[0], content=content)
    await visitor.open(place("fact", home[0]))
    past = part(visitor, "past")
    assert [each.text for each in past.all("ins")] == ["Faro", "Porto"]
    await visitor.press("Back to before this", near="Braga")
    await visitor.press("Yes, do it")
    assert (await memory.look("fact", home[0])).content == "lives in Braga"
    assert len(await memory.revisions("fact", home[0])) == 3


async def test_a_fact_is_confirmed(visitor, memory, home, clock):
    clock.advance(days=150)
    await visitor.open(place("fact", home[0]))
    assert "Believed 0.30 of 1" in visitor.text
    await visitor.press("It is right")
    assert "Believed 1.00 of 1" in visitor.text
    assert (await memory.look("fact", home[0])).last_confirmed_at == clock.now


async def test_forgetting_asks_first_and_can_be_stored_again(visitor, memory, home):
    await visitor.open(place("fact", home[0]), q=QUESTION)
    await visitor.press("Forget")
    assert "It can't be brought back, only stored again" in visitor.text
    assert (await memory.look("fact", home[0])).state == "active"
    await visitor.press("Yes, do it")
    assert "nothing finds it" in visitor.text
    assert (await memory.look("fact", home[0])).state == "retracted"
    assert len(await memory.search(QUESTION)) == 1
    await visitor.press("Store it again")
    [hit] = await memory.search(QUESTION, types=["fact"])
    assert (hit.content, hit.item.tags, hit.id != home[0]) == ("lives in Braga", ["people"], True)
    assert hit.item.source_episode_id == home[1]


async def test_storing_again_asks_where_another_value_is_current(visitor, memory, home):
    old = (await memory.history("Mira", "home"))[0]
    await memory.forget("fact", old.id)
    await visitor.open(place("fact", old.id))
    await visitor.press("Store it again")
    assert "Today it says “lives in Braga”" in visitor.text
    assert (await memory.look("fact", home[0])).state == "active"
    await visitor.press("Yes, do it")
    assert (await memory.look("fact", home[0])).state == "superseded"


@pytest.mark.parametrize("kind", ["episode", "rule", "note"])
async def test_other_kinds_are_stored_again_too(visitor, memory, kind):
    hers = memory.bind(user_id="mira")
    stored = {
        "episode": lambda: hers.store_episode("We met in Porto", butler="home", source="Mira", title="A walk"),
        "rule": lambda: hers.store_rule("Ask first", scope="home", tags=["manners"]),
        "note": lambda: hers.store_note("Mira likes tea", category="preference"),
    }[kind]
    item = await stored()
    kind = "fact" if kind == "note" else kind
    before = await hers.look(kind, item.id)
    await hers.forget(kind, item.id)
    await visitor.open(place(kind, item.id))
    await visitor.press("Store it again")
    [new] = (await hers.list_memories(kind)).items
    assert new.id != item.id
    for name in ("content", "tags", "owner", "type", "title", "source", "scope", "butler", "keyed"):
        assert getattr(new, name, None) == getattr(before, name, None), name
    await visitor.open(place(kind, new.id))
    await visitor.send("POST", place(kind, new.id) + "/again", data={"_token": visitor.tree.one("meta")["content"]})
    assert len((await hers.list_memories(kind)).items) == 1


async def test_deleting_asks_first_and_says_that_it_is_final(visitor, memory, home):
    await visitor.open(place("fact", home[0]), q=QUESTION)
    await visitor.press("Delete")
    assert "can't be undone" in visitor.text
    await visitor.press("Yes, do it")
    assert visitor.path.startswith(f"{ASK}?q=Where")
    assert await memory.look("fact", home[0]) is None
    await visitor.open(place("fact", home[0]))
    assert visitor.status == 404
    assert "was deleted on" in visitor.text


async def test_what_was_learned_from_it_alone_is_shown_before_it_goes_too(visitor, memory):
    said = await memory.store_episode("I like tea and I hate coffee", butler="home", source="Mira")
    alone = await memory.store_fact("Mira", "drink", "likes tea", source_episode_id=said.id)
    await memory.create_link("fact", alone.id, "episode", said.id, "derived_from")
    await visitor.open(place("episode", said.id))
    assert "Forget it and this one" in visitor.buttons()
    await visitor.press("Forget it and this one")
    await visitor.press("Yes, do it")
    assert "1 memory that came from it alone" in visitor.text
    assert (await memory.look("fact", alone.id)).state == "retracted"
    assert (await memory.look("episode", said.id)).forgotten


async def test_rules_are_marked_and_rise(visitor, memory):
    rule = await memory.store_rule("Check recipes for nuts")
    await visitor.open(place("rule", rule.id))
    assert "It takes 5 more helpful marks to become established." in visitor.text
    for _ in range(5):
        await visitor.press("It helped")
    assert "It is established now" in visitor.text
    await visitor.press("Mark as harmful", reason="there were none")
    assert "there were none" in visitor.text
    marked = await memory.look("rule", rule.id)
    assert (marked.success_count, marked.harmful_count) == (5, 1)
    assert "Applied 6 times" in visitor.text
    assert "It takes 2 more helpful marks to become established." in visitor.text, "harm weighs more"
    [dots] = [each for each in visitor.tree.all("p") if each["class"] == "dots"]
    assert len([*dots.all("span")]) == 6


# -- what is shown ---------------------------------------------------------------------------------------------


async def test_the_page_tells_where_it_stands(visitor, memory, home):
    await visitor.open(place("fact", home[0]))
    text = visitor.text
    for said in ("Subject Mira", "Predicate home", "Scope global", "Tags people", str(home[0]), "begins to fade"):
        assert said in text, said
    assert f"/console/audit?item={home[0]}" in visitor.links()
    assert "/console/facts?subject=Mira&predicate=home" in visitor.links()
    slot = part(visitor, "slot").text
    assert slot.index("lives in Braga") < slot.index("lives in Lisbon")
    assert linked(visitor) == {
        "learned from": place("episode", home[1]),
        "replaced": place("fact", (await memory.history("Mira", "home"))[0].id),
    }


async def test_an_episode_tells_what_came_of_it_and_what_is_around(visitor, memory, home, clock):
    clock.advance(minutes=5)
    await memory.store_episode("The keys are with the neighbour", butler="home", source="Mira")
    await visitor.open(place("episode", home[1]))
    assert linked(visitor) == {"led to": place("fact", home[0])}
    assert "The keys are with the neighbour" in visitor.text


async def test_what_does_not_fade_says_so(visitor, memory):
    fact = await memory.store_fact("Mira", "born", "in May", permanence="permanent")
    await visitor.open(place("fact", fact.id))
    assert "It does not fade: it is permanent" in visitor.text


async def test_a_conflict_leads_to_its_page(visitor, memory):
    await memory.store_note("Mira likes strong black tea in the morning")
    second = await memory.store_note("Mira does not like strong black tea in the morning")
    reports = await memory.conflicts()
    await visitor.open(place("fact", second.id))
    assert [f"/console/conflicts/{each.settlement.id}" for each in reports] == [
        link for link in visitor.links() if "/conflicts/" in link
    ]
    assert reports, "the two contradict each other"


@pytest.mark.parametrize("kind", ["episode", "fact", "rule"])
async def test_every_state_has_its_page(visitor, memory, clock, kind):
    store = {
        "episode": lambda: memory.store_episode("a", butler="b"),
        "fact": lambda: memory.store_fact("s", "p", "a", permanence="ephemeral"),
        "rule": lambda: memory.store_rule("a", permanence="ephemeral"),
    }[kind]
    id_ = (await store()).id
    clock.advance(days=17)
    await memory.run_decay_sweep()
    await visitor.open(place(kind, id_))
    assert visitor.status == 200
    clock.advance(days=100)
    await memory.run_decay_sweep()
    await visitor.open(place(kind, id_))
    assert visitor.status == 200
    assert "out of use" in visitor.text or kind == "episode"
    await memory.forget(kind, id_)
    await visitor.open(place(kind, id_))
    assert "It was forgotten" in visitor.text


async def test_an_expired_fact_comes_back_when_it_is_right_after_all(visitor, memory, clock):
    id_ = (await memory.store_fact("s", "p", "a", permanence="ephemeral")).id
    clock.advance(days=100)
    await memory.run_decay_sweep()
    await visitor.open(place("fact", id_))
    await visitor.press("It is right after all")
    assert (await memory.look("fact", id_)).state == "active"


async def test_contents_are_shown_as_they_are(visitor, memory):
    hostile = "</textarea><script>alert(1)</script>\n{{ 7 * 7 }} <b>bold</b>"
    fact = await memory.store_fact('"><i>Mira', "'says'", hostile, tags=["<u>"], metadata={"<k>": "</code>"})
    await memory.edit("fact", fact.id, content=f"{hostile} & more")
    await visitor.open(place("fact", fact.id))
    assert "<script>alert" not in visitor.page
    assert '"><i>Mira' in visitor.heading
    written = next(each for each in visitor.tree.all("textarea") if each["name"] == "content")
    assert written.raw_text.removeprefix("\n") == f"{hostile} & more"


# -- names, rights, others -------------------------------------------------------------------------------------


async def test_a_memory_is_found_by_the_beginning_of_its_id(visitor, memory):
    fact = (await memory.store_fact("s", "p", "a")).id
    rule = await memory.store_rule("a rule")
    whole = place("fact", fact)
    for path in (place("fact", str(fact)[:30]), place("fact", fact.hex), f"/console/memory/{fact}"):
        await visitor.open(path)
        assert (visitor.status, visitor.path) == (200, whole)
    note = await memory.store_note("a note")
    for path in (place("fact", note.ref), f"/console/memory/{note.ref}"):
        await visitor.open(path)
        assert (visitor.status, visitor.path) == (200, place("fact", note.id))
    await visitor.open(f"/console/memory/{rule.id}")
    assert visitor.path == place("rule", rule.id)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (place("fact", UNKNOWN), 404),
        (place("episode", "deadbeef"), 404),
        (place("fact", "zzz"), 422),
        (place("fact", "a1"), 422),
        (place("thought", UNKNOWN), 404),
        (f"/console/memory/{UNKNOWN}", 404),
    ],
)
async def test_an_unknown_id_has_a_clear_page(visitor, path, status):
    await visitor.open(path)
    assert visitor.status == status
    assert "went wrong" not in visitor.text
    assert "To the overview" in visitor.links() or visitor.links("To the overview")


async def test_an_ambiguous_beginning_names_what_it_may_be(visitor, memory):
    first, second = [(await memory.store_episode(text, butler="b")).id for text in ("a", "b")]
    start = str(first)[:8]
    assert str(second).startswith(start)
    await visitor.open(f"/console/memory/{start}")
    assert visitor.status == 422
    assert str(first) in visitor.text


async def test_the_memories_of_others_are_unknown(entered, memory, home):
    other = await entered("read", "write", "destroy", tenant="other")
    await other.open(place("fact", home[0]))
    assert other.status == 404
    assert "is not yours to see" in other.text
    await memory.delete("fact", home[0])
    await other.open(place("fact", home[0]))
    assert "was deleted" not in other.text


async def test_a_form_without_its_fields_is_refused_in_words(visitor, home):
    await visitor.open(place("fact", home[0]))
    token = next(each["content"] for each in visitor.tree.all("meta") if each["name"] == "form-token")
    for act in ("edit", "replace"):
        await visitor.send("POST", place("fact", home[0]) + f"/{act}", data={"_token": token})
        assert visitor.status == 422
        assert "Content: is empty" in visitor.text


async def test_who_may_only_read_is_offered_no_change(entered, memory, home):
    reader = await entered("read")
    await reader.open(place("fact", home[0]))
    assert reader.status == 200
    assert reader.buttons() == []
    token = next(each["content"] for each in reader.tree.all("meta") if each["name"] == "form-token")
    for act in ("edit", "replace", "confirm", "forget", "delete", "again", "restore/1"):
        await reader.send("POST", place("fact", home[0]) + f"/{act}", data={"_token": token, "content": "x"})
        assert reader.status == 403, act
    assert (await memory.look("fact", home[0])).content == "lives in Braga"
    writer = await entered("read", "write")
    await writer.open(place("fact", home[0]))
    assert "Delete" not in writer.buttons()
    assert "Save the correction" in writer.buttons()


async def test_every_act_is_recorded_with_who_did_it(visitor, memory, home):
    await visitor.open(place("fact", home[0]))
    await visitor.press("It is right")
    assert [each.event_type for each in await memory.events("fact", home[0])][-1] == "fact_confirmed"


def test_the_chart_ends_where_the_fact_does(clock):
    ahead = Forecast(
        values=(1.0, 0.2, 0.05), fading_at=clock.now + timedelta(days=5), expires_at=clock.now + timedelta(days=10)
    )
    chart = dossier.fading(ahead, clock.now)
    assert chart["times"][0] == clock.now.timestamp()
    assert chart["times"][-1] == ahead.expires_at.timestamp()
    assert len(chart["x"]) == len(chart["times"]) == len(chart["series"][0]["values"]) == 3
    assert [mark["x"] for mark in chart["marks"]] == [ahead.fading_at.timestamp()]


def test_a_run_stands_before_what_it_has_learned(clock):
    run = uuid4()
    common = {"tenant_id": "t", "content_hash": "", "created_at": clock.now, "updated_at": clock.now}
    said = Episode(**common, id=uuid4(), content="said", butler="b")
    facts = [
        Fact(**common, id=uuid4(), content="x", subject="s", predicate="p", run_id=run, source_episode_id=said.id)
        for _ in range(2)
    ]
    links = [link for fact in facts for link in own_links(fact)]
    drawn = dossier.graph(said, Provenance([said, *facts], links), clock.now)
    nodes = {each["id"]: each for each in drawn["nodes"]}
    assert (nodes[str(run)]["kind"], nodes[str(run)]["href"]) == ("run", f"/console/runs/{run}")
    assert [nodes[str(each)]["step"] for each in (run, said.id, facts[0].id)] == [0, 0, 1]
    learned = [(each["from"], each["to"]) for each in drawn["edges"] if each["word"] == "learned"]
    assert learned == [(str(run), str(fact.id)) for fact in facts]
    assert {(each["from"], each["word"]) for each in drawn["edges"]} >= {(str(said.id), "led to")}


# -- in a browser ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("path")
async def test_in_a_browser_a_wrong_fact_is_corrected(browser):
    said = await browser.memory.store_episode("I have moved to Porto!", butler="home", source="Mira")
    await browser.memory.store_fact("Mira", "home", "lives in Lisbon")
    long = {"tags": ["t" * 150], "metadata": {"k": "v" * 300}}
    fact = await browser.memory.store_fact("Mira", "home", "lives in Braga", source_episode_id=said.id, **long)
    await browser.open(f"{ASK}?q=Where+does+Mira+live")
    page = browser.page
    await page.locator("#by-search").get_by_role("link", name="lives in Braga").click()
    graph = page.locator(".graph")
    await graph.locator("canvas").first.wait_for()
    assert await browser.barriers() == []
    await graph.focus()
    await page.keyboard.press("ArrowLeft")
    if "Lisbon" in await page.locator("[data-graph-told]").inner_text():
        await page.keyboard.press("ArrowDown")
    assert "episode, active: I have moved to Porto!" in await page.locator("[data-graph-told]").inner_text()
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/memory/episode/{said.id}*")
    await page.go_back()
    place_of = "element => [element.offsetLeft, element.offsetTop]"
    buttons = page.locator(".correct .button:visible")
    places = [await each.evaluate(place_of) for each in await buttons.all()]
    await page.get_by_text("It was wrong").click()
    opened = [await each.evaluate(place_of) for each in (await buttons.all())]
    assert [each for each in opened if each in places] == places, "a button has moved away under the pointer"
    await page.get_by_label("What it should say").fill("lives in Porto")
    await browser.press("Save the correction")
    await page.get_by_text("Corrected.").wait_for()
    await browser.pictures("memory")
    await page.get_by_role("link", name="Ask again").click()
    assert "lives in Porto" in await page.locator("#by-search").inner_text()
    await browser.theme("dark")
    await page.set_viewport_size({"width": 360, "height": 740})
    await browser.open(place("fact", fact.id))
    await graph.locator("canvas").first.wait_for()
    assert await browser.overflow() == 0
    assert await browser.barriers() == []
    await page.get_by_text("Remove it").click()
    await browser.press("Forget")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_text("It can't be brought back").wait_for()
    await dialog.get_by_role("button", name="Forget").click()
    await page.get_by_text("It was forgotten").wait_for()
    assert (await browser.memory.look("fact", fact.id)).state == "retracted"
