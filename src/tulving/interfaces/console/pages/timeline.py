"""Timeline: what happened, day by day and session by session."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from starlette.responses import Response

from tulving.domain import days as calendar
from tulving.domain.model import Episode
from tulving.domain.validity import start
from tulving.errors import InvalidInput
from tulving.interfaces.console import fields
from tulving.interfaces.console.visit import Page, Visit
from tulving.services.sessions import SessionReport

SHOWN = 50
CHARTED = 42
"""How many days the chart shows."""
FIRST, LAST = datetime(1000, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)
"""The days that can be chosen, and on which the chart may end: it needs days before and after them."""
FILTERS = ("session", "type", "project", "source", "tags", "text", "gone", "day")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive episodes of one session, or without a session."""

    session_id: UUID | None
    session: SessionReport | None
    episodes: list[Episode]


@dataclass(frozen=True, slots=True)
class Day:
    """A day with its stretches, the latest first."""

    day: datetime
    stretches: list[Stretch] = field(default_factory=list)


async def show(visit: Visit) -> Response:
    """Episodes, the latest first."""
    asked = {name: fields.text(visit.query, name) for name in FILTERS}
    wanted, day = _wanted(asked), _day("day", asked["day"])
    if day is not None:
        wanted |= {"since": day, "until": day + calendar.DAY}
    if asked["text"]:
        wanted["query"] = asked["text"]
    page = await visit.call("memory_episodes", **wanted, limit=SHOWN, cursor=visit.query.get("cursor"))
    episodes: list[Episode] = [*page]
    memory = visit.memory
    sessions = await memory.get_sessions({each.session_id for each in episodes if each.session_id})
    last = _last(visit, day, episodes)
    shown = calendar.until(last, CHARTED)
    counts = await memory.episode_days(shown, **_wanted(asked))
    return visit.render(
        "timeline.html",
        asked=asked,
        is_asked=any(asked.values()),
        count=len(episodes),
        day=day,
        days=_days(episodes, sessions),
        cursor=page.next_cursor,
        chart=_chart(visit, shown, counts, day) if any(counts) else None,
        first=shown[0],
        last=last,
        earlier=_ending(visit, shown[0] - calendar.DAY),
        later=_ending(visit, last + CHARTED * calendar.DAY) if last < calendar.midnight(visit.now) else None,
        session=await _session(visit, asked["session"]),
        shown=SHOWN,
    )


def _wanted(asked: dict[str, str]) -> dict[str, Any]:
    """The filter arguments, without the day and the words."""
    wanted: dict[str, Any] = {name: asked[name] for name in ("type", "project", "source") if asked[name]}
    if asked["session"]:
        wanted["session_id"] = asked["session"]
    if tags := fields.tags(asked):
        wanted["tags"] = tags
    if asked["gone"]:
        wanted["gone"] = True
    return wanted


async def _session(visit: Visit, session_id: str) -> SessionReport | None:
    if not session_id:
        return None
    with suppress(InvalidInput):
        return await visit.memory.get_session(session_id)
    return None


def _day(name: str, text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise InvalidInput(name, f"{text!r:.40} is not a day", "a day as 2026-03-01") from None
    if not FIRST <= day <= LAST:
        raise InvalidInput(name, f"{text} can't be shown", f"a day from {FIRST:%Y-%m-%d} to {LAST:%Y-%m-%d}")
    return day


def _last(visit: Visit, day: datetime | None, episodes: Sequence[Episode]) -> datetime:
    """The last day of the chart: the requested one; else some days after the chosen day, or the day of the latest
    episode, since all of them may be old."""
    today = calendar.midnight(visit.now)
    if (end := _day("end", visit.query.get("end"))) is not None:
        return min(end, today)
    if day is not None:
        return min(today, day + CHARTED // 2 * calendar.DAY) if day <= today else day
    return min(max(calendar.midnight(start(episodes[0])), FIRST), LAST) if episodes else today


def _ending(visit: Visit, day: datetime) -> str:
    """The URL of this page with a chart that ends on a day."""
    return visit.with_query(end=f"{day:%Y-%m-%d}", cursor=None)


def _chart(visit: Visit, shown: Sequence[datetime], counts: Sequence[int], day: datetime | None) -> dict[str, Any]:
    end = visit.query.get("end")
    marks = [{"x": shown.index(day), "label": f"{day.day} {day:%b}"}] if day in shown and day is not None else []
    return {
        "title": f"Episodes on each day from {shown[0].day} {shown[0]:%b} to {shown[-1].day} {shown[-1]:%b %Y}",
        "kind": "bars",
        "unit": "episodes",
        "x": [f"{each.day} {each:%b}" for each in shown],
        "series": [{"name": "Episodes", "colour": "episode", "values": [*counts]}],
        "marks": marks,
        "links": [
            visit.with_query(day=f"{each:%Y-%m-%d}", end=end, cursor=None) if count else None
            for each, count in zip(shown, counts, strict=True)
        ],
    }


def _days(episodes: Sequence[Episode], sessions: dict[UUID, SessionReport]) -> list[Day]:
    return [
        Day(day, [Stretch(id_, sessions.get(id_) if id_ else None, [*some]) for id_, some in groupby(of_day, _in)])
        for day, of_day in groupby(episodes, lambda episode: calendar.midnight(start(episode)))
    ]


def _in(episode: Episode) -> UUID | None:
    return episode.session_id


PAGES = [Page("/timeline", show)]
