"""`tulving forget`: a memory, and what was learned from it alone."""

from typing import Annotated

import typer

from tulving.domain.model import Item, Kind
from tulving.interfaces.cli import render
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import NOTHING, complain, lines, print_json
from tulving.interfaces.wire import wire
from tulving.services.memory import Memory


def forget(
    context: typer.Context,
    memory_type: Annotated[str, typer.Argument(metavar="MEMORY_TYPE", help="episode, fact or rule")],
    memory_id: Annotated[str, typer.Argument(metavar="MEMORY_ID", help="Its id")],
    derived: Annotated[bool, typer.Option("--derived", help="Also forget what was learned from it alone")] = False,
    as_json: AsJson = False,
) -> None:
    """Forget a memory: it is no longer found, but its row is kept. No model learns a forgotten fact or rule again; you
    may store it."""
    kind: Kind = memory_type  # pyright: ignore[reportAssignmentType]  (checked by the verb)

    async def forget_all(memory: Memory) -> tuple[bool, list[Item]]:
        learned = await memory.derived(kind, memory_id) if derived else []
        return await memory.forget(kind, memory_id, derived), learned

    forgotten, learned = context.obj.run(forget_all)
    if as_json:
        print_json({"forgotten": forgotten, **({"derived": wire(learned)} if derived else {})})
    elif forgotten:
        lines([(0, ("forgotten", "green"), f" {memory_type} {memory_id}")])
        if learned:
            lines([(0, "and what was learned from it alone:"), *render.derived(learned)])
    if not forgotten:
        complain(f"there is no {memory_type} {memory_id}")
        raise typer.Exit(NOTHING)
