"""`tulving tools`: a model that has no tool calling uses the memory by text."""

from dataclasses import replace
from typing import Annotated

import typer

from tulving.domain.text import count_tokens
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import FAILED, block, print_json, read_text, remark, warn
from tulving.interfaces.wire import wire
from tulving.services.memory import Memory

Tools = Annotated[str | None, typer.Option(metavar="minimal|standard|all", help="Which tools [default: as configured]")]


def prompt(context: typer.Context, tools: Tools = None) -> None:
    """Print the instructions that teach a model to call tools in its text."""
    from tulving.interfaces.instructions import described, tool_prompt
    from tulving.interfaces.tool_text import tool_set

    config = context.obj.config()
    operations = tool_set(tools or config.tools).values()
    shown = replace(config, tools=tools or config.tools)
    text = tool_prompt(shown.tools, (described(each, shown) for each in operations))
    block(text)
    remark(f"{len(operations)} tools, about {count_tokens(text):,} tokens")


def run(
    context: typer.Context,
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="What the model said; - for standard input")
    ] = None,
    tools: Tools = None,
    dual: Annotated[
        bool, typer.Option("--dual", help="Also read the older VCP form, where there is no ABP call")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Carry out the tool calls in a model's text, and print their results for its next turn; without calls, print the
    text. The exit code is 1 if a call failed or could not be read."""
    from tulving.interfaces.tool_text import TextAnswer, ToolRunner

    # All parts of a pipe start at once: the store is opened when the model has answered.
    text = read_text(file)

    async def carry_out(memory: Memory) -> TextAnswer:
        return await ToolRunner(memory, tools=tools, dual=dual or None).run(text)

    answer = context.obj.run(carry_out, stores=True)
    if as_json:
        print_json({**wire(answer), "called": answer.called})
    else:
        block(answer.text or answer.prose)
        for problem in answer.problems if not answer.called else ():
            warn(problem)
    if answer.problems or not all(result.ok for result in answer.results):
        raise typer.Exit(FAILED)
