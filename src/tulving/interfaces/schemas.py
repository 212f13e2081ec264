"""The JSON schema of what an operation answers, read from the type of its result, for its compact and its full form."""

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints, is_typeddict

from tulving.domain.model import KINDS, Episode, Fact, Found, Hit, Rule
from tulving.domain.records import INTERNAL, RENAMED
from tulving.interfaces.parameters import among, answered, json_type, returned, without_none
from tulving.interfaces.wire import DIAGNOSTICS, LEFT_OUT
from tulving.services.operations import Operation

MEMORIES = (Episode, Fact, Rule)
PROMISED: Mapping[Any, Sequence[str]] = {
    Episode: ("id", "content"),
    Fact: ("id", "content"),
    Rule: "id content maturity effectiveness_score applied_count success_count harmful_count".split(),
    Hit: ("id", "memory_type", "content", "score"),
}
"""The fields of a memory that are there in both forms."""
_TEXT, _TIME = {"type": "string"}, {"type": "string", "format": "date-time"}
_IN_ONE_FORM = {
    "memory_type": {"type": "string", "enum": [*KINDS]},
    "date": _TIME,
    "state": _TEXT,
    "content_length": {"type": "integer"},
}
_FOUND = {
    "score": {"type": "number"},
    "weak": {"type": "boolean"},
    "newer": _TEXT,
    "parts": {"type": "object", "additionalProperties": {"type": "number"}},
}


@cache
def holds_memories(hint: Any) -> bool:
    """Whether there may be a memory in a value of a type."""
    if hint in (*MEMORIES, Hit):
        return True
    if get_args(hint):
        return any(map(holds_memories, get_args(hint)))
    return is_dataclass(hint) and any(map(holds_memories, get_type_hints(hint).values()))


def schema(operation: Operation) -> dict[str, Any]:
    """What a tool promises to answer."""
    if parts := answered(operation):
        return object_schema({name: _described(part) for name, part in parts.items()}, [*parts])
    result = returned(operation)
    described = _described(result)
    if operation.fallback and get_type_hints(operation.fallback)["return"] not in result.__mro__:
        # It fails open in another shape, so nothing can be promised.
        return object_schema({**described["properties"], "stored": {"type": "boolean"}}, [])
    return described


def _described(hint: Any) -> dict[str, Any]:
    """The schema of the values of a type."""
    kinds = [each for each in among(hint) if each in MEMORIES]
    described = _memory(*kinds) if kinds else _of(without_none(hint))
    if NoneType not in among(hint):
        return described
    words = {"enum": [*described["enum"], None]} if "enum" in described else {}
    return {**described, "type": [described["type"], "null"], **words}


def _of(hint: Any) -> dict[str, Any]:
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if hint is Any:
        return {}
    if hint is Hit:
        return object_schema({**_memory(*MEMORIES)["properties"], **_FOUND}, PROMISED[Hit])
    if origin is Literal:
        return {"type": "string", "enum": [*parts]}
    if origin in (list, tuple, Sequence):
        return {"type": "array", "items": _described(parts[0])}
    if origin in (dict, Mapping):
        values = _described(parts[1])
        return {"type": "object", **({"additionalProperties": values} if values else {})}
    if is_dataclass(hint) or is_typeddict(hint):
        return _record(hint)
    return _TIME if hint is datetime else {"type": json_type(hint)}


def _record(record: Any) -> dict[str, Any]:
    properties = {
        RENAMED.get(name, name): _described(without_none(hint) if name in LEFT_OUT else hint)
        for name, hint in get_type_hints(record).items()
        if name not in INTERNAL
    }
    optional = LEFT_OUT
    if issubclass(record, Found):  # always the answer itself
        optional, properties["closest"] = LEFT_OUT | DIAGNOSTICS, {"$ref": "#/properties/results/items"}
    return object_schema(properties, [name for name in properties if name not in optional])


def _memory(*kinds: Any) -> dict[str, Any]:
    """A memory of one of these kinds, with all fields that one of them may have."""
    hints = {name: hint for kind in kinds for name, hint in get_type_hints(kind).items() if name not in INTERNAL}
    properties = {name: _described(hint) for name, hint in hints.items()}
    return object_schema({**properties, **_IN_ONE_FORM}, PROMISED[kinds[0]])


def object_schema(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    """The schema of an object."""
    return {"type": "object", "properties": {**properties}, **({"required": [*required]} if required else {})}
