"""What language models have taught, as lines for a person."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

from tulving.domain.learning import Proposal
from tulving.domain.model import Page
from tulving.interfaces.cli.terminal import KIND_STYLES, Line, Part, moment, more
from tulving.interfaces.wording import counted, skipped, taught
from tulving.services.conflicts import REWRITTEN
from tulving.services.lessons import Learned
from tulving.services.reviewing import RunChange, RunReport
from tulving.storage.undoing import Undone

HELD_CONFLICTS = "see: tulving conflicts --status held"
ACTIONS = {"new_fact": "store fact", "updated_fact": "update fact", "new_rule": "store rule", "confirmation": "confirm"}
STATUS_STYLES = {"done": "green", "held": "yellow", "failed": "red", "undone": "dim", "open": "cyan"}


def learned(result: Learned, changes: Sequence[RunChange] = ()) -> Iterator[Line]:
    """What came of one answer of a model, and how to undo it."""
    counts: dict[str, Any] = asdict(result)
    blocks = f"; profile: {', '.join(result.profile)}" if result.profile else ""
    found = taught(counts)
    yield 0, ("learned", "green"), f" {found or 'nothing new'}{blocks}"
    for change in changes:
        yield from _change(change)
    yield from _rest(counts)
    if found or blocks:
        yield 2, (f"undo it with: tulving undo {result.run_id}", "dim")


def consolidated(result: Mapping[str, Any]) -> Iterator[Line]:
    """What came of the episodes that waited: without a run they were only counted."""
    waiting, done, groups = result["episodes_processed"], result["episodes_consolidated"], result["groups"]
    whose = [f"{count} of {butler}" for butler, count in groups.items()]
    episodes = counted(waiting, "episode") + (f" ({', '.join(whose)})" if whose[1:] else f" of {''.join(groups)}")
    found = taught(result)
    if not waiting:
        yield 0, "no episode waits to be learned from"
    elif not result["runs"]:
        yield 0, f"{episodes} to learn from"
    elif not done:
        yield 0, ("nothing was learned", "red"), f" from {episodes}"
    else:
        share = "" if done == waiting else f"{done} of "
        yield 0, ("learned", "green"), f" {found or 'nothing new'} from {share}{episodes}"
    yield from _rest(result)
    if found:
        yield from ((2, (f"run {run}", "dim")) for run in result["runs"])
        yield 2, ("tulving runs RUN shows what it changed, tulving undo RUN takes it back", "dim")


def failed(result: Mapping[str, Any]) -> bool:
    """Whether a consolidation had to give up episodes that it began with, or could begin with none."""
    return result["groups_consolidated"] < max(1, len(result["runs"]))


def runs(reports: Page[RunReport]) -> Iterator[Line]:
    for report in reports:
        yield from _run(report)
        for change in report.changes:
            yield from _change(change)
    if not reports:
        yield 0, "no model has learned anything yet"
    yield from more(reports.next_cursor)


def undone(result: Undone) -> Iterator[Line]:
    counts = [f"{len(ids)} {what}" for what in ("retracted", "restored") if (ids := getattr(result, what))]
    counts += [f"profile: {', '.join(result.profile)}"] if result.profile else []
    yield 0, ("undone", "green"), f" run {result.run_id}" + (f": {', '.join(counts)}" if counts else "")
    for reason in result.refused:
        yield 2, ("left as it is: ", "yellow"), reason


def proposals(held: Page[Proposal], conflicts: int = 0) -> Iterator[Line]:
    """Each one: what it would do, why it was held, and where it comes from; and how many conflicts are held too."""
    for proposal in held:
        offer = proposal.offer
        about = " · ".join(offer[name] for name in ("subject", "predicate", "category") if offer.get(name))
        target = f"{offer['target_id']} " if "target_id" in offer else ""
        yield (
            0,
            (ACTIONS[proposal.action], "bold"),
            f" {target}",
            (f"{about}: " if about else "", "bold"),
            (offer.get("content", "")),
        )
        yield 2, ("held because ", "yellow"), proposal.reason
        source = _sources(offer.get("evidence", ()))
        yield 2, (f"{proposal.id} · {moment(proposal.created_at)}", "dim")
        yield 2, (f"run {proposal.run_id}{source}", "dim")
    yield from more(held.next_cursor)
    if conflicts:
        yield 0, ("held conflicts: ", "yellow"), f"{conflicts:,}, {HELD_CONFLICTS}"
    elif not held:
        yield 0, "nothing waits for your decision"


def overview(learning: Mapping[str, Any]) -> Iterator[Line]:
    """The model, what it has cost today, and what waits for a person; nothing where none was ever used."""
    if not (learning["model"] or learning["runs"]):
        return
    spent, most, held = learning["tokens_today"], learning["tokens_per_day"], learning["held"]
    last = learning.get("last_run")
    shown = {
        "model": learning["model"] or "none",
        "tokens today": f"{spent:,} of {most:,}",
        "runs": f"{learning['runs']:,}" + (f", the last one at {moment(last)}" if last else ""),
        "held for review": f"{held:,}, see: tulving review" if held else "",
    }
    yield 0, ("learning", "cyan")
    yield from ((2, (name.ljust(17), "dim"), value) for name, value in shown.items() if value)


def _run(report: RunReport) -> Iterator[Line]:
    run = report.run
    whose = f" of {run.butler}" if run.butler else ""
    status = run.status, STATUS_STYLES[run.status]
    yield (
        0,
        (moment(run.created_at), "dim"),
        f"  {'merging' if REWRITTEN in run.counts else run.job}{whose}  ",
        status,
        f"  {taught(run.counts) or 'nothing new'}",
    )
    tokens = run.input_tokens + run.output_tokens
    details = str(run.id), run.model or "a model by hand", f"{tokens:,} tokens" if tokens else ""
    yield 2, (" · ".join(filter(None, details)), "dim")
    errors = [run.last_error] if run.last_error else []
    held = {"held": report.held, "conflicts_held": report.conflicts_held}
    yield from _rest({**run.counts, **held, "errors": errors})


def _change(change: RunChange) -> Iterator[Line]:
    kind: Part = (change.memory_type, KIND_STYLES[change.memory_type])
    about = f"{change.about}: " if change.about else ""
    yield 2, kind, f" {change.what.replace('_', ' ')}  {about}", (change.content or "(deleted since)", "bold")
    yield 4, (f"{change.memory_id}{_sources(change.sources)}", "dim")


def _sources(ids: Sequence[UUID | str]) -> str:
    return f" · from {'episode' if len(ids) == 1 else 'episodes'} {', '.join(map(str, ids))}" if ids else ""


def _rest(counts: Mapping[str, Any]) -> Iterator[Line]:
    """What was not learned, and why."""
    if left_out := skipped(counts):
        yield 2, ("skipped: ", "dim"), left_out
    if held := counts.get("held"):
        yield 2, ("held for review: ", "yellow"), f"{held}, see: tulving review"
    if conflicts := counts.get("conflicts_held"):
        yield 2, ("held conflicts: ", "yellow"), f"{conflicts}, {HELD_CONFLICTS}"
    for error in counts.get("errors", ()):
        yield 2, ("error: ", "red"), error
