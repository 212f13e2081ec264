"""How many memories there are of each kind and in each state."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tulving.domain.records import Record


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
