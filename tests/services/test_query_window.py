"""Windows of the timeline: newest first, of one context only, with counts of what was left out."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from tulving import Caller, InvalidInput, NewEpisode, open_memory
from tulving.storage import windows
from tulving.testing import SequentialIds

NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""What the clock says at first."""


def ago(**duration):
    return NOW - timedelta(**duration)


def event(content, when=NOW, type="task", **more):
    return NewEpisode(content=content, type=type, occurred_at=when, **{"butler": "b", **more})


def contents(window):
    return [each.content for each in window]


def balanced(window):
    counts = window.diagnostics
    assert counts.scanned == counts.returned + sum(counts.dropped.values())
    assert counts.returned == len(window)
    return counts


@pytest.mark.scenario("000-013")
async def test_events_are_listed_newest_first_however_they_arrived_and_after_a_restart(
    memory, clock, embedder, config, url
):
    days = (3, 1, 5, 2, 4)
    for day in days:
        await memory.record_event(f"day {day}", "task", ago(days=day), user_id="ada", importance=day, source="Ada")
    first = await memory.record_event("tied", "task", ago(days=2), user_id="ada")
    clock.advance(hours=1)
    later = await memory.record_event("tied too", "task", ago(days=2), user_id="ada")
    async with open_memory(
        url, config=config, embedder=embedder, clock=clock, ids=SequentialIds(1000), background=False
    ) as reopened:
        window = await reopened.query_window(user_id="ada")
    assert contents(window) == ["day 1", "tied too", "tied", "day 2", "day 3", "day 4", "day 5"]
    assert [each.id for each in window][1:3] == [later.id, first.id], "the one stored last comes first"
    assert (window[0].type, window[0].importance, window[0].source) == ("task", 1.0, "Ada")
    assert balanced(window).dropped == {"outside_window": 0, "over_limit": 0}
    newest = await memory.query_window(user_id="ada", top_k=2)
    assert contents(newest) == ["day 1", "tied too"]
    assert balanced(newest).dropped["over_limit"] == 5
    assert len(await memory.query_window(top_k=1000)) == 7


@pytest.mark.scenario("000-015")
async def test_what_is_outside_the_window_is_dropped_and_counted(memory):
    moment = timedelta(microseconds=1)
    old, edge, recent = ago(days=7), ago(days=1), ago(hours=1)
    dates = {"old": old, "before": edge - moment, "edge": edge, "recent": recent, "now": NOW, "soon": NOW + moment}
    await memory.record_events([event(name, when) for name, when in dates.items()], user_id="ada")
    for asked, expected in (
        ({"last_days": 1}, ["now", "recent", "edge"]),
        ({"last_days": 0.5}, ["now", "recent"]),
        ({"last_days": 7}, ["now", "recent", "edge", "before", "old"]),
        ({"last_days": 36_500}, ["now", "recent", "edge", "before", "old"]),
        ({}, ["now", "recent", "edge", "before", "old"]),
        ({"since": edge}, ["soon", "now", "recent", "edge"]),
        ({"until": edge}, ["before", "old"]),
        ({"since": edge, "until": NOW}, ["recent", "edge"]),
        ({"since": edge.replace(tzinfo=None), "until": NOW + moment}, ["now", "recent", "edge"]),
    ):
        window = await memory.query_window(user_id="ada", **asked)
        assert contents(window) == expected, asked
        assert balanced(window).dropped["outside_window"] == 6 - len(expected), asked
    await memory.record_event("month", "task", ago(days=31), user_id="ada")
    assert "month" not in contents(await memory.query_window()), "30 days if nothing is said"
    assert "month" in contents(await memory.query_window(last_days=31))


@pytest.mark.scenario("000-014")
async def test_only_the_events_of_the_context_are_returned_and_counted(memory):
    owners = [
        {"user_id": user, "household_id": home, "persona_id": persona}
        for user in ("ada", "bob")
        for home in ("home", "work")
        for persona in ("gardener", "cook")
    ]
    for owner in owners:
        await memory.record_event("-".join(owner.values()), "task", ago(hours=1), **owner)
    await memory.record_events([event(f"noise {n}") for n in range(50)], user_id="crowd")
    another = memory.bind(caller=Caller(tenant_id="other"))
    await another.record_event("another tenant", "task", ago(hours=1), **owners[0])
    for asked in ({"user_id": "ada"}, {"household_id": "work"}, {"persona_id": "cook"}, owners[0], {"user_id": "none"}):
        expected = {"-".join(owner.values()) for owner in owners if asked.items() <= owner.items()}
        for window in (await memory.query_window(**asked), await memory.bind(**asked).query_window()):
            assert set(contents(window)) == expected
            assert balanced(window).scanned == len(expected)
    assert (await another.query_window()).diagnostics.scanned == 1
    await memory.record_events([event("mine", project="yard"), event("theirs", project="p", butler="c")], user_id="ada")
    bound = memory.bind(user_id="ada", project="yard", scope="b")
    for asked in ({}, {"project": "p"}, {"butler": "c"}):
        window = await bound.query_window(**asked)
        assert (contents(window), balanced(window).scanned) == (["mine"], 1), "what is bound counts"
        assert [*window.diagnostics.dropped] == ["outside_window", "over_limit"]


