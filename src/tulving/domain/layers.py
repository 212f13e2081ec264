"""Search in layers: short lines first, then what surrounds one of them, and the whole only of what is wanted."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from tulving.domain.model import KIND_OF, Episode, Fact, Hit, Item, Kind
from tulving.domain.records import Listing, Record
from tulving.domain.text import found_by

MOST_TOKENS = 100
"""002-012: of a compact hit as JSON."""
LONGEST_TITLE = 48
"""Characters: enough to choose by, and few enough that compact hits have a tenth of the tokens of full ones."""
_FLATTENED = 4 * LONGEST_TITLE

Position = Literal["before", "anchor", "after"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CompactHit(Record):
    """Layer 1: enough of a hit to choose by."""

    id: UUID
    memory_type: Kind
    title: str
    type: str | None
    score: float
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CompactFound(Record, Listing[CompactHit]):
    """The compact hits of a search, best first: a sequence of them."""

    _told_if_given = frozenset({"warning"})

    hits: list[CompactHit]
    warning: str | None = None

    @property
    def _listed(self) -> list[CompactHit]:
        return self.hits


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TimelineEntry(Record):
    """Layer 2: a memory near another one in time. The distance is that from the anchor, in either direction."""

    id: UUID
    memory_type: Kind
    title: str
    type: str | None
    created_at: datetime
    occurred_at: datetime | None
    position: Position
    distance_ms: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Detail(Record):
    """Layer 3: a whole memory."""

    memory_type: Kind
    memory: Item


def compact(hit: Hit, tokens: Callable[[str], int]) -> CompactHit:
    """A hit in at most 100 tokens as JSON: if it has more, the longer one of its title and type is cut until it fits.
    Only a token counter that counts nearly every character leaves more."""
    item = hit.item
    small = CompactHit(
        id=item.id,
        memory_type=hit.memory_type,
        title=title(item),
        type=item.type,
        score=round(hit.score, 3),
        created_at=item.created_at.replace(microsecond=0),
    )
    while tokens(_json(small)) > MOST_TOKENS:
        name = max("title", "type", key=lambda each: len(getattr(small, each) or ""))
        if not (text := getattr(small, name)):
            break
        small = replace(small, **{name: cut(text, len(text) * 3 // 4)})
    return small


def title(item: Item) -> str:
    """What a memory is about, on one line: its title or the first words that it says."""
    if isinstance(item, Episode) and item.title:
        text = item.title
    else:
        text = found_by(item) if isinstance(item, Fact) and item.keyed else item.content
    return cut(" ".join(text[:_FLATTENED].split()), LONGEST_TITLE)


def cut(text: str, most: int) -> str:
    """The first words of a text, at most so many characters; one that was cut ends with an ellipsis."""
    if len(text) <= most:
        return text
    start = text[: max(most - 1, 0)]
    whole_words = start.rpartition(" ")[0] if not text[len(start)].isspace() else start
    # A long word, or a script without spaces, is cut within.
    kept = whole_words if len(whole_words) > len(start) // 2 else start
    return f"{kept.rstrip()}…" if kept else ""


def moment(item: Item) -> datetime:
    """Where a memory stands on a timeline: an episode where it happened, anything else where it was stored."""
    return (item.occurred_at if isinstance(item, Episode) else None) or item.created_at


def chronological(item: Item) -> tuple[datetime, datetime, UUID]:
    """The order of a timeline."""
    return moment(item), item.created_at, item.id


def entry(item: Item, anchor: Item) -> TimelineEntry:
    """A memory as it stands on the timeline around an anchor."""
    place, middle = chronological(item), chronological(anchor)
    position: Position = "before" if place < middle else "after" if place > middle else "anchor"
    return TimelineEntry(
        id=item.id,
        memory_type=KIND_OF[type(item)],
        title=title(item),
        type=item.type,
        created_at=item.created_at,
        occurred_at=item.occurred_at if isinstance(item, Episode) else None,
        position=position,
        distance_ms=abs(place[0] - middle[0]) // timedelta(milliseconds=1),
    )


def _json(hit: CompactHit) -> str:
    return json.dumps(asdict(hit), default=str, ensure_ascii=False)
