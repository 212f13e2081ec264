"""What a run of a model has taught, in words, for people."""

from collections.abc import Mapping
from typing import Any

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


def taught(counts: Mapping[str, Any]) -> str:
    """What a run has led to; empty if that is nothing."""
    return ", ".join(counted(counts[name], what) for name, what in TAUGHT.items() if counts.get(name))


def skipped(counts: Mapping[str, Any]) -> str:
    """What was not learned, and why; empty if that is nothing."""
    return ", ".join(f"{counts[name]} {why}" for name, why in SKIPPED.items() if counts.get(name))


def counted(number: int, noun: str) -> str:
    """A number and what is counted."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