@pytest.mark.scenario("000-013", "000-015")
async def test_each_condition_drops_and_counts_what_does_not_meet_it(memory):
    """One event fails each condition and all that follow: it counts once, for the first."""
    session = UUID(int=700)
    fits = {"type": "talk", "butler": "b", "project": "p", "session_id": session, "tags": ["x", "y"], "importance": 6}
    wrong = [
        *({"importance": 5.9}, {"tags": ["x"]}, {"session_id": None}, {"project": None}),
        *({"butler": "c"}, {"type": "task"}, {"when": ago(days=8)}),
    ]
    offers, so_far = [event("fits", ago(hours=1), **fits), event("fits too", **{**fits, "type": "chat"})], {}
    for change in wrong:
        so_far |= change
        offers.append(event(f"not {next(iter(change))}", **{"when": ago(hours=2), **fits, **so_far}))
    await memory.record_events(offers, user_id="ada")
    asked = {
        "event_types": ["talk", "chat"],
        "butler": "b",
        "project": "p",
        "session_id": str(session),
        "tags": ["y", "x"],
        "min_importance": 6,
    }
    window = await memory.query_window(last_days=7, top_k=1, **asked)
    assert contents(window) == ["fits too"]
    reasons = ("other_type", "other_butler", "other_project", "other_session", "lacks_tags", "less_important")
    assert balanced(window).dropped == dict.fromkeys(("outside_window", *reasons, "over_limit"), 1)
    for name, reason in zip(asked, reasons, strict=True):
        alone = await memory.query_window(last_days=7, **{name: asked[name]})
        counts = balanced(alone).dropped
        assert [*counts] == ["outside_window", reason, "over_limit"]
        assert counts[reason] == len(offers) - 1 - len(alone) > 0
    assert [*(await memory.query_window(event_types=[], tags=[])).diagnostics.dropped] == [
        "outside_window",
        "over_limit",
    ]


async def test_a_long_past_is_not_counted_to_its_end(memory, monkeypatch):
    monkeypatch.setattr(windows, "MOST_COUNTED", 2)
    hours = [event(f"{hour} hours ago", ago(hours=hour)) for hour in range(-4, 5)]
    await memory.record_events(hours, user_id="ada")
    window = await memory.query_window(since=ago(hours=1), until=ago(hours=-2), top_k=1)
    assert contents(window) == ["-1 hours ago"]
    assert balanced(window).dropped == {"outside_window": 4, "over_limit": 2}
    assert (await memory.query_window(until=ago(hours=-4))).diagnostics.dropped["outside_window"] == 1


async def test_what_is_archived_is_seen_and_what_is_gone_is_not(memory, clock, sql):
    stored = await memory.record_events([event("archived"), event("forgotten"), event("kept")], user_id="ada")
    await memory.store_episode("expired", butler="b")
    await memory.store_episode("lasting", butler="b", type="note")
    sql("UPDATE episodes SET segment_id = ? WHERE id = ?", UUID(int=1), stored[0].id)
    assert await memory.forget("episode", stored[1].id)
    clock.advance(days=8)
    window = await memory.query_window()
    assert sorted(contents(window)) == ["archived", "kept", "lasting"]
    assert balanced(window).scanned == 3


async def test_a_window_that_makes_no_sense_is_refused(memory):
    for asked, field in (
        ({"since": NOW, "last_days": 1}, "last_days"),
        ({"until": NOW, "last_days": 1}, "last_days"),
        ({"since": NOW, "until": NOW}, "until"),
        *(({"last_days": days}, "last_days") for days in (0, -1, 36_501, float("nan"), "7", True)),
        *(({"top_k": most}, "top_k") for most in (0, 1001, 2.0, None)),
        *(({"event_types": types}, "event_types") for types in ("task", [5], [""], ["a"] * 101)),
        *(({"min_importance": least}, "min_importance") for least in (-0.1, 10.1, "5")),
    ):
        with pytest.raises(InvalidInput) as refusal:
            await memory.query_window(**asked)
        assert refusal.value.field == field, asked
