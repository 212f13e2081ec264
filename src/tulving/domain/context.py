"""A block of memory for a prompt: deterministic, within its budget, and always read as data."""

from collections.abc import Callable, Iterable, Mapping

from tulving.domain.model import Fact, Hit, Rule
from tulving.domain.ranking import stable_order
from tulving.domain.text import count_tokens

HEADER = "# Memory Context\n"
FACTS = "\n## Key Facts\n"
RULES = "\n## Active Rules\n"
SECTION_QUOTAS: Mapping[str, float] = {"facts": 0.7, "rules": 0.3}
SMALLEST_BUDGET = count_tokens(HEADER)


def render(
    hits: Iterable[Hit],
    token_budget: int,
    quotas: Mapping[str, float] = SECTION_QUOTAS,
    tokens: Callable[[str], int] = count_tokens,
) -> str:
    """001-087, 001-088, 001-127: header, facts, rules, in the order of the hits, never over the budget.

    Each section is sure of its quota; what one leaves unused, the other takes. An item that does not
    fit is passed over for the next. Hits with equal scores come in their one stable order (001-126).
    """
    hits = sorted(hits, key=lambda hit: stable_order(hit.score, hit.item.created_at, hit.item.id))
    facts = [_fact_line(hit.item, hit.effective_confidence) for hit in hits if isinstance(hit.item, Fact)]
    rules = [_rule_line(hit.item) for hit in hits if isinstance(hit.item, Rule)]
    rules_need = tokens(RULES + "".join(rules)) if rules else 0
    facts_budget = max(int(token_budget * quotas["facts"]), token_budget - rules_need)
    text = _fill(HEADER, FACTS, facts, facts_budget, tokens)
    return _fill(text, RULES, rules, token_budget, tokens)


def _fill(text: str, heading: str, lines: list[str], budget: int, tokens: Callable[[str], int]) -> str:
    for line in lines:
        longer = text + heading + line
        if tokens(longer) <= budget:
            text, heading = longer, ""
    return text


def _fact_line(fact: Fact, confidence: float) -> str:
    return (
        f"- [{_line(fact.subject)}] [{_line(fact.predicate)}]: {_line(fact.content)} (confidence: {confidence:.2f})\n"
    )


def _rule_line(rule: Rule) -> str:
    return f"- {_line(rule.content)} (maturity: {rule.maturity}, effectiveness: {rule.effectiveness_score:.2f})\n"


def _line(text: str) -> str:
    """Memory can't open a section of its own: it stays on its line."""
    return " ".join(text.split())
