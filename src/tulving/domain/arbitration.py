"""Which of two facts in conflict is kept, or whether they are merged (000-026 to 000-031)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from tulving.domain.conflicts import Conflict
from tulving.domain.model import Fact, SettlementAction

DefaultStrategy = Literal["keep-candidate", "keep-existing", "reject"]
WEIGHTS: Mapping[str, float] = {"importance": 0.4, "recency": 0.3, "source": 0.2, "semantic": 0.1}
SOURCE_PRIORITIES: Mapping[str, float] = {"user": 10, "conversation": 8, "skill": 6, "system": 4, "inferred": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbitrationPolicy:
    """How a conflict is settled."""

    prefer_detail: bool = True
    priority_importance: bool = True
    priority_recency: bool = True
    priority_source: bool = True
    allow_merge: bool = True
    merge_threshold: float = 0.2
    default_strategy: DefaultStrategy = "keep-candidate"
    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)
    source_priorities: Mapping[str, float] = field(default_factory=lambda: SOURCE_PRIORITIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arbitration:
    """000's ArbitrationResult."""

    action: SettlementAction
    winner: UUID | None
    loser: UUID | None
    confidence: float
    reason: str
    conflict: Conflict | None = None


def weight(fact: Fact) -> float:
    """The importance of a fact on the scale from 0 to 1."""
    return fact.importance / 10


def source_of(fact: Fact) -> str: ...


def source_priority(source: Fact | str, priorities: Mapping[str, float]) -> float: ...


def most_severe(conflicts: Sequence[Conflict]) -> Conflict: ...


def arbitrate(candidate: Fact, conflicts: Sequence[Conflict], policy: ArbitrationPolicy) -> Arbitration: ...
