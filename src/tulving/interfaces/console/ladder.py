"""The ladder of rules in words: what each rung means, and what a rule needs to rise."""

from datetime import datetime

from tulving.domain.maturity import next_step
from tulving.domain.model import Rule

MEANS = {
    "proven": "Helped often and for long enough to be relied on.",
    "established": "Helped several times, and seldom did harm.",
    "candidate": "New, or not yet shown to help.",
    "anti_pattern": "Did harm again and again, and is a warning against itself now.",
}
"""The rungs, the highest first."""


def to_rise(rule: Rule, now: datetime) -> str:
    """What it takes for a rule to rise; empty for one that can't."""
    if (step := next_step(rule, now)) is None:
        return ""
    marks = f"{step.marks} more helpful {'mark' if step.marks == 1 else 'marks'}"
    days = -(-step.days // 1)
    late = f", the last one in {days:.0f} {'day' if days == 1 else 'days'} or later" if days else ""
    return f"{marks} to become {step.to}{late}"
