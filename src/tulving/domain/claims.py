"""What to do with an offered fact, given the active fact with the same key."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from tulving.domain.model import Fact

Decision = Literal["store", "duplicate", "confirm", "supersede"]


@dataclass(frozen=True, slots=True)
class Claim:
    """The part of an active fact that a decision about an offer needs."""

    id: UUID
    content_hash: str | None
    ref: str | None


def key(fact: Fact) -> str:
    """The key that only one active fact may have: entity (or subject) and predicate, or an unkeyed fact's content."""
    slot = (fact.entity_id or fact.subject, fact.predicate) if fact.keyed else (fact.content_hash,)
    return repr((fact.tenant_id, fact.scope, fact.owner, *map(str, slot)))


def decide(offer: Fact, current: Claim | None) -> Decision:
    """001-017, 004-008: a new key is stored, different content supersedes. Equal content confirms a keyed fact; an
    unkeyed one is skipped as a duplicate."""
    if current is None:
        return "store"
    if current.content_hash != offer.content_hash:
        return "supersede"
    return "confirm" if offer.keyed else "duplicate"
