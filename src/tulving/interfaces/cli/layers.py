"""The short lines of search in layers."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from tulving.domain.layers import CompactFound, CompactHit, TimelineEntry
from tulving.interfaces.cli.terminal import KIND_STYLES, Line, Part, moment


def compact(found: CompactFound) -> Iterator[Line]:
    """Each hit: its score, what it is about, its type and time, its id."""
    for hit in found.hits:
        yield 0, (f"{hit.score:.3f}", "bold cyan"), "  ", *_line(hit, hit.created_at)
    if not found.hits:
        yield 0, "nothing found"


def timeline(entries: Sequence[TimelineEntry]) -> Iterator[Line]:
    """Each memory: how far it is from the anchor, what it is about, its type and time, its id."""
    for entry in entries:
        distance = {"before": "-", "after": "+", "anchor": ""}[entry.position] + _distance(entry)
        yield 0, (distance.rjust(8), "bold cyan"), "  ", *_line(entry, entry.occurred_at or entry.created_at)
    if not entries:
        yield 0, "nothing found"


def _line(one: CompactHit | TimelineEntry, time: datetime) -> Iterator[Part]:
    yield one.memory_type, KIND_STYLES[one.memory_type]
    yield f"  {one.title}  "
    yield " · ".join(filter(None, (one.type, moment(time), str(one.id)))), "dim"


def _distance(entry: TimelineEntry) -> str:
    return "anchor" if entry.position == "anchor" else duration(entry.distance_ms)


def duration(milliseconds: int) -> str:
    """A time in its largest unit."""
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if milliseconds >= length:
            return f"{milliseconds / length:.1f} {unit}"
    return f"{milliseconds} ms"
