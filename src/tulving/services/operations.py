"""The registry: a verb is written once as a method, and every surface is made from what is recorded here."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])
Effect = Literal["read", "write", "destroy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A verb as surfaces see it.

    `tool` is its MCP name, `command` its words on the command line, whose first parameters are `positional` there.
    `answer` names a result that is no object of its own. `standard` tells the specified tool set from the opt-in
    one. `by_person`, where given, names the method that is called instead when a person looks. `defaults` are written
    defaults that configuration may override, so the method itself has None there.
    `fallback`, where given, makes the answer of a surface from the error that kept the verb from working: the verb
    fails open.
    """

    tool: str
    method: Callable[..., Awaitable[Any]]
    effect: Effect
    command: str | None = None
    positional: tuple[str, ...] = ()
    answer: str | None = None
    standard: bool = True
    idempotent: bool = False
    by_person: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    fallback: Callable[[Exception], Any] | None = None

    @property
    def name(self) -> str:
        return self.method.__name__


OPERATIONS: dict[str, Operation] = {}


def operation(tool: str, **described: Any) -> Callable[[Method], Method]:
    """Record a method as an operation, described as `Operation` is; the method itself stays as it is."""

    def record(method: Method) -> Method:
        OPERATIONS[tool] = Operation(tool=tool, method=method, **described)
        return method

    return record
