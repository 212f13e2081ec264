"""Runs of models: what each has learned, its cost, and undoing it."""

from dataclasses import dataclass
from uuid import UUID

from starlette.responses import Response

from tulving.domain.learning import Run
from tulving.domain.model import Fact, Item
from tulving.interfaces.console.visit import Page, Visit
from tulving.interfaces.wording import counted, skipped, taught
from tulving.services.conflicts import REWRITTEN
from tulving.services.reviewing import RunChange, RunReport
from tulving.storage.undoing import Undone

PATH = "/console/runs"
AT_A_TIME = 50
GROUPS = {
    "created": "Added",
    "edited": "Changed",
    "superseded": "Replaced",
    "confirmed": "Confirmed",
    "retracted": "Taken out of use",
}


@dataclass(frozen=True, slots=True)
class Changed:
    """A change by a run, with the memory and the one that it replaced as they are now; None if they are gone."""

    change: RunChange
    item: Item | None
    before: Item | None = None


async def show(visit: Visit) -> Response:
    """The runs, the newest first."""
    found = await visit.call("memory_runs", limit=AT_A_TIME, cursor=visit.query.get("cursor") or None)
    learning = (await visit.call("memory_stats")).learning
    return visit.render("runs.html", found=found, learning=learning, taught=taught, what=what)


async def look(visit: Visit) -> Response:
    """One run with its changes."""
    report, groups, _ = await _report(visit)
    words = {"taught": taught, "what": what, "skipped": skipped}
    return visit.render("run.html", report=report, groups=groups, undone=None, **words)


async def preview(visit: Visit) -> Response:
    """A preview of undoing a run."""
    report, groups, items = await _report(visit)
    undone: Undone = await visit.call("memory_undo", run_id=report.run.id, dry_run=True)
    words = {"taught": taught, "what": what, "skipped": skipped}
    return visit.render("run.html", report=report, groups=groups, undone=undone, items=items, **words)


async def undo(visit: Visit) -> Response:
    """Undo a run."""
    undone: Undone = await visit.call("memory_undo", run_id=visit.request.path_params["id"])
    done = [f"{len(ids)} {what}" for what in ("retracted", "restored") if (ids := getattr(undone, what))]
    done += [f"{counted(len(undone.profile), 'block')} of the profile restored"] if undone.profile else []
    said = f"Undone: {', '.join(done) or 'there was nothing to take back'}."
    said += f" {len(undone.refused)} left as they are." if undone.refused else ""
    return visit.go(f"{PATH}/{undone.run_id}", said)


def what(run: Run) -> str:
    """What kind of work a run was."""
    if REWRITTEN in run.counts:
        return "Rewriting a merged note"
    return "Learning from episodes" if run.job == "consolidation" else "Learning from a conversation"


async def _report(visit: Visit) -> tuple[RunReport, dict[str, list[Changed]], dict[UUID, Item]]:
    [report] = await visit.call("memory_runs", run_id=visit.request.path_params["id"])
    found = await visit.memories([change.memory_id for change in report.changes])
    groups: dict[str, list[Changed]] = {}
    replaced = set[UUID]()
    for change in report.changes:
        item = found.get(change.memory_id)
        before = found.get(item.supersedes_id) if isinstance(item, Fact) and item.supersedes_id else None
        if before is not None and change.what == "created":
            replaced.add(before.id)
        groups.setdefault(GROUPS.get(change.what, change.what.replace("_", " ").capitalize()), []).append(
            Changed(change, item, before if change.what == "created" else None)
        )
    # What is shown beside its successor is not shown again.
    kept = {
        name: [each for each in changes if each.change.memory_id not in replaced] for name, changes in groups.items()
    }
    return report, {name: changes for name, changes in kept.items() if changes}, found


PAGES = [
    Page("/runs", show),
    Page("/runs/{id}", look),
    Page("/runs/{id}/undo", preview, right="destroy"),
    Page("/runs/{id}/undone", undo, ("POST",), "destroy"),
]
