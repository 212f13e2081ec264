"""How a rule is judged by its use: harm weighs four times as much as help."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from tulving.domain.decay import days_between, decay_rate
from tulving.domain.model import Rule
from tulving.domain.records import Record
from tulving.domain.text import content_hash

Use = Literal["helpful", "harmful"]
"""How one use of a rule turned out."""

HARM_WEIGHT = 4
_CONTINUITY = 0.01
ESTABLISHED_SUCCESSES, ESTABLISHED_SCORE = 5, 0.6
PROVEN_SUCCESSES, PROVEN_SCORE, PROVEN_DAYS = 15, 0.8, 30
INVERTED_HARMS, INVERTED_BELOW = 3, 0.3
NO_REASONS = "repeated failures"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Mark(Record):
    """How one use of a rule turned out."""

    rule_id: UUID
    outcome: Use
    applied_at: datetime


def penalised(success: int, harmful: int) -> float:
    """001-091: the share of successes, each harm counted four times."""
    return success / (success + HARM_WEIGHT * harmful + _CONTINUITY)


def marked_helpful(rule: Rule, now: datetime) -> Rule:
    """001-090: one more success; the rule may rise."""
    applied, success = rule.applied_count + 1, rule.success_count + 1
    helped = replace(
        rule,
        applied_count=applied,
        success_count=success,
        effectiveness_score=success / applied,
        last_applied_at=now,
        last_evaluated_at=now,
        updated_at=now,
    )
    return _with_verdict(replace(helped, maturity=_risen(helped, now)))


def marked_harmful(rule: Rule, reason: str | None, now: datetime) -> Rule:
    """001-091, 001-092: one more harm; the rule may fall, and after enough harm it is due for inversion."""
    harmful = rule.harmful_count + 1
    metadata: Mapping[str, Any] = rule.metadata
    if reason:
        metadata = {**metadata, "harmful_reasons": [*reasons_of(rule), reason]}
    harmed = replace(
        rule,
        applied_count=rule.applied_count + 1,
        harmful_count=harmful,
        effectiveness_score=penalised(rule.success_count, harmful),
        last_applied_at=now,
        last_evaluated_at=now,
        updated_at=now,
        metadata=metadata,
    )
    return _with_verdict(replace(harmed, maturity=_fallen(harmed)))


def _risen(rule: Rule, now: datetime) -> str:
    """001-009, 001-010. The penalised score counts too: one helpful mark must not erase earlier harm."""
    score = min(rule.effectiveness_score, penalised(rule.success_count, rule.harmful_count))
    if rule.maturity == "candidate" and rule.success_count >= ESTABLISHED_SUCCESSES and score >= ESTABLISHED_SCORE:
        return "established"
    old_enough = days_between(rule.created_at, now) >= PROVEN_DAYS
    if (
        rule.maturity == "established"
        and rule.success_count >= PROVEN_SUCCESSES
        and score >= PROVEN_SCORE
        and old_enough
    ):
        return "proven"
    return rule.maturity


@dataclass(frozen=True, slots=True)
class Step:
    """The next step of a rule on its ladder: what it becomes, after how many more helpful marks in a row, the last of
    which must come in so many days or later."""

    to: Literal["established", "proven"]
    marks: int
    days: float


def next_step(rule: Rule, now: datetime) -> Step | None:
    """What it takes for a rule to rise; None for one that can't."""
    if rule.maturity == "candidate":
        return Step("established", _needed(rule, ESTABLISHED_SUCCESSES, ESTABLISHED_SCORE), 0.0)
    if rule.maturity == "established":
        days = max(0.0, PROVEN_DAYS - days_between(rule.created_at, now))
        return Step("proven", _needed(rule, PROVEN_SUCCESSES, PROVEN_SCORE), days)
    return None


def _needed(rule: Rule, successes: int, score: float) -> int:
    """How many helpful marks it takes until both scores of `_risen` are reached; one at least, since only a mark raises
    a rule."""
    success, odds = rule.success_count, score / (1 - score)
    against = HARM_WEIGHT * rule.harmful_count + _CONTINUITY, rule.applied_count - success
    return max(1, successes - success, *(math.ceil(odds * each - success - 1e-9) for each in against))


def _fallen(rule: Rule) -> str:
    """001-011, 001-012: one step at a time."""
    if rule.maturity == "established" and rule.effectiveness_score < ESTABLISHED_SCORE:
        return "candidate"
    if rule.maturity == "proven" and rule.effectiveness_score < PROVEN_SCORE:
        return "established"
    return rule.maturity


def is_refuted(rule: Rule) -> bool:
    """001-013: whether a rule has done so much harm that its opposite is the better rule."""
    return (
        rule.maturity != "anti_pattern"
        and rule.harmful_count >= INVERTED_HARMS
        and rule.effectiveness_score < INVERTED_BELOW
    )


def _with_verdict(rule: Rule) -> Rule:
    """001-092: whether it is due for inversion, as a column and in the metadata; helpful marks can lift the verdict."""
    refuted = is_refuted(rule)
    if refuted == rule.needs_inversion:
        return rule
    return replace(rule, needs_inversion=refuted, metadata={**rule.metadata, "needs_inversion": refuted})


def reasons_of(rule: Rule) -> Sequence[str]:
    """The reasons given for the harm; empty if the metadata key holds anything but a list."""
    reasons = rule.metadata.get("harmful_reasons", [])
    return [reason for reason in reasons if isinstance(reason, str)] if isinstance(reasons, list) else []


def inverted(rule: Rule, now: datetime) -> Rule:
    """001-013: the rule inverted into a warning against itself; its original content is kept.

    The warning counts as confirmed now, so that it can be recalled even if the rule had almost faded. It does not
    decay: it must still be recalled after years.
    """
    why = "; ".join(reasons_of(rule)) or NO_REASONS
    content = f"ANTI-PATTERN: Do NOT {rule.content}. This caused problems because: {why}"
    return replace(
        rule,
        content=content,
        content_hash=content_hash(content),
        maturity="anti_pattern",
        needs_inversion=False,
        permanence="permanent",
        decay_rate=decay_rate("permanent"),
        status=None,
        last_confirmed_at=now,
        next_review_at=None,
        updated_at=now,
        metadata={**rule.metadata, "original_content": rule.content, "needs_inversion": False},
    )
