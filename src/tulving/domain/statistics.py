"""How many memories there are of each kind and in each state, how many come and how many fade."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tulving.domain.model import Item
from tulving.domain.records import Listing, Record


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EpisodeCounts(Record):
    """Episodes. `expired` and `archived` ones are also counted by how far they were learned from;
    `backlog_age_hours` is how long the oldest has waited for that."""

    total: int
    unconsolidated: int
    consolidated: int
    failed: int
    dead_letter: int
    forgotten: int
    expired: int
    archived: int
    pending_vectors: int
    backlog_age_hours: float | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FactCounts(Record):
    """Facts by state."""

    total: int
    active: int
    fading: int
    superseded: int
    expired: int
    retracted: int
    pending_vectors: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RuleCounts(Record):
    """Rules by maturity; `fading` ones and those that need inversion are among these."""

    total: int
    candidate: int
    established: int
    proven: int
    anti_pattern: int
    forgotten: int
    fading: int
    needs_inversion: int
    pending_vectors: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Statistics(Record):
    """The counts of each kind."""

    episodes: EpisodeCounts
    facts: FactCounts
    rules: RuleCounts


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Overview(Statistics):
    """The counts of each kind; what learning has cost; how many conflicts are held for a person; and how tool calls in
    plain text were read."""

    learning: Mapping[str, Any]
    conflicts: Mapping[str, int]
    tool_text: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DayOfGrowth(Record):
    """How many memories of each kind were stored on a day, regardless of their state now."""

    day: datetime
    episodes: int
    facts: int
    rules: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Growth(Record, Listing[DayOfGrowth]):
    """The days, oldest first: a sequence of them."""

    days: list[DayOfGrowth]

    @property
    def _listed(self) -> list[DayOfGrowth]:
        return self.days


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DayOfFading(Record):
    """How many facts and rules will begin to fade on a day, and how many fading ones will expire."""

    day: datetime
    fading: int
    expiring: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Fading(Record):
    """What will fade in the next days if nothing confirms it: how many on each day, and the most important ones."""

    days: list[DayOfFading]
    memories: list[Item]
