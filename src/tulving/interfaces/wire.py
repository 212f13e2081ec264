"""Results as values that JSON can hold: one form for all surfaces. Vectors have none, so they never leave."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from tulving.domain.model import Episode, Fact, Hit, Page, Rule
from tulving.domain.records import RENAMED, plain
from tulving.domain.text import shortened
from tulving.services.operations import Operation

LONGEST_CONTENT = 4_000
"""Characters of a memory's content in hits and lists."""
LEFT_OUT = frozenset({"ref", "warning", "closest", "superseded_by", "conflict"})
"""Parts of an answer that are there only when they have a value."""
DIAGNOSTICS = frozenset({"candidates", "below_confidence", "below_relevance"})
"""How a search went, of which a model is told only when nothing was found."""


def answer(operation: Operation, result: Any) -> dict[str, Any]:
    """What an operation answers, as an object."""
    return named(operation, result, wire(result))


def named(operation: Operation, result: Any, told: Any) -> dict[str, Any]:
    """A result, as it is `told`, as an object: a bare one, or what a page lists, gets the operation's name for it."""
    if isinstance(result, Page):
        return {operation.answer or "items": told["items"], "next_cursor": told["next_cursor"]}
    if operation.answer:
        return {operation.answer: told}
    return {name: part for name, part in told.items() if is_told(name, part)}


def wire(value: Any) -> Any:
    """001-111, 001-112: ids as text, times in ISO 8601, records as objects. The content of a memory among others is
    cut, so that it does not push out the rest; `memory_get` has it whole."""
    told = plain(value)
    _cut(value, told)
    return told


def _cut(value: Any, told: Any, is_listed: bool = False) -> None:
    """Shorten the contents that are listed in `value`, where it is `told`."""
    match value:
        case Episode() | Fact() | Rule() | Hit():
            if (is_listed or isinstance(value, Hit)) and len(told["content"]) > LONGEST_CONTENT:
                told |= {
                    "content": shortened(told["content"], LONGEST_CONTENT),
                    "content_length": len(told["content"]),
                }
        case list() | tuple():
            for each, part in zip(value, told, strict=True):
                _cut(each, part, is_listed=True)
        case Mapping():
            for name, each in value.items():
                _cut(each, told[str(name)])
        case _ if is_dataclass(value):
            for field in fields(value):
                if (name := RENAMED.get(field.name, field.name)) in told:
                    _cut(getattr(value, field.name), told[name])


def is_told(name: str, value: Any) -> bool:
    """Whether a part belongs in an answer."""
    return value is not None or name not in LEFT_OUT
