"""What a caller offers to be stored: one memory by the arguments of a verb, or a batch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from tulving.domain import intake
from tulving.errors import InvalidInput

R = TypeVar("R")
T = TypeVar("T")


def offered(offer: type[T], arguments: Mapping[str, Any]) -> T:
    """The offer made from a verb's arguments, passed as its `locals()`."""
    return offer(**{name: value for name, value in arguments.items() if name != "self"})


def read_offers(offer: type[T], given: Sequence[T | Mapping[str, Any]]) -> list[T]:
    """The offers of a batch, of which some may be mappings."""
    several = intake.items("offers", given, None, f"a list of {offer.__name__} or of mappings")
    return [_read(f"offers[{at}]", offer, each) for at, each in enumerate(several)]


def _read(place: str, offer: type[T], given: object) -> T:
    if isinstance(given, offer):
        return given
    if not isinstance(given, Mapping):
        problem = f"must be a {offer.__name__} or a mapping, not {type(given).__name__}"
        raise InvalidInput(place, problem, f"a {offer.__name__} or a mapping")
    known = [each.name for each in fields(offer)]  # pyright: ignore[reportArgumentType]
    for name in given:
        if name not in known:
            raise InvalidInput(f"{place}.{name!s:.80}", "is not known", ", ".join(known))
    if "content" not in given:
        raise InvalidInput(f"{place}.content", "is missing", "a non-empty string")
    return offer(**given)


def each_of(offers: Sequence[T], make: Callable[[T], R]) -> list[R]:
    """What is made of each offer. What is refused in one of several is named by its place."""
    made: list[R] = []
    for at, offer in enumerate(offers):
        try:
            made.append(make(offer))
        except InvalidInput as error:
            if len(offers) == 1:
                raise
            raise InvalidInput(f"offers[{at}].{error.field}", error.problem, error.allowed) from None
    return made
