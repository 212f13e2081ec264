"""The three kinds of memory and what surrounds them, as plain values.

An `Episode` is what happened, a `Fact` what is true, a `Rule` how to act. `New*` is what a caller
offers; the kind itself is what the store holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal
from uuid import UUID

from tulving.domain.records import Listing, Record, T

Kind = Literal["episode", "fact", "rule"]
KINDS: tuple[Kind, ...] = ("episode", "fact", "rule")

Relation = Literal["derived_from", "supports", "contradicts", "supersedes", "related_to"]
RELATIONS: tuple[Relation, ...] = ("derived_from", "supports", "contradicts", "supersedes", "related_to")

Direction = Literal["outgoing", "incoming", "both"]
DIRECTIONS: tuple[Direction, ...] = ("outgoing", "incoming", "both")

Outcome = Literal["stored", "confirmed", "duplicate", "superseded", "outdated", "kept", "merged", "rejected", "held"]

SettlementAction = Literal["keep", "merge", "reject"]
SettlementStatus = Literal["applied", "held", "reverted", "dismissed"]
SETTLEMENT_STATUSES: tuple[SettlementStatus, ...] = ("applied", "held", "reverted", "dismissed")

FactState = Literal["active", "fading", "superseded", "expired", "retracted"]
FACT_STATES: tuple[FactState, ...] = ("active", "fading", "superseded", "expired", "retracted")

RULE_STATES = ("candidate", "established", "proven", "anti_pattern", "forgotten")

SessionStatus = Literal["active", "completed", "abandoned"]
SESSION_STATUSES: tuple[SessionStatus, ...] = ("active", "completed", "abandoned")

EntityType = Literal["person", "organization", "place", "other"]
ENTITY_TYPES: tuple[EntityType, ...] = ("person", "organization", "place", "other")

NameMatch = Literal["exact", "alias", "prefix", "fuzzy"]

CATEGORIES = ("preference", "knowledge", "context", "behavior", "goal", "correction")

MemoryId = str | UUID


def canonical_state(state: str) -> str:
    """004-011: the old name `forgotten` reads and writes as `retracted`."""
    return "retracted" if state == "forgotten" else state


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Memory(Record):
    """The fields of all three kinds. A row that was inserted by plain SQL has no hash until it is completed; storing
    counts as the first access."""

    tenant_id: str
    id: UUID
    content: str
    owner: str = ""
    user_id: str | None = None
    household_id: str | None = None
    persona_id: str | None = None
    project: str | None = None
    session_id: UUID | None = None
    type: str | None = None
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    content_hash: str | None
    reference_count: int = 0
    last_referenced_at: datetime | None = None
    accessed_at: datetime | None = None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Episode(_Memory):
    """What happened: dated, and short-lived unless it has a type. A recorded event has an `event_key`, under which it
    is kept once. The content of an archived episode lies in a segment of the timeline."""

    _shown = ("id", "butler", "type", "title", "content")

    butler: str
    title: str | None = None
    source: str | None = None
    occurred_at: datetime | None = None
    importance: float = 5.0
    consolidated: bool = False
    consolidation_status: str = "pending"
    consolidation_attempts: int = 0
    last_consolidation_error: str | None = None
    next_consolidation_retry_at: datetime | None = None
    forgotten: bool = False
    expires_at: datetime | None = None
    event_key: str | None = None
    segment_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Fact(_Memory):
    """What is true: keyed by subject and predicate (or entity and predicate), or unkeyed by content.

    It holds since `occurred_at` (or its creation) and until `ended_at`, when another one replaced it or it had faded;
    `restated_at` is the latest later time for which it was stated. The folded names are what is compared. `run_id` is
    the run of a model that learned it.
    """

    _shown = ("id", "subject", "predicate", "content", "state")

    subject: str
    predicate: str
    folded_subject: str | None = None
    folded_predicate: str | None = None
    keyed: bool = True
    ref: str | None = None
    entity_id: UUID | None = None
    scope: str = "global"
    importance: float = 5.0
    confidence: float = 1.0
    permanence: str = "standard"
    decay_rate: float = 0.008
    validity: str = "active"
    status: str | None = None
    source: str | None = None
    source_butler: str | None = None
    source_episode_id: UUID | None = None
    run_id: UUID | None = None
    supersedes_id: UUID | None = None
    occurred_at: datetime | None = None
    restated_at: datetime | None = None
    ended_at: datetime | None = None
    last_confirmed_at: datetime | None = None
    next_review_at: datetime | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "validity", canonical_state(self.validity))

    @property
    def state(self) -> str:
        """004's five states: fading is an active fact whose status says so."""
        return "fading" if self.validity == "active" and self.status == "fading" else self.validity

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON can hold, with its state."""
        return {**_with_status(self), "state": self.state}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Rule(_Memory):
    """How to act: born a candidate, proven or refuted by use. `ended_at` is when it had faded."""

    _shown = ("id", "content", "maturity", "effectiveness_score")

    scope: str = "global"
    maturity: str = "candidate"
    confidence: float = 0.5
    permanence: str = "standard"
    decay_rate: float = 0.01
    status: str | None = None
    forgotten: bool = False
    needs_inversion: bool = False
    effectiveness_score: float = 0.0
    applied_count: int = 0
    success_count: int = 0
    harmful_count: int = 0
    source_butler: str | None = None
    source_episode_id: UUID | None = None
    run_id: UUID | None = None
    last_applied_at: datetime | None = None
    last_evaluated_at: datetime | None = None
    ended_at: datetime | None = None
    last_confirmed_at: datetime | None = None
    next_review_at: datetime | None = None

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON can hold."""
        return _with_status(self)


