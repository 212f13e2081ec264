"""When a memory holds: from its start until it ends."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from tulving.domain.editing import in_use, is_forgotten
from tulving.domain.model import Episode, Fact, Item, Rule


def start(item: Item) -> datetime:
    """Since when it holds: since it happened or became true, or else since it was stored."""
    return item.created_at if isinstance(item, Rule) else item.occurred_at or item.created_at


def end(item: Item) -> datetime | None:
    """Until when it held; None if it has not ended."""
    return item.expires_at if isinstance(item, Episode) else item.ended_at


def held(item: Item, moment: datetime) -> bool:
    """Whether it held at a moment, as far as is known now. What a person has forgotten held at none: it must not be
    found by asking for the past. `KindTable.lasting` says the same in SQL."""
    if is_forgotten(item) or start(item) > moment:
        return False
    ended = end(item)
    return in_use(item) if ended is None else ended > moment


def as_it_was(fact: Fact, moment: datetime) -> Fact:
    """A fact in the state that it had at a moment after its start: whatever has ended since was active."""
    return replace(fact, validity="active", status=None, ended_at=None) if held(fact, moment) else fact


def latest(fact: Fact) -> datetime:
    """The latest time for which a fact was stated."""
    return fact.restated_at or start(fact)


def redated(fact: Fact, stated: datetime) -> dict[str, Any]:
    """What changes when a fact is stated again for another time: an earlier one is its start, a later one extends the
    time for which it is known to hold."""
    if stated < start(fact):
        return {"occurred_at": stated, "restated_at": latest(fact)}
    return {"restated_at": stated} if stated > latest(fact) else {}
