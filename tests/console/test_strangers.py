"""What others have might as well not be there: a stranger sees the same pages with it as without it."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from administration import administer
from console_parts import STORY, Visitor, application_of
from crawling import crawl
from forms import forms_of, send
from raw_sql import rows_of
from starlette.applications import Starlette

from tulving import Caller, Memory, open_memory
from tulving.domain.access import ALL_RIGHTS
from tulving.interfaces.cli import story
from tulving.testing import ManualClock, SequentialIds, WordEmbedder

STRANGERS = {"tenant": ("other", {}), "user": ("default", {"tulving-user": "bob"})}
"""Who opens the addresses of others: the tenant of their token, and whom they speak for."""
SECRET = "tulving_" + "S" * 43
DRAWN = 0xF000000
"""The first id that is drawn for a stranger."""
OWN = re.compile(
    r"\d+\.\d ms|\b01[0-9a-f]{6}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f-]*0f0000[0-9a-f]{2}\b"
    r"|[0-9a-f]{64}|[0-9a-f]{12}…"
)
"""How long something took, the ids of a stranger's requests and memories, and hashes, to which each store has a key."""
TABLES = ("facts", "episodes", "rules", "memory_links", "revisions", "sessions", "settlements", "learning_runs")


@asynccontextmanager
async def opened(url: str, clock: Any, first_id: int) -> AsyncIterator[Memory]:
    given = {"clock": clock, "ids": SequentialIds(first_id), "embedder": WordEmbedder(), "background": False}
    async with open_memory(url, config=STORY, **given) as memory:
        yield memory


async def seen_by_a_stranger(
    app: Starlette, memory: Memory, who: str, addresses: list[str], forms: dict[str, dict[str, str]]
) -> dict[str, tuple[int, str, str]]:
    """What all pages show, before and after all forms were sent, and what came of these."""

    def shown(answered: httpx2.Response) -> tuple[int, str, str]:
        leads_to = answered.headers.get("location", str(answered.url))
        return answered.status_code, OWN.sub("...", leads_to), OWN.sub("...", answered.text)

    tenant, headers = STRANGERS[who]
    owner = memory.bind(caller=Caller(tenant))
    await administer(owner).create_token(SECRET, name="Sam", rights=[each for each in ALL_RIGHTS if each != "admin"])
    visitor, seen = Visitor(app), dict[str, tuple[int, str, str]]()
    visitor.web.headers.update(headers)
    await visitor.log_in(SECRET)
    for when in ("before", "after"):
        for address in addresses:
            seen[f"{address} {when}"] = shown((await visitor.open(address)).last)
        for action, fields in forms.items() if when == "before" else ():
            seen[action] = shown(await send(visitor, action, fields))
    await visitor.web.aclose()
    return seen


@pytest.mark.parametrize("who", STRANGERS)
async def test_no_page_and_no_form_tells_a_stranger_of_others(new_url: Callable[[], str], who: str):
    url, elsewhere, clock = new_url(), new_url(), ManualClock()
    forms: dict[str, dict[str, str]] = {}
    async with opened(url, told := story.StoryClock(clock.now), 1) as memory:
        await story.tell(memory, told)
        async with application_of(memory) as app:
            secret = (await administer(memory).create_token(rights=ALL_RIGHTS)).secret
            person = await Visitor(app).log_in(secret)
            found = await crawl(person, most=3, look=lambda: forms.update(forms_of(person)))
            await person.web.aclose()
    addresses = [address for each in found.values() for address in each]
    kept = rows_of(url, TABLES)
    if who == "user":
        async with opened(elsewhere, told := story.StoryClock(clock.now), 1) as memory:
            told.at(45, 9)
            for name, (kind, *aliases) in story.ENTITIES.items():  # which all users of a tenant share
                await memory.create_entity(name, kind, aliases=aliases)
    seen = []
    for place in (url, elsewhere):
        async with opened(place, clock, DRAWN) as memory, application_of(memory) as app:
            seen.append(await seen_by_a_stranger(app, memory, who, addresses, forms))
    beside, alone = seen
    after = [repr(row) for row in rows_of(url, TABLES)]
    assert [row for row in kept if repr(row) not in after] == []
    for place, shown in alone.items():
        assert beside[place] == shown, place
