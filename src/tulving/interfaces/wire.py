"""Results as values that JSON can hold: one form for all surfaces. Vectors have none, so they never leave."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from tulving.domain.layers import CompactFound
from tulving.domain.learning import Proposal, Run
from tulving.domain.model import Episode, Fact, Found, Hit, Rule, Session, Settlement, Stored
from tulving.domain.text import shortened
from tulving.services.operations import Operation

LONGEST_CONTENT = 4_000
"""Characters of a memory's content in hits and lists."""
INTERNAL = frozenset({"content_hash", "owner", "folded_subject", "folded_predicate", "shown", "event_key"})
LEFT_OUT = frozenset({"ref", "warning", "closest", "superseded_by", "conflict"})
"""Parts of an answer that are there only when they have a value."""
RENAMED = {"hits": "results"}
DIAGNOSTICS = frozenset({"candidates", "below_confidence", "below_relevance"})
"""How a search went, of which a model is told only when nothing was found."""


def answer(operation: Operation, result: Any) -> dict[str, Any]:
    """What an operation answers, as an object: a bare result gets the operation's name for it."""
    value = wire(result)
    if operation.answer:
        return {operation.answer: value}
    return {name: part for name, part in value.items() if is_told(name, part)}


def wire(value: Any) -> Any:
    """001-111, 001-112: ids as text, times in ISO 8601, records as objects."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case UUID():
            return str(value)
        case datetime():
            return value.isoformat()
        case Episode() | Fact() | Rule():
            return _item(value)
        case Run() | Proposal() | Settlement() | Session():
            return {name: part for name, part in _plain(value).items() if name not in INTERNAL}
        case Hit():
            item = {name: part for name, part in _brief(_item(value.item)).items() if part is not None}
            marks = {"weak": True} if value.weak else {}
            marks |= {"newer": str(value.newer)} if value.newer else {}
            return {"memory_type": value.memory_type, **item, "score": value.score, **marks, "parts": dict(value.parts)}
        case Found() | CompactFound() | Stored():
            return {RENAMED.get(name, name): part for name, part in _plain(value).items() if is_told(name, part)}
        case Mapping():
            return {str(key): wire(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_brief(_item(one)) if isinstance(one, Episode | Fact | Rule) else wire(one) for one in value]
        case _ if is_dataclass(value):
            return _plain(value)
    raise TypeError(f"{type(value).__name__} has no form on the wire")


def _item(item: Episode | Fact | Rule) -> dict[str, Any]:
    values = {name: value for name, value in _plain(item).items() if name not in INTERNAL}
    if isinstance(item, Fact):
        values["state"] = item.state
    if isinstance(item, Fact | Rule) and item.status == "fading":
        values["metadata"] = {**values["metadata"], "status": "fading"}
    return values


def _brief(item: dict[str, Any]) -> dict[str, Any]:
    """A memory among others, whose content is cut so that it does not push out the rest; `memory_get` has it whole."""
    if len(item["content"]) <= LONGEST_CONTENT:
        return item
    return {**item, "content": shortened(item["content"], LONGEST_CONTENT), "content_length": len(item["content"])}


def _plain(record: Any) -> dict[str, Any]:
    return {field.name: wire(getattr(record, field.name)) for field in fields(record)}


def is_told(name: str, value: Any) -> bool:
    """Whether a part belongs in an answer."""
    return value is not None or name not in LEFT_OUT
