"""The two lanes of a search, keyword and semantic: what is requested from the engine, and the candidates."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tulving.domain.decay import effective_confidence
from tulving.domain.model import Kind
from tulving.domain.scope import Filter
from tulving.storage.kinds import KIND, REVIEWED
from tulving.storage.rows import Row

Key = tuple[Kind, Hashable]
"""A candidate: its kind, and its id in the engine's own form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRequest:
    """What both lanes look for. Without terms the keyword lane is empty, without a vector the semantic one."""

    tenant_id: str
    kinds: Sequence[Kind]
    filter: Filter
    now: datetime
    limit: int
    terms: Sequence[str] = ()
    vector: Sequence[float] | None = None
    embedding_version: int | None = None


class CandidateRows(Mapping[Key, Row], ABC):
    """Raw driver rows, each decoded on access: most candidates are never needed."""

    def __init__(self) -> None:
        self._raw: dict[Key, tuple[Any, ...]] = {}

    def add(self, kind: Kind, row: tuple[Any, ...]) -> Key:
        key = kind, row[_ID[kind]]
        self._raw[key] = row
        return key

    def created_at(self, key: Key) -> Any:
        """The raw value; later times compare greater."""
        return self._raw[key][_CREATED_AT[key[0]]]

    def confidence(self, key: Key, now: datetime) -> float:
        """The effective confidence of a candidate; 1 for an episode."""
        if key[0] not in _BELIEF:
            return 1.0
        row = self._raw[key]
        confidence, rate, confirmed_at = (row[at] for at in _BELIEF[key[0]])
        return effective_confidence(confidence, rate, self._moment(confirmed_at), now)

    @abstractmethod
    def _read(self, kind: Kind, row: tuple[Any, ...]) -> Row: ...

    @abstractmethod
    def _moment(self, value: Any) -> datetime | None: ...

    def __getitem__(self, key: Key) -> Row:
        return self._read(key[0], self._raw[key])

    def __contains__(self, key: object) -> bool:
        return key in self._raw

    def __iter__(self) -> Iterator[Key]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)


_ID = {kind: table.columns.index("id") for kind, table in KIND.items()}
_CREATED_AT = {kind: table.columns.index("created_at") for kind, table in KIND.items()}
_BELIEF = {
    kind: [KIND[kind].columns.index(name) for name in ("confidence", "decay_rate", "last_confirmed_at")]
    for kind in REVIEWED
}


@dataclass(frozen=True, slots=True)
class Lanes:
    """The candidates with their score in each lane, and their rows."""

    semantic: dict[Key, float]
    keyword: dict[Key, float]
    rows: CandidateRows
