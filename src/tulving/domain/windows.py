"""Windows of time over episodes: which part of the timeline is asked for, and what was left out of it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from tulving.domain import intake
from tulving.domain.model import Episode
from tulving.domain.records import Listing, Record
from tulving.domain.scope import Bound
from tulving.errors import InvalidInput

EVENT_TYPES = ("conversation", "task", "reminder", "emotion", "preference", "custom")
"""000's types of events. Any other name is a type too."""
DEFAULT_DAYS = 30
DAYS = intake.Between(0, 36_500)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRequest:
    """Which episodes are asked for: of those that `bound` reaches, the newest `limit` that meet every condition. None
    means any."""

    bound: Bound
    limit: int
    since: datetime | None = None
    until: datetime | None = None
    types: Sequence[str] | None = None
    butler: str | None = None
    project: str | None = None
    session_id: UUID | None = None
    tags: Sequence[str] | None = None
    min_importance: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WindowDiagnostics(Record):
    """How many episodes there are in the caller's context (`scanned`), how many of them are returned,
    and how many were dropped for which reason. An episode counts for the first condition that it does not meet, so
    `scanned` is the sum of the others. There is an entry for each condition that was asked for. Of those outside the
    window at most 1,000 are counted on either side."""

    scanned: int
    returned: int
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Window(Record, Listing[Episode]):
    """The episodes of a window, newest first: a sequence of them."""

    events: list[Episode]
    diagnostics: WindowDiagnostics

    @property
    def _listed(self) -> list[Episode]:
        return self.events


def event_key(bound: Bound, event_type: str, happened_at: datetime, content_hash: str) -> str:
    """What makes a recorded event the same one: whose it is, its type, when it happened (UTC) and what it says. What a
    connection is bound to counts: an event that it can't read is not the same as its own."""
    whose = (bound.owner.key, bound.project, bound.scope)
    parts = (*whose, event_type, happened_at.isoformat(timespec="microseconds"), content_hash)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def span(since: object, until: object, last_days: object, now: datetime) -> tuple[datetime | None, datetime | None]:
    """The window between two times, or of the last days (the last 30 if nothing is given): its first moment, and the
    first one after it. The last days end now, so they leave out what is dated in the future."""
    begin, end = intake.moment("since", since), intake.moment("until", until)
    if begin is not None or end is not None:
        if last_days is not None:
            raise InvalidInput("last_days", "is given beside since or until", "either last_days, or since and until")
        if begin and end and begin >= end:
            raise InvalidInput("until", "is not after since", "a later time")
        return begin, end
    days = DEFAULT_DAYS if last_days is None else intake.number("last_days", last_days, *DAYS)
    if not days:
        raise InvalidInput("last_days", "is 0", f"more than 0 and at most {DAYS.high}")
    return now - timedelta(days=days), now + timedelta.resolution
