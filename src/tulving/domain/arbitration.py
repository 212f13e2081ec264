"""Which of two facts in conflict is kept, or whether they are merged (000-026 to 000-031).

A reason never quotes a fact: it is stored beside the ids, and forgetting a fact must take all its words along.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from tulving.domain.conflicts import Conflict
from tulving.domain.model import Fact, SettlementAction
from tulving.domain.text import fold
from tulving.domain.validity import start

DefaultStrategy = Literal["keep-candidate", "keep-existing", "reject"]
WEIGHTS: Mapping[str, float] = {"importance": 0.4, "recency": 0.3, "source": 0.2, "semantic": 0.1}
SOURCE_PRIORITIES: Mapping[str, float] = {"user": 10, "conversation": 8, "skill": 6, "system": 4, "inferred": 2}
MONTH = timedelta(days=30)
"""A difference in time that counts in full when factors are weighed."""
UNKNOWN_SIMILARITY = 0.9
"""That of two texts that say the same, one of which has no vector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbitrationPolicy:
    """How a conflict is settled: by the first of detail, importance, recency and source that is enabled and tells the
    two facts apart, else by their scores, else by the default strategy. A factor without a weight does not count, a
    source without a priority has priority 0."""

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
    """000's ArbitrationResult. A merge has neither winner nor loser; a rejected candidate loses to the known fact."""

    action: SettlementAction
    winner: UUID | None
    loser: UUID | None
    confidence: float
    reason: str
    conflict: Conflict | None = None


def weight(fact: Fact) -> float:
    """The importance of a fact on 000's scale, from 0 to 1."""
    return fact.importance / 10


def source_of(fact: Fact) -> str:
    """Who a fact comes from. If it does not say, a model inferred it, or somebody stored it who speaks for the user."""
    return fold(fact.source or "") or ("inferred" if fact.run_id else "user")


def source_priority(source: Fact | str, priorities: Mapping[str, float]) -> float:
    """The priority of a source, or of that of a fact; its case does not count."""
    name = source_of(source) if isinstance(source, Fact) else fold(source)
    return {fold(known): priority for known, priority in priorities.items()}.get(name, 0.0)


def most_severe(conflicts: Sequence[Conflict]) -> Conflict:
    """000-031: the highest total score; then the most similar, the newest, the lowest id."""

    def rank(conflict: Conflict) -> tuple[float, float, datetime, int]:
        known = conflict.existing
        similarity = _within_bounds(conflict.similarity or 0.0)
        return round(conflict.severity, 9), similarity, start(known), -known.id.int

    return max(conflicts, key=rank)


def arbitrate(candidate: Fact, conflicts: Sequence[Conflict], policy: ArbitrationPolicy) -> Arbitration:
    """How the most severe of a candidate's conflicts is settled."""
    if not conflicts:
        return Arbitration(action="keep", winner=candidate.id, loser=None, confidence=1.0, reason="no conflict")
    conflict = most_severe(conflicts)
    factor = next(_deciding(candidate, conflict, policy), None)
    return _kept(candidate, conflict, factor) if factor else _weighed(candidate, conflict, policy)


class _Factor(NamedTuple):
    """Something that tells two facts apart. A positive lead is the candidate's."""

    lead: float
    confidence: float
    reason: str


def _deciding(candidate: Fact, conflict: Conflict, policy: ArbitrationPolicy) -> Iterator[_Factor]:
    """000-026 to 000-028: what may decide alone, in order. Detail comes first, because a repetition in fewer words must
    not retire the fuller text."""
    known = conflict.existing
    if policy.prefer_detail and conflict.same and (fuller := _fuller(candidate, conflict)):
        yield _Factor(fuller, _certainty(conflict), "both say the same, and the fuller text is kept")
    if policy.priority_importance and (lead := weight(candidate) - weight(known)):
        reason = f"importance {weight(candidate):g} of the new fact against {weight(known):g} of the known one"
        yield _Factor(lead, min(1.0, 2 * abs(lead)), reason)
    if policy.priority_recency and (newer := start(candidate) - start(known)):
        yield _Factor(newer / MONTH, min(1.0, abs(newer) / timedelta(hours=24)), f"newer by {_span(newer)}")
    ours, theirs = (source_priority(fact, policy.source_priorities) for fact in (candidate, known))
    if policy.priority_source and ours != theirs:
        reason = f"source priority {ours:g} of the new fact against {theirs:g} of the known one"
        yield _Factor(ours - theirs, 0.7, reason)


