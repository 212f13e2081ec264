"""What a person decides about memories, one or several at once: `tulving confirm`, `forget`, `delete` and
`delete-profile`."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import typer

from tulving.domain.model import KIND_OF, Item, Kind
from tulving.domain.profile import BLOCKS
from tulving.errors import InvalidInput, NotFound, TulvingError
from tulving.interfaces.cli import render
from tulving.interfaces.cli.addresses import find, split
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import FAILED, NOTHING, REFUSED, complain, lines, print_json, printable, report
from tulving.interfaces.wire import wire
from tulving.services.memory import Memory

Words = Annotated[
    list[str],
    typer.Argument(metavar="[KIND] ID", help="Ids, or their first characters; their kind is found if left out"),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")]
Verb = Callable[[Memory, Kind, Item], Awaitable[bool]]


def confirm(context: typer.Context, words: Words, as_json: AsJson = False) -> None:
    """Confirm that facts or rules still hold, so that their decay restarts; expired ones come back.

    One that is unknown, superseded or forgotten is reported, and the exit code is 3; the others are confirmed. Nothing
    is changed if what is meant is not clear.
    """
    kinds, ids = split(words)
    if kinds == ("episode",):
        raise InvalidInput("kind", "an episode can't be confirmed: it happened or not", "fact, rule")
    reviewed: list[Kind] = [kind for kind in kinds if kind != "episode"]
    _decide(context, reviewed, ids, "confirmed", lambda memory, kind, item: memory.confirm(kind, item.id), as_json)


def forget(
    context: typer.Context,
    words: Words,
    derived: Annotated[bool, typer.Option("--derived", help="Also forget what was learned from it alone")] = False,
    as_json: AsJson = False,
) -> None:
    """Forget memories: they are no longer found, but their rows are kept. No model learns a forgotten fact or rule
    again; you may store it.

    One that is unknown is reported, and the exit code is 3; the others are forgotten. Nothing is changed if what is
    meant is not clear.
    """
    learned: list[Item] = []

    async def forget_one(memory: Memory, kind: Kind, item: Item) -> bool:
        if derived:
            learned.extend(await memory.derived(kind, item.id))
        return await memory.forget(kind, item.id, derived)

    def further() -> dict[str, Any]:
        if learned and not as_json:
            lines([(0, "and what was learned from it alone:"), *render.derived(learned)])
        return {"derived": wire(learned)} if derived else {}

    _decide(context, *split(words), "forgotten", forget_one, as_json, further)


def delete(context: typer.Context, words: Words, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete memories for good. You are asked first; an event without content remains of each.

    One that is unknown is reported, and the exit code is 3; the others are deleted. Nothing is changed if what is meant
    is not clear.
    """

    def ask(items: Sequence[Item]) -> None:
        _ask(yes, [list(render.headline(item)) for item in items], f"Delete {_these(items)} for good?")

    kinds, ids = split(words)
    _decide(context, kinds, ids, "deleted", lambda memory, kind, item: memory.delete(kind, item.id), as_json, ask=ask)


def delete_profile(
    context: typer.Context,
    block: Annotated[
        str | None, typer.Argument(metavar="BLOCK", help=f"One of {', '.join(BLOCKS)} [default: all]")
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete a block of the user's profile, or all of them, with every earlier version; facts are not deleted. You are
    asked first."""
    _ask(yes, [], f"Delete {f'the block {block}' if block else 'all blocks'} of the profile for good?")
    deleted: int = context.obj.run(lambda memory: memory.delete_profile(block))
    report({"deleted": deleted}, as_json, f"deleted {deleted} version{'' if deleted == 1 else 's'}")


def _decide(
    context: typer.Context,
    kinds: Sequence[Kind],
    ids: Sequence[str],
    done: str,
    verb: Verb,
    as_json: bool,
    further: Callable[[], dict[str, Any]] = dict,
    ask: Callable[[Sequence[Item]], None] = lambda items: None,
) -> None:
    """Do something with each memory, and report each and what `further` has to say. All are looked up before the first
    is changed."""
    problems: list[TulvingError] = []

    async def look(memory: Memory) -> list[Item]:
        found: dict[Any, Item] = {}
        for id_ in ids:
            try:
                item = await find(memory, kinds, id_)
                found[item.id] = item
            except NotFound as error:
                problems.append(error)
        return [*found.values()]

    async def change(memory: Memory) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = []
        for item in items:
            kind, id_ = KIND_OF[type(item)], str(item.id)
            try:
                changed = await verb(memory, kind, item)
                if not changed:
                    problems.append(NotFound(f"the {kind} {id_} is out of use and can't be {done}"))
            except (InvalidInput, NotFound) as error:
                changed = False
                problems.append(error)
            results.append({"memory_type": kind, "memory_id": id_, done: changed})
        return results

    items: list[Item] = context.obj.run(look)
    if items:
        ask(items)
    results: list[dict[str, Any]] = context.obj.run(change) if items else []
    if not as_json:
        lines((0, (done, "green"), f" {each['memory_type']} {each['memory_id']}") for each in results if each[done])
    told = further()
    if as_json:
        print_json({done: not problems, "memories": results, **told})
    for error in problems:
        complain(error)
    if problems:
        raise typer.Exit(REFUSED if any(isinstance(each, InvalidInput) for each in problems) else NOTHING)


def _these(items: Sequence[Item]) -> str:
    return f"this {KIND_OF[type(items[0])]}" if len(items) == 1 else f"these {len(items)} memories"


def _ask(yes: bool, about: Sequence[Sequence[Any]], question: str) -> None:
    """Ask before something is gone for good; whoever can't be asked must have said --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput("yes", "is needed: nobody can be asked here, and what is deleted is gone", "--yes")
    for parts in about:
        text = "".join(part if isinstance(part, str) else part[0] for part in parts)
        typer.echo(f"  {printable(text)}", err=True)
    if not typer.confirm(question, err=True):
        typer.echo("nothing was deleted", err=True)
        raise typer.Exit(FAILED)
