"""A block of memory for a prompt: deterministic, within its budget, and always read as data."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from tulving.domain.model import Episode, Fact, Hit, Rule
from tulving.domain.ranking import stable_order
from tulving.domain.text import count_tokens, shortened

HEADER = "# Memory Context\n"
FACTS = "\n## Key Facts\n"
RULES = "\n## Active Rules\n"
EPISODES = "\n## Related Episodes\n"
SECTION_QUOTAS: Mapping[str, float] = {"facts": 0.7, "rules": 0.3, "episodes": 0.3}
SMALLEST_BUDGET = count_tokens(HEADER)
LARGEST_SHARE, SMALLEST_SHARE = 0.25, 40
"""What one memory may take: this share of the budget, or the smallest share in tokens if that is more."""
CHARACTERS_A_TOKEN = 16
"""More than any text has: a longer one is too long without being counted."""


def render(
    hits: Iterable[Hit],
    token_budget: int,
    quotas: Mapping[str, float] = SECTION_QUOTAS,
    tokens: Callable[[str], int] = count_tokens,
) -> str:
    """001-087, 001-088, 001-127: header, facts, rules, episodes, in the order of the hits, never over the budget.

    Facts and rules get their quotas, and what one leaves unused goes to the other. Episodes get what both leave, up to
    their quota. An item that does not fit is skipped, and one that would take more than its share is cut, with a mark
    that says how long it is. Hits with equal scores come in a stable order (001-126).
    """
    hits = sorted(hits, key=lambda hit: stable_order(hit.score, hit.item.created_at, hit.item.id))
    share = max(int(token_budget * LARGEST_SHARE), SMALLEST_SHARE)
    facts, rules, episodes = [], [], []
    for hit in hits:
        if isinstance(hit.item, Fact):
            facts.append(_cut(partial(_fact_line, hit.item, hit.parts["confidence"]), hit.item.content, share, tokens))
        elif isinstance(hit.item, Rule):
            rules.append(_cut(partial(_rule_line, hit.item), hit.item.content, share, tokens))
        else:
            episodes.append(_cut(partial(_episode_line, hit.item), hit.item.content, share, tokens))
    rules_need = tokens(RULES + "".join(rules)) if rules else 0
    facts_budget = max(int(token_budget * quotas["facts"]), token_budget - rules_need)
    text = _fill(HEADER, FACTS, facts, facts_budget, tokens)
    text = _fill(text, RULES, rules, token_budget, tokens)
    episodes_budget = min(token_budget, tokens(text) + int(token_budget * quotas["episodes"]))
    return _fill(text, EPISODES, episodes, episodes_budget, tokens)


def _fill(text: str, heading: str, lines: list[str], budget: int, tokens: Callable[[str], int]) -> str:
    for line in lines:
        longer = text + heading + line
        if tokens(longer) <= budget:
            text, heading = longer, ""
    return text


def _cut(line: Callable[[str], str], content: str, share: int, tokens: Callable[[str], int]) -> str:
    """A memory's line, with as much of its content as its share of the tokens has room for."""

    def size(characters: int) -> int:
        return tokens(line(shortened(content, characters)))

    most = min(len(content), share * CHARACTERS_A_TOKEN)
    if size(most) > share:
        most = max(bisect_right(range(most), share, key=size) - 1, 0)
    return line(shortened(content, most))


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
