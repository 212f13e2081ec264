"""The JSON object in a model's answer. It may stand in prose, in a fence or behind a thought, and be slightly wrong."""

import json
import math
import re
from collections.abc import Collection
from typing import Any, NamedTuple

LONGEST_ANSWER = 1_000_000
"""Characters. A longer answer is not read."""
DEEPEST = 100
LONGEST_NUMBER = 300
LONGEST_REPAIR = 50_000
COSTLIEST_REPAIR = 20_000_000
"""The most that length times delimiters may be: a repair takes time in proportion, here about 2 seconds at most."""

# A thought counts only where no JSON can surround it, so that a tag inside of a string stays what it is.
_FLAGS = re.IGNORECASE | re.MULTILINE | re.DOTALL
_THOUGHT = re.compile(r"(?:\A[^{]*?|^[ \t]*)<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", _FLAGS)
_END_OF_THOUGHT = re.compile(r"\A.*</think(?:ing)?>[ \t]*$", _FLAGS)
_FENCE = re.compile(r"(?:^[ \t]*|(?<=\s))(`{3,9}|~{3,9})[ \t]*(\w*)", re.MULTILINE)
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[{}\[\]]', re.DOTALL)
_DELIMITER = re.compile(r"[\"'“”\\:(\[]")


class _Blocks(NamedTuple):
    """The outermost balanced braces of a text. Behind a brace that is never closed they may be parts of an object
    only; `rest` begins with that brace."""

    whole: list[str]
    parts: list[str]
    rest: str


def find_object(text: str, wanted: Collection[str]) -> tuple[dict[str, Any] | None, str | None]:
    """The last object in the text that has a `wanted` key, fenced ones first, else the last object; and what is wrong
    if there is none: None if nothing looks like an object. Repairs only what names a wanted key."""
    text = _END_OF_THOUGHT.sub("", _THOUGHT.sub("", text), count=1)
    if "{" not in text:
        return None, None
    if len(text) > LONGEST_ANSWER:
        return None, f"Invalid JSON: the answer has {len(text):,} characters; allowed: at most {LONGEST_ANSWER:,}"
    named = re.compile(rf"(?:{'|'.join(map(re.escape, wanted))})[\"'”]?\s*:")
    spare, broken, problem = None, "", ""
    for piece in (*reversed(_fenced(text)), text):
        blocks = _blocks(piece)
        if blocks is None:
            return None, f"Invalid JSON: nested more than {DEEPEST} levels"
        is_list = piece.lstrip().startswith("[")
        for place, block in enumerate([blocks.rest, *reversed(blocks.parts), *reversed(blocks.whole)]):
            hopeful = named.search(block)
            if not block or (spare is not None and not hopeful):
                continue
            value, why = (None, "an object is not closed") if place == 0 else _decoded(block)
            if value is None:
                problem, broken = problem or why, broken or (block if hopeful else "")
            elif not value.keys().isdisjoint(wanted):
                return value, None
            elif place > len(blocks.parts) and not is_list:
                spare = value if spare is None else spare
    if not broken:
        return spare, None if spare is not None else f"Invalid JSON: {problem or 'a list, not an object'}"
    value, why = _repaired(broken)
    if value is None or value.keys().isdisjoint(wanted):
        return None, f"Invalid JSON: {why or problem}"
    return value, None


def _fenced(text: str) -> list[str]:
    """What stands in fences that are marked as JSON or not at all; a fence that is never closed reaches to the end."""
    bodies: list[str] = []
    at = 0
    while opening := _FENCE.search(text, at):
        # Not merely the next mark: a string may quote one.
        closing = re.compile(rf"^[ \t]*{opening[1]}[ \t]*$|(?<=[}}\]]){opening[1]}", re.MULTILINE)
        end = closing.search(text, opening.end())
        if not opening[2] or opening[2].lower().startswith("json"):
            bodies.append(text[opening.end() : end.start() if end else len(text)])
        if not end:
            break
        at = end.end()
    return bodies


def _blocks(text: str) -> _Blocks | None:
    """The blocks of a text, found in one pass; None if one is nested too deeply."""
    found: list[tuple[int, int]] = []
    opened: list[int] = []
    level, at = 0, text.find("{")
    while at >= 0 and (token := _TOKEN.search(text, at)):
        at = token.end()
        if token[0] in "{[":
            level += 1
            if level > DEEPEST:
                return None
            if token[0] == "{":
                opened.append(token.start())
        elif token[0] in "}]":
            start = opened.pop() if token[0] == "}" else -1
            level = max(level - 1, len(opened))
            if start >= 0:
                while found and found[-1][0] > start:
                    found.pop()
                found.append((start, at))
                if not opened:  # quotes and brackets of prose mean nothing
                    level, at = 0, text.find("{", at)
    open_from = opened[0] if opened else len(text)
    whole = [text[start:end] for start, end in found if start < open_from]
    return _Blocks(whole, [text[start:end] for start, end in found if start > open_from], text[open_from:])


def _decoded(text: str) -> tuple[dict[str, Any] | None, str]:
    """The object, or what is wrong. Whole numbers become floats, since Python refuses to read very long ones; NaN and
    the infinities, which JSON does not have, become None."""
    try:
        value = json.loads(text, strict=False, parse_int=float, parse_constant=lambda _: None)
    except json.JSONDecodeError as error:
        return None, f"{error.msg} at line {error.lineno}, column {error.colno} of the block"
    return (value, "") if isinstance(value, dict) else (None, "not an object")


def _repaired(block: str) -> tuple[dict[str, Any] | None, str]:
    """The object that was probably meant. An answer that was cut off is not repaired: its last text is not whole."""
    if not block.rstrip().endswith(("}", "]")):
        return None, "it is cut off"
    if len(block) > LONGEST_REPAIR or len(block) * len(_DELIMITER.findall(block)) > COSTLIEST_REPAIR:
        return None, "it is too long to be repaired"
    mended, why = _mended(block)
    return (None, why) if mended is None else (_decoded(mended)[0], "")


def _mended(block: str) -> tuple[str | None, str]:
    from json_repair import repair_json

    try:
        return repair_json(block), ""
    except Exception as error:  # of many kinds: it guesses, and what it is given is arbitrary
        return None, f"can't be repaired ({type(error).__name__})"


def decode(text: str) -> tuple[dict[str, Any] | None, str]:
    """The object, exactly as it is written, or what is wrong. Numbers that are none in Python are refused."""
    try:
        value = json.loads(text, strict=False, parse_int=_whole, parse_float=_finite, parse_constant=_constant)
    except json.JSONDecodeError as error:
        return None, f"{error.msg} at line {error.lineno}, column {error.colno} of the block"
    except ValueError as error:
        return None, str(error)
    return (value, "") if isinstance(value, dict) else (None, "not an object")


def repair(block: str, affordable: int) -> tuple[dict[str, Any] | None, str, int]:
    """The object that was probably meant, or what is wrong; and the cost, in units of COSTLIEST_REPAIR."""
    cost = 10_000 + len(block) * (100 + len(_DELIMITER.findall(block)))
    if cost > affordable:
        return None, "repairing it would take too long", 0
    mended, why = _mended(block)
    return (None, why, cost) if mended is None else (*decode(mended), cost)


def _whole(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"a number has more than {LONGEST_NUMBER} digits")
    return int(digits)


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError("a number is too large")
    return number


def _constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
