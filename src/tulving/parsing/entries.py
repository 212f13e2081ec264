"""The entries of a list that a model wrote. Each is judged alone, so that a bad one does not cost the others."""

from collections.abc import Callable
from typing import Any, TypeVar

from tulving.domain.text import clean

MOST_ENTRIES = 200
T = TypeVar("T")


class Unusable(ValueError):
    """Why an entry is left out."""


def read(section: str, value: object, entry: Callable[[Any], T], errors: list[str]) -> list[T]:
    """What `entry` makes of each entry; whatever it refuses is added to the errors."""
    if value is None:
        return []
    if not isinstance(value, list):
        errors.append(f"{section}: not a list")
        return []
    if len(value) > MOST_ENTRIES:
        errors.append(f"{section}: has {len(value)} entries; only the first {MOST_ENTRIES} were read")
    kept: list[T] = []
    for index, each in enumerate(value[:MOST_ENTRIES]):
        try:
            kept.append(entry(each))
        except Unusable as problem:
            errors.append(f"{section}[{index}]: {problem}")
    return kept


def object_(value: object) -> dict[str, Any]:
    """The entry, which must be an object."""
    if not isinstance(value, dict):
        raise Unusable("not an object")
    return value


def text(entry: dict[str, Any], field: str) -> str:
    """A text that must be there."""
    value = entry.get(field)
    if value is not None and not isinstance(value, str):
        raise Unusable(f"{field} is not text")
    if not (stripped := clean(value or "").strip()):
        raise Unusable(f"{field} is missing")
    return stripped


def number(value: object, low: float, high: float) -> float | None:
    """A number, moved into its range; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(min(max(value, low), high))


def first_of(entry: dict[str, Any], *names: str) -> tuple[str, Any]:
    """The first of several names of a field under which there is a value, and the value."""
    return next(((name, entry[name]) for name in names if entry.get(name) is not None), (names[0], None))
