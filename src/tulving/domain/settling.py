"""What comes of an unkeyed fact that is in conflict with a known one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from tulving.domain.arbitration import Arbitration, arbitrate, most_severe
from tulving.domain.claims import folded
from tulving.domain.conflicts import Conflict, Detection
from tulving.domain.decay import decay_rate, next_review_at
from tulving.domain.merge_rules import MergeRuleRegistry, ResolvedRule
from tulving.domain.merging import MergeResult
from tulving.domain.model import Fact, Outcome, SettlementAction
from tulving.domain.text import content_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a conflict is to be settled, by which rule, and whether a person must decide first."""

    conflict: Conflict
    arbitration: Arbitration
    rule: ResolvedRule
    held: bool

    @property
    def takes_out_of_use(self) -> bool:
        """Whether the known fact would be replaced."""
        comes_of_it = outcome(self.arbitration.action, self.arbitration.loser, self.conflict.existing.id)
        return not self.held and comes_of_it in ("superseded", "merged")


def verdict(
    offer: Fact, conflicts: Sequence[Conflict], settings: Detection, rules: MergeRuleRegistry, *, by_model: bool
) -> Verdict:
    """000-031: how the most severe conflict of an offer is to be settled."""
    conflict = most_severe(conflicts)
    rule = rules.find_matching_rule(offer, conflict.existing)
    arbitration = arbitrate(offer, [conflict], rule.arbitration)
    needed = settings.review_below
    if by_model and arbitration.action == "merge":
        needed = max(needed, settings.review_model_merges_below)
    return Verdict(conflict=conflict, arbitration=arbitration, rule=rule, held=arbitration.confidence < needed)


def outcome(action: SettlementAction, loser: UUID | None, existing: UUID) -> Outcome:
    """What a store verb answers when a settlement is carried out."""
    if action == "keep":
        return "superseded" if loser == existing else "kept"
    return "merged" if action == "merge" else "rejected"


def merged_fact(candidate: Fact, existing: Fact, result: MergeResult, id_: UUID, now: datetime) -> Fact:
    """The new fact that a merge makes of both, confirmed by it. It holds since the time that the merge chose."""
    rate = decay_rate(result.permanence)
    category = result.category or "knowledge"
    learned: dict[str, Any] = {"run_id": candidate.run_id, "session_id": candidate.session_id}
    return replace(
        candidate,
        **learned,
        id=id_,
        ref=f"fact_{id_.hex[-8:]}",
        content=result.content,
        content_hash=content_hash(result.content),
        type=category,
        predicate=category,
        folded_predicate=folded(category),
        tags=result.tags,
        metadata={**existing.metadata, **candidate.metadata},
        importance=result.importance,
        confidence=result.confidence,
        permanence=result.permanence,
        decay_rate=rate,
        source=result.source,
        supersedes_id=existing.id,
        occurred_at=result.occurred_at,
        restated_at=None,
        ended_at=None,
        last_confirmed_at=now,
        next_review_at=next_review_at(result.confidence, rate, now, now),
        created_at=now,
        updated_at=now,
    )
