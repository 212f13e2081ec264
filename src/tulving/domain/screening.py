"""What becomes of secrets in what a caller gives to be stored: by policy they are redacted, refused or only named."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, TypeVar
from uuid import UUID

from tulving.domain import secrets
from tulving.domain.intake import MAX_DEPTH, MAX_DIGITS, public
from tulving.errors import InvalidInput

T = TypeVar("T")
ADDRESSES = frozenset(
    {"tenant_id", "user_id", "household_id", "persona_id", "project", "scope", "butler", "source_butler"}
)
"""They say whose a memory is. To change one could join what is to stay apart, so a secret in it is refused."""
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """A secret in what was given: where, of which kind, and in which of several offers. Never the secret itself."""

    place: str
    kind: str
    offer: int | None = None


class Screen:
    """A policy, applied to the arguments of a verb, to an offer, or to one text. `allow` are regular expressions for
    what is no secret here."""

    def __init__(self, policy: str = "redact", allow: Sequence[str] = ()) -> None:
        self.policy = policy
        self._allow = [re.compile(each) for each in allow]

    def arguments(self, given: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Finding]]:
        """What a verb is called with, and what was found in it. Each of `offers` is screened by itself."""
        found: list[Finding] = []
        if self.policy == "off":
            return given, found
        offers = given.get("offers")
        if isinstance(offers, Iterable) and not isinstance(offers, str | Mapping):
            offers = [self._offer(offer, place, found) for place, offer in enumerate(offers)]
            given = {**given, "offers": offers}
        return self._record(given, found, None), found

    def offer(self, offer: T) -> tuple[T, list[Finding]]:
        """The same for one record."""
        found: list[Finding] = []
        return (offer if self.policy == "off" else self._offer(offer, None, found)), found

    def text(self, field: str, text: str) -> tuple[str, list[Finding]]:
        """The same for one text."""
        found: list[Finding] = []
        return (text if self.policy == "off" else self._text(text, field, found, None)), found

    def warning(self, found: Sequence[Finding]) -> str | None:
        """What the caller is told about what was found."""
        if not found:
            return None
        named = list(dict.fromkeys(f"{each.place} ({each.kind})" for each in found))
        more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        done = "redacted" if self.policy == "redact" else "stored"
        return f"{done} what looks like a secret: {', '.join(named[:MOST_NAMED])}{more}"

    def _offer(self, offer: T, number: int | None, found: list[Finding]) -> T:
        if isinstance(offer, Mapping):
            return self._record(offer, found, number)  # pyright: ignore[reportReturnType]
        if not is_dataclass(offer) or isinstance(offer, type):
            return offer
        names = _names(type(offer))
        parts = [getattr(offer, name) for name in names]
        if not _suspicious(parts):
            return offer
        return replace(offer, **self._record(dict(zip(names, parts, strict=True)), found, number))

    def _record(self, given: Mapping[str, Any], found: list[Finding], offer: int | None) -> Mapping[str, Any]:
        """Parts with their names; the very same if there is nothing in them, which one look at all texts tells."""
        if not _suspicious(part for name, part in given.items() if name != "offers"):
            return given
        said: dict[str, Any] = {}
        for name, part in given.items():
            about = given.get("predicate") if name == "content" else None
            said[name] = part if name == "offers" else self._part(part, name, found, offer, about, name in ADDRESSES)
        return said

    def _part(
        self, part: Any, place: str, found: list[Finding], offer: int | None, name: Any = None, fixed: bool = False
    ) -> Any:
        if isinstance(part, str):
            return self._text(part, place, found, offer, name if isinstance(name, str) else None, fixed)
        if type(part) is int and isinstance(name, str) and abs(part) < 10**MAX_DIGITS:  # a password of digits
            said = self._text(digits := str(part), place, found, offer, name)
            return part if said == digits else said
        if isinstance(part, Mapping):
            said = {}
            for key, inner in part.items():
                key = self._text(key, place, found, offer) if isinstance(key, str) else key
                said[key] = self._part(inner, f"{place}.{key!s:.80}", found, offer, key)
            return said
        if isinstance(part, Sequence) and not isinstance(part, bytes | bytearray | memoryview):
            return [self._part(inner, f"{place}[{at}]", found, offer, name) for at, inner in enumerate(part)]
        return self._offer(part, offer, found) if is_dataclass(part) else part

    def _text(
        self,
        text: str,
        place: str,
        found: list[Finding],
        offer: int | None,
        name: str | None = None,
        fixed: bool = False,
    ) -> str:
        # What private parts hide is not stored, but without them their neighbours may form a secret.
        shown = public(text)
        said, hidden = secrets.screened(shown, self._allow, name)
        if not hidden:
            return text
        if self.policy == "refuse" or (fixed and self.policy == "redact"):
            first, number = hidden[0], "" if offer is None else f"offers[{offer}]."
            where = f"{first.kind}, characters {first.start + 1} to {first.end}"
            why = ", and decides who sees it, so it is not redacted" if self.policy == "redact" else ""
            raise InvalidInput(f"{number}{place}", f"holds what looks like a secret ({where}){why}", ALLOWED)
        found += [Finding(place, each.kind, offer) for each in hidden]
        return said if self.policy == "redact" else text


_OTHERS = frozenset({int, float, bool, UUID, datetime})
ALLOWED = "text without keys, tokens and passwords; exceptions are configured (secrets.allow)"


@cache
def _names(record: type) -> list[str]:
    return [field.name for field in fields(record)]


def _suspicious(parts: Iterable[Any]) -> bool:
    return secrets.suspicious("\n".join(_texts(parts)))


def _texts(parts: Iterable[Any], depth: int = 0) -> Iterator[str]:
    if depth > MAX_DEPTH:
        raise InvalidInput("metadata", "is nested too deeply", f"at most {MAX_DEPTH} levels")
    for part in parts:
        if isinstance(part, str):
            yield public(part)
        elif part is None or type(part) in _OTHERS:  # as most are; abstract types are slow to tell
            continue
        elif isinstance(part, Mapping):
            yield from _texts(part, depth + 1)
            yield from _texts(part.values(), depth + 1)
        elif isinstance(part, Sequence) and not isinstance(part, bytes | bytearray | memoryview):
            yield from _texts(part, depth + 1)
        elif is_dataclass(part) and not isinstance(part, type):
            yield from _texts((getattr(part, name) for name in _names(type(part))), depth + 1)
