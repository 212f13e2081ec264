"""The two lanes of a search, keyword and semantic: what is requested from the engine, and the candidates."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, cast

from tulving.domain.decay import effective_confidence
from tulving.domain.model import Kind
from tulving.domain.relevance import TURN
from tulving.domain.scope import Filter
from tulving.storage.kinds import KIND, REVIEWED
from tulving.storage.rows import Row
from tulving.storage.tenant_words import tenant_prefix

Key = tuple[Kind, Hashable]
"""A candidate: its kind, and its id in the engine's own form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRequest:
    """What both lanes look for. Without terms the keyword lane is empty, without a vector the semantic one.

    With `neighbours` the episodes before and after each turn of a conversation are candidates too.
    """

    tenant_id: str
    kinds: Sequence[Kind]
    filter: Filter
    now: datetime
    limit: int
    terms: Sequence[str] = ()
    vector: Sequence[float] | None = None
    neighbours: bool = False
    embedding_version: int | None = None


class CandidateRows(Mapping[Key, Row], ABC):
    """Raw driver rows, each decoded on access: most candidates are never needed. The last value of a row is its search
    text."""

    def __init__(self, tenant_id: str) -> None:
        self._prefix = tenant_prefix(tenant_id)
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

    def words(self, key: Key) -> str:
        """The words that a candidate is found by."""
        return (self._raw[key][-1] or "").replace(self._prefix, "")

    def turns(self) -> list[Hashable]:
        """The episodes that are turns of a conversation."""
        keys = [key for key in self._raw if key[0] == "episode" and self.raw(key, "session_id") is not None]
        return [id_ for kind, id_ in keys if (self._raw[kind, id_][-1] or "").count(" ") < TURN]

    def raw(self, key: Key, column: str) -> Any:
        """One value, as the driver returned it."""
        return self._raw[key][_PLACES[key[0]][column]]

    def moment(self, key: Key) -> datetime:
        """When it happened or became true."""
        columns = ("occurred_at", "created_at") if key[0] != "rule" else ("created_at",)
        raw = next(value for column in columns if (value := self.raw(key, column)) is not None)
        return cast(datetime, self._moment(raw))

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


_PLACES = {kind: {name: at for at, name in enumerate(table.columns)} for kind, table in KIND.items()}
_ID = {kind: table.columns.index("id") for kind, table in KIND.items()}
_CREATED_AT = {kind: table.columns.index("created_at") for kind, table in KIND.items()}
_BELIEF = {
    kind: [KIND[kind].columns.index(name) for name in ("confidence", "decay_rate", "last_confirmed_at")]
    for kind in REVIEWED
}


SELECTED = {kind: f"{table.selected}, m.search_text" for kind, table in KIND.items()}
"""The columns of a candidate."""

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


def adjacent(direction: Literal["before", "after"], where: str) -> str:
    """The visible episode before or after the episode `a` in its session, by time; as a SELECT on the alias `m`."""
    sign, order = ("<", "DESC") if direction == "before" else (">", "ASC")
    at = "COALESCE({0}.occurred_at, {0}.created_at)"
    mine, its = (f"({at.format(alias)}, {alias}.created_at, {alias}.id)" for alias in ("m", "a"))
    by = ", ".join(f"{part} {order}" for part in (at.format("m"), "m.created_at", "m.id"))
    beside = f"m.session_id = a.session_id AND {mine} {sign} {its}"
    return f"FROM episodes AS m WHERE {where} AND {beside} ORDER BY {by} LIMIT 1"