def _weighed(candidate: Fact, conflict: Conflict, policy: ArbitrationPolicy) -> Arbitration:
    """000-029, 000-030: scores that are close lead to a merge; else the higher one decides, as certainly as it is
    ahead; else the default strategy."""
    lead = _weighted_lead(candidate, conflict, policy)
    scores = _within_bounds(0.5 + lead), _within_bounds(0.5 - lead)
    # Rounded, so that 0.6 and 0.4 differ by a threshold of 0.2, and not by a little less.
    ahead = round(scores[0] - scores[1], 9)
    told = f"scores {scores[0]:.2f} of the new fact and {scores[1]:.2f} of the known one"
    if policy.allow_merge and abs(ahead) < policy.merge_threshold:
        reason = f"{told} differ by less than {policy.merge_threshold:g}"
        return Arbitration(action="merge", winner=None, loser=None, confidence=0.6, reason=reason, conflict=conflict)
    if ahead:
        return _kept(candidate, conflict, _Factor(ahead, 0.5 + abs(ahead) / 2, told))
    strategy = policy.default_strategy
    lead = 1.0 if strategy == "keep-candidate" else -1.0
    reason = f"nothing tells the two facts apart: default strategy {strategy}"
    return _kept(candidate, conflict, _Factor(lead, 0.5, reason), "reject" if strategy == "reject" else "keep")


def _weighted_lead(candidate: Fact, conflict: Conflict, policy: ArbitrationPolicy) -> float:
    """By how much the candidate is ahead; each factor counts from -1 to 1. The meaning of the texts favours the fuller
    one, if there is one."""
    known, priorities = conflict.existing, policy.source_priorities
    leads = {
        "importance": weight(candidate) - weight(known),
        "recency": max(-1.0, min((start(candidate) - start(known)) / MONTH, 1.0)),
        "source": (source_priority(candidate, priorities) - source_priority(known, priorities))
        / (max(priorities.values(), default=0.0) or 1.0),
        "semantic": _fuller(candidate, conflict) * _certainty(conflict),
    }
    return sum(policy.weights.get(name, 0.0) * lead for name, lead in leads.items())


def _kept(candidate: Fact, conflict: Conflict, factor: _Factor, action: SettlementAction = "keep") -> Arbitration:
    ours, theirs = candidate.id, conflict.existing.id
    winner, loser = (ours, theirs) if factor.lead > 0 else (theirs, ours)
    _, confidence, reason = factor
    return Arbitration(
        action=action, winner=winner, loser=loser, confidence=confidence, reason=reason, conflict=conflict
    )


def _fuller(candidate: Fact, conflict: Conflict) -> int:
    """1 if the candidate's is the fuller text, -1 if the known fact's is, 0 if neither."""
    return (conflict.fuller == candidate.id) - (conflict.fuller == conflict.existing.id)


def _span(time: timedelta) -> str:
    """A span of time in its largest unit, rounded down."""
    for unit, seconds in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        if count := int(abs(time).total_seconds() // seconds):
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return "less than a second"


def _certainty(conflict: Conflict) -> float:
    return _within_bounds(UNKNOWN_SIMILARITY if conflict.similarity is None else conflict.similarity)


def _within_bounds(score: float) -> float:
    """From 0 to 1; what is not a number is 0."""
    return max(0.0, min(score, 1.0))
