"""Whose turn it is: decisions about scheduled jobs, and about the pieces that some of them are divided into.

A piece is named `job/key`. Pieces of one key take turns in the order of their ticks, whatever jobs they belong to.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(hours=1)
"""Bounds of the time after which a failed job is tried again."""

BELIEVABLE = 10
"""A lease that ends later than this many leases from now was written under a wrong clock."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A job or a piece of one: when it is due, who is doing it, and how the last run went.

    `lease_until` is the end of the holder's lease. Without a holder, it is when a piece that failed may be tried again;
    its `due_at` stays, and with it the piece's place before later ones.
    """

    name: str
    due_at: datetime | None = None
    holder: str | None = None
    lease_until: datetime | None = None
    last_started_at: datetime | None = None
    last_finished_at: datetime | None = None
    last_error: str | None = None
    result: Any = None

    @property
    def job(self) -> str:
        return self.name.partition("/")[0]

    @property
    def key(self) -> str:
        """Of a piece; empty for a job."""
        return self.name.partition("/")[2]

    @property
    def turn(self) -> str:
        """What is done by one process at a time: a job, or all pieces of a key."""
        return self.key or self.name

    def state(self, now: datetime, lease: timedelta) -> str:
        """running, interrupted (it neither finished nor is held), failed, ok, or waiting for the first run."""
        if self.held_until(now, lease):
            return "running"
        if self.last_started_at is None:
            return "waiting"
        if self.last_finished_at is None or self.last_finished_at < self.last_started_at:
            return "interrupted"
        return "failed" if self.last_error else "ok"

    def blocked_until(self, now: datetime, lease: timedelta) -> datetime | None:
        """When the lease or the pause after a failure ends; None if that has passed, or was set by a wrong clock."""
        furthest = now + (BELIEVABLE * lease if self.holder else LONGEST_PAUSE)
        return self.lease_until if self.lease_until is not None and now < self.lease_until <= furthest else None

    def held_until(self, now: datetime, lease: timedelta) -> datetime | None:
        """When the lease ends, if there is one."""
        return self.blocked_until(now, lease) if self.holder else None


def next_turns(
    entries: Collection[Entry], jobs: Sequence[str], now: datetime, lease: timedelta
) -> list[tuple[datetime, Entry]]:
    """Each of these jobs, and of the pieces of each key the first one, with the time from which it may be taken.

    In the order in which they are due; of those due at the same time, in the order of the jobs.
    """
    held = {entry.turn: until for entry in entries if (until := entry.held_until(now, lease))}
    mine = [(entry.due_at, jobs.index(entry.job), entry) for entry in entries if entry.due_at and entry.job in jobs]
    first: dict[str, tuple[datetime, Entry]] = {}
    for due_at, _, entry in sorted(mine, key=lambda each: (each[0], each[1], each[2].name)):
        free_at = held.get(entry.turn) or entry.blocked_until(now, lease) or due_at
        first.setdefault(entry.turn, (max(due_at, free_at), entry))
    return list(first.values())


def pause_after_failure(before: Entry, as_of: datetime) -> timedelta:
    """How long to wait: twice as long as since the failure `before`, if the last run failed too."""
    if before.last_error is None or before.last_started_at is None:
        return FIRST_PAUSE
    return min(max(FIRST_PAUSE, 2 * (as_of - before.last_started_at)), LONGEST_PAUSE)
