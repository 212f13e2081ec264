"""Tools that a host adds to those of the memory."""

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

from tulving.errors import InvalidInput
from tulving.interfaces.instructions import Tool
from tulving.interfaces.parameters import Parameter, parameter, schema, unquoted, without_none
from tulving.interfaces.wire import wire

_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}", re.ASCII)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_TYPES = (str, int, float, bool, list, dict, Literal)


@dataclass(frozen=True, slots=True)
class HostTool:
    """A function of the host, and how it is described."""

    tool: Tool
    function: Callable[..., Any]

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """The function's result in wire form, if the arguments fit the schema."""
        result = self.function(**self._accept(arguments))
        value = wire(await result if inspect.isawaitable(result) else result)
        if not _is_finite(value):
            raise ValueError("the result holds a number that is not finite")
        return value

    def _accept(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the function takes them: null means left out, and text is read where another type is due,
        as for an operation."""
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import best_match

        types = {name: each.get("type") for name, each in self.tool.schema["properties"].items()}
        given = {name: unquoted(each, types.get(name)) for name, each in arguments.items() if each is not None}
        if not _is_finite(given):
            raise InvalidInput("parameters", "hold a number that is not finite", "JSON")
        if error := best_match(Draft202012Validator(self.tool.schema).iter_errors(given)):
            raise InvalidInput(".".join(map(str, error.path)) or "parameters", f"{error.message:.300}")
        return given


def host_tool(
    name: str, function: Callable[..., Any], description: str | None, parameters: Mapping[str, Any] | None
) -> HostTool:
    """A function as a tool. Raises InvalidInput if a model could not be told how to call it."""
    if not _NAME.fullmatch(name):
        raise InvalidInput("name", f"{name!r:.80} is no name", "up to 64 letters, digits, _, . and -")
    description = description or inspect.getdoc(function)
    if not description:
        raise InvalidInput("description", "is missing", "what the tool does, here or as the function's docstring")
    taken = _checked(parameters) if parameters is not None else schema(_signature(function))
    return HostTool(Tool(name, description, taken), function)


def _is_finite(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _signature(function: Callable[..., Any]) -> list[Parameter]:
    taken: list[Parameter] = []
    for name, each in inspect.signature(function, eval_str=True).parameters.items():
        hint = each.annotation
        bare = without_none(get_args(hint)[0] if get_origin(hint) is Annotated else hint)
        if each.kind not in _BY_NAME or (get_origin(bare) or bare) not in _TYPES:
            raise InvalidInput(
                "parameters",
                f"{name!r} can't be described to a model",
                "named parameters of the types str, int, float, bool, list, dict and Literal; or a JSON schema",
            )
        taken.append(parameter(name, hint, each.default))
    return taken


def _checked(parameters: Mapping[str, Any]) -> dict[str, Any]:
    from jsonschema import Draft202012Validator, SchemaError

    given = {"type": "object", "properties": {}, "additionalProperties": False, **parameters}
    try:
        Draft202012Validator.check_schema(given)
    except SchemaError as error:
        raise InvalidInput("parameters", f"{error.message:.300}", "a JSON schema") from None
    if given["type"] != "object" or not all(isinstance(each, Mapping) for each in given["properties"].values()):
        raise InvalidInput("parameters", "describes something else", "the JSON schema of an object with properties")
    return given
