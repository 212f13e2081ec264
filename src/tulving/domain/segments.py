"""A segment of the timeline: the contents of archived episodes as one compressed, checksummed string of bytes."""

import hashlib
import json
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

MAGIC = b"TULVSEG1"
_SUM = 32
"""The length of the checksum behind the magic."""

SegmentStatus = Literal["filling", "sealed", "damaged"]


class DamagedSegment(ValueError):
    """The bytes are not those of the segment. Says what is wrong with them."""


@dataclass(frozen=True, slots=True)
class Archived:
    """What a segment holds of an episode; the rest of it stays in its row."""

    id: UUID
    content: str
    metadata: Mapping[str, Any]


Contents = Mapping[UUID, Archived]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A segment as the manifest knows it. Each time that it is written anew it gets another generation.

    A segment is `filling` while episodes are being moved into it. A `damaged` one can't be read; `problem` says why.
    """

    tenant_id: str
    id: UUID
    generation: int = 1
    status: SegmentStatus
    episodes: int
    size: int
    checksum: str
    first_at: datetime
    last_at: datetime
    problem: str | None = None
    created_at: datetime

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.id}-{self.generation}.segment"


def pack(entries: Iterable[Archived]) -> bytes:
    """The bytes of a segment, the same for the same contents in any order."""
    told = [[str(each.id), each.content, each.metadata] for each in sorted(entries, key=lambda each: each.id)]
    packed = zlib.compress(json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode())
    return MAGIC + hashlib.sha256(packed).digest() + packed


def unpack(body: bytes, checksum_: str) -> dict[UUID, Archived]:
    """The contents of a segment, checked against the checksum in the manifest."""
    if not body.startswith(MAGIC):
        raise DamagedSegment("it does not begin like a segment")
    packed = body[len(MAGIC) + _SUM :]
    if hashlib.sha256(packed).digest() != body[len(MAGIC) : len(MAGIC) + _SUM]:
        raise DamagedSegment("its checksum does not match its content")
    if checksum(body) != checksum_:
        raise DamagedSegment("it is not the one that the manifest names")
    told = json.loads(zlib.decompress(packed))
    return {(id_ := UUID(text)): Archived(id_, content, metadata) for text, content, metadata in told}


def checksum(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def surplus(at_hand: int, capacity: int, archivable: int) -> int:
    """000-016: how many episodes are to be archived because there are too many."""
    return min(archivable, max(0, at_hand - capacity))


def cutoff(now: datetime, days: float | None) -> datetime | None:
    """The time before which episodes are old; None if they never are."""
    if days is None:
        return None
    try:
        return now - timedelta(days=days)
    except OverflowError:
        return None


def to_merge(segments: Sequence[Segment], most: int) -> list[Segment]:
    """000-016: neighbours in time that are worth merging: the first run of segments that are at most half full and fit
    into one together; empty if there is none."""
    run: list[Segment] = []
    for each in sorted(segments, key=lambda segment: (segment.first_at, segment.id)):
        small = each.status == "sealed" and 2 * each.episodes <= most
        if small and _count(run) + each.episodes <= most:
            run.append(each)
        elif len(run) > 1:
            return run
        else:
            run = [each] if small else []
    return run if len(run) > 1 else []


def _count(segments: Collection[Segment]) -> int:
    return sum(each.episodes for each in segments)
