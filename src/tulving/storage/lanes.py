"""The two lanes of a search, keyword and semantic: what is requested from the engine, and the candidates."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Any, cast

from tulving.domain.decay import effective_confidence
from tulving.domain.model import Kind
from tulving.domain.relevance import TURN
from tulving.domain.scope import Filter
from tulving.storage.kinds import KIND, REVIEWED
from tulving.storage.tenant_words import tenant_prefix

Key = tuple[Kind, Hashable]
"""A candidate: its kind, and its id in the engine's own form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRequest:
    """What both lanes look for. Without terms the keyword lane is empty, without a vector the semantic one.

    With `every` the keyword lane has only memories with all the words. With `alike` the semantic lane may leave out
    memories without any similarity. With `neighbours` the episodes before and after each turn of a conversation are
    candidates too.
    """

    tenant_id: str
    kinds: Sequence[Kind]
    filter: Filter
    now: datetime
    limit: int
    terms: Sequence[str] = ()
    vector: Sequence[float] | None = None
    every: bool = False
    alike: bool = False
    neighbours: bool = False
    embedding_version: int | None = None


class CandidateRows(dict[Key, tuple[Any, ...]]):
    """What judging needs to know of each candidate, as raw driver values (`JUDGED`). The memories themselves are read
    for the hits only."""

    def __init__(self, tenant_id: str, decode_time: Callable[[Any], datetime | None]) -> None:
        self.mark = tenant_prefix(tenant_id)
        self._decode_time = decode_time

    def add(self, kind: Kind, row: tuple[Any, ...]) -> Key:
        key = kind, row[0]
        self[key] = row
        return key

    def newest_first(self, keys: Iterable[Key]) -> list[Key]:
        """001-126: how ties are broken: the newest first, then the lowest id. Later times compare greater, decoded or
        not."""
        newest = sorted(keys, key=itemgetter(1))
        newest.sort(key=lambda key: self[key][1], reverse=True)
        return newest

    def moment(self, key: Key) -> datetime:
        """When it happened or became true."""
        return cast(datetime, self._decode_time(self[key][2]))

    def confidence(self, key: Key, now: datetime) -> float:
        """The effective confidence of a candidate; 1 for an episode."""
        if key[0] not in REVIEWED:
            return 1.0
        confidence, rate, confirmed_at = self[key][3:6]
        return effective_confidence(confidence, rate, self._decode_time(confirmed_at), now)

    def importance(self, key: Key) -> float | None:
        return self[key][6]

    def referenced(self, key: Key) -> datetime | None:
        return self._decode_time(self[key][7])

    def first_words(self, key: Key) -> str:
        """The first of the words that a candidate is found by."""
        return " ".join((self[key][-1] or "").split(" ", TURN)[:TURN]).replace(self.mark, "")

    def turns(self) -> list[Hashable]:
        """The episodes that are turns of a conversation."""
        return [
            id_
            for (kind, id_), row in self.items()
            if kind == "episode" and row[-2] is not None and (row[-1] or "").count(" ") < TURN
        ]


_NONE = "CAST(NULL AS TEXT)"
_BELIEF = "m.confidence, m.decay_rate, m.last_confirmed_at"
_SEEN = "m.last_referenced_at"
_OWN: dict[Kind, Sequence[str]] = {
    "episode": (_NONE, _NONE, _NONE, "m.importance", _SEEN, "m.content", "m.source", _NONE, _NONE, "m.session_id"),
    "fact": (_BELIEF, "m.importance", _SEEN, "m.content", "m.subject", "m.entity_id", "m.keyed", _NONE),
    "rule": (_BELIEF, _NONE, _SEEN, "m.content", _NONE, _NONE, _NONE, _NONE),
}
JUDGED = {
    kind: ", ".join(("m.id", "m.created_at", KIND[kind].dated_by, *own, "m.search_text")) for kind, own in _OWN.items()
}
"""The columns of a candidate: identity, times, belief, importance, its last reference, then from `CONTENT` on its
content, speaker or subject, entity, whether it is keyed, its session and its marked words."""
CONTENT = 8

Neighbours = dict[Key, tuple[Key | None, Key | None]]
"""For an episode the one before and the one after it in its session."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """The candidates with their score in each lane, and their rows.

    `similarities` also has the candidates that only the other lane found, if they have a vector.
    """

    semantic: dict[Key, float]
    keyword: dict[Key, float]
    similarities: dict[Key, float]
    rows: CandidateRows
    neighbours: Neighbours = field(default_factory=dict)


SIDES = (("before", "<", "DESC"), ("after", ">", "ASC"))
"""On each side of an episode: how the times of the others compare with its own, and their order."""
