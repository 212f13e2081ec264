"""Results as values that JSON can hold: one form for all surfaces. Vectors have none, so they never leave."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any, get_type_hints
from uuid import UUID

from tulving.domain.model import EntitiesMerged, EntityCreated, Episode, Fact, Found, Hit, Page, Rule, Stored
from tulving.domain.text import shortened
from tulving.services.health import Health
from tulving.services.operations import Operation
from tulving.services.statistics import Statistics
from tulving.services.upkeep import CleanedUp

LONGEST_CONTENT = 4_000
"""Characters of a memory's content in hits and lists."""
INTERNAL = frozenset({"content_hash", "owner"})
LEFT_OUT = frozenset({"ref", "warning"})
"""Parts of an answer that are there only when they have a value."""


def answer(operation: Operation, result: Any) -> dict[str, Any]:
    """What an operation answers, as an object; a result that is none gets the operation's name for it."""
    value = wire(result)
    return {operation.answer: value} if operation.answer else value


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
        case Hit():
            return {
                "memory_type": value.memory_type,
                **_brief(_item(value.item)),
                "score": value.score,
                "parts": dict(value.parts),
            }
        case Found():
            found = _answered(value)
            return {"results": found.pop("hits"), **found}
        case Stored():
            return _answered(value)
        case Mapping():
            return {str(key): wire(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_brief(_item(one)) if isinstance(one, Episode | Fact | Rule) else wire(one) for one in value]
        case _ if is_dataclass(value):
            return _plain(value)
    raise TypeError(f"{type(value).__name__} has no form on the wire")


def schema(operation: Operation) -> dict[str, Any]:
    """The JSON schema of what an operation answers, as far as it is fixed."""
    returned = get_type_hints(operation.method)["return"]
    if operation.answer:
        return _object({operation.answer: _ANSWERS.get(returned, {})}, required=[operation.answer])
    known = _SCHEMAS.get(returned, {})
    # An operation that fails open may answer in another shape, so nothing can be promised.
    return _object(known, required=[] if operation.fallback else [name for name in known if name not in LEFT_OUT])


def _object(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), **({"required": required} if required else {})}


_TEXT, _OPTIONAL_TEXT, _COUNT = {"type": "string"}, {"type": ["string", "null"]}, {"type": "integer"}
_OBJECTS = {"type": "array", "items": {"type": "object"}}
_NUMBER, _OBJECT = {"type": "number"}, {"type": "object"}
_ANSWERS: dict[Any, dict[str, Any]] = {bool: {"type": "boolean"}, str: _TEXT}
_SCHEMAS: dict[Any, dict[str, Any]] = {
    Stored: {
        "id": _TEXT,
        "outcome": _TEXT,
        "superseded_id": _OPTIONAL_TEXT,
        "expires_at": _OPTIONAL_TEXT,
        "ref": _TEXT,
        "warning": _TEXT,
    },
    Found: {
        "results": _OBJECTS,
        "mode": _TEXT,
        "candidates": _COUNT,
        "below_confidence": _COUNT,
        "warning": _TEXT,
    },
    Rule: {
        "id": _TEXT,
        "content": _TEXT,
        "maturity": _TEXT,
        "effectiveness_score": _NUMBER,
        "applied_count": _COUNT,
        "success_count": _COUNT,
        "harmful_count": _COUNT,
    },
    EntityCreated: {"entity_id": _TEXT},
    EntitiesMerged: {
        "target_entity_id": _TEXT,
        "source_entity_id": _TEXT,
        "facts_repointed": _COUNT,
        "facts_superseded": _COUNT,
        "aliases_added": _COUNT,
    },
    CleanedUp: {"expired_deleted": _COUNT, "capacity_deleted": _COUNT, "remaining": _COUNT},
    Statistics: {"episodes": _OBJECT, "facts": _OBJECT, "rules": _OBJECT},
    Health: {
        "ok": {"type": "boolean"},
        "schema": _TEXT,
        "pending": {"type": ["integer", "null"]},
        "findings": _OBJECTS,
        "jobs": {"type": ["array", "null"], "items": _OBJECT},
    },
    Page: {"items": _OBJECTS, "next_cursor": _OPTIONAL_TEXT},
}


def _item(item: Episode | Fact | Rule) -> dict[str, Any]:
    values = {name: value for name, value in _plain(item).items() if name not in INTERNAL}
    if isinstance(item, Fact):
        values["state"] = item.state
    if isinstance(item, Fact | Rule) and item.status == "fading":
        values["metadata"] = {**values["metadata"], "status": "fading"}
    return values


def _brief(item: dict[str, Any]) -> dict[str, Any]:
    """A memory among others: one long content must not push out the rest. `memory_get` gives the whole."""
    if len(item["content"]) <= LONGEST_CONTENT:
        return item
    return {**item, "content": shortened(item["content"], LONGEST_CONTENT), "content_length": len(item["content"])}


def _plain(record: Any) -> dict[str, Any]:
    return {field.name: wire(getattr(record, field.name)) for field in fields(record)}


def _answered(record: Any) -> dict[str, Any]:
    return {name: value for name, value in _plain(record).items() if value is not None or name not in LEFT_OUT}
