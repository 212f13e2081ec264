"""A person's profile: six blocks of text about the person, shown with the facts that are known."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from tulving.domain.records import Record
from tulving.domain.text import CHARACTERS_A_TOKEN, count_tokens, escape_markup

BlockName = Literal["work", "personal", "topOfMind", "recent", "earlier", "background"]
CONTEXT: Mapping[str, str] = {"work": "Work", "personal": "Personal", "topOfMind": "Current Focus"}
HISTORY: Mapping[str, str] = {"recent": "Recent", "earlier": "Earlier", "background": "Background"}
LABELS: Mapping[str, str] = {**CONTEXT, **HISTORY}
"""The labels under which the blocks are shown."""
BLOCKS = tuple(LABELS)
"""The blocks in their order."""
SECTIONS: Mapping[str, Mapping[str, str]] = {"User Context:": CONTEXT, "History:": HISTORY}
FACTS = "Facts:"
CUT = "\n..."


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Block(Record):
    """A version of a block. Numbers start at 1; empty content means that the block is empty. `run_id` is the run of a
    model that wrote it."""

    block: str
    number: int
    content: str
    run_id: UUID | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ProfileOwner(Record):
    """Whose profile it is, how many of its blocks have text, and when one was written last."""

    user_id: str | None
    household_id: str | None
    persona_id: str | None
    blocks: int
    written_at: datetime


def render(
    blocks: Mapping[str, str],
    facts: Sequence[tuple[str, float, str]],
    max_tokens: int,
    tokens: Callable[[str], int] = count_tokens,
) -> str:
    """003-011, 003-012: the blocks and the facts (category, confidence, content), never over the budget; empty if
    nothing is known.

    Facts come by confidence, those with equal confidence in the given order. If the text is too long, facts are left
    out from the lowest confidence up. What is too long even without facts is cut, and a mark says so.
    """
    ranked = sorted(facts, key=lambda fact: -fact[1])
    known = [f"- [{shown(category)} | {confidence:.2f}] {shown(content)}" for category, confidence, content in ranked]
    sections = {heading: labelled(labels, blocks) for heading, labels in SECTIONS.items()}

    def text(number: int) -> str:
        said = {**sections, FACTS: known[:number]}
        return "\n\n".join("\n".join((heading, *lines)) for heading, lines in said.items() if lines)

    # Without blocks, a part of the first fact says more than nothing.
    numbers = range(0 if any(sections.values()) else 1, len(known) + 1)
    fitting = bisect_right(numbers, max_tokens, key=lambda number: tokens(text(number)))
    return text(numbers[fitting - 1]) if fitting else _cut(text(numbers.start), max_tokens, tokens)


def labelled(labels: Mapping[str, str], blocks: Mapping[str, str]) -> list[str]:
    """The blocks that have text, each on a line with its label."""
    return [f"- {label}: {text}" for block, label in labels.items() if (text := shown(blocks.get(block, "")))]


def shown(text: str) -> str:
    """Stored text stays on its line and in its section: it is data, whatever it says."""
    return escape_markup(" ".join(text.split()))


def _cut(text: str, max_tokens: int, tokens: Callable[[str], int]) -> str:
    def cut(characters: int) -> str:
        return text[:characters].rstrip() + CUT

    lengths = range(min(len(text), max_tokens * CHARACTERS_A_TOKEN))
    fitting = bisect_right(lengths, max_tokens, key=lambda length: tokens(cut(length)))
    return cut(fitting - 1) if fitting else ""
