"""The registry of operations: a verb is written once as a method, and every surface is generated from its entry."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])
Effect = Literal["read", "write", "destroy", "review", "admin"]
"""What an operation does, which is the right that a caller needs. Models are offered the first three: `review` is a
person's decision on what models propose, and `admin` concerns the whole store (`Administration`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A verb as surfaces see it.

    `tool` is its MCP name, `http` its method and path, `command` its name on the command line, where the parameters in
    `positional` come first. `batch`, if given, names the method that does the same for a list, in one transaction;
    `batch_names` are the fields of its offers that are not called like the parameters.
    `answer` is the key of a result that is not an object. `standard` marks the specified tool set; the other tools are
    opt-in. `minimal` marks those of the smallest tool set, and names the optional parameters that they have there.
    `once_within` marks those that take an idempotency key without `requests.once`, since a verb that they call has it.
    `by_person`, if given, names the method that the command line calls instead. `defaults` may be overridden by
    configuration, so the method itself has None there. `fallback`, if given, turns an error into a surface's answer:
    the verb fails open.
    """

    tool: str
    method: Callable[..., Awaitable[Any]]
    effect: Effect
    http: str
    batch: str | None = None
    batch_names: Mapping[str, str] = field(default_factory=dict, hash=False)
    command: str | None = None
    positional: tuple[str, ...] = ()
    answer: str | None = None
    standard: bool = True
    minimal: tuple[str, ...] | None = None
    idempotent: bool = False
    once_within: bool = False
    by_person: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    fallback: Callable[[Exception], Any] | None = None

    @property
    def name(self) -> str:
        return self.method.__name__

    @property
    def takes_key(self) -> bool:
        """Whether it takes effect once for an idempotency key (`requests.once`)."""
        return self.once_within or hasattr(self.method, "__wrapped__")

    @property
    def for_models(self) -> bool:
        """Whether a model may be offered it."""
        return self.effect not in ("review", "admin")


OPERATIONS: dict[str, Operation] = {}


def offered(tools: str) -> dict[str, Operation]:
    """The operations of a tool set (`settings.TOOL_SETS`), by the names of their tools."""
    if tools == "minimal":
        return {name: each for name, each in OPERATIONS.items() if each.minimal is not None}
    known = {name: each for name, each in OPERATIONS.items() if each.for_models}
    return {name: each for name, each in known.items() if each.standard or tools == "all"}


def operation(tool: str, **described: Any) -> Callable[[Method], Method]:
    """Register a method as an operation with the fields of `Operation`; the method itself is unchanged."""

    def record(method: Method) -> Method:
        OPERATIONS[tool] = Operation(tool=tool, method=method, **described)
        return method

    return record
