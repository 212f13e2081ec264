"""The JSON schemas of responses, derived from the result types of operations."""

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints, is_typeddict
from uuid import UUID

from tulving.domain.model import KINDS, Fact, Hit
from tulving.domain.records import INTERNAL, RENAMED, Record
from tulving.interfaces.parameters import among, answered, json_type, returned
from tulving.interfaces.schemas import MEMORIES, object_schema
from tulving.interfaces.wire import LEFT_OUT
from tulving.services.operations import Operation

SCENARIOS = re.compile(r"\s?\((?:\d{3}-\d{3}(?:, | and )?)+\)|(?:\d{3}-\d{3}(?:, | and )?)+[:.]?\s*")
"""The ids of scenarios in docstrings, which are for developers."""
_STRINGS: Mapping[Any, Mapping[str, str]] = {
    datetime: {"type": "string", "format": "date-time"},
    UUID: {"type": "string", "format": "uuid"},
}
_LENGTH = {"type": "integer", "description": "The length of the whole content, if it was cut in a list"}


class Shapes:
    """The schemas of records by name, which are collected as types are looked up."""

    def __init__(self) -> None:
        self.named: dict[str, dict[str, Any]] = {}

    def answer(self, operation: Operation) -> dict[str, Any]:
        """The schema of an operation's response. A missing result is an error over HTTP, so null is left out."""
        if not (parts := answered(operation)):
            return self._present(returned(operation))
        described = {
            name: self._present(part) if name == operation.answer else self.of(part) for name, part in parts.items()
        }
        return object_schema(described, [*parts])

    def of(self, hint: Any) -> dict[str, Any]:
        """The schema of a type."""
        described = self._present(hint)
        if NoneType not in among(hint) or not described:
            return described
        if not isinstance(described.get("type"), str):
            return {"anyOf": [*described.get("anyOf", [described]), {"type": "null"}]}
        words = {"enum": [*described["enum"], None]} if "enum" in described else {}
        return {**described, "type": [described["type"], "null"], **words}

    def _present(self, hint: Any) -> dict[str, Any]:
        """The schema of a type without null."""
        described: list[dict[str, Any]] = []
        for each in (self._single(each) for each in among(hint) if each is not NoneType):
            if each not in described:
                described.append(each)
        return described[0] if len(described) == 1 else {"anyOf": described}

    def _single(self, hint: Any) -> dict[str, Any]:
        origin, parts = get_origin(hint) or hint, get_args(hint)
        if hint is Any:
            return {}
        if hint in _STRINGS:
            return {**_STRINGS[hint]}
        if origin is Literal:
            return {"type": "string", "enum": [*parts]}
        if origin in (list, tuple, Sequence):
            return {"type": "array", "items": self.of(parts[0])}
        if origin in (dict, Mapping):
            values = self.of(parts[1]) if parts else {}
            return {"type": "object", **({"additionalProperties": values} if values else {})}
        if is_dataclass(hint) or is_typeddict(hint):
            return self._reference(hint)
        return {"type": json_type(hint)}

    def _reference(self, record: Any) -> dict[str, Any]:
        name = record.__name__
        if name not in self.named:
            self.named[name] = {}  # records may be recursive
            made = self._hit() if record is Hit else self._record(record)
            about = SCENARIOS.sub("", inspect.getdoc(record) or "").partition("\n\n")[0]
            self.named[name] = {"type": "object", "description": " ".join(about.split()), **made}
        return {"$ref": f"#/components/schemas/{name}"}

    def _record(self, record: Any) -> dict[str, Any]:
        hidden = INTERNAL if issubclass(record, Record) else frozenset[str]()
        if_given = getattr(record, "_told_if_given", frozenset[str]())
        properties: dict[str, Any] = {}
        for name, hint in get_type_hints(record).items():
            if name not in hidden:
                # A field that is left out without a value is never null.
                said = self._present(hint) if name in if_given else self.of(hint)
                properties[RENAMED.get(name, name) if issubclass(record, Record) else name] = said
        if record is Fact:
            properties["state"] = {"type": "string"}
        if record in MEMORIES:
            properties["content_length"], optional = _LENGTH, {"content_length"}
        else:
            optional = if_given | LEFT_OUT
        return object_schema(properties, [name for name in properties if name not in optional])

    def _hit(self) -> dict[str, Any]:
        """The schema of a hit: the fields of any memory that have a value, and the score."""
        said: dict[str, Any] = {"memory_type": {"type": "string", "enum": [*KINDS]}}
        for record in MEMORIES:
            for name, hint in get_type_hints(record).items():
                if name not in INTERNAL:
                    said[name] = self._present(hint)
        score = {"type": "number"}
        said |= {
            "state": {"type": "string"},
            "content_length": _LENGTH,
            "score": score,
            "weak": {"type": "boolean"},
            "newer": {**_STRINGS[UUID]},
            "parts": {"type": "object", "additionalProperties": score},
        }
        return object_schema(said, ["memory_type", "id", "content", "score", "parts"])
