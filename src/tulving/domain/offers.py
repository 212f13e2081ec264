"""Memories that come from another program, each under a name that it has there, so that it is taken once."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tulving.domain.model import EntityType, NewEpisode, NewFact, NewRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A memory of another program.

    `key` names it there: what was once taken under a key is not taken again, even if it was forgotten since. Without
    one, only a fact that is in use with equal content makes it a known one. A fact about an `entity_type` is about the
    entity that is named by its subject, which is created if there is none. If there may be `several` facts of its
    subject and predicate, a digest of its content is added to the predicate. `origin` says where it comes from and
    `place` where that is in the file.
    """

    memory: NewEpisode | NewFact | NewRule
    key: str | None = None
    entity_type: EntityType | None = None
    several: bool = False
    user_id: str | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of an offer: whether it was new, or why it was refused, or which secrets it had."""

    is_new: bool = False
    problem: str | None = None
    warning: str | None = None


def digest(*parts: object) -> str:
    """A short name that equal parts have."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:10]


def stable_id(*parts: str | None) -> UUID:
    """The same id for the same parts, always and everywhere."""
    return UUID(bytes=hashlib.sha256(repr(parts).encode()).digest()[:16], version=5)
