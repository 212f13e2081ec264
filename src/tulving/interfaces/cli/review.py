"""`tulving review`: what models would do, but a person must decide."""

from collections.abc import AsyncIterator
from typing import Annotated
from uuid import UUID

import typer

from tulving.domain.learning import Proposal
from tulving.domain.model import Page
from tulving.errors import InvalidInput
from tulving.interfaces.cli import lessons
from tulving.interfaces.cli.options import AsJson, Cursor
from tulving.interfaces.cli.terminal import FAILED, lines, print_json, report
from tulving.interfaces.wire import wire
from tulving.services.lessons import Learned
from tulving.services.memory import Memory

MOST = 1000


def review(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="list|accept|reject ID", help="What to do [default: list], and the ids of proposals or runs"
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Accept or reject all that is held")] = False,
    limit: Annotated[int, typer.Option(metavar="NUMBER", help="How many are listed, the oldest first")] = 50,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List, accept or reject what models have learned but a person must decide: rules that follow orders found in
    episodes, and changes of many facts at once. What is rejected is not learned again."""
    verb, *ids = words or ["list"]
    if verb not in ("list", "accept", "reject"):
        raise InvalidInput("review", f"{verb!r:.80} is not known", "list, accept ID, reject ID")
    if (verb == "list") != (not ids and not everything) or (ids and everything):
        raise InvalidInput(
            "review", "what is to be decided is not clear", "list, or accept or reject with IDs or --all"
        )

    async def look(memory: Memory) -> tuple[Page[Proposal], int]:
        return await memory.proposals(limit, cursor), (await memory.overview()).conflicts["held"]

    async def decide(memory: Memory) -> Learned | int | None:
        whole = [(await memory.complete_id(id_, ("proposal", "run")))[1] for id_ in ids]
        chosen = whole or [id_ async for id_ in _held(memory)]
        if not chosen:
            return None
        return await (memory.accept if verb == "accept" else memory.reject)(chosen)

    if verb == "list":
        held, conflicts = context.obj.run(look)
        if as_json:
            print_json({"proposals": wire(held.items), "next_cursor": held.next_cursor, "conflicts_held": conflicts})
        else:
            lines(lessons.proposals(held, conflicts))
        return
    decided = context.obj.run(decide)
    if isinstance(decided, Learned):
        if as_json:
            print_json(wire(decided))
        else:
            lines(lessons.learned(decided))
        if decided.errors:
            raise typer.Exit(FAILED)
    else:
        report(
            {"rejected": decided or 0}, as_json, f"rejected {decided}" if decided else "nothing waits for your decision"
        )


async def _held(memory: Memory) -> AsyncIterator[UUID]:
    """All that waits for a decision."""
    cursor = None
    while True:
        page = await memory.proposals(MOST, cursor)
        for proposal in page:
            yield proposal.id
        if (cursor := page.next_cursor) is None:
            return
