"""`tulving show`: one memory with its past and its future."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated

import typer

from tulving.domain.events import Event
from tulving.domain.forecast import Forecast, forecast
from tulving.domain.model import KIND_OF, Item, Link
from tulving.interfaces.cli import render
from tulving.interfaces.cli.addresses import find, split
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import Line, columns, is_terminal, lines, print_json
from tulving.interfaces.wire import wire
from tulving.services.memory import Memory

STEPS, ROWS, MARGIN = 60, 4, 8
_EIGHTHS = " ▁▂▃▄▅▆▇█"


def show(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[KIND] ID", help="Its id, or the first characters of it; its kind is found if left out"
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Look at one memory: what it says, how it will fade, where it comes from, and what happened to it."""
    kinds, [id_] = split(words, most=1)

    async def look(memory: Memory) -> tuple[Item, list[Link], list[Event], datetime]:
        item = await find(memory, kinds, id_)
        kind = KIND_OF[type(item)]
        links, events = await memory.get_links(kind, item.id), await memory.events(kind, item.id)
        return item, links, events, memory.now()

    item, links, events, now = context.obj.run(look)
    ahead = forecast(item, now, STEPS if as_json or not is_terminal() else min(STEPS, columns() - MARGIN))
    if as_json:
        told = {"memory": item, "forecast": ahead, "links": links, "events": events}
        print_json({"memory_type": KIND_OF[type(item)], **wire(told)})
    else:
        lines(_view(item, ahead, links, events))


def _view(item: Item, ahead: Forecast | None, links: Sequence[Link], events: Sequence[Event]) -> Iterator[Line]:
    yield from render.memory(item)
    if ahead is not None:
        yield 0, ("\nhow it will fade, if nothing confirms it", "bold")
        yield from _forecast(ahead)
    if links:
        yield 0, ("\nwhere it belongs", "bold")
        yield from ((2, *parts) for _, *parts in render.links(links))
    yield 0, ("\nwhat happened", "bold")
    yield from ((2, *parts) for _, *parts in render.events(events))


def _forecast(ahead: Forecast) -> Iterator[Line]:
    rows = area(ahead.values, ROWS)
    for label, row in zip(("1.0", *[""] * (ROWS - 2), "0.0"), rows, strict=True):
        yield 2, (label.rjust(3), "dim"), " ", (row, "green")
    fading, end = f"{ahead.fading_at:%Y-%m-%d}", f"{ahead.expires_at:%Y-%m-%d}"
    yield 2, ("    now" + end.rjust(len(ahead.values) - 3), "dim")
    yield 6, (f"fading from {fading}, expired from {end}", "dim")


def area(values: Sequence[float], height: int) -> list[str]:
    """Values from 0 to 1 as columns, the highest row first; a value above 0 is never drawn as nothing."""
    levels = [max(1 if value > 0 else 0, round(value * height * 8)) for value in values]
    return ["".join(_EIGHTHS[min(8, max(0, level - 8 * row))] for level in levels) for row in reversed(range(height))]
