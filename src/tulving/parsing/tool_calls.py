"""The tool calls in a model's text, for models that have no tool calling of their own.

ABP is read first. Where it yields no call, VCP may be tried; where that yields none either, the text is plain.
"""

from dataclasses import dataclass
from typing import Literal

from tulving.parsing import abp, vcp
from tulving.parsing.json_blocks import LONGEST_ANSWER
from tulving.parsing.text_call import Protocol, TextCall

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
        return _without(self.text, [(call.start, call.end) for call in self.calls]).strip()


def read(text: str, *, dual: bool = False) -> ToolText:
    """The calls in a text: ABP ones; where there are none and `dual` is set, VCP ones. Never raises."""
    if len(text) > LONGEST_ANSWER:
        return ToolText(text=text, fallback="too long")
    reading, is_marked = abp.read(text)
    calls, problems = reading.calls, reading.problems
    if calls:
        return ToolText(text=text, calls=tuple(calls), protocol="abp", problems=_first(problems))
    fallback: Fallback = "no ABP marker"
    if is_marked:
        fallback = "ABP call can't be read" if problems else "ABP call is only quoted"
    if dual:
        # What an unreadable ABP call holds may be a quotation.
        older = vcp.read(_without(text, reading.unread, blank=True))
        calls, problems = older.calls, [*problems, *older.problems]
    protocol = "vcp" if calls else "plain-text"
    return ToolText(text=text, calls=tuple(calls), protocol=protocol, fallback=fallback, problems=_first(problems))


def _without(text: str, spans: list[tuple[int, int]], *, blank: bool = False) -> str:
    """The text without some parts of it, or with blanks in their place."""
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        start = max(start, at)
        pieces += [text[at:start], " " * (end - start) if blank else ""]
        at = max(end, at)
    return "".join([*pieces, text[at:]])


def _first(problems: list[str]) -> tuple[str, ...]:
    more = len(problems) - MOST_PROBLEMS
    return (*problems[:MOST_PROBLEMS], *([f"{more} more calls can't be read"] if more > 0 else []))