def _with_status(item: Fact | Rule) -> dict[str, Any]:
    """One that is fading also says so in its metadata, where the specification has it."""
    values = Record.to_dict(item)
    return {**values, "metadata": {**values["metadata"], "status": "fading"}} if item.status == "fading" else values


Item = Episode | Fact | Rule
KIND_OF: dict[type, Kind] = {Episode: "episode", Fact: "fact", Rule: "rule"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEpisode:
    """An episode as a caller offers it. Without a butler, the agent is the caller itself. A typed episode is a project
    memory and has no expiry."""

    content: str
    butler: str | None = None
    session_id: MemoryId | None = None
    importance: float = 5.0
    title: str | None = None
    type: str | None = None
    project: str | None = None
    source: str | None = None
    occurred_at: datetime | None = None
    tags: Sequence[str] | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFact:
    """A fact as a caller offers it. Without subject and predicate it is unkeyed and has a category.

    None means left out: a new fact gets the default (importance 5.0, confidence 1.0, permanence standard), an existing
    one keeps its value.
    """

    content: str
    subject: str | None = None
    predicate: str | None = None
    category: str | None = None
    entity_id: MemoryId | None = None
    importance: float | None = None
    confidence: float | None = None
    permanence: str | None = None
    scope: str = "global"
    project: str | None = None
    session_id: MemoryId | None = None
    source: str | None = None
    source_butler: str | None = None
    source_episode_id: MemoryId | None = None
    occurred_at: datetime | None = None
    tags: Sequence[str] | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRule:
    """A rule as a caller offers it. Without a permanence it decays at 0.01 a day."""

    content: str
    scope: str = "global"
    permanence: str | None = None
    project: str | None = None
    session_id: MemoryId | None = None
    source_butler: str | None = None
    source_episode_id: MemoryId | None = None
    tags: Sequence[str] | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Link(Record):
    """A directed edge between two memories: where something came from, what it replaced."""

    source_type: Kind
    source_id: UUID
    target_type: Kind
    target_id: UUID
    relation: Relation
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Session(Record):
    """A stretch of an agent's work, whose memories carry its id. An abandoned one was never ended."""

    _shown = ("id", "status", "project", "butler", "summary", "started_at")

    tenant_id: str
    id: UUID
    owner: str = ""
    user_id: str | None = None
    household_id: str | None = None
    persona_id: str | None = None
    project: str | None = None
    butler: str | None = None
    status: SessionStatus = "active"
    summary: str | None = None
    tool_calls: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    started_at: datetime
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Entity(Record):
    """Someone or something that facts are about, under one name and several others. Belongs to its whole tenant."""

    _shown = ("id", "canonical_name", "entity_type", "aliases")

    tenant_id: str
    id: UUID
    canonical_name: str
    entity_type: EntityType
    aliases: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    merged_into: UUID | None = None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EntityCreated(Record):
    """The answer of `create_entity`."""

    entity_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EntityCandidate(Record):
    """An entity that a name may refer to. `similarity` is that of its most similar name, from 0 to 1; it counts if
    similar names were asked for."""

    entity_id: UUID
    canonical_name: str
    entity_type: EntityType
    score: float
    name_match: NameMatch
    aliases: Sequence[str]
    similarity: float


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EntityReport(Record):
    """An entity in a list, and how many facts in use are about it, as far as the caller may see them."""

    entity: Entity
    facts: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FactsMerged(Record):
    """Two facts in one slot, of which a merge of entities leaves the first in use."""

    stays: Fact
    superseded: Fact


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MergePreview(Record):
    """What `merge_entities` would do: the names that the target would get, which facts would supersede which, and the
    first of the `moving` facts of the source, in any state, that would become the target's."""

    source: Entity
    target: Entity
    aliases: list[str]
    superseded: list[FactsMerged]
    moving: int
    facts: list[Fact]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EntitiesMerged(Record):
    """The answer of `merge_entities`."""

    target_entity_id: UUID
    source_entity_id: UUID
    facts_repointed: int
    facts_superseded: int
    aliases_added: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settlement(Record):
    """How a conflict between two unkeyed facts was settled: 000's ArbitrationResult, the signals of the conflict
    (`conflicts.Signal`), and the merge rule that was applied. A `held` one waits for a person; until then both facts
    stay in use."""

    _shown = ("id", "outcome", "action", "status", "candidate_id", "existing_id")

    tenant_id: str
    id: UUID
    candidate_id: UUID
    existing_id: UUID
    merged_id: UUID | None = None
    owner: str = ""
    user_id: str | None = None
    household_id: str | None = None
    persona_id: str | None = None
    scope: str = "global"
    project: str | None = None
    outcome: Outcome
    action: SettlementAction
    winner_id: UUID | None = None
    loser_id: UUID | None = None
    confidence: float
    reason: str
    signals: Sequence[Mapping[str, Any]] = ()
    rule: str
    status: SettlementStatus = "applied"
    run_id: UUID | None = None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Stored(Record):
    """The answer of every store verb: the outcome of the offer, and the ids concerned. An outdated fact was stored as
    history, and `superseded_by` is the current one. `conflict` says how one with a known fact was settled."""

    _told_if_given = frozenset({"ref", "warning", "superseded_by", "conflict"})

    id: UUID
    outcome: Outcome
    superseded_id: UUID | None = None
    superseded_by: UUID | None = None
    expires_at: datetime | None = None
    ref: str | None = None
    warning: str | None = None
    conflict: Settlement | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Page(Record, Listing[T], Generic[T]):
    """One page of a listing, and the sequence of its items; `next_cursor` continues it and is None at the end.
    Other surfaces call the items by the operation's name for them, if it has one."""

    items: list[T]
    next_cursor: str | None = None

    @property
    def _listed(self) -> list[T]:
        return self.items


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Hit(Record):
    """A memory that was found, with every part of its score: the values from the lanes (`similarity`, `semantic_rank`,
    `rank`, `keyword_rank`, `rrf_score`), its effective `confidence`, its `relevance` and the signals that it is made of
    (`relevance.SIGNALS`), and after a recall the other factors (`ranking.FACTORS`).

    A `weak` hit probably does not answer the query. `newer` is a later memory that seems to say the same thing anew.
    """

    _shown = ("memory_type", "score", "weak", "id", "content")

    memory_type: Kind
    item: Item
    score: float
    parts: Mapping[str, float]
    weak: bool = False
    newer: UUID | None = None

    @property
    def id(self) -> UUID:
        """That of the memory."""
        return self.item.id

    @property
    def content(self) -> str:
        """That of the memory."""
        return self.item.content

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON can hold: the memory, without what has no value, and its score."""
        item = {name: value for name, value in self.item.to_dict().items() if value is not None}
        marks = {"weak": True} if self.weak else {}
        marks |= {"newer": str(self.newer)} if self.newer else {}
        return {"memory_type": self.memory_type, **item, "score": self.score, **marks, "parts": dict(self.parts)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Found(Record, Listing[Hit]):
    """The hits of a search, best first, and how they were found: a sequence of them. Without hits, `closest` is the
    best of the candidates that fit too little."""

    _shown = ("hits", "mode", "closest", "warning")
    _told_if_given = frozenset({"closest", "warning"})

    hits: list[Hit]
    mode: str
    candidates: int = 0
    below_confidence: int = 0
    below_relevance: int = 0
    closest: Hit | None = None
    warning: str | None = None

    @property
    def _listed(self) -> list[Hit]:
        return self.hits


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Similar(Found):
    """The hits of a search by similarity alone. `filtered` counts what would have been among them without a condition:
    `below_similarity` those of the nearest in the window that are not similar enough, `outside_window` those of the
    nearest of any time that are similar enough but outside the window."""

    matched_count: int = 0
    filtered_count: int = 0
    filtered: Mapping[str, int] = field(default_factory=dict)
