"""Tool calls in the older VCP form: `key:「始」value「末」` pairs between `<<<[TOOL_REQUEST]>>>` and
`<<<[END_TOOL_REQUEST]>>>`. The tool is the value of `tool_name`; all values are texts."""

import re
from re import Match

from tulving.parsing.marked_text import MarkedText
from tulving.parsing.text_call import Reading, TextCall, Unreadable, read_calls

END = "<<<[END_TOOL_REQUEST]>>>"
TOOL_KEYS = ("tool_name", "toolName", "tool")
"""The first of them that is there names the tool; the others are parameters like any other."""

_MARK = re.compile(
    r"<<<[ \t]*\[[ \t]*(?:(?P<start>TOOL_REQUEST)(?P<tool>)|END_TOOL_REQUEST)[ \t]*\][ \t]*>>>", re.IGNORECASE
)
_BRACKET = re.compile("「[始末]」")
_KEY = re.compile(r"[\s,，、;；]*([^\s,，、;；:：]+)\s*[:：]\s*")
_NOTHING = re.compile(r"[\s,，、;；]*")


def read(text: str) -> Reading:
    """The VCP calls in a text."""
    marked = MarkedText(text, _MARK)
    return read_calls("VCP", marked, lambda start: _read_call(marked, start))


def _read_call(marked: MarkedText, start: Match[str]) -> TextCall:
    text, at = marked.text, start.end()
    pairs: dict[str, str] = {}
    problem = ""
    while True:
        mark = marked.next_mark(at)
        opening = _BRACKET.search(text, at, mark.start() if mark else len(text))
        if opening is None:
            break
        closing = _BRACKET.search(text, opening.end())
        if opening[0] == "「末」" or closing is None or closing[0] == "「始」":
            raise Unreadable("a value lacks its 「始」 or 「末」, so nothing behind it was read", len(text))
        key = _KEY.fullmatch(text, at, opening.start())
        if key is None:
            problem = "write each parameter as key:「始」value「末」"
        else:
            pairs[key[1]] = text[opening.end() : closing.start()].strip()
        at = closing.end()
    if mark is None or mark["start"] is not None:
        raise Unreadable(f"{END} is missing", mark.start() if mark else len(text))
    if not _NOTHING.fullmatch(text, at, mark.start()):
        problem = "write each parameter as key:「始」value「末」"
    name = next((key for key in TOOL_KEYS if key in pairs), "")
    tool = pairs.pop(name, "")
    if problem or not tool:
        raise Unreadable(problem or "tool_name is missing", mark.end())
    return TextCall(tool=tool, parameters=pairs, protocol="vcp", start=start.start(), end=mark.end())
