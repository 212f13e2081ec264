"""Overview: how much is remembered, how it grows and fades, and what needs attention."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from operator import attrgetter
from typing import Any

from starlette.responses import Response

from tulving.domain.model import KINDS, Item
from tulving.domain.statistics import Fading, Growth, Overview
from tulving.interfaces.console.visit import Page, Visit
from tulving.interfaces.wording import JOBS, counted
from tulving.services.health import JobState, Readiness

LATEST = 8
RUNS = 4
FADING = 8
NEARLY = 0.8
"""The share of the daily token limit from which on the page warns."""
KIND_SERIES = (("Episodes", "episodes", "episode"), ("Facts", "facts", "fact"), ("Rules", "rules", "rule"))


@dataclass(frozen=True, slots=True)
class Concern:
    """Something that needs attention: what it is, what to do, and the page for it."""

    text: str
    advice: str = ""
    path: str = ""
    label: str = ""
    is_bad: bool = False


async def show(visit: Visit) -> Response:
    """The state of the memory at a glance."""
    memory = visit.memory
    counts = await visit.call("memory_stats")
    growth: Growth = await visit.call("memory_growth", days=28)
    fading: Fading = await visit.call("memory_fading", days=7, limit=FADING)
    readiness, jobs = await memory.readiness(), await memory.jobs()
    runs = await visit.call("memory_runs", limit=RUNS)
    latest = [await visit.call("memory_list", memory_type=kind, limit=LATEST) for kind in KINDS]
    items: list[Item] = nlargest(LATEST, (item for page in latest for item in page), key=attrgetter("created_at"))
    return visit.render(
        "overview.html",
        counts=counts,
        total=sum(each.total for each in (counts.episodes, counts.facts, counts.rules)),
        shares=_shares(counts),
        grown=_grown(growth),
        stored=sum(day.episodes + day.facts + day.rules for day in growth),
        fading=fading,
        fades=_fades(fading),
        concerns=list(_concerns(counts, readiness, jobs)),
        readiness=readiness,
        jobs=jobs,
        job_names=JOBS,
        runs=runs,
        learning=counts.learning,
        latest=items,
    )


def _shares(counts: Overview) -> dict[str, list[tuple[str, int, str]]]:
    """What is shown of each kind by state; what is none is left out."""
    episodes, facts, rules = counts.episodes, counts.facts, counts.rules
    shares: Mapping[str, Sequence[tuple[str, int, str]]] = {
        "Episodes": (
            ("learned from", episodes.consolidated, "series-1"),
            ("waiting", episodes.unconsolidated, "series-2"),
            ("failed", episodes.failed + episodes.dead_letter, "series-5"),
            ("forgotten", episodes.forgotten, "series-6"),
        ),
        "Facts": (
            ("active", facts.active, "series-1"),
            ("fading", facts.fading, "series-4"),
            ("superseded", facts.superseded, "series-3"),
            ("expired", facts.expired, "series-2"),
            ("retracted", facts.retracted, "series-6"),
        ),
        "Rules": (
            ("candidate", rules.candidate, "series-4"),
            ("established", rules.established, "series-2"),
            ("proven", rules.proven, "series-1"),
            ("anti-pattern", rules.anti_pattern, "series-5"),
            ("forgotten", rules.forgotten, "series-6"),
        ),
    }
    return {name: [share for share in parts if share[1]] for name, parts in shares.items()}


def _grown(growth: Growth) -> dict[str, Any]:
    return {
        "title": "Memories stored on each of the last 28 days",
        "kind": "stacked",
        "x": [f"{each.day.day} {each.day:%b}" for each in growth],
        "series": [
            {"name": name, "colour": colour, "values": [getattr(each, field) for each in growth]}
            for name, field, colour in KIND_SERIES
        ],
    }


def _fades(fading: Fading) -> dict[str, Any] | None:
    """The chart of what fades; None if nothing does."""
    if not any(each.fading + each.expiring for each in fading.days):
        return None
    return {
        "title": "Memories that begin to fade or expire on each of the next 7 days",
        "kind": "stacked",
        "x": ["today", *(f"{each.day:%a} {each.day.day}" for each in fading.days[1:])],
        "series": [
            {"name": "begin to fade", "colour": "series-4", "values": [each.fading for each in fading.days]},
            {"name": "expire", "colour": "series-6", "values": [each.expiring for each in fading.days]},
        ],
    }


def _concerns(counts: Overview, readiness: Readiness, jobs: Sequence[JobState] | None) -> Iterator[Concern]:
    """What needs attention, the worst first."""
    for reason in readiness.reasons:
        advice = "`tulving health` on the server says more, and what to do."
        yield Concern(reason, advice, is_bad=readiness.state == "degraded")
    for job in jobs or ():
        if job.state == "failed":
            what = JOBS.get(job.job, "A scheduled job").lower()
            advice = "It is tried again when it is due. `tulving worker --list` says why it failed."
            yield Concern(f"The job {job.job} failed ({what}).", advice, "/console/workers", "Workers", True)
    if failed := counts.episodes.failed + counts.episodes.dead_letter:
        yield Concern(
            f"{counted(failed, 'episode')} could not be learned from.",
            "The runs say why. Those that failed five times are not tried again.",
            "/console/runs",
            "Runs",
            True,
        )
    if held := counts.conflicts["held"]:
        advice = "Two notes contradict each other; until you decide, both are in use."
        path = "/console/conflicts?status=held"
        yield Concern(f"{counted(held, 'conflict')} for you to decide.", advice, path, "Decide")
    if proposals := counts.learning["held"]:
        advice = "Models want to learn this; you decide."
        yield Concern(f"{counted(proposals, 'proposal')} to review.", advice, "/console/review", "Review")
    if refuted := counts.rules.needs_inversion:
        advice = "More harm than help: the next maintenance turns such a rule into a warning."
        yield Concern(f"{counted(refuted, 'rule')} refuted by use.", advice, "/console/rules", "Rules")
    if 0 < NEARLY * counts.learning["tokens_per_day"] <= counts.learning["tokens_today"]:
        advice = "Learning stops for today at the limit (llm.tokens_per_day)."
        yield Concern("Nearly all tokens of today are spent.", advice)
    if pending := sum(each.pending_vectors for each in (counts.episodes, counts.facts, counts.rules)):
        advice = "They are found by words only until `tulving worker`, or a program that stays open, embeds them."
        yield Concern(f"{counted(pending, 'memory', 'memories')} without a vector.", advice)


PAGES = [Page("/", show)]
