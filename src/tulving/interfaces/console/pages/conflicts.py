"""Conflicts: notes that say the same or the opposite, how they were settled, and decisions on them."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from starlette.responses import Response

from tulving.domain.intake import one_of
from tulving.domain.model import SETTLEMENT_STATUSES, Settlement
from tulving.domain.stems import stem as stemmed
from tulving.domain.text import words
from tulving.errors import NotFound
from tulving.interfaces import wording
from tulving.interfaces.console.presentation import thousands
from tulving.interfaces.console.visit import Page, Visit
from tulving.services.conflicts import ConflictReport

PATH = "/console/conflicts"
AT_A_TIME = 20


async def show(visit: Visit) -> Response:
    """The conflicts, the newest first, optionally with one status."""
    status = visit.query.get("status") or None
    if status is not None:
        status = one_of("status", status, SETTLEMENT_STATUSES)
    cursor = visit.query.get("cursor") or None
    found = await visit.call("memory_conflicts", status=status, limit=AT_A_TIME, cursor=cursor)
    waiting = await visit.memory.count_held_conflicts()
    return _page(visit, found, wanted=status, waiting=waiting, cursor=found.next_cursor)


async def look(visit: Visit) -> Response:
    """One conflict with both sides, and why it was settled so."""
    id_ = visit.request.path_params["id"]
    found = await visit.call("memory_conflict", conflict_id=id_)
    if found is None:
        raise NotFound(f"There is no conflict {id_}: it never existed, or is not yours to see.")
    return _page(visit, [found], alone=True)


async def accept(visit: Visit) -> Response:
    """Settle a held conflict as it was proposed."""
    done = await visit.call("memory_accept_conflict", conflict_id=visit.request.path_params["id"])
    undo = ("Take it back", f"{PATH}/{done.id}/revert") if visit.may("write") else None
    return visit.go(f"{PATH}?status=held", f"Settled: {wording.WON[done.outcome]}.", undo)


async def dismiss(visit: Visit) -> Response:
    """Leave both sides of a held conflict in use."""
    await visit.call("memory_dismiss_conflict", conflict_id=visit.request.path_params["id"])
    return visit.go(f"{PATH}?status=held", "Both notes stay in use.")


async def revert(visit: Visit) -> Response:
    """Put both sides of a settled conflict back into use."""
    done = await visit.call("memory_revert_conflict", conflict_id=visit.request.path_params["id"])
    return visit.go(f"{PATH}/{done.id}", "Taken back: both notes are in use again.")


def _page(visit: Visit, found: Sequence[ConflictReport], *, alone: bool = False, **more: Any) -> Response:
    told = {"signs": signs, "headline": headline}
    return visit.render("conflicts.html", found=found, alone=alone, **told, **more)


def signs(report: ConflictReport) -> Iterator[tuple[str, float, str]]:
    """The signals of a conflict: what each is, how strong from 0 to 1, and in words."""
    for signal in report.settlement.signals:
        seen = signal.get("evidence", {})
        match signal["kind"]:
            case "semantic":
                yield "meaning", signal["score"], "Both are about the same thing."
            case "keyword":
                yield "words", signal["score"], f"Both say {_said(report.existing.content, seen.get('keywords', ()))}."
            case "time":
                yield "time", signal["score"], f"They were noted {wording.span(seen.get('delta_seconds', 0))} apart."
            case kind:
                difference = thousands(10 * float(seen.get("difference", 0)))
                yield kind, signal["score"], f"One is more important than the other, by {difference} of 10."


def headline(settlement: Settlement) -> str:
    """What became of a conflict, as a heading."""
    said = wording.headline(settlement)
    return said[:1].upper() + said[1:]


def _said(text: str, stems: Collection[str]) -> str:
    """The words of a text with these stems; a stem that an edit has removed stands for itself."""
    said = {stem: word for word in words(text) if (stem := stemmed(word.casefold())) in stems}
    return ", ".join(said.get(stem, stem) for stem in stems)


PAGES = [
    Page("/conflicts", show),
    Page("/conflicts/{id}", look),
    Page("/conflicts/{id}/accept", accept, ("POST",), "review"),
    Page("/conflicts/{id}/dismiss", dismiss, ("POST",), "review"),
    Page("/conflicts/{id}/revert", revert, ("POST",), "write"),
]
