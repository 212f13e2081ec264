"""What to do with an offered fact, given the active fact in the same slot."""

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Literal
from uuid import UUID

from tulving.domain import resolution
from tulving.domain.model import Fact, Settlement
from tulving.domain.validity import latest, start

Decision = Literal["store", "duplicate", "confirm", "antedate", "supersede", "outdated"]
_DAY = timedelta(days=1)
_SEPARATORS = re.compile(r"[\s_-]+")


@dataclass(frozen=True, slots=True)
class Claim:
    """The part of an active fact that a decision about an offer needs."""

    id: UUID
    content_hash: str | None
    ref: str | None
    occurred_at: datetime | None
    created_at: datetime
    restated_at: datetime | None = None

    @property
    def since(self) -> datetime:
        """Since when it is true."""
        return self.occurred_at or self.created_at

    @property
    def latest(self) -> datetime:
        """The latest time for which it was stated."""
        return self.restated_at or self.since


def claim(fact: Fact) -> Claim:
    """The claim that a fact makes once it is stored."""
    return Claim(*_CLAIMED(fact))


_CLAIMED = attrgetter(*Claim.__slots__)


@lru_cache(4096)
def folded(name: str) -> str:
    """A subject or predicate as it is compared: without case, compatibility variants of letters, and the choice and
    number of separators (white space, `_`, `-`)."""
    return _SEPARATORS.sub(" ", resolution.folded(name)).strip() or name


def key(fact: Fact) -> str:
    """The slot that only one active fact may have: entity (or subject) and predicate, or an unkeyed fact's content."""
    slot = (fact.entity_id or folded(fact.subject), folded(fact.predicate)) if fact.keyed else (fact.content_hash,)
    return repr((fact.tenant_id, fact.scope, fact.owner, *map(str, slot)))


def place(fact: Fact) -> tuple[str, str, UUID]:
    """Where a keyed fact stands in a list by subject and predicate."""
    return fact.folded_subject or fact.subject, fact.folded_predicate or fact.predicate, fact.id


def neighbourhood(of: Fact | Settlement) -> str:
    """Among which facts an unkeyed one is compared with others: those of its owner, in its scope. It sorts before every
    `key`, so that it is locked first: who has it may lock further keys of that owner without a deadlock."""
    return "!" + repr((of.tenant_id, of.scope, of.owner))


def decide(offer: Fact, current: Claim | None) -> Decision:
    """001-017, 004-008: a free slot is taken, and different content supersedes, unless it is dated before the current
    fact: then it is history. Equal content confirms a keyed fact, which may have begun earlier than was known; an
    unkeyed one is skipped as a duplicate.

    An offer without a date is about now, and so never outdated, even if clocks differ.
    """
    if current is None:
        return "store"
    if not offer.keyed:
        return "duplicate"
    stated = offer.occurred_at
    if current.content_hash == offer.content_hash:
        return "antedate" if stated is not None and stated < current.since else "confirm"
    return "outdated" if stated is not None and _is_before(stated, current.latest) else "supersede"


def _is_before(stated: datetime, moment: datetime) -> bool:
    """A date without a time of day stands for any time of that day: what is true since today is not older than what was
    stored this morning."""
    return moment - stated >= (_DAY if stated.time() == time.min else timedelta.resolution)


def continued(offer: Fact, before: Fact | None, after: Fact | None) -> Fact | None:
    """Which of the facts that were true before and after an offer says the same, with nothing else in between."""
    if before is not None and before.content_hash == offer.content_hash:
        return before
    apart = before is not None and latest(before) > start(offer)
    return after if after is not None and not apart and after.content_hash == offer.content_hash else None


def newer(one: Claim, other: Claim) -> Claim:
    """Which of two facts in one slot stays: the one that is true since later, then the one that was stored later."""
    return max(one, other, key=lambda each: (each.since, each.created_at, each.id))
