"""A tool that asks a model, whatever it is about: what a surface offers to such a tool is tested with it. Run as a
program it serves the tool over stdio, like `tulving mcp`."""

import asyncio
import sys
from typing import Annotated, Any, TypedDict

from tulving import ModelUnavailable
from tulving.services.memory import Memory
from tulving.services.operations import OPERATIONS, Operation


class Asked(TypedDict):
    """What the model said."""

    answers: list[str]
    model: str | None
    warning: str | None


class Script:
    """What became of the calls: the test of a server in this process looks here."""

    cancelled = 0


async def ask_model(
    self: Memory,
    questions: Annotated[int, "How many"] = 1,
    cc_spawner: Any = None,
    progress: Any = None,
    unheard_of=None,
) -> Asked:
    """Ask a model some questions."""
    answers, warning = [], None
    try:
        for number in range(1, questions + 1):
            if cc_spawner:
                answers.append(await cc_spawner.trigger(prompt=f"question {number}", trigger_source="schedule:test"))
            if progress:
                progress(number, questions)
    except ModelUnavailable as error:
        warning = f"{type(error).__name__}: {error}"
    except asyncio.CancelledError:
        Script.cancelled += 1
        raise
    return {"answers": answers, "model": cc_spawner and cc_spawner.name, "warning": warning}


ASK = Operation(
    tool="memory_ask",
    http="POST /v1/ask",
    method=ask_model,
    effect="write",
    command="ask",
    positional=("questions",),
)


if __name__ == "__main__":
    from tulving.interfaces.cli import run

    OPERATIONS[ASK.tool] = ASK
    Memory.ask_model = ask_model  # pyright: ignore[reportAttributeAccessIssue]
    sys.exit(run(sys.argv[1:]))
