"""What Tulving itself put into a prompt, found again in a text that it is to learn from.

Agents repeat what they were shown: learned back, a memory would confirm itself without anything having happened.
"""

import re
from collections.abc import Callable, Sequence

from tulving.domain import context, profile

_HEADER = context.HEADER.strip()
_CUT = profile.CUT.strip()
_LABELS = tuple(f"{label}:" for label in profile.LABELS.values())
_ID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# What pasting adds to a line: an indent, the quotation marks of a mail, the sign of a list.
_MARGIN = re.compile(r"[\s>]*(?:(?:[-*+•]|\d{1,3}[.)])(?=\s))?\s*")
_FENCE = re.compile(r"(?:```+|~~~+)[^`]*")
_BELIEF = re.compile(r"\(confidence: [01]\.\d\d\)$")
_MERIT = re.compile(r"\(maturity: \w{1,40}, effectiveness: \d{1,9}\.\d\d\)$")
_LONGEST_ENDING = 120
_DATED = re.compile(r"\[\d{1,4}-\d\d-\d\d\](?: |$)")
_ALONE = re.compile(
    r"\[[^\[\]|]{1,200} \| [01]\.\d\d\](?: |$)"  # a fact of a profile
    r"|\(memory is not available: .*\)$"
    # The rest is of a prompt that asks a model to learn.
    rf"|\*\*{_ID}\*\*: \[\w{{1,40}}\] |### Episode \d{{1,6}}  \(|id: {_ID}$|</?episode_content>$"
    r"|## (?:Consolidation Context — |Episodes to Process$|Existing (?:Facts|Rules) \(for dedup\)$)"
)


def without_injected(text: str) -> str:
    """A text without the blocks and lines that Tulving wrote: contexts, profiles, and the episodes of its prompts.

    A line goes if its form is unmistakable, or if it stands in a block and has a form of its lines; a block begins
    with a heading of ours. Whether it is quoted, indented or fenced makes no difference. All else is unchanged.
    """
    lines = text.splitlines(keepends=True)
    margins = [match.end() if (match := _MARGIN.match(line)) else 0 for line in lines]
    bodies = [line[margin:].rstrip() for line, margin in zip(lines, margins, strict=True)]
    ours = _ours(bodies, [">" in line[:margin] for line, margin in zip(lines, margins, strict=True)])
    return "".join(line for line, own in zip(lines, _with_fences(bodies, ours), strict=True) if not own)


def _ours(bodies: Sequence[str], quoted: Sequence[bool]) -> list[bool]:
    ours = [False] * len(bodies)
    inside = episode = False
    last = 0
    for at, (body, following) in enumerate(zip(bodies, _following(bodies), strict=True)):
        episode = body == "<episode_content>" or (episode and quoted[at])
        if not body and not episode:
            continue
        opens = _opens_block(body, following, inside)
        if episode or opens or _is_ours(body) or (inside and _is_of_block(body, following)):
            if inside:
                ours[last + 1 : at] = [True] * (at - last - 1)  # the blank lines within a block
            ours[at], inside, last = True, inside or opens, at
        else:
            inside = False
    return ours


def _following(bodies: Sequence[str]) -> list[str]:
    """For each line the next one that is not blank."""
    found = [""] * len(bodies)
    for at in range(len(bodies) - 2, -1, -1):
        found[at] = bodies[at + 1] or found[at + 1]
    return found


def _is_ours(body: str) -> bool:
    if _ALONE.match(body) or _MERIT.search(body[-_LONGEST_ENDING:]):
        return True
    return body.startswith("[") and "] [" in body and "]: " in body and _BELIEF.search(body[-20:]) is not None


def _is_of_block(body: str, following: str) -> bool:
    """Whether this can be a line of an episode or a profile, or of what was cut there."""
    return _DATED.match(body) is not None or _is_labelled(body) or _CUT in (body, following)


def _is_labelled(body: str) -> bool:
    return body.startswith(_LABELS)


_BLOCKS: dict[str, Callable[[str], object]] = {
    context.PROFILE.strip(): lambda line: False,  # only within a block: many a text has such a list
    context.FACTS.strip(): _is_ours,
    context.RULES.strip(): _is_ours,
    context.EPISODES.strip(): _DATED.match,
    **dict.fromkeys(profile.SECTIONS, _is_labelled),
    profile.FACTS: _is_ours,
}
"""A heading, and what the line after it must be if it is to begin a block."""


def _opens_block(body: str, following: str, inside: bool) -> bool:
    return body == _HEADER or (body in _BLOCKS and (inside or bool(_BLOCKS[body](following))))


def _with_fences(bodies: Sequence[str], ours: list[bool]) -> list[bool]:
    """Also the fences around nothing but lines of ours."""
    start: int | None = None
    for at, body in enumerate(bodies):
        if ours[at] or not _FENCE.fullmatch(body):
            continue
        if start is None:
            start = at
            continue
        within = range(start + 1, at)
        if any(ours[line] for line in within) and all(ours[line] or not bodies[line] for line in within):
            ours[start : at + 1] = [True] * (at + 1 - start)
        start = None
    return ours
