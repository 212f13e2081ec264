"""The ladder of rules in words: what each rung means, and what a rule needs to rise."""

from datetime import datetime
from math import ceil

from tulving.domain.maturity import next_step
from tulving.domain.model import Rule
from tulving.interfaces.wording import counted

MEANS = {
    "proven": "Helped often and for long enough to be relied on.",
    "established": "Helped several times, and seldom did harm.",
    "candidate": "New, or not yet shown to help.",
    "anti_pattern": "Did harm again and again. Now a warning not to do it.",
}
"""The rungs, the highest first."""


def to_rise(rule: Rule, now: datetime) -> str:
    """What it takes for a rule to rise; empty for one that can't."""
    if (step := next_step(rule, now)) is None:
        return ""
    days = ceil(step.days)
    late = f", the last one in {counted(days, 'day')} or later" if days else ""
    return f"{counted(step.marks, 'more helpful mark')} to become {step.to}{late}"
