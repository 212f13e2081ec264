"""What a person wants to look at: one memory with its past and its future, and how a fact has changed."""

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

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

    screen.view(kind, wire(item), ahead, [wire(link) for link in links], [wire(event) for event in events])


def _meant(words: list[str]) -> tuple[tuple[Kind, ...], str]:
    match words:
        case [id_]:
            return KINDS, id_
        case [kind, id_] if kind in KINDS:
            return (kind,), id_
    raise InvalidInput("id", f"{' '.join(words)!r:.80} does not name a memory", "an id, or a kind and an id")


async def _found(memory: "Memory", kinds: tuple[Kind, ...], id_: str) -> tuple[Kind, Item]:
    """The memory of an id. Only one that is there counts the look as a reference."""
    for kind in kinds:
        if (item := await memory.get(kind, id_)) is not None:
            return kind, item
    raise NotFound(f"there is no {' or '.join(kinds)} {id_}")


def history(
    context: typer.Context,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="What or whom it is about; or a kind, with an ID")],
    predicate: Annotated[str, typer.Argument(metavar="PREDICATE", help="Which property of it; or the ID")],
    scope: Annotated[str | None, typer.Option(metavar="TEXT", help="Only this namespace and the global one")] = None,
    as_json: AsJson = False,
) -> None:
    """See how a fact has changed over time; or, for a kind and an id, what happened to one memory."""
    chosen: Chosen = context.obj

    async def look() -> Any:
        async with chosen.open() as memory:
            if subject in KINDS and (found := await _events(memory, subject, predicate)):
                return found, None
            return None, await memory.fact_history(subject, predicate, scope)

    events, facts = asyncio.run(look())
    if as_json:
        print_json({"events": wire(events)} if facts is None else {"facts": wire(facts)})
        return
    from tulving.interfaces import show as screen

    if facts is None:
        screen.lines(screen.events([wire(event) for event in events]))
    elif facts:
        screen.lines(screen.changes([wire(fact) for fact in facts]))
    else:
        raise NotFound(f"nothing was ever said of {subject} · {predicate}")


async def _events(memory: "Memory", kind: Any, id_: str) -> list[Event]:
    try:
        return await memory.history(kind, id_)
    except InvalidInput:
        return []
