"""The tool calls in a model's text, for models that have no tool calling of their own.

ABP is read first. Where it yields no call, VCP may be tried; where that yields none either, the text is plain.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal

from tulving.parsing import abp, vcp
from tulving.parsing.json_blocks import LONGEST_ANSWER
from tulving.parsing.text_call import Protocol, Reading, TextCall

__all__ = ["Fallback", "Protocol", "TextCall", "ToolText", "read"]

Fallback = Literal["no ABP marker", "ABP call is only quoted", "ABP call can't be read", "too long"]
MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolText:
    """A model's text, untouched, the calls in it, and what kept others from being read."""

    text: str
    calls: tuple[TextCall, ...] = ()
    protocol: Protocol = "plain-text"
    fallback: Fallback | None = None
    """Why ABP was not used."""
    problems: tuple[str, ...] = ()
    """For the model: which calls it marked can't be read, and why."""

    @property
    def prose(self) -> str:
        """What the model says beside its calls."""
        starts = [*(call.start for call in self.calls), len(self.text)]
        ends = [0, *(call.end for call in self.calls)]
        return "".join(self.text[end:start] for end, start in zip(ends, starts, strict=True)).strip()


def read(text: str, *, dual: bool = False) -> ToolText:
    """The calls in a text: ABP ones; where there are none and `dual` is set, VCP ones. Never raises."""
    if len(text) > LONGEST_ANSWER:
        return ToolText(text=text, fallback="too long")
    reading, is_marked = abp.read(text)
    older = vcp.read(text) if dual else Reading([], [], [])
    calls = _outside(reading.calls, [(call.start, call.end) for call in older.calls])
    if calls:
        return ToolText(text=text, calls=calls, protocol="abp", problems=_first(reading.problems))
    fallback: Fallback = "no ABP marker"
    if is_marked:
        fallback = "ABP call can't be read" if reading.problems else "ABP call is only quoted"
    calls = _outside(older.calls, reading.unread)
    problems = _first([*reading.problems, *older.problems])
    protocol = "vcp" if calls else "plain-text"
    return ToolText(text=text, calls=calls, protocol=protocol, fallback=fallback, problems=problems)


def _outside(calls: list[TextCall], spans: list[tuple[int, int]]) -> tuple[TextCall, ...]:
    """The calls that do not begin within what was found in the other protocol: there they are only quoted."""
    starts = [start for start, _ in spans]
    behind = ((call, bisect_left(starts, call.start)) for call in calls)
    return tuple(call for call, place in behind if not place or spans[place - 1][1] <= call.start)


def _first(problems: list[str]) -> tuple[str, ...]:
    more = len(problems) - MOST_PROBLEMS
    return (*problems[:MOST_PROBLEMS], *([f"{more} more calls can't be read"] if more > 0 else []))
