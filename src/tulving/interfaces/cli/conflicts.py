"""`tulving conflicts`: notes that said the same or the opposite, how that was settled, and taking it back."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from tulving.domain.model import SETTLEMENT_STATUSES, Fact, Settlement
from tulving.errors import InvalidInput
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import Line, lines, moment, print_json
from tulving.interfaces.wire import wire
from tulving.services.conflicts import ConflictReport
from tulving.services.memory import Memory

VERBS = {"accept": "settled", "dismiss": "dismissed", "revert": "reverted"}
STYLES = {"applied": "green", "held": "yellow", "reverted": "dim", "dismissed": "dim"}
TOLD = {
    "superseded": "the new note won",
    "kept": "the known note won",
    "merged": "both were merged",
    "rejected": "the new note was rejected",
    "held": "waits for you",
}


def conflicts(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="list|revert|accept|dismiss ID", help="What to do [default: list], and with which ones"),
    ] = None,
    status: Annotated[str | None, typer.Option(metavar="|".join(SETTLEMENT_STATUSES), help="List only these")] = None,
    limit: Annotated[int, typer.Option(metavar="NUMBER", help="How many are listed, the newest first")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the conflicts between notes, with both sides and the reason why one won or both were merged. Revert one to
    put both sides back into use; accept or dismiss those that are held for you."""
    verb, *ids = words or ["list"]
    if verb not in ("list", *VERBS):
        raise InvalidInput("conflicts", f"{verb!r:.80} is not known", "list, revert ID, accept ID, dismiss ID")
    if (verb == "list") != (not ids):
        raise InvalidInput(
            "conflicts", "it is not clear which ones are meant", "list, or a verb and the ids of conflicts"
        )
    if verb == "list":
        found = context.obj.run(lambda memory: memory.conflicts(status, limit))
        if as_json:
            print_json({"conflicts": wire(found)})
        else:
            lines(listed(found))
        return

    async def decide(memory: Memory) -> list[Settlement]:
        change = getattr(memory, f"{verb}_conflict")
        return [await change(id_) for id_ in ids]

    done = context.obj.run(decide)
    if as_json:
        print_json({"conflicts": wire(done)})
    else:
        lines((0, (VERBS[verb], "green"), f" conflict {each.id}") for each in done)


def listed(found: Sequence[ConflictReport]) -> Iterator[Line]:
    """Each conflict: what became of it and why, and both sides."""
    for report in found:
        settlement = report.settlement
        status = "" if settlement.status in ("applied", "held") else f"  {settlement.status}"
        yield (
            0,
            (moment(settlement.created_at), "dim"),
            "  ",
            (TOLD[settlement.outcome], STYLES[settlement.status]),
            (status, "yellow"),
        )
        yield from _side("new  ", report.candidate)
        yield from _side("known", report.existing)
        if report.merged is not None:
            yield from _side("merge", report.merged)
        kinds = ", ".join(f"{signal['kind']} {signal['score']:.2f}" for signal in settlement.signals)
        yield 2, ("why    ", "dim"), f"{settlement.reason} ({settlement.confidence:.2f}; {kinds})"
        yield 2, (f"{settlement.id} · rule {settlement.rule}", "dim")
    if not found:
        yield 0, "no conflicts"


def _side(name: str, fact: Fact) -> Iterator[Line]:
    yield 2, (f"{name}  ", "dim"), fact.content, ("" if fact.validity == "active" else f"  {fact.state}", "dim")
