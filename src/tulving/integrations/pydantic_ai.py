"""Tulving's operations as a toolset of Pydantic AI: `Agent(model, toolsets=[tulving_toolset(memory)])`."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

try:
    from pydantic_ai import FunctionToolset, ModelRetry, Tool
except ImportError as error:
    raise ImportError("tulving.integrations.pydantic_ai needs Pydantic AI: pip install pydantic-ai-slim") from error

from tulving.errors import InvalidInput, NotFound
from tulving.integrations.home_loop import HomeLoop
from tulving.interfaces import answers
from tulving.interfaces.blocking import BlockingMemory
from tulving.interfaces.calls import invoke
from tulving.interfaces.instructions import described, how_to_use
from tulving.services.memory import Memory
from tulving.services.operations import Operation, offered


def tulving_toolset(memory: Memory | BlockingMemory, *, tools: str | None = None) -> FunctionToolset[Any]:
    """The tools that the MCP server offers too, with its instructions for models.

    `tools` is the set of tools, as in the settings, which count if it is left out. A call that the model can correct is
    returned to it for another attempt.
    """
    home = HomeLoop(memory)
    config = home.memory.config if tools is None else replace(home.memory.config, tools=tools)
    made: list[Tool[Any]] = []
    for operation in offered(config.tools).values():
        name, description, schema = described(operation, config)
        made.append(Tool.from_schema(_function(home, operation), name, description, dict(schema)))
    return FunctionToolset(made, id="tulving", instructions=how_to_use(config.tools))


def _function(home: HomeLoop, operation: Operation) -> Callable[..., Awaitable[dict[str, Any]]]:
    """A function that calls an operation with what a model gives."""

    async def opened() -> Memory:
        return home.memory

    async def run(**arguments: Any) -> dict[str, Any]:
        try:
            given, form = answers.accepted(operation, arguments)
            return answers.answer(operation, await home.run(invoke(opened, operation, given)), form)
        except (InvalidInput, NotFound) as error:
            raise ModelRetry(str(error)) from error

    return run
