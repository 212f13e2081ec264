"""What a language model may teach: what it proposes, what is made of that, and what a person must see first.

The model's words are never trusted: it can't name a tenant, an owner or an id that it was not shown, and what it
proposes passes these decisions before anything is stored.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from tulving.domain.model import Episode, Fact
from tulving.domain.records import Record
from tulving.domain.scope import Owner

FACTS_SHOWN, RULES_SHOWN = 100, 50
"""001-044: how many existing ones a model is shown, so that it does not repeat them."""
LEASE = timedelta(minutes=30)
"""How long a prompt that was handed out waits for its answer."""
EPISODE_CONFIDENCE = 1.0
"""It happened; how far it is to be believed is not known."""
FIRST_RETRY, MOST_DOUBLINGS = timedelta(minutes=1), 10
FEW = 3
"""Losing fewer facts than this is everyday life, whatever share of them it is."""

RunStatus = Literal["open", "done", "held", "failed", "undone"]
Action = Literal["new_fact", "updated_fact", "new_rule", "confirmation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedFact:
    """A fact that a model derives from episodes. Without `evidence` it is derived from all that it was shown."""

    subject: str
    predicate: str
    content: str
    permanence: str = "standard"
    importance: float = 5.0
    tags: Sequence[str] = ()
    confidence: float | None = None
    evidence: Sequence[UUID] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatedFact:
    """A new value for a fact. Only `target_id` says which: what the model repeats of its identity does not count."""

    target_id: UUID
    subject: str
    predicate: str
    content: str
    permanence: str | None = None
    evidence: Sequence[UUID] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedRule:
    """A rule that a model derives from episodes."""

    content: str
    tags: Sequence[str] = ()
    evidence: Sequence[UUID] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationResult:
    """001: what a model proposes after reading episodes, as far as it could be understood."""

    new_facts: Sequence[LearnedFact] = ()
    updated_facts: Sequence[UpdatedFact] = ()
    new_rules: Sequence[LearnedRule] = ()
    confirmations: Sequence[UUID] = ()
    parse_errors: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedFact:
    """003-001: a fact that a model found in a conversation."""

    content: str
    category: str
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """003-001: what a model found in a conversation; `profile` has the blocks that it would rewrite."""

    facts: Sequence[ExtractedFact] = ()
    profile: Mapping[str, str] = field(default_factory=dict)
    parse_errors: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Episodes that are learned from together: of one agent and one owner, so that no owner's facts are made of
    another's episodes."""

    butler: str
    owner: Owner
    episodes: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Run(Record):
    """One run of a model over the episodes of an agent, or over a conversation. Its id is in every event it caused.

    While it is `open`, its episodes are leased to it until `lease_until`. `shown` has the ids that the
    prompt showed; `counts` says what came of it. What it costs counts for its `spender` too, such as an access token.
    """

    _shown = ("id", "job", "butler", "status", "counts", "created_at")

    tenant_id: str
    id: UUID
    job: Literal["consolidation", "extraction"]
    butler: str | None = None
    owner: str = ""
    user_id: str | None = None
    household_id: str | None = None
    persona_id: str | None = None
    actor: str | None = None
    spender: str | None = None
    model: str | None = None
    status: RunStatus = "open"
    lease_until: datetime | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    shown: Mapping[str, Sequence[str]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    last_error: str | None = None
    created_at: datetime
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Proposal(Record):
    """Something that a run would do but a person must decide. `offer` is emptied when that is done."""

    tenant_id: str
    id: UUID
    run_id: UUID
    owner: str = ""
    action: Action
    offer: Mapping[str, Any]
    reason: str
    created_at: datetime


def unreadable(parsed: ConsolidationResult | Extraction) -> str | None:
    """Why nothing at all could be read of an answer; None if something could."""
    starts = ("No JSON block", "Invalid JSON")
    return next((error for error in parsed.parse_errors if error.startswith(starts)), None)


def batch(episodes: Sequence[Episode], most: int, max_attempts: int) -> Sequence[Episode]:
    """The first episodes, as many as a prompt may show: half as many after each failure, and each alone at its last
    attempt, so that none is given up for another's sake."""
    size = most
    for number, episode in enumerate(episodes):
        attempts = episode.consolidation_attempts
        allowed = 1 if 0 < attempts >= max_attempts - 1 else max(1, most >> min(attempts, MOST_DOUBLINGS))
        size = min(size, allowed)
        if number >= size:
            return episodes[:number]
    return episodes


def after_failure(episode: Episode, error: str, max_attempts: int, now: datetime) -> dict[str, Any]:
    """What a failed attempt changes in an episode: it waits twice as long each time, and is given up in the end."""
    attempts = episode.consolidation_attempts + 1
    given_up = attempts >= max_attempts
    wait = FIRST_RETRY * 2 ** min(attempts, MOST_DOUBLINGS)
    return {
        "consolidation_status": "dead_letter" if given_up else "pending",
        "consolidation_attempts": attempts,
        "last_consolidation_error": error,
        "next_consolidation_retry_at": None if given_up else now + wait,
    }


def happened_at(episode: Episode) -> datetime:
    """Since when an episode is evidence."""
    return episode.occurred_at or episode.created_at


def derived_confidence(offered: float | None, sources: Iterable[float]) -> float:
    """A derived fact is believed at most as much as the least certain of its sources."""
    return min((1.0 if offered is None else offered, *sources))


def is_too_much(lost: int, facts: int, max_loss: float) -> bool:
    """Whether a run would take more than the allowed share of a tenant's facts out of use."""
    return lost >= FEW and lost > max_loss * facts


def surplus(known: Sequence[Fact], new: Sequence[Fact], most: int) -> list[Fact]:
    """003-010: which learned facts make room for new ones: those of the lowest confidence, the oldest first; new ones
    only if there is nothing else. With `most` 0 there is no limit."""
    excess = len(known) + len(new) - most if most else 0
    ordered = (sorted(each, key=lambda fact: (fact.confidence, fact.created_at, fact.id)) for each in (known, new))
    return [fact for group in ordered for fact in group][: max(0, excess)]


def day_of(moment: datetime) -> datetime:
    """When the day begins whose tokens a moment counts for, in UTC."""
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
