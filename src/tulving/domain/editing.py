"""A memory as it is after a change: edited, confirmed, forgotten, superseded, completed; and its revisions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from tulving.domain.decay import next_review_at
from tulving.domain.events import Event
from tulving.domain.intake import classify
from tulving.domain.model import Episode, Fact, Item, NewEpisode, NewFact, NewRule, Rule
from tulving.domain.records import Record
from tulving.domain.text import content_hash
from tulving.errors import ChangedSince

Decaying = TypeVar("Decaying", bound=Fact | Rule)
OFFERS = {Episode: NewEpisode, Fact: NewFact, Rule: NewRule}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Revision(Record):
    """What a memory was before an edit; `created_at` is the time of that edit. Numbers start at 1."""

    number: int
    content: str
    tags: Sequence[str]
    metadata: Mapping[str, Any]
    importance: float | None
    created_at: datetime


def check_unchanged(what: str, changed_at: datetime | None, known: datetime | None) -> None:
    """Raise if something was changed since `known`, the time of the last change that the caller has read, if any."""
    if known is not None and changed_at != known:
        since = "is gone" if changed_at is None else f"was changed at {changed_at.isoformat()}"
        raise ChangedSince(f"{what} {since}; you read the version of {known.isoformat()}. Read it again")


def edited(item: Item, changes: Mapping[str, Any], now: datetime) -> Item:
    """The memory after the changes; the same object if nothing changes.

    New content confirms a fact or rule, so its decay restarts; a fact of another confidence fades at another time, and
    one that was fading may recover. A memory that is out of use stays out of use. The predicate of an unkeyed fact is
    its category (`type`).
    """
    real = differing(item, changes)
    if not real:
        return item
    item = replace(item, **real, updated_at=now)
    if isinstance(item, Fact):
        item = _adjusted(item, real, now)
    if "content" not in real:
        return item
    item = replace(item, content_hash=content_hash(item.content))
    return item if isinstance(item, Episode) or not in_use(item) else confirmed(item, now)


def _adjusted(fact: Fact, changed: Mapping[str, Any], now: datetime) -> Fact:
    """What follows from another category and another confidence."""
    if "type" in changed and not fact.keyed:
        # A category is its own folded form. Names that have not been folded yet are folded together.
        fact = replace(fact, predicate=changed["type"], folded_predicate=fact.folded_predicate and changed["type"])
    if "confidence" in changed and in_use(fact):
        review = next_review_at(fact.confidence, fact.decay_rate, fact.last_confirmed_at or fact.created_at, now)
        faded = review is not None and review <= now
        fact = replace(fact, next_review_at=review, status=fact.status if faded else None)
    return fact


def differing(item: Item, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes whose value differs from the current one."""
    return {name: value for name, value in changes.items() if _plain(getattr(item, name)) != _plain(value)}


def restated(fact: Fact, given: Mapping[str, Any], now: datetime) -> Fact:
    """A fact that is stored again with equal content: it is confirmed and takes over the values given explicitly this
    time. Values that were left out stay as they are."""
    return confirmed(replace(fact, **given), now)


def confirmed(item: Decaying, now: datetime) -> Decaying:
    """001-022: the memory after a confirmation: its decay restarts, and if decay had expired it, it is back in use."""
    review = next_review_at(item.confidence, item.decay_rate, now, now)
    item = replace(item, last_confirmed_at=now, updated_at=now, status=None, next_review_at=review, ended_at=None)
    if isinstance(item, Fact):
        return replace(item, validity="active")
    return replace(item, forgotten=False, metadata=_without_mark(item))


def forgotten(item: Item, now: datetime) -> Item:
    """001-006, 001-023, 001-024: the memory after it was deliberately forgotten. A fact or rule then has no end, which
    tells it from one that was replaced or faded: it counts as never having held."""
    item = replace(item, updated_at=now)
    if isinstance(item, Episode):
        return replace(item, forgotten=True, expires_at=now)
    if isinstance(item, Fact):
        return replace(item, validity="retracted", status=None, next_review_at=None, ended_at=None)
    known = {**item.metadata, "forgotten": True}
    return replace(item, forgotten=True, next_review_at=None, ended_at=None, metadata=known)


def superseded(fact: Fact, ended_at: datetime, now: datetime) -> Fact:
    """The fact after another one has replaced it, which is true since `ended_at`."""
    return replace(fact, validity="superseded", status=None, next_review_at=None, ended_at=ended_at, updated_at=now)


def split(fact: Fact, moment: datetime, new_id: UUID, now: datetime) -> tuple[Fact, Fact]:
    """A fact that another one interrupted at a moment: as it held before that, and as it holds since it was stated
    again."""
    earlier = replace(superseded(fact, moment, now), id=new_id, restated_at=None)
    return earlier, replace(fact, occurred_at=fact.restated_at, restated_at=None, updated_at=now)


def offer_of(item: Item) -> NewEpisode | NewFact | NewRule:
    """What stores a memory once more as a new one, such as one that was forgotten. An episode keeps its day."""
    offer = OFFERS[type(item)]
    kept = {each.name: getattr(item, each.name) for each in fields(offer) if hasattr(item, each.name)}
    if isinstance(item, Episode):
        kept["occurred_at"] = item.occurred_at or item.created_at
    if isinstance(item, Fact):
        kept |= {"category": item.type} if item.keyed else {"category": item.type, "subject": None, "predicate": None}
    if isinstance(item, Rule):
        kept["metadata"] = _without_mark(item)
    return offer(**kept)


def reverting(item: Item, revision: Revision, events: Sequence[Event]) -> dict[str, Any]:
    """The arguments of an edit that brings a revision back. Category and confidence are in the event of the edit that
    replaced it."""
    back: dict[str, Any] = {"content": revision.content, "tags": [*revision.tags]}
    if not isinstance(item, Rule):
        back["importance"] = revision.importance
    for event in events:
        if event.payload.get("revision") == revision.number:
            before = event.payload.get("before", {})
            back |= {"category": before.get("type"), "confidence": before.get("confidence")}
    return {name: value for name, value in back.items() if value is not None}


def is_forgotten(item: Item) -> bool:
    """Whether a person has forgotten it. A rule that has an end was expired by decay."""
    if isinstance(item, Fact):
        return item.state == "retracted"
    return item.forgotten and (isinstance(item, Episode) or item.ended_at is None)


def completed(item: Item, now: datetime) -> Item:
    """A memory that was inserted by plain SQL, with all that storing derives from its content; values it has are kept.
    Storing confirms, so a fact or rule counts as confirmed at its creation."""
    item = replace(item, content_hash=content_hash(item.content))
    if isinstance(item, Episode):
        return replace(item, type=item.type or classify(f"{item.title or ''} {item.content[:2000]}"))
    if item.last_confirmed_at is not None or not in_use(item):
        return item
    review = next_review_at(item.confidence, item.decay_rate, item.created_at, now)
    return replace(item, last_confirmed_at=item.created_at, next_review_at=review)


def in_use(item: Item) -> bool:
    """Whether it has been neither forgotten, expired nor replaced."""
    return item.validity == "active" if isinstance(item, Fact) else not item.forgotten


def _without_mark(rule: Rule) -> dict[str, Any]:
    """The metadata of a rule without the mark that forgetting it left there."""
    return {name: value for name, value in rule.metadata.items() if name != "forgotten" or not rule.forgotten}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
