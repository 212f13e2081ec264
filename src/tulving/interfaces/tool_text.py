"""Tool calls that a model writes into its text: read, checked, carried out, and answered for its next turn."""

import json
import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from tulving.domain.access import RIGHTS
from tulving.errors import InvalidInput
from tulving.interfaces import answers
from tulving.interfaces.calls import invoke, log_failure, told
from tulving.interfaces.host_tools import HostTool, host_tool
from tulving.interfaces.instructions import described, tool_prompt
from tulving.parsing.tool_calls import Protocol, TextCall, ToolText, read
from tulving.services.memory import Memory
from tulving.services.operations import OPERATIONS, Operation, offered
from tulving.settings import TOOL_SETS

log = logging.getLogger("tulving")

_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_MARKERS = re.compile(r"\[(?=\[)|<(?=<)|「")
_NOT_IN_NAMES = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What came of one call: its value as JSON can hold it or, if it was not carried out, why. A tool that fails open
    has a value that tells so, and is not `ok`."""

    tool: str
    ok: bool
    value: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextAnswer:
    """What came of a model's text."""

    prose: str
    """What the model says beside its calls; without calls its whole text, untouched."""
    results: tuple[CallResult, ...]
    text: str
    """The results as text for the model's next turn; empty without calls."""
    protocol: Protocol
    fallback: str | None
    """Why ABP was not used."""
    problems: tuple[str, ...]
    """Which calls the model marked could not be read, and why."""

    @property
    def called(self) -> bool:
        """Whether there were calls."""
        return bool(self.results)


class ToolRunner:
    """Carries out the tool calls in a model's text, on the memory of one caller and with the caller's rights.

    `tools` is the tool set, `minimal`, `standard` or `all`; `rights` are the effects that its tools may have; with
    `dual`, a text without ABP calls may have calls in VCP. What is not given is as configured.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        tools: str | None = None,
        rights: Collection[str] = RIGHTS,
        dual: bool | None = None,
    ) -> None:
        self._memory, self._settings = memory, memory.config.tool_text
        self._operations = tool_set(memory.config.tools if tools is None else tools, rights)
        self._config = memory.config if tools is None else replace(memory.config, tools=tools)
        self._dual = self._settings.dual_protocol if dual is None else dual
        self._registered: dict[str, HostTool] = {}

    @property
    def prompt(self) -> str:
        """The instructions that teach a model the protocol and all tools."""
        known = [described(operation, self._config) for operation in self._operations.values()]
        return tool_prompt(self._config.tools, [*known, *(each.tool for each in self._registered.values())])

    def register(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        description: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a tool of the host: a function, asynchronous or not, whose result JSON can hold.

        The description defaults to the function's docstring, and `parameters`, a JSON schema, to its signature. To tell
        the model what to correct, the function raises `InvalidInput`.
        """
        if name in OPERATIONS or name in self._registered:
            raise InvalidInput("name", f"there is a tool {name!r} already", "another name")
        self._registered[name] = host_tool(name, function, description, parameters)

    async def run(self, text: str) -> TextAnswer:
        """Carry out the calls in a text. Each call stands alone, in order: one that is refused or fails has an
        error as its result, and the others are carried out all the same."""
        if not isinstance(text, str):
            raise InvalidInput("text", f"is a {type(text).__name__}", "what a model said, as text")
        found = read(text, dual=self._dual)
        results = [await self._result(call, number) for number, call in enumerate(found.calls)]
        await self._count(found)
        return TextAnswer(
            prose=found.prose if results else text,
            results=tuple(results),
            text=_rendered(found, results) if results else "",
            protocol=found.protocol,
            fallback=found.fallback,
            problems=found.problems,
        )

    async def _result(self, call: TextCall, number: int) -> CallResult:
        failures: list[Exception] = []

        def note(operation: Operation, error: Exception) -> None:
            log_failure(operation, error)
            failures.append(error)

        try:
            if number >= (most := self._settings.max_calls):
                raise InvalidInput("calls", "this one was not carried out", f"at most {most} in one answer")
            if call.tool in self._registered:
                value = await self._registered[call.tool].call(call.parameters)
            elif operation := self._operations.get(call.tool):
                given, form = answers.accepted(operation, call.parameters)
                value = answers.answer(operation, await invoke(self._opened, operation, given, note), form)
            else:
                raise self._unknown(call.tool)
        except Exception as error:
            return CallResult(tool=call.tool, ok=False, error=told(call.tool, error))
        return CallResult(tool=call.tool, ok=not failures, value=value)

    async def _opened(self) -> Memory:
        return self._memory

    def _unknown(self, tool: str) -> InvalidInput:
        names = [*self._operations, *self._registered]
        return InvalidInput("tool", f"there is no {tool!r:.80}", ", ".join(get_close_matches(tool, names) or names))

    async def _count(self, found: ToolText) -> None:
        try:
            await self._memory.count_tool_text(found.protocol, found.fallback or "")
        except Exception as error:  # the calls are carried out, and must be answered
            log.error("a text with tool calls could not be counted: %s", error, exc_info=error)


def tool_set(tools: str, rights: Collection[str] = RIGHTS) -> dict[str, Operation]:
    """The operations of a tool set whose effects are allowed, by the names of their tools."""
    if tools not in TOOL_SETS:
        raise InvalidInput("tools", f"{tools!r:.80} is no tool set", ", ".join(TOOL_SETS))
    if unknown := sorted(set(rights) - {*RIGHTS}):
        raise InvalidInput("rights", f"there is no right to {unknown[0]}", ", ".join(RIGHTS))
    return {name: each for name, each in offered(tools).items() if each.effect in rights}


def _rendered(found: ToolText, results: Collection[CallResult]) -> str:
    """The results, and after them what could not be read, in the protocol of the calls."""
    told = [(each.tool, each.value if each.error is None else {"error": each.error}) for each in results]
    told += [("unreadable", {"error": problem}) for problem in found.problems]
    form = _VCP if found.protocol == "vcp" else _ABP
    return "\n".join(form.format(name=_NOT_IN_NAMES.sub("_", name)[:80], value=_json(value)) for name, value in told)


_ABP = """\
[[ABP_RESULT:{name}]]
{value}
[[END_ABP_RESULT]]
"""
_VCP = """\
<<<[TOOL_RESULT]>>>
tool_name:「始」{name}「末」,
result:「始」{value}「末」
<<<[END_TOOL_RESULT]>>>
"""


def _json(value: Any) -> str:
    """A value as JSON without anything that looks like a marker of a protocol: stored text must not be able to end its
    result or to call a tool when a model repeats it. It decodes to the same value."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    return _STRING.sub(lambda string: _MARKERS.sub(lambda mark: f"\\u{ord(mark[0]):04x}", string[0]), text)
