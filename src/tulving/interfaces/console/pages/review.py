"""Review: the proposals of models that wait for a decision."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from starlette.datastructures import FormData
from starlette.responses import Response

from tulving.domain.learning import Proposal
from tulving.domain.model import Episode, Item
from tulving.interfaces.console.visit import Page, Visit

PATH = "/console/review"
AT_A_TIME = 50
SOURCES = 3
"""How many of the episodes that a proposal comes from are quoted."""
DOES = {
    "new_fact": "Store a new fact",
    "updated_fact": "Replace a fact",
    "new_rule": "Store a new rule",
    "confirmation": "Confirm what is known",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A proposal with the memory that it would change and the episodes that it comes from."""

    proposal: Proposal
    target: Item | None
    sources: list[Episode] = field(default_factory=list)
    further: int = 0

    @property
    def about(self) -> str:
        """Subject and predicate, or the category."""
        offer = self.proposal.offer
        return " · ".join(offer[name] for name in ("subject", "predicate", "category") if offer.get(name))

    @property
    def content(self) -> str:
        """What would be stored."""
        return self.proposal.offer.get("content", "")


async def show(visit: Visit) -> Response:
    """What waits for a decision, the oldest first."""
    held = await visit.call("memory_proposals", limit=AT_A_TIME, cursor=visit.query.get("cursor") or None)
    return visit.render(
        "review.html",
        cases=await _cases(visit, held),
        cursor=held.next_cursor,
        total=await visit.memory.count_held_proposals(),
        conflicts=await visit.memory.count_held_conflicts(),
        does=DOES,
    )


async def accept(visit: Visit) -> Response:
    """Let proposals take effect."""
    if not (chosen := _chosen(visit, await visit.form())):
        return visit.go(PATH, "Nothing was selected.")
    learned = await visit.call("memory_accept", ids=chosen)
    refused = f" {len(learned.errors)} could not take effect: {'; '.join(learned.errors)}" if learned.errors else ""
    done = len(chosen) - len(learned.errors)
    return visit.go(PATH, f"{done} accepted.{refused}")


async def reject(visit: Visit) -> Response:
    """Reject proposals, so that no model learns the same again."""
    if not (chosen := _chosen(visit, await visit.form())):
        return visit.go(PATH, "Nothing was selected.")
    return visit.go(PATH, f"{await visit.call('memory_reject', ids=chosen)} rejected. No model learns that again.")


def _chosen(visit: Visit, form: FormData) -> list[str]:
    """The proposal whose own button was pressed, else the selected ones."""
    only = visit.query.get("only")
    return [only] if only else [str(each) for each in form.getlist("ids")]


async def _cases(visit: Visit, held: Sequence[Proposal]) -> list[Case]:
    wanted = sorted({UUID(id_) for proposal in held for id_ in _concerned(proposal)})
    found = {str(id_): item for id_, item in (await visit.memories(wanted)).items()}
    cases = []
    for proposal in held:
        evidence = proposal.offer.get("evidence", [])
        sources = [each for id_ in evidence[:SOURCES] if isinstance(each := found.get(id_), Episode)]
        target = found.get(proposal.offer.get("target_id", ""))
        cases.append(Case(proposal, target, sources, max(0, len(evidence) - SOURCES)))
    return cases


def _concerned(proposal: Proposal) -> list[str]:
    target = proposal.offer.get("target_id")
    return [*proposal.offer.get("evidence", [])[:SOURCES], *([target] if target else [])]


PAGES = [
    Page("/review", show, right="review"),
    Page("/review/accept", accept, ("POST",), "review"),
    Page("/review/reject", reject, ("POST",), "review"),
]
