"""Whoever may only read changes nothing, whatever form they send."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from console_parts import STORY
from crawling import crawl
from forms import forms_of, send

from tulving import Memory
from tulving.interfaces.cli import story
from tulving.testing import ManualClock


async def test_a_reader_changes_nothing(entered, memory: Memory, sql: Callable[..., Any], clock: ManualClock):
    told = story.StoryClock(clock.now)
    await story.tell(Memory(replace(memory._env, clock=told, config=STORY), memory.caller), told)
    person, reader = await entered("read", "write", "destroy", "review", "admin"), await entered("read")
    forms: dict[str, dict[str, str]] = {}
    await crawl(person, most=2, look=lambda: forms.update(forms_of(person)))
    assert len(forms) > 10, forms

    def trail() -> int:
        return sql("SELECT count(*) AS n FROM memory_events")[0]["n"]

    before = trail()
    for action, fields in forms.items():
        status = (await send(reader, action, fields)).status_code
        assert trail() == before, f"a reader changed something by {action}"
        assert status in (422, 403, 404), (action, status)
    for action, fields in forms.items():
        await send(person, action, fields)
    assert trail() > before, "the forms do nothing in any hands"
