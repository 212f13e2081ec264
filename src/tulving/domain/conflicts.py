"""Conflicts between an unkeyed fact that is offered and those that are known: what tells of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from tulving.domain.model import Fact

SignalKind = Literal["semantic", "keyword", "time", "importance"]
Mode = Literal["cautious", "signals", "literal"]
MODES: tuple[Mode, ...] = ("cautious", "signals", "literal")


@dataclass(frozen=True, slots=True)
class Detection:
    """When two facts are in conflict, and when a person must decide. A threshold is reached at its value.

    `cautious`: a semantic or keyword signal, and the texts say the same or the opposite (`likeness`). `signals`: a
    semantic or keyword signal. `literal`: any signal (000-022 to 000-025 to the letter).

    A settlement less certain than `review_below` waits for a person; a merge in a model's run also if it is less
    certain than `review_model_merges_below`.
    """

    mode: str = "cautious"
    semantic_threshold: float = 0.8
    keyword_threshold: float = 0.5
    time_window: float = 300.0
    importance_delta: float = 0.4
    review_below: float = 0.0
    review_model_merges_below: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One sign of a conflict with `target_id`, from 0 to 1, and what it was seen in."""

    kind: SignalKind
    score: float
    target_id: UUID
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A known fact beside the offered one, and the cosine similarity of the two if both have a vector."""

    fact: Fact
    similarity: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A known fact that the offered one is in conflict with."""

    existing: Fact
    signals: Sequence[Signal]
    similarity: float | None = None
    same: bool = False
    """Both say the same thing."""
    fuller: UUID | None = None
    """The fact that says all that the other one says, and more."""

    @property
    def severity(self) -> float:
        """000-031: the total score of its signals."""
        return sum(signal.score for signal in self.signals)
