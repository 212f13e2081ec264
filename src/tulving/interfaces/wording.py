"""Words that the command line and the console share: for conflicts, runs, scheduled jobs, numbers and times."""

from collections.abc import Mapping
from typing import Any

from tulving.domain.model import Settlement
from tulving.services.conflicts import REWRITTEN

TAUGHT = {
    "facts_created": "new fact",
    "facts_updated": "updated fact",
    "rules_created": "new rule",
    "confirmations_made": "confirmation",
    REWRITTEN: "rewritten note",
}
SKIPPED = {
    "duplicates": "known already",
    "below_threshold": "too uncertain",
    "unwanted": "forgotten by a person before",
    "outdated": "older than what is known",
    "outweighed": "outweighed by what is known",
    "evicted": "removed to make room",
}
WON = {
    "superseded": "the new note won",
    "kept": "the known note won",
    "merged": "both notes were merged",
    "rejected": "the new note was rejected",
}
WOULD_WIN = {
    "superseded": "the new note would win",
    "kept": "the known note would win",
    "merged": "both notes would be merged",
    "rejected": "the new note would be rejected",
}
JOBS = {
    "consolidation": "Learns facts and rules from episodes",
    "decay_sweep": "Lets facts and rules that nothing confirms fade and expire",
    "timeline_rotation": "Moves old episodes into the archive",
    "episode_cleanup": "Deletes episodes that have expired",
    "index_maintenance": "Adds missing vectors, maintains the indexes and closes abandoned sessions",
}


def taught(counts: Mapping[str, Any]) -> str:
    """What a run of a model has led to; empty if that is nothing."""
    return ", ".join(counted(counts[name], what) for name, what in TAUGHT.items() if counts.get(name))


def skipped(counts: Mapping[str, Any]) -> str:
    """What a run has not learned, and why; empty if that is nothing."""
    return ", ".join(f"{counts[name]} {why}" for name, why in SKIPPED.items() if counts.get(name))


def headline(settlement: Settlement) -> str:
    """The outcome of a conflict, or the decision that a person has to make."""
    match settlement.status:
        case "held":
            return f"waits for you: {proposed(settlement)}"
        case "dismissed":
            return "dismissed: both notes stayed in use"
        case "reverted":
            return f"{WON[settlement.outcome]}, but that was reverted"
        case _:
            return WON[settlement.outcome]


def proposed(settlement: Settlement) -> str:
    """What accepting a held conflict would do."""
    if settlement.action == "keep":
        return WOULD_WIN["superseded" if settlement.winner_id == settlement.candidate_id else "kept"]
    return WOULD_WIN["merged" if settlement.action == "merge" else "rejected"]


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: 1 fact, 2 facts."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def span(seconds: float) -> str:
    """A span of time in its largest unit, rounded down."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(seconds, 0) // 1:.0f} s"
