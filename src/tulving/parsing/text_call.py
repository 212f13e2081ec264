"""A tool call that a model wrote into its text, and how such calls are collected."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from re import Match
from typing import Any, Literal, NamedTuple

from tulving.parsing.marked_text import MarkedText

Protocol = Literal["abp", "vcp", "plain-text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCall:
    """One call: the tool as the model named it, its parameters (in VCP all are texts), and where it stands."""

    tool: str
    parameters: Mapping[str, Any]
    protocol: Protocol
    start: int
    end: int
    repaired: bool = False
    """Whether its JSON was malformed, and was read as it was meant."""


class Reading(NamedTuple):
    """What a text holds in one protocol. `unread` tells where the calls stand that can't be read."""

    calls: list[TextCall]
    problems: list[str]
    unread: list[tuple[int, int]]


class Unreadable(Exception):
    """A marked call that can't be read: why, where it ends, and where the next one may begin."""

    def __init__(self, problem: str, end: int, resume: int | None = None) -> None:
        super().__init__(problem)
        self.end, self.resume = end, end if resume is None else resume


def read_calls(protocol: str, marked: MarkedText, read_call: Callable[[Match[str]], TextCall]) -> Reading:
    """The calls whose start is marked outside of code, quotations, JSON strings and thoughts, in order."""
    reading = Reading([], [], [])
    at = 0
    while marked.starts and (found := marked.next_start(at)) is not None:
        start, at = found
        if start is None:  # all that was found so far belongs to a thought
            for each in reading:
                each.clear()
            continue
        try:
            call = read_call(start)
        except Unreadable as problem:
            tool = (start["tool"] or "").strip()
            reading.problems.append(f"{protocol} call{f' of {tool}' if tool else ''}: {problem}")
            reading.unread.append((start.start(), problem.end))
            at = problem.resume
        else:
            reading.calls.append(call)
            at = call.end
    if marked.is_tangled:
        reading.problems.append("The rest of the text can't be read: its quotes are not closed")
    return reading
