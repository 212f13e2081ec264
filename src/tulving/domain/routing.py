"""What the bridge from episodes to facts decides: which episodes become facts, and what becomes of those facts when
their episodes are gone."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

from tulving.domain.editing import edited
from tulving.domain.learning import EPISODE_CONFIDENCE
from tulving.domain.model import CATEGORIES, Episode, Fact, Item, NewFact

Fate = Literal["demote", "forget", "delete"]
BRIDGE = "bridge"
"""The actor in the bridge's audit events."""
DEMOTION = 0.5
SOURCE = "inferred"
"""Nobody has said the fact as such, so in a conflict every other source wins."""


class Policy(Protocol):
    """The settings of the bridge (`BridgeConfig`)."""

    @property
    def importance_threshold(self) -> float: ...
    @property
    def types(self) -> Sequence[str]: ...
    @property
    def max_characters(self) -> int: ...


def becomes_fact(episode: Episode, policy: Policy, now: datetime) -> bool:
    """000-019: whether an episode is important enough or of one of the types, and neither forgotten nor expired."""
    if episode.forgotten or (episode.expires_at is not None and episode.expires_at <= now):
        return False
    return episode.importance / 10 >= policy.importance_threshold or episode.type in policy.types


def as_fact(episode: Episode, policy: Policy) -> NewFact:
    """The fact that an episode becomes. It belongs to the namespace of the episode's agent, so that who could not read
    the episode can't read the fact."""
    return NewFact(
        content=episode.content[: policy.max_characters].strip(),
        category=episode.type if episode.type in CATEGORIES else None,
        importance=episode.importance,
        confidence=EPISODE_CONFIDENCE,
        scope=episode.butler,
        project=episode.project,
        session_id=episode.session_id,
        source=SOURCE,
        source_butler=episode.butler,
        source_episode_id=episode.id,
        occurred_at=episode.occurred_at or episode.created_at,
        tags=episode.tags,
    )


def fate(reason: str) -> Fate:
    """000-020: what happens to a fact that was made from an episode alone. What a person does to the episode is done to
    the fact; where the episode only had to make room, the fact may still be true, but nothing supports it any more."""
    fates: dict[str, Fate] = {"forgotten": "forget", "deleted": "delete"}
    return fates.get(reason, "demote")


def demoted(fact: Fact, now: datetime) -> Item:
    """A fact that has lost its evidence: believed half as much, so that it fades sooner."""
    return edited(fact, {"confidence": fact.confidence * DEMOTION}, now)


def lag_ms(occurred_at: datetime | None, now: datetime) -> int:
    """How long ago something happened, in milliseconds; 0 for nothing, and for clocks that differ."""
    return 0 if occurred_at is None else max(0, int((now - occurred_at).total_seconds() * 1000))
