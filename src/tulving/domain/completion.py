"""Completes a memory that was inserted by plain SQL: fills in what storing would have derived from its content."""

from dataclasses import replace
from datetime import datetime

from tulving.domain.decay import next_review_at
from tulving.domain.editing import in_use
from tulving.domain.intake import classify
from tulving.domain.model import Episode, Item
from tulving.domain.text import content_hash


def completed(item: Item, now: datetime) -> Item:
    """The memory with everything that is derived from its content; values it already has are kept. Storing confirms, so
    a fact or rule counts as confirmed at its creation."""
    item = replace(item, content_hash=content_hash(item.content))
    if isinstance(item, Episode):
        return replace(item, type=item.type or classify(f"{item.title or ''} {item.content[:2000]}"))
    if item.last_confirmed_at is not None or not in_use(item):
        return item
    review = next_review_at(item.confidence, item.decay_rate, item.created_at, now)
    return replace(item, last_confirmed_at=item.created_at, next_review_at=review)
