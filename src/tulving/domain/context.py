"""A block of memory for a prompt: deterministic, within its budget, and always read as data."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from tulving.domain.model import Episode, Fact, Hit, Rule
from tulving.domain.profile import LABELS, shown
from tulving.domain.ranking import stable_order
from tulving.domain.text import CHARACTERS_A_TOKEN, count_tokens, shortened

Of = TypeVar("Of")
Line = tuple[str, Hit]

HEADER = "# Memory Context\n"
PROFILE = "\n## Profile\n"
FACTS = "\n## Key Facts\n"
RULES = "\n## Active Rules\n"
EPISODES = "\n## Related Episodes\n"
SECTION_QUOTAS: Mapping[str, float] = {"profile": 0.2, "facts": 0.7, "rules": 0.3, "episodes": 0.3}
SMALLEST_BUDGET = count_tokens(HEADER)
LARGEST_SHARE, SMALLEST_SHARE = 0.25, 40
"""What one memory may take: this share of the budget, or the smallest share in tokens if that is more."""


@dataclass(frozen=True, slots=True)
class Composed:
    """A context block with its token count and budget, and the hits that it includes, in order, and leaves out."""

    text: str
    tokens: int
    budget: int
    hits: Sequence[Hit]
    left_out: Sequence[Hit]


def render(
    hits: Iterable[Hit],
    token_budget: int,
    quotas: Mapping[str, float] = SECTION_QUOTAS,
    tokens: Callable[[str], int] = count_tokens,
    blocks: Mapping[str, str] | None = None,
) -> str:
    """001-087, 001-088, 001-127: header, the blocks of a profile, facts, rules, episodes, in the order of the hits,
    never over the budget.

    The profile takes up to its quota. Of the rest, facts and rules get their quotas, and what one leaves unused goes to
    the other; episodes get what both leave, up to their quota. An item that does not fit is skipped, and one that would
    take more than its share is cut, with a mark that says how long it is. Hits with equal scores come in a stable order
    (001-126).
    """
    return compose(hits, token_budget, quotas, tokens, blocks).text


def compose(
    hits: Iterable[Hit],
    token_budget: int,
    quotas: Mapping[str, float] = SECTION_QUOTAS,
    tokens: Callable[[str], int] = count_tokens,
    blocks: Mapping[str, str] | None = None,
) -> Composed:
    """The block that `render` returns, with the hits that it includes and leaves out."""
    hits = sorted(hits, key=lambda hit: stable_order(hit.score, hit.item.created_at, hit.item.id))
    text = _profile(blocks or {}, token_budget, int(token_budget * quotas["profile"]), tokens)
    used = tokens(text) - tokens(HEADER)
    rest = token_budget - used
    share = max(int(rest * LARGEST_SHARE), SMALLEST_SHARE)
    facts, rules, episodes = list[Line](), list[Line](), list[Line]()
    for hit in hits:
        if isinstance(hit.item, Fact):
            line, of_kind = partial(_fact_line, hit.item, hit.parts["confidence"]), facts
        elif isinstance(hit.item, Rule):
            line, of_kind = partial(_rule_line, hit.item), rules
        else:
            line, of_kind = partial(_episode_line, hit.item), episodes
        of_kind.append((_cut(line, hit.item.content, share, tokens), hit))
    rules_need = tokens(RULES + "".join(line for line, _ in rules)) if rules else 0
    facts_budget = used + max(int(rest * quotas["facts"]), rest - rules_need)
    text, told_facts = _fill(text, FACTS, facts, facts_budget, tokens)
    text, told_rules = _fill(text, RULES, rules, token_budget, tokens)
    episodes_budget = min(token_budget, tokens(text) + int(rest * quotas["episodes"]))
    text, told_episodes = _fill(text, EPISODES, episodes, episodes_budget, tokens)
    told = [*told_facts, *told_rules, *told_episodes]
    ids = {hit.id for hit in told}
    return Composed(text, tokens(text), token_budget, told, [hit for hit in hits if hit.id not in ids])


def _profile(blocks: Mapping[str, str], token_budget: int, quota: int, tokens: Callable[[str], int]) -> str:
    """The header and the profile. If the blocks are too long together, each is cut to an equal share."""
    said = {label: text for block, label in LABELS.items() if (text := blocks.get(block, "").strip())}
    budget = min(token_budget, tokens(HEADER) + quota)
    lines: list[str] = []
    for share in (quota, max(quota // max(len(said), 1), SMALLEST_SHARE)):
        lines = [_cut(partial(_block_line, label), text, share, tokens) for label, text in said.items()]
        if tokens(HEADER + PROFILE + "".join(lines)) <= budget:
            break
    return _fill(HEADER, PROFILE, [(line, None) for line in lines], budget, tokens)[0]


def _fill(
    text: str, heading: str, lines: Iterable[tuple[str, Of]], budget: int, tokens: Callable[[str], int]
) -> tuple[str, list[Of]]:
    """The text with a section of the lines that fit the budget, and the sources of these lines."""
    taken: list[Of] = []
    for line, of in lines:
        longer = text + heading + line
        if tokens(longer) <= budget:
            text, heading = longer, ""
            taken.append(of)
    return text, taken


def _cut(line: Callable[[str], str], content: str, share: int, tokens: Callable[[str], int]) -> str:
    """A memory's line, with as much of its content as its share of the tokens has room for."""

    def size(characters: int) -> int:
        return tokens(line(shortened(content, characters)))

    most = min(len(content), share * CHARACTERS_A_TOKEN)
    if size(most) > share:
        most = max(bisect_right(range(most), share, key=size) - 1, 0)
    return line(shortened(content, most))


def _block_line(label: str, content: str) -> str:
    return f"- {label}: {shown(content)}\n"


def _fact_line(fact: Fact, confidence: float, content: str) -> str:
    return f"- [{_line(fact.subject)}] [{_line(fact.predicate)}]: {_line(content)} (confidence: {confidence:.2f})\n"


def _rule_line(rule: Rule, content: str) -> str:
    return f"- {_line(content)} (maturity: {rule.maturity}, effectiveness: {rule.effectiveness_score:.2f})\n"


def _episode_line(episode: Episode, content: str) -> str:
    said = f"{_line(episode.source)}: " if episode.source else ""
    return f"- [{episode.occurred_at or episode.created_at:%Y-%m-%d}] {said}{_line(content)}\n"


def _line(text: str) -> str:
    """Stored text stays on its line, so that it can't open a section of its own."""
    return " ".join(text.split())
