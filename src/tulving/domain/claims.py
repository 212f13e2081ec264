"""What becomes of a fact that is offered, given the fact in use that has its key."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from tulving.domain.model import Fact

Decision = Literal["store", "duplicate", "confirm", "supersede"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A fact in use, as far as a decision about an offer needs it."""

    id: UUID
    content_hash: str | None
    ref: str | None


def key(fact: Fact) -> str:
    """What at most one fact in use may have: entity (or subject) and predicate, or the content of an unkeyed fact."""
    slot = (fact.entity_id or fact.subject, fact.predicate) if fact.keyed else (fact.content_hash,)
    return repr((fact.tenant_id, fact.scope, fact.owner, *map(str, slot)))


def decide(offer: Fact, current: Claim | None) -> Decision:
    """001-017, 004-008: a new key is stored and other content supersedes. The same content again confirms a keyed fact;
    an unkeyed one is skipped as a duplicate."""
    if current is None:
        return "store"
    if current.content_hash != offer.content_hash:
        return "supersede"
    return "confirm" if offer.keyed else "duplicate"
