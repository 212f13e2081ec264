"""What a person wants to look at: one memory with its past and its future."""

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tulving.domain.events import Event
from tulving.domain.forecast import forecast
from tulving.domain.model import KINDS, Item, Kind, Link
from tulving.errors import InvalidInput, NotFound
from tulving.interfaces.terminal import AsJson, Chosen, print_json
from tulving.interfaces.wire import wire

if TYPE_CHECKING:
    from tulving.services.memory import Memory

STEPS = 60


def show(
    context: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="[KIND] ID", help="The id; its kind is found if left out")],
    as_json: AsJson = False,
) -> None:
    """Look at one memory: what it says, how it will fade, where it comes from, and what happened to it."""
    chosen: Chosen = context.obj
    kinds, id_ = _meant(words)

    async def look() -> tuple[Kind, Item, list[Link], list[Event], datetime]:
        async with chosen.open() as memory:
            kind, item = await _found(memory, kinds, id_)
            links = await memory.get_links(kind, item.id)
            events = await memory.history(kind, item.id)
            return kind, item, links, events, memory.now()

    kind, item, links, events, now = asyncio.run(look())
    ahead = forecast(item, now, STEPS)
    if as_json:
        print_json(
            {
                "memory_type": kind,
                "memory": wire(item),
                "forecast": None if ahead is None else wire(ahead),
                "links": wire(links),
                "events": wire(events),
            }
        )
        return
    from tulving.interfaces import show as screen

    screen.lines(screen.view(kind, wire(item), ahead, wire(links), wire(events)))


def _meant(words: list[str]) -> tuple[tuple[Kind, ...], str]:
    match words:
        case [id_]:
            return KINDS, id_
        case [kind, id_] if kind in KINDS:
            return (kind,), id_
    raise InvalidInput("id", f"{' '.join(words)!r:.80} does not name a memory", "an id, or a kind and an id")


async def _found(memory: "Memory", kinds: tuple[Kind, ...], id_: str) -> tuple[Kind, Item]:
    """The memory of an id. A person who looks is no reference."""
    for kind in kinds:
        if (item := await memory.look(kind, id_)) is not None:
            return kind, item
    raise NotFound(f"there is no {' or '.join(kinds)} {id_}")
