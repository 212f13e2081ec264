"""Whoever may only read changes nothing, whatever form they send."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from console_parts import STORY, Visitor
from crawling import crawl
from html_tree import Element

from tulving import Memory
from tulving.interfaces.cli import story
from tulving.testing import ManualClock

HARMLESS = ("/console/theme", "/console/logout", "/console/login")


def forms_of(visitor: Visitor) -> list[tuple[str, dict[str, str]]]:
    """Where the forms and the buttons of a page post to, and what they send besides their token."""
    found = []
    for form in visitor.tree.all("form"):
        if form["method"].lower() != "post" or form["action"].startswith(HARMLESS):
            continue
        sent = {each["name"]: filled(each) for each in form.all("input", "select", "textarea") if each["name"]}
        sent |= {"_sure": "1"}
        actions = [each["formaction"] for each in form.all("button") if each["formaction"]]
        found += [(action, sent) for action in dict.fromkeys((form["action"], *actions)) if action]
    return found


def filled(field: Element) -> str:
    """A value that is not refused for being empty."""
    if field.tag == "select":
        return next((option["value"] for option in field.all("option") if option["value"]), "")
    return field["value"] or field.raw_text.strip() or "something"


async def test_a_reader_changes_nothing(entered, memory: Memory, sql: Callable[..., Any], clock: ManualClock):
    told = story.StoryClock(clock.now)
    await story.tell(Memory(replace(memory._env, clock=told, config=STORY), memory.caller), told)
    person, reader = await entered("read", "write", "destroy", "review", "admin"), await entered("read")
    forms: dict[str, dict[str, str]] = {}
    await crawl(person, most=2, look=lambda: forms.update(forms_of(person)))
    assert len(forms) > 10, forms

    async def sent(visitor: Visitor, path: str, fields: dict[str, str]) -> int:
        token = next(each["content"] for each in visitor.tree.all("meta") if each["name"] == "form-token")
        page, told = visitor.response, {**fields, "_token": token}
        await visitor.send("POST", path, data=told, follow_redirects=False)
        status, visitor.response = visitor.status, page
        return status

    def trail() -> int:
        return sql("SELECT count(*) AS n FROM memory_events")[0]["n"]

    before = trail()
    for action, fields in forms.items():
        path = action.partition("#")[0]
        status = await sent(reader, path, fields)
        assert trail() == before, f"a reader changed something by {path}"
        assert status in (400, 403, 404), (path, status)
    for action, fields in forms.items():
        await sent(person, action.partition("#")[0], fields)
    assert trail() > before, "the forms do nothing in any hands"
