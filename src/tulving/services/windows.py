"""The verb that reads a stretch of the timeline."""

from datetime import datetime
from typing import Annotated

from tulving import storage
from tulving.domain import intake, windows
from tulving.domain.model import MemoryId
from tulving.domain.windows import DEFAULT_DAYS, Window, WindowRequest
from tulving.services.operations import operation
from tulving.services.service import HouseholdId, PersonaId, Service, UserId

EVENTS = intake.Between(1, 1000)
MOST_TYPES = 100


class Windows(Service):
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
        top_k: Annotated[int, "How many at most; the newest are kept", EVENTS] = 10,
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
            limit=intake.whole("top_k", top_k, *EVENTS),
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


def _names(event_types: object) -> list[str] | None:
    if event_types is None:
        return None
    given = intake.items("event_types", event_types, MOST_TYPES, "a list of names")
    return [intake.name("event_types", each) for each in given] or None
