"""The Timeline: what happened, by day and session."""

from datetime import UTC, datetime, timedelta

import pytest
from console_parts import query_of

from tulving import MemoryModuleConfig
from tulving.settings import TimelineConfig


@pytest.fixture
def config() -> MemoryModuleConfig:
    return MemoryModuleConfig(timeline=TimelineConfig(keep_days=1))


async def test_an_empty_timeline_says_how_episodes_come(visitor):
    await visitor.open("/console/timeline")
    assert visitor.status == 200
    assert "Nothing has happened yet" in visitor.text
    await visitor.open("/console/timeline?source=Mira")
    assert "Nothing happened here" in visitor.text


@pytest.fixture
async def told(memory, clock):
    """Two days, the second one with a session."""
    await memory.store_episode("Mira bought tea", butler="a", source="Mira", tags=["shop"], type="task", title="Shop")
    clock.advance(days=1)
    session = await memory.start_session(project="kitchen", butler="cook")
    await memory.store_episode("Jon broke the pot", butler="a", source="Jon", project="kitchen")
    clock.advance(minutes=5)
    await memory.store_episode("Jon bought another pot", butler="a", source="Jon")
    await memory.end_session(summary="The pot was replaced.")
    clock.advance(minutes=5)
    return session


async def test_days_and_sessions_the_latest_first(visitor, told):
    await visitor.open("/console/timeline")
    text = visitor.text
    places = [text.index(part) for part in ("Friday, 2 Jan", "another pot", "broke the pot", "Thursday, 1 Jan", "tea")]
    assert places == sorted(places)
    assert "kitchen · session of cook" in text
    assert "The pot was replaced." in text and "2 episodes" in text
    await visitor.follow("kitchen · session of cook")
    assert "broke the pot" in visitor.text and "tea" not in visitor.text
    assert query_of(visitor.path)["session"] == str(told.id)
    assert (visitor.heading, visitor.text.count("The pot was replaced.")) == ("Session", 1)


@pytest.mark.parametrize("year", [1, 9999])
async def test_an_episode_at_the_end_of_time_does_not_break_the_pages(visitor, memory, year):
    await memory.record_event("the end of time", "task", timestamp=datetime(year, 12, 31, tzinfo=UTC), user_id="u")
    [episode] = await memory.episodes()
    for path in ("timeline", "ask?q=time", f"memory/episode/{episode.id}", "facts", ""):
        await visitor.open(f"/console/{path}")
        assert visitor.status == 200, path
    await visitor.open("/console/timeline")
    assert "the end of time" in visitor.text


@pytest.mark.parametrize("asked", ["day=9999-12-31", "day=0001-01-01", "end=0001-02-01", "end=0999-12-31"])
async def test_a_day_without_days_around_it_is_refused(visitor, told, asked):
    await visitor.open(f"/console/timeline?{asked}")
    assert visitor.status == 422 and "1000-01-01" in visitor.text


@pytest.mark.parametrize(
    ("filled", "found"),
    [
        ({"source": "Mira"}, {"tea"}),
        ({"type": "task"}, {"tea"}),
        ({"tags": "shop"}, {"tea"}),
        ({"tags": "shop, other"}, set()),
        ({"project": "kitchen"}, {"broke"}),
        ({"day": "2026-01-02"}, {"broke", "another"}),
        ({"text": "pot"}, {"broke", "another"}),
        ({"text": "pot", "source": "Mira"}, set()),
        ({"day": "2026-01-01", "text": "tea"}, {"tea"}),
    ],
)
async def test_filters(visitor, told, filled, found):
    await visitor.open("/console/timeline")
    await visitor.press("Show", **filled)
    assert visitor.status == 200
    shown = " ".join(each.text for each in visitor.tree.all("a") if each["class"] == "moment")
    assert {word for word in ("tea", "broke", "another") if word in shown} == found


async def test_pages_and_the_chart_lead_on(visitor, memory, clock):
    for number in range(60):
        await memory.store_episode(f"moment {number}", butler="a")
        clock.advance(hours=1)
    await visitor.open("/console/timeline")
    assert "moment 59" in visitor.text and "moment 9 " not in visitor.text
    assert visitor.links("Earlier") and not visitor.links("Later"), "nothing happens after today"
    await visitor.follow("Next page")
    assert "moment 9 " in f"{visitor.text} " and "moment 59" not in visitor.text
    await visitor.follow("First page")
    await visitor.follow("2 Jan")
    assert query_of(visitor.path)["day"] == "2026-01-02"
    assert "moment 24" in visitor.text and "moment 23" not in visitor.text and "moment 48" not in visitor.text
    await visitor.follow("Earlier")
    assert "moment 24" in visitor.text, "only the chart moves"
    assert "Nothing happened from 12 Oct 2025 to 22 Nov 2025." in visitor.text
    await visitor.follow("Later")
    assert "2 Jan 2026 is shown" in visitor.text


async def test_what_is_gone_is_shown_if_asked_for_and_says_so(visitor, memory, told, clock):
    gone = next(each for each in await memory.episodes() if "broke" in each.content)
    await memory.forget("episode", gone.id)
    await visitor.open("/console/timeline")
    assert "broke" not in visitor.text
    await visitor.press("Show", gone=True)
    assert "broke" in visitor.text and "forgotten" in visitor.text


async def test_archived_episodes_are_shown_as_such(visitor, memory, told, clock, sql):
    sql("UPDATE episodes SET consolidated = TRUE, consolidation_status = 'consolidated'")
    await visitor.open("/console/timeline")
    assert "archived" not in visitor.text
    clock.advance(days=2)
    assert (await memory.rotate_timeline())["archived"] == 3
    await visitor.open("/console/timeline")
    assert "Mira bought tea" in visitor.text
    assert "archived" in visitor.text


@pytest.mark.parametrize("asked", ["day=yesterday", "end=x", "cursor=x", "session=x"])
async def test_an_address_that_makes_no_sense_is_refused(visitor, asked):
    await visitor.open(f"/console/timeline?{asked}")
    assert visitor.status == 422


async def test_a_long_ago_import_is_in_the_chart(visitor, memory, clock):
    await memory.store_episode("long ago", butler="a", occurred_at=clock.now - timedelta(days=3000))
    await visitor.open("/console/timeline")
    assert "long ago" in visitor.text
    assert "Later" in visitor.text


@pytest.mark.usefixtures("path")
async def test_it_looks_as_it_should(browser):
    for number in range(3):
        await browser.memory.store_episode(f"moment {number}", butler="a", title="A title", source="Mira", tags=["tea"])
    await browser.open("/console/timeline")
    await browser.page.wait_for_selector(".uplot canvas")
    assert await browser.barriers() == []
    await browser.theme("dark")
    assert await browser.barriers() == []
    box = await browser.page.locator(".u-over").bounding_box()
    assert box is not None
    await browser.page.mouse.click(box["x"] + box["width"] - 4, box["y"] + box["height"] - 4)
    await browser.page.wait_for_url("**day=**")
    assert "moment 2" in await browser.text()
    await browser.page.set_viewport_size({"width": 360, "height": 740})
    assert await browser.overflow() == 0
    await browser.pictures("timeline")
