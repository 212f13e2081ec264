"""`tulving conflicts`: notes that said the same or the opposite, how that was settled, and taking it back."""

from collections.abc import Iterator
from typing import Annotated

import typer

from tulving.domain.model import SETTLEMENT_STATUSES, Fact, Page, Settlement
from tulving.domain.text import shortened
from tulving.errors import InvalidInput
from tulving.interfaces.cli.options import AsJson, Cursor
from tulving.interfaces.cli.terminal import Line, lines, moment, more, print_json
from tulving.interfaces.wire import wire
from tulving.interfaces.wording import WON, headline, proposed
from tulving.services.conflicts import ConflictReport
from tulving.services.memory import Memory

LONGEST_NOTE = 400
VERBS = {"accept": "settled", "dismiss": "dismissed", "revert": "reverted"}
STYLES = {"applied": "green", "held": "yellow", "reverted": "dim", "dismissed": "dim"}
COMMANDS = {
    "applied": (("take it back", "revert"),),
    "held": (("do so", "accept"), ("keep both notes", "dismiss")),
}
"""What a person may do about a conflict of some status."""


def conflicts(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="list|revert|accept|dismiss ID", help="What to do [default: list], and with which ones"),
    ] = None,
    status: Annotated[str | None, typer.Option(metavar="|".join(SETTLEMENT_STATUSES), help="List only these")] = None,
    limit: Annotated[int, typer.Option(metavar="NUMBER", help="How many are listed, the newest first")] = 20,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List the conflicts between notes: both sides, which one won or what was merged of them, and why. Revert one to
    put both sides back into use; accept or dismiss those that are held for you."""
    verb, *ids = words or ["list"]
    if verb not in ("list", *VERBS):
        raise InvalidInput("conflicts", f"{verb!r:.80} is not known", "list, revert ID, accept ID, dismiss ID")
    if (verb == "list") != (not ids):
        problem = "takes no ids" if verb == "list" else "needs the id of a conflict"
        raise InvalidInput("conflicts", f"{verb} {problem}", "list, revert ID, accept ID, dismiss ID")
    if verb == "list":
        found = context.obj.run(lambda memory: memory.conflicts(status, limit, cursor))
        if as_json:
            print_json({"conflicts": wire(found.items), "next_cursor": found.next_cursor})
        else:
            lines(listed(found))
        return

    async def decide(memory: Memory) -> list[Settlement]:
        change, done = getattr(memory, f"{verb}_conflict"), list[Settlement]()
        whole = [(await memory.complete_id(id_, ("conflict",)))[1] for id_ in ids]
        for id_ in whole:
            done.append(await change(id_))
            if not as_json:  # at once: a later one may be refused
                lines([(0, (VERBS[verb], "green"), f" conflict {done[-1].id}: {_left(done[-1])}")])
        return done

    done = context.obj.run(decide)
    if as_json:
        print_json({"conflicts": wire(done)})


def listed(found: Page[ConflictReport]) -> Iterator[Line]:
    """Each conflict: what became of it, both sides, why, and what a person may do about it."""
    for report in found:
        settlement = report.settlement
        said = headline(settlement), STYLES[settlement.status]
        yield 0, (moment(settlement.created_at), "dim"), "  ", said
        yield from _side("new  ", report.candidate)
        yield from _side("known", report.existing)
        if report.merged is not None:
            yield from _side("made ", report.merged)
        kinds = ", ".join(f"{signal['kind']} {signal['score']:.2f}" for signal in settlement.signals)
        yield 2, ("why    ", "dim"), settlement.reason
        details = f"{kinds} · confidence {settlement.confidence:.2f} · rule {settlement.rule}"
        yield 2, (f"       {details}", "dim")
        if settlement.run_id is not None:
            yield 2, (f"       by run {settlement.run_id}", "dim")
        yield from _commands(settlement)
    if not found:
        yield 0, "no conflicts"
    yield from more(found.next_cursor)


def explained(settlement: Settlement) -> Iterator[Line]:
    """Why a note that was just stored has won or lost, and what a person may do about it."""
    held = f"{proposed(settlement)}: " if settlement.status == "held" else ""
    yield 2, ("why: ", "dim"), f"{held}{settlement.reason} (confidence {settlement.confidence:.2f})"
    yield from _commands(settlement)


def waiting(held: int) -> Iterator[Line]:
    """How many conflicts wait for a person; nothing where none does."""
    if held:
        yield 0, ("conflicts", "cyan")
        yield 2, ("held for you".ljust(17), "dim"), f"{held:,}, see: tulving conflicts --status held"


def _left(settlement: Settlement) -> str:
    """What a person's decision has led to."""
    return WON[settlement.outcome] if settlement.status == "applied" else "both notes are in use"


def _side(name: str, fact: Fact) -> Iterator[Line]:
    content = shortened(" ".join(fact.content.split()), LONGEST_NOTE)
    yield 2, (f"{name}  ", "dim"), content, ("" if fact.validity == "active" else f"  ({fact.state})", "dim")


def _commands(settlement: Settlement) -> Iterator[Line]:
    for purpose, verb in COMMANDS.get(settlement.status, ()):
        yield 2, (f"{purpose}: tulving conflicts {verb} {settlement.id}", "dim")
