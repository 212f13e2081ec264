"""The parameters of an operation as every surface offers them, read from the method's own signature."""

import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from tulving.domain.intake import Between, OneOf
from tulving.domain.model import Page
from tulving.errors import InvalidInput
from tulving.services.operations import Operation
from tulving.settings import MemoryModuleConfig

JsonType = Literal["string", "number", "integer", "boolean", "array", "object"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter: how it is described, and how its value is read from JSON or from a command line."""

    name: str
    help: str
    type: JsonType
    required: bool
    default: Any = None
    choices: tuple[str, ...] = ()
    bounds: Between | None = None
    is_time: bool = False
    items: JsonType = "string"
    """What an array is of."""

    @property
    def schema(self) -> dict[str, Any]:
        """Its JSON schema. What may be left out is not required, but never nullable: hosts differ about null."""
        schema: dict[str, Any] = {"type": self.type, "description": self.help}
        words = {"enum": list(self.choices)} if self.choices else {}
        if self.type == "array":
            schema["items"] = {"type": self.items, **words}
        else:
            schema.update(words)
        if self.bounds:
            schema |= {"minimum": self.bounds.low, "maximum": self.bounds.high}
        if self.is_time:
            schema["format"] = "date-time"
        if self.default is not None:
            schema["default"] = self.default
        return schema

    def read(self, value: Any) -> Any:
        """The value that the method takes."""
        if self.is_time:
            return _time(self.name, value)
        given, value = value, unquoted(value, self.type)
        if self.type == "array" and self.items == "number":
            return _numbers(self, value)
        if self.type == "integer" and isinstance(value, float) and value.is_integer():
            value = int(value)
        name, fits = _TYPES[self.type]
        if not fits(value):
            raise InvalidInput(self.name, f"{given!r:.80} is not {name}", self.allowed)
        return value

    @property
    def allowed(self) -> str:
        return ", ".join(self.choices) or f"{_TYPES[self.type][0]} ({self.help})"


_TYPES: dict[JsonType, tuple[str, Callable[[Any], bool]]] = {
    "string": ("text", lambda value: isinstance(value, str)),
    "number": ("a number", lambda value: type(value) in (int, float) and -math.inf < value < math.inf),
    "integer": ("a whole number", lambda value: type(value) is int),
    "boolean": ("true or false", lambda value: type(value) is bool),
    "array": (
        "a list of texts",
        lambda value: isinstance(value, list) and all(isinstance(part, str) for part in value),
    ),
    "object": ("a JSON object", lambda value: isinstance(value, dict)),
}
"""How each type is called, and which values are of it."""

_JSON_TYPES: dict[Any, JsonType] = {
    **dict.fromkeys((str, UUID, datetime, Literal), "string"),
    float: "number",
    int: "integer",
    bool: "boolean",
    **dict.fromkeys((list, Sequence), "array"),
}


def json_type(hint: Any) -> JsonType:
    """What a value of this type is in JSON, if it is not null; a record is an object."""
    present = without_none(hint)
    return _JSON_TYPES.get(get_origin(present) or present, "object")


def unquoted(value: Any, type_: object) -> Any:
    """A value of this JSON type where text stands for it: some hosts, VCP and every command line have text only."""
    if isinstance(value, str) and type_ in ("number", "integer", "boolean", "array", "object"):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def among(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def without_none(hint: Any) -> Any:
    """The type of a value that is given; the first one, if there are several."""
    return next((part for part in among(hint) if part is not NoneType), hint)


def parameters(operation: Operation, settings: MemoryModuleConfig | None = None) -> list[Parameter]:
    """What an operation takes, in the order of its signature, with the configured defaults."""
    defaults = operation.defaults if settings is None else settings.defaults(operation.defaults)
    configured = {name: value for name, value in defaults.items() if value is not None}
    return [
        replace(parameter, default=configured[name]) if name in configured else parameter
        for name, parameter in _declared(operation.method).items()
    ]


def schema(taken: Sequence[Parameter]) -> dict[str, Any]:
    """The JSON schema of a call with these parameters."""
    return {
        "type": "object",
        "properties": {parameter.name: parameter.schema for parameter in taken},
        "required": [parameter.name for parameter in taken if parameter.required],
        "additionalProperties": False,
    }


@cache
def undescribed(operation: Operation) -> frozenset[str]:
    """The parameters without a description, which are for Python callers only; a surface may supply its own values."""
    return frozenset(inspect.signature(operation.method).parameters) - {"self", *_declared(operation.method)}


def returned(operation: Operation) -> Any:
    """The type of an operation's result."""
    return _hints(operation.method)["return"]


def answered(operation: Operation) -> dict[str, Any]:
    """The parts of an answer whose result has no names of its own, with their types: the result itself, or what a page
    lists and where it continues. Nothing if the result is a record."""
    result = returned(operation)
    if get_origin(result) is Page:
        return {operation.answer or "items": list[get_args(result)[0]], "next_cursor": str | None}
    return {operation.answer: result} if operation.answer else {}


def accept(operation: Operation, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call as the method takes them; null means left out. Refuses what is unknown or missing."""
    known = _declared(operation.method)
    for name in arguments:
        if name not in known:
            raise InvalidInput(f"{name!s:.80}", f"is not a parameter of {operation.tool}", ", ".join(known))
    given = {name: value for name, value in arguments.items() if value is not None}
    for name, parameter in known.items():
        if parameter.required and name not in given:
            raise InvalidInput(name, "is missing", parameter.allowed)
    return {name: known[name].read(value) for name, value in given.items()}


def describe(operation: Operation) -> str:
    """The method's docstring, each paragraph on one line."""
    paragraphs = inspect.cleandoc(operation.method.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


@cache
def _hints(method: Callable[..., Any]) -> dict[str, Any]:
    """Evaluating annotations is slow, so it is done once for each method."""
    return get_type_hints(method, include_extras=True)


@cache
def _declared(method: Callable[..., Any]) -> Mapping[str, Parameter]:
    hints, taken = _hints(method), inspect.signature(method).parameters
    described = [name for name in taken if get_origin(hints.get(name)) is Annotated]
    return {name: parameter(name, hints[name], taken[name].default) for name in described}


def parameter(name: str, hint: Any, default: Any) -> Parameter:
    """A parameter of a function. Its type may be annotated with a description, and then with what is allowed."""
    hint, note, *allowed = get_args(hint) if get_origin(hint) is Annotated else (hint, name)
    words = get_args(element) if get_origin(element := _element(hint)) is Literal else ()
    required = default is inspect.Parameter.empty
    return Parameter(
        name=name,
        help=note,
        type=json_type(hint),
        required=required,
        default=None if required else default,
        choices=next((each for each in allowed if isinstance(each, OneOf)), words),
        bounds=next((each for each in allowed if isinstance(each, Between)), None),
        is_time=element is datetime,
        items=json_type(element),
    )


def _element(hint: Any) -> Any:
    """The type of a value, or of the values in a list."""
    present = without_none(hint)
    return get_args(present)[0] if json_type(present) == "array" else present


def _numbers(parameter: Parameter, value: Any) -> list[float]:
    """A list of numbers; from a command line, a list of texts that are numbers or lists of them."""
    parts = [unquoted(part, "array") for part in value] if isinstance(value, list) else [value]
    numbers = [number for part in parts for number in (part if isinstance(part, list) else [part])]
    for number in numbers:
        if not _TYPES["number"][1](number):
            raise InvalidInput(parameter.name, f"{number!r:.80} is not a number", "a list of finite numbers")
    return numbers


def _time(name: str, value: Any) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        allowed = "an ISO 8601 time such as 2026-03-01T12:00:00Z"
        raise InvalidInput(name, f"{value!r:.80} is not a time", allowed) from None
