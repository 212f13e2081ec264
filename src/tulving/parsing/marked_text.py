"""A model's text with marks in it, some of which are only quoted: in code, a quotation, a JSON string or a thought.

Every pass is linear: a place is not looked at again and again, however the marks, quotes and braces are arranged.
"""

import re
from bisect import bisect_left
from re import Match, Pattern
from typing import NamedTuple

# Its first part is a set of characters, so that the search skips all others quickly.
_QUOTING = re.compile(
    r"[`~<>{\[](?:(?P<fence>(?<=`)`{2,}|(?<=(?<!\S)~)~{2,})|(?P<ticks>(?<=`)`?)"
    r"|(?<=<)(?:(?P<thought>think(?:ing)?>)|(?P<orphan>/think(?:ing)?>))"
    r"|(?P<quotation>(?<=>))|(?P<json>(?<=\{)\{*|(?<=\[)(?=\s*[\"{])))",
    re.IGNORECASE,
)
_END_OF_FENCE = re.compile(r"(^[ \t>]*|(?<=[}\]]))?(`{3,}|~{3,})([ \t\r]*$)?", re.MULTILINE)
_END_OF_TICKS = {n: re.compile(rf"(?P<end>(?<!`)`{{{n}}}(?!`))|\n[ \t\r]*\n") for n in (1, 2)}
_END_OF_THOUGHT = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|\{+|[}\[\]]', re.DOTALL)
_BEHIND_STRING = re.compile(r"\s*[,:}\]]")


class Span(NamedTuple):
    """From an opening brace to its closing one; or, if `closed` is false, to the mark or the end that comes before."""

    end: int
    closed: bool
    deepest: int
    torn: bool
    """Whether it ends at a mark in a string that seems not to be closed, so that nothing behind it is certain."""
    quoted: int
    """The end of the last string that holds a mark, or 0."""


class MarkedText:
    """A text, and the marks in it. A mark whose group `start` has matched is the start of a call, and
    its group `tool` may name the tool."""

    def __init__(self, text: str, mark: Pattern[str]) -> None:
        self.text = text
        self.marks = list(mark.finditer(text))
        self.starts = [mark for mark in self.marks if mark["start"] is not None]
        self._mark_places = [mark.start() for mark in self.marks]
        self._start_places = [mark.start() for mark in self.starts]
        self._scanned = 0
        self._looked_ahead = 0

    @property
    def is_tangled(self) -> bool:
        """Whether so much was read twice that the rest must be left alone to keep the work linear."""
        return self._looked_ahead > len(self.text)

    def next_mark(self, at: int) -> Match[str] | None:
        """The first mark that does not begin before a place, quoted or not."""
        place = bisect_left(self._mark_places, at)
        return self.marks[place] if place < len(self.marks) else None

    def next_start(self, at: int) -> tuple[Match[str] | None, int] | None:
        """The next start of a call that is not quoted, and its end; None at the end of the text. None with the end of
        a thought if everything before belongs to that thought."""
        while not self.is_tangled:
            place = bisect_left(self._start_places, at)
            start = self.starts[place] if place < len(self.starts) else None
            quoting = _QUOTING.search(self.text, at, start.start() if start else len(self.text))
            if quoting is None:
                if start is None:
                    return None
                if self.text[start.start() - 1 : start.start()] not in ('"', "'", "“", "‘", "「"):
                    return start, start.end()
                at = start.end()
            elif quoting.lastgroup == "orphan":
                return None, quoting.end()
            else:
                at = self._behind(quoting)
        return None

    def _behind(self, quoting: Match[str]) -> int:
        """Where that ends which is quoted. What is never closed reaches to the end, except for lone backticks."""
        match quoting.lastgroup:
            case "fence":
                return self._behind_fence(quoting)
            case "ticks":
                end = _END_OF_TICKS[len(quoting[0])].search(self.text, quoting.end())
                return end.end() if end and end["end"] else quoting.end()
            case "thought":
                end = _END_OF_THOUGHT.search(self.text, quoting.end())
                return end.end() if end else len(self.text)
            case "json" if quoting.start() >= self._scanned:
                span = self.scan(quoting.start())
                self._scanned = span.end
                return span.quoted or quoting.end()
            case "quotation" if not self._in_line_before(quoting).strip():
                return self._end_of_line(quoting.end())
            case _:
                return quoting.end()

    def _behind_fence(self, opening: Match[str]) -> int:
        """A fence that opens a line is closed in that line or by one that stands alone, any other by the next one."""
        opens_line = not self._in_line_before(opening).strip(" \t>-*+.)0123456789")
        anywhere = self._end_of_line(opening.end()) if opens_line else len(self.text)
        for end in _END_OF_FENCE.finditer(self.text, opening.end()):
            alone = end[1] is not None and end[3] is not None
            if end[2].startswith(opening[0]) and (alone or end.start() < anywhere):
                return end.end()
        return len(self.text)

    def _in_line_before(self, found: Match[str]) -> str:
        """What stands before in the same line, if it is short."""
        return self.text[max(found.start() - 20, 0) : found.start()].rpartition("\n")[2]

    def _end_of_line(self, at: int) -> int:
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end

    def scan(self, start: int) -> Span:
        """The span of the object, or list, that opens at a place. A mark in a string is passed over if the string
        seems whole; any other mark ends the span."""
        opened = {"{": 0, "[": 0}
        closing = "}" if self.text[start] == "{" else "]"
        mark, at, deepest, quoted = self.next_mark(start), start, 0, 0
        while token := _TOKEN.search(self.text, at):
            if mark and token.start() >= mark.start():
                break
            at = token.end()
            kind = token[0][0]
            if kind == '"':
                if mark and at > mark.start():
                    if not self._is_whole(token):
                        self._looked_ahead += at - mark.start()
                        return Span(mark.start(), False, deepest, True, quoted)
                    mark, quoted = self.next_mark(at), at
            elif kind in opened:
                opened[kind] += len(token[0])
                deepest = max(deepest, opened["{"] + opened["["])
            else:
                opposite = "{" if kind == "}" else "["
                opened[opposite] = max(opened[opposite] - 1, 0)
                if kind == closing and not opened[opposite]:
                    return Span(at, True, deepest, False, quoted)
        return Span(mark.start() if mark else len(self.text), False, deepest, False, quoted)

    def _is_whole(self, string: Match[str]) -> bool:
        """Whether what looks like a JSON string stands between the signs that JSON has around one."""
        before = string.start() - 1
        while self.text[before].isspace():
            before -= 1
        return self.text[before] in "{[,:" and _BEHIND_STRING.match(self.text, string.end()) is not None
