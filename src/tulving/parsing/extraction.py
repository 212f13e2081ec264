"""What a model found in a conversation: facts about the person, and blocks of the profile that it would rewrite."""

from typing import Any

from tulving.domain.learning import ExtractedFact, Extraction
from tulving.domain.model import CATEGORIES
from tulving.domain.profile import BLOCKS
from tulving.domain.text import clean, fold
from tulving.parsing.entries import Unusable, first_of, number, object_, read, text
from tulving.parsing.json_blocks import find_object

FACTS = ("facts", "newFacts", "new_facts")
GROUPS = ("profile", "user", "history")
LONGEST_BLOCK = 4_000
"""Characters of a block of the profile; the rest is cut off."""
_OTHER_NAMES = {
    "workContext": "work",
    "personalContext": "personal",
    "recentMonths": "recent",
    "earlierContext": "earlier",
    "longTermBackground": "background",
}
_UNCHANGED = ("unchanged", "no change", "no changes", "none", "null", "n/a")


def parse_extraction_output(output: str) -> Extraction:
    """003-001, 003-002: the facts and the profile in a model's answer. Whatever can't be used is reported, never
    raised. Facts of low confidence and duplicates are left in: storing them is decided, and logged, elsewhere."""
    value, problem = find_object(output, (*FACTS, *GROUPS))
    if value is None:
        return Extraction(parse_errors=[problem or "No JSON block found in extraction output"])
    errors: list[str] = []
    section, entries = first_of(value, *FACTS)
    facts = read(section, entries, _fact, errors)
    profile: dict[str, str] = {}
    for group in GROUPS:
        _read_blocks(group, value.get(group), profile, errors)
    return Extraction(facts=facts, profile=profile, parse_errors=errors)


def _fact(value: object) -> ExtractedFact:
    entry = object_(value)
    content = text(entry, "content")
    given = entry.get("category")
    category = given.strip().casefold() if isinstance(given, str) else given
    if category not in (None, "", *CATEGORIES):
        raise Unusable(f"category is not known; allowed: {', '.join(CATEGORIES)}")
    confidence = number(entry.get("confidence"), 0.0, 1.0)
    return ExtractedFact(
        content=content, category=category or "context", confidence=0.5 if confidence is None else confidence
    )


def _read_blocks(group: str, value: object, profile: dict[str, str], errors: list[str]) -> None:
    """Adds the blocks of a group; groups may stand inside of `profile` too."""
    if value is None:
        return
    if not isinstance(value, dict):
        errors.append(f"{group}: not an object")
        return
    unknown: list[str] = []
    for name, inner in value.items():
        block = _OTHER_NAMES.get(name, name)
        if group == "profile" and name in GROUPS[1:]:
            _read_blocks(name, inner, profile, errors)
        elif block not in BLOCKS:
            unknown.append(clean(name))
        elif new := _block_text(inner):
            profile[block] = new
    if unknown:
        errors.append(f"{group}: no such block: {', '.join(unknown)[:60]}; allowed: {', '.join(BLOCKS)}")


def _block_text(value: Any) -> str:
    """The new text of a block; empty if it is to stay as it is."""
    if isinstance(value, dict):
        value = value.get("summary") if value.get("shouldUpdate", True) is True else None
    if not isinstance(value, str) or fold(value).strip("()[]<>*_. ") in _UNCHANGED:
        return ""
    return clean(value).strip()[:LONGEST_BLOCK].rstrip()
