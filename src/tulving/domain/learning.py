"""What a language model may teach: what it proposes, what is made of that, and what a person must see first.

The model's words are never trusted: it can't name a tenant, an owner or an id that it was not shown, and what it
proposes passes these decisions before anything is stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a model over the episodes of an agent, or over a conversation. Its id is in every event it caused.

    While it is `open`, nobody else learns from the same episodes until `lease_until`. `shown` has the ids that the
    prompt showed; `counts` says what came of it.
    """

    tenant_id: str
    id: UUID
    job: Literal["consolidation", "extraction"]
    butler: str | None = None
    owner: str = ""
    user_id: str | None = None
    household_id: str | None = None
    persona_id: str | None = None
    actor: str | None = None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Something that a run would do but a person must decide. `offer` is emptied when that is done."""

    tenant_id: str
    id: UUID
    run_id: UUID
    owner: str = ""
    action: Action
    offer: Mapping[str, Any]
    reason: str
    created_at: datetime
