"""What every record that a verb returns has: a short repr, and a form that JSON can hold."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload
from uuid import UUID

T = TypeVar("T", covariant=True)

LONGEST_VALUE = 60
"""Characters of one value in a repr."""
INTERNAL = frozenset({"content_hash", "owner", "folded_subject", "folded_predicate", "shown", "event_key"})
"""Fields that stay inside."""
RENAMED = {"hits": "results"}
_PLAIN = frozenset({NoneType, bool, int, float, str})


class Record:
    """The base of the dataclasses that verbs return; they are declared with `repr=False`."""

    __slots__ = ()
    if TYPE_CHECKING:
        _shown: ClassVar[tuple[str, ...]]
        _told_if_given: ClassVar[frozenset[str]]

    # Without annotations, which those who read the fields of a record would meet.
    _shown = ()
    """What the repr shows; all fields if nothing is named here. What has no value is left out."""
    _told_if_given = frozenset()
    """Fields that `to_dict` leaves out if they have no value."""

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON can hold: ids as text, times in ISO 8601, records as objects."""
        values = {name: plain(value) for name, value in _fields(self).items() if name not in INTERNAL}
        return {
            RENAMED.get(name, name): value
            for name, value in values.items()
            if value is not None or name not in self._told_if_given
        }

    def __repr__(self) -> str:
        values = {name: getattr(self, name) for name in self._shown}
        values = values or {name: value for name, value in _fields(self).items() if value != 0}
        told = ", ".join(f"{name}={_short(value)}" for name, value in values.items() if _says_something(value))
        return f"{type(self).__name__}({told})"


class Listing(Sequence[T], Generic[T]):
    """A record that is also the sequence of what it lists."""

    __slots__ = ()

    @property
    def _listed(self) -> list[T]:
        raise NotImplementedError

    def __iter__(self) -> Iterator[T]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        return self._listed[index]


def plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if type(value) in _PLAIN:  # most values, and much quicker than matching
        return value
    match value:
        case None | bool() | int() | float() | str():
            return value
        case UUID():
            return str(value)
        case datetime():
            return value.isoformat()
        case Record():
            return value.to_dict()
        case Mapping():
            return {str(key): plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case _ if is_dataclass(value):
            return {name: plain(inner) for name, inner in _fields(value).items()}
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in _names(type(record))}


@cache
def _names(record: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(record))


def _says_something(value: Any) -> bool:
    return value is not None and value is not False and value not in ("", [], (), {})


def _short(value: Any) -> str:
    match value:
        case str() | UUID():
            text = str(value)
            return repr(text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…")
        case float():
            return f"{value:.4g}"
        case datetime():
            return repr(value.isoformat(timespec="seconds"))
        case list() | tuple() if value and isinstance(value[0], Record):
            return f"[{value[0]!r}{f', … {len(value) - 1} more' if len(value) > 1 else ''}]"
        case Record():
            return repr(value)
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
