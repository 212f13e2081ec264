"""Tool calls in the ABP form: `[[ABP_TOOL:name]]`, a JSON object with the parameters, `[[END_ABP_TOOL]]`.

What is certain is read, whatever stands around it. What is not is reported and never run: an object that is cut off,
one that can be repaired only by adding or leaving out a word, and all that follows a string which is broken so that
nobody can tell what it quotes.
"""

import json
import re
from itertools import accumulate, pairwise, product
from re import Match, Pattern
from typing import Any, NamedTuple

from tulving.parsing.json_blocks import DEEPEST, decode, repair
from tulving.parsing.marked_text import MarkedText
from tulving.parsing.text_call import Reading, TextCall, Unreadable, read_calls

END = "[[END_ABP_TOOL]]"
COSTLIEST_REPAIRS = 2_000_000
"""The most that all repairs of one text may cost, in units of json_blocks.COSTLIEST_REPAIR: about 0.2 seconds."""

_MARK = re.compile(
    r"\[\[[ \t]*(?:(?P<start>ABP_TOOL)(?!\w)[ \t]*(?:[:：](?P<tool>[^\[\]\r\n]{0,200}))?(?P<closed>\]\])?"
    r"|END_ABP_TOOL[ \t]*(?:[:：][^\[\]\r\n]{0,200})?\]\])",
    re.IGNORECASE,
)
_OPENING = re.compile(r"\{|\[(?=\s*[\"{])")
_LEAD = re.compile(r"\s*(?:(?:`{3,}|~{3,})\w*\s*)?")
_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})")
_COLON = re.compile("[:：]")
_QUOTED_KEY = re.compile(r"[\"'”]\s*[:：]")
_LOST_KEY = re.compile(rf"{_QUOTED_KEY.pattern}|\}}\s*,")
_REST_OF_LINE = re.compile(r"[^\n\[]*")
_END_OF_LINE = re.compile(r"[ \t\r]*(?:$|\[\[)", re.MULTILINE)
_NO_VALUE = re.compile(r"[\[:,]\s*(?:-?(?:NaN|Infinity)\b|\.\.\.|…)")
_LAST_FENCE = re.compile(r"\n[ \t]*(?:`{3,}|~{3,})\s*\Z")
_COMMENT = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+"?)|(?<![:\w])//[^\n"]*+(?=("?))', re.DOTALL)
_BLANK = re.compile(r"""(?<!["\\])""(?!")|(?<!')''(?!')""")
_END_OF_KEY = re.compile(r'(?<!\\)":')
_KEY_IN_STRING = re.compile(rf"\\{_QUOTED_KEY.pattern}")
_SIGNS = re.compile(r"[\s\"'“”‘’{}\[\],:;：，\\]+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[nrtbf]|(.))", re.DOTALL)


class _Block(NamedTuple):
    """A piece of the body that looks like JSON."""

    start: int
    end: int
    closed: bool
    deepest: int


def read(text: str) -> tuple[Reading, bool]:
    """The ABP calls in a text, and whether it has any mark of one, be it only quoted."""
    reader = _Reader(text)
    return read_calls("ABP", reader.marked, reader.read_call), bool(reader.marked.starts)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.marked = MarkedText(text, _MARK)
        self.left_for_repairs = COSTLIEST_REPAIRS
        stray = [b.start() for a, b in pairwise(self.marked.marks) if a["start"] is None and b["start"] is None]
        self.last_stray_end = max(stray, default=0)

    def read_call(self, start: Match[str]) -> TextCall:
        tool = (start["tool"] or "").strip()
        blocks, end = self._body(start)
        stop = end.end() if end else start.end()
        if start["closed"] is None:
            raise Unreadable("its start is not closed by ]]", stop)
        if not tool:
            raise Unreadable("write the tool's name into its start, [[ABP_TOOL:name]]", stop)
        if end:
            noise = self._around(blocks, start.end(), end.start())
        elif blocks and _LEAD.fullmatch(lead := self.text[start.end() : blocks[0].start]):
            stop, blocks = blocks[0].end, blocks[:1]
            rest = _REST_OF_LINE.match(self.text, stop)
            noise = [lead, rest[0] if rest else ""]
        else:
            raise Unreadable(f"neither its parameters nor {END} follow its start", stop)
        if any(map(_LOST_KEY.search, noise)):
            raise Unreadable("a part of its parameters is outside of the braces", stop)
        is_empty = not blocks and not "".join(noise).strip()
        parameters, repaired = ({}, False) if is_empty else self._chosen(blocks, stop)
        fence = _FENCE.match(self.text, stop)
        if fence and sum(len(_FENCE.findall(part)) for part in noise) % 2:
            stop = fence.end()  # it ends the one within the call, and opens no other
        return TextCall(
            tool=tool,
            parameters=_unwrapped(parameters),
            protocol="abp",
            start=start.start(),
            end=stop,
            repaired=repaired,
        )

    def _around(self, blocks: list[_Block], at: int, end: int) -> list[str]:
        """What stands between two places outside of the blocks."""
        starts, ends = [*(block.start for block in blocks), end], [at, *(block.end for block in blocks)]
        return [self.text[end:start] for end, start in zip(ends, starts, strict=True)]

    # -- where a call ends ---------------------------------------------------------------------------------------------

    def _body(self, start: Match[str]) -> tuple[list[_Block], Match[str] | None]:
        """The JSON behind a start, and the end mark, if there is one before the next start."""
        blocks: list[_Block] = []
        at = start.end()
        while True:
            mark = self.marked.next_mark(at)
            opening = _OPENING.search(self.text, at, mark.start() if mark else len(self.text))
            if opening is None:
                return blocks, mark if mark and mark["start"] is None else None
            span = self.marked.scan(opening.start())
            block = _Block(opening.start(), span.end, span.closed, span.deepest)
            if span.closed:
                blocks.append(block)
                at = span.end
                continue
            mark = self.marked.next_mark(span.end)
            is_end = mark is not None and mark["start"] is None
            if blocks and not is_end and not span.torn and not _QUOTED_KEY.search(self.text, block.start, span.end):
                return blocks, None  # a brace in the prose behind the call
            if mark is None:
                raise Unreadable("it is cut off", len(self.text))
            if not self._is_certain(mark, span.torn):
                raise Unreadable("a string or brace is not closed, so nothing behind it was read", len(self.text))
            if is_end:
                return [*blocks, block], mark
            raise Unreadable("its JSON is not closed before the next call", span.end, start.end())

    def _is_certain(self, mark: Match[str], torn: bool) -> bool:
        """Whether JSON that is not closed before a mark lacks its last signs, rather than quotes the mark: then no end
        mark is left over, and an end mark ends its line. In a string that is not closed a start is never certain."""
        fits = not torn if mark["start"] is not None else _END_OF_LINE.match(self.text, mark.end()) is not None
        return fits and mark.start() >= self.last_stray_end

    # -- what its parameters are ---------------------------------------------------------------------------------------

    def _chosen(self, blocks: list[_Block], stop: int) -> tuple[dict[str, Any], bool]:
        """The last block that is an object, and whether it had to be repaired. A brace without a quoted key may belong
        to prose, so that it counts only where there is nothing better."""
        problem = ""
        for key, block in product((_QUOTED_KEY, _COLON), reversed(blocks)):
            source = self.text[block.start : block.end]
            if source.startswith("["):
                problem = problem or "a list, not an object"
                continue
            if block.deepest > DEEPEST:
                raise Unreadable(f"its JSON is nested more than {DEEPEST} levels", stop)
            value, why = decode(source) if block.closed else (None, "it is not closed")
            if value is not None:
                return value, False
            if key.search(source):
                value, why = self._repaired(source, why)
                if value is not None:
                    return value, True
            problem = problem or why
        raise Unreadable(f"invalid JSON: {problem}" if problem else "no JSON object between its marks", stop)

    def _repaired(self, source: str, why: str) -> tuple[dict[str, Any] | None, str]:
        """The object that was meant, if that is certain enough."""
        source = _COMMENT.sub(lambda found: found[0] if found[1] or found[2] else "", _LAST_FENCE.sub("", source))
        if _NO_VALUE.search(source):
            return None, "NaN, Infinity and ... are no values"
        source = source.replace('"：', '":')
        value, unrepairable, cost = repair(source, self.left_for_repairs)
        self.left_for_repairs -= cost
        if value is None:
            return None, why if cost else unrepairable
        return (value, "") if _is_meant(json.dumps(value, ensure_ascii=False), source) else (None, why)


def _unwrapped(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the older form `{"action": "...", "parameters": {...}}`. A tool whose own parameters have just
    these two names is called with this form around them."""
    inner = parameters.get("parameters")
    wrapped = parameters.keys() == {"action", "parameters"} and isinstance(parameters["action"], str)
    return inner if wrapped and isinstance(inner, dict) else parameters


def _is_meant(repaired: str, source: str) -> bool:
    """Whether a repair has changed nothing but signs: it has the same words, no value that was not there, no key that
    was none, and no string that has swallowed a key."""
    return (
        _words(repaired) == _words(source)
        and len(_BLANK.findall(repaired)) <= len(_BLANK.findall(source))
        and _places(_END_OF_KEY, repaired) <= _places(_COLON, source)
        and len(_KEY_IN_STRING.findall(repaired)) <= len(_KEY_IN_STRING.findall(source))
    )


def _words(text: str) -> str:
    """What is left of a text without the signs of JSON, in lower case."""
    text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2] or " ", text)
    return re.sub(r"\bnone\b", "null", _SIGNS.sub(" ", text.casefold())).replace(" ", "")


def _places(sign: Pattern[str], text: str) -> set[int]:
    """Behind how many characters of words a sign stands."""
    return set(accumulate(len(_words(part)) for part in sign.split(text)[:-1]))
