"""The verbs that read the timeline: a window of it, and page by page."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated
from uuid import UUID

from tulving import storage
from tulving.domain import cursors, intake, windows
from tulving.domain.model import Item, MemoryId, Page
from tulving.domain.scope import Filter
from tulving.domain.validity import start
from tulving.domain.windows import DEFAULT_DAYS, Window, WindowRequest
from tulving.services.operations import operation
from tulving.services.search import Search
from tulving.services.service import PAGE_SIZES, HouseholdId, PageCursor, PersonaId, UserId

MOST_TYPES = 100
MOST_FOUND = 200
"""Episodes that are found by their words, which have no pages."""


class Windows(Search):
    """Verbs on windows of the timeline."""

    @operation("memory_query_window", http="GET /v1/timeline/window", effect="read", command="window", standard=False)
    async def query_window(
        self,
        since: Annotated[datetime | None, "From this time on, inclusive"] = None,
        until: Annotated[datetime | None, "Earlier than this"] = None,
        last_days: Annotated[
            float | None,
            f"How many days back from now, instead of since and until; {DEFAULT_DAYS} if nothing is given",
            windows.DAYS,
        ] = None,
        top_k: Annotated[int, "How many at most; the newest are kept", PAGE_SIZES] = 10,
        user_id: UserId = None,
        household_id: HouseholdId = None,
        persona_id: PersonaId = None,
        event_types: Annotated[list[str] | None, "Only of one of these types"] = None,
        min_importance: Annotated[
            float | None, "Only what is at least this important, 0 to 10", intake.IMPORTANCE
        ] = None,
        project: Annotated[str | None, "Only this project"] = None,
        session_id: Annotated[MemoryId | None, "Only this session"] = None,
        tags: Annotated[list[str] | None, "Only with all of these labels"] = None,
        butler: Annotated[str | None, "Only what this agent observed"] = None,
    ) -> Window:
        """List what happened in a window of time, newest first, archived episodes included.

        The diagnostics tell how many episodes there are in the caller's context (scanned), how many are returned, and
        how many were dropped for each reason: outside_window, other_type, other_butler, other_project, other_session,
        lacks_tags, less_important, over_limit. The numbers add up: an episode counts for the first reason that applies.
        On either side of the window at most 1,000 are counted.
        """
        now = self._env.clock()
        begin, end = windows.span(since, until, last_days, now)
        mine = self._within(user_id, household_id, persona_id)
        wanted = WindowRequest(
            bound=mine.bound,
            limit=intake.whole("top_k", top_k, *PAGE_SIZES),
            since=begin,
            until=end,
            types=_names(event_types),
            butler=None if self.bound.scope else intake.optional_name("butler", butler),
            project=None if self.bound.project else intake.optional_name("project", project),
            session_id=intake.optional_id("session_id", session_id),
            tags=intake.tags(tags) or None,
            min_importance=None
            if min_importance is None
            else intake.number("min_importance", min_importance, *intake.IMPORTANCE),
        )
        return await self._read(storage.windows.find, self.caller.tenant_id, wanted, now)

    @operation("memory_episodes", http="GET /v1/episodes", effect="read", command="episodes", standard=False)
    async def episodes(
        self,
        since: Annotated[datetime | None, "From this time on, inclusive"] = None,
        until: Annotated[datetime | None, "Earlier than this"] = None,
        session_id: Annotated[MemoryId | None, "Only this session"] = None,
        type: Annotated[str | None, "Only this type"] = None,
        project: Annotated[str | None, "Only this project"] = None,
        source: Annotated[str | None, "Only what this source said"] = None,
        tags: Annotated[list[str] | None, "Only with all of these labels"] = None,
        query: Annotated[str | None, "Only with these words; the best ones, on one page"] = None,
        gone: Annotated[bool, "Also what was forgotten or has expired"] = False,
        user_id: UserId = None,
        household_id: HouseholdId = None,
        persona_id: PersonaId = None,
        limit: Annotated[int, "How many at most", PAGE_SIZES] = 50,
        cursor: PageCursor = None,
    ) -> Page[Item]:
        """List what happened, the latest first, page by page, archived episodes included. Does not count as a
        reference."""
        mine = self._within(user_id, household_id, persona_id)
        wanted = mine._episodes(since, until, session_id, type, project, source, tags, gone)
        limit, after = intake.whole("limit", limit, *PAGE_SIZES), cursors.read(cursor, datetime, UUID)
        if query is not None:
            text, most = intake.search_query("query", query), min(limit, MOST_FOUND)
            found = await mine._find(text, ["episode"], wanted, "keyword", most, 0.0, 0.0)
            return Page(items=sorted((hit.item for hit in found), key=_latest))
        tenant_id, now = self.caller.tenant_id, self._env.clock()
        found = await self._read(storage.episodes.listing, tenant_id, wanted, now, limit + 1, after)
        items, next_cursor = cursors.page(found, limit, lambda each: (start(each), each.id))
        return Page(items=[*items], next_cursor=next_cursor)

    async def episode_days(
        self,
        days: Sequence[datetime],
        session_id: MemoryId | None = None,
        type: str | None = None,
        project: str | None = None,
        source: str | None = None,
        tags: list[str] | None = None,
        gone: bool = False,
    ) -> list[int]:
        """How many of these episodes happened on each of some days."""
        wanted = self._episodes(None, None, session_id, type, project, source, tags, gone)
        return await self._read(storage.growth.happened, self.caller.tenant_id, wanted, days, self._env.clock())

    def _episodes(
        self,
        since: datetime | None,
        until: datetime | None,
        session_id: MemoryId | None,
        type: str | None,
        project: str | None,
        source: str | None,
        tags: list[str] | None,
        gone: bool,
    ) -> Filter:
        wanted = self._filter(since=since, until=until, type=type, project=project, tags=tags)
        return replace(
            wanted,
            session_id=intake.optional_id("session_id", session_id),
            source=intake.optional_name("source", source),
            state="any" if intake.flag("gone", gone) else None,
            archived=True,
        )


def _latest(item: Item) -> tuple[float, str]:
    return -start(item).timestamp(), str(item.id)


def _names(event_types: object) -> list[str] | None:
    if event_types is None:
        return None
    given = intake.items("event_types", event_types, MOST_TYPES, "a list of names")
    return [intake.name("event_types", each) for each in given] or None
