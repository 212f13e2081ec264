"""Rules: on their ladder, marked and stored."""

import pytest


@pytest.fixture
async def rules(memory, clock):
    tests = (await memory.store_rule("Run the tests", tags=["deploy"])).id
    retry = (await memory.store_rule("Retry at once", scope="kitchen")).id
    for _ in range(5):
        clock.advance(hours=1)
        await memory.mark_helpful(tests)
    for _ in range(3):
        await memory.mark_harmful(retry, "the server fell over")
    await memory.store_rule("Answer briefly")
    return tests, retry


async def test_an_empty_page_says_what_a_rule_is(visitor):
    await visitor.open("/console/rules")
    assert "There are no rules" in visitor.text and "born a candidate" in visitor.text


async def test_the_ladder_says_where_each_stands_and_what_comes_next(visitor, rules):
    await visitor.open("/console/rules")
    text = visitor.text
    places = [
        text.index(part) for part in ("Proven 0", "Established 1", "Run the tests", "Candidate 2", "Answer brief")
    ]
    assert places == sorted(places)
    assert "10 more helpful marks to become proven, the last one in 30 days or later" in text
    assert "5 more helpful marks to become established" in text
    assert "100% 5 helpful, 0 harmful" in text and "0% 0 helpful, 3 harmful" in text
    assert "3 reasons given for harm" in text and "the server fell over" in text
    assert "refuted: becomes a warning" in text
    [dots] = [each for each in visitor.tree.all("p") if each["class"] == "dots" and "harmful" not in each["aria-label"]]
    assert len([*dots.all("span")]) == 5
    spans = [each.text for each in visitor.tree.all("p") if len([*each.all("time")]) == 2]
    assert len(spans) == 2 and all(" to " in each for each in spans), "the marks over time"


async def test_a_warning_is_the_lowest_rung(visitor, memory, rules):
    await memory.invert_rule(rules[1])
    await visitor.open("/console/rules")
    assert "Anti-pattern 1" in visitor.text and "Do NOT Retry at once" in visitor.text
    await visitor.open("/console/rules?maturity=anti_pattern")
    assert "Do NOT Retry at once" in visitor.text and "Run the tests" not in visitor.text
    assert "Helpful" not in visitor.buttons()


async def test_a_rule_is_marked(visitor, memory, rules):
    await visitor.open("/console/rules")
    await visitor.press("Helpful", near="Answer briefly")
    assert "Marked as helpful. It is a candidate now, with an effectiveness of 100%." in visitor.text
    await visitor.press("Mark as harmful", near="Run the tests", reason="it took an hour")
    assert "Marked as harmful. It is a candidate now" in visitor.text
    marked = await memory.look("rule", rules[0])
    assert (marked.harmful_count, list(marked.metadata["harmful_reasons"])) == (1, ["it took an hour"])
    assert "it took an hour" in visitor.text


async def test_a_mark_that_is_none_is_refused(visitor, memory, rules):
    await visitor.open("/console/rules")
    form = next(each for each in visitor.tree.all("form") if each["action"].endswith("/mark"))
    token = next(each for each in form.all("input") if each["name"] == "_token")["value"]
    await visitor.send("POST", form["action"], data={"_token": token, "outcome": "odd"})
    assert visitor.status == 422
    await visitor.send(
        "POST", f"/console/rules/{rules[0].int:032x}x/mark", data={"_token": token, "outcome": "helpful"}
    )
    assert visitor.status == 422
    unknown = "/console/rules/00000000-0000-0000-0000-0000000000ff/mark"
    await visitor.send("POST", unknown, data={"_token": token, "outcome": "helpful"})
    assert visitor.status == 404


async def test_a_rule_is_stored(visitor, memory):
    await visitor.open("/console/rules")
    await visitor.press("Store rule", content="Pour slowly", permanence="stable", tags="tea")
    assert "Stored as a candidate" in visitor.text and "Pour slowly" in visitor.text
    [rule] = await memory.list_memories("rule")
    assert (rule.permanence, list(rule.tags), rule.scope) == ("stable", ["tea"], "global")
    await visitor.press("Forget it")
    assert (await memory.look("rule", rule.id)).forgotten
    await visitor.open("/console/rules")
    await visitor.press("Store rule", content=" ")
    assert visitor.status == 422 and "Content: " in visitor.text


async def test_a_rung_has_pages(visitor, memory):
    await memory.store_rules([{"content": f"rule {number:03}"} for number in range(60)])
    await visitor.open("/console/rules")
    await visitor.follow("All 60")
    seen = {f"rule {number:03}" for number in range(60) if f"rule {number:03}" in visitor.text}
    assert len(seen) == 50
    await visitor.follow("Next page")
    assert len(seen | {f"rule {number:03}" for number in range(60) if f"rule {number:03}" in visitor.text}) == 60


async def test_what_is_out_of_use_has_a_page(visitor, memory, rules):
    await memory.forget("rule", rules[0])
    await visitor.open("/console/rules")
    assert "Run the tests" not in visitor.text
    await visitor.follow("1 out of use")
    assert "Run the tests" in visitor.text


async def test_a_reader_can_not_mark(entered, rules):
    reader = await entered("read")
    await reader.open("/console/rules")
    assert "Run the tests" in reader.text
    assert not {"Helpful", "Mark as harmful", "Store rule"} & {*reader.buttons()}


@pytest.mark.usefixtures("path")
async def test_it_looks_as_it_should(browser):
    memory = browser.memory
    rule = (await memory.store_rule("Run the tests before deploying")).id
    await memory.mark_helpful(rule)
    await memory.mark_harmful(rule, "slow")
    await browser.open("/console/rules")
    assert await browser.barriers() == []
    await browser.theme("dark")
    await browser.page.locator("summary", has_text="Harmful").click()
    assert await browser.barriers() == []
    await browser.page.set_viewport_size({"width": 360, "height": 740})
    assert await browser.overflow() == 0
    await browser.page.get_by_label("What went wrong?").fill("it took an hour")
    await browser.press("Mark as harmful")
    await browser.page.wait_for_selector("text=Marked as harmful")
