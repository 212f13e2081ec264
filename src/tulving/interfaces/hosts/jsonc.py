"""JSON with comments and trailing commas, edited in place: what is not asked for stays as it was, to the letter.

Reading and writing the whole file would lose a person's comments, order and indentation.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tulving.errors import InvalidInput

Path = Sequence[str | int]
"""Keys of objects and places in lists."""
_SPACE = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*+", re.DOTALL)
_LINE_END = re.compile(r"(?:[ \t]|/\*[^\n]*?\*/)*(?://[^\r\n]*)?")
_STRING = re.compile(r'"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+"')
_WORD = re.compile(r"[^\s,:\[\]{}\"/]+")
DEEPEST = 100


@dataclass(slots=True)
class Node:
    """A value in a text, and where it is. `items` are those of an object or a list."""

    start: int
    end: int
    value: Any
    items: "list[Item]" = field(default_factory=list)


@dataclass(slots=True)
class Item:
    """A member of an object or an element of a list: its beginning, and the comma behind it if there is one."""

    start: int
    node: Node
    key: str | None = None
    comma: int | None = None


def read(text: str) -> Any:
    """The value of a text; an empty object for one without any."""
    root = _parse(text)
    return {} if root is None else root.value


def put(text: str, path: Sequence[str], value: Any) -> str:
    """The text with a value at a path of keys, which are made as needed."""
    root = _parse(text)
    if root is None:
        for key in reversed(path):
            value = {key: value}
        return text + _dumped(value, "", "  ", "\n") + "\n"
    node = root
    for depth, key in enumerate(path):
        found = _member(node, key, path[:depth])
        if found is None:
            for inner in reversed(path[depth + 1 :]):
                value = {inner: value}
            return _insert(text, root, node, _key(key), value)
        node = found.node
    if node.value == value:
        return text
    written = _dumped(value, _indent(text, node.start), _unit(text, root), _newline(text))
    return text[: node.start] + written + text[node.end :]


def add(text: str, path: Sequence[str], value: Any) -> str:
    """The text with one more element at the end of the list at a path."""
    root, node = _parse(text), None
    if root is not None:
        node = _follow(root, path)
    if root is None or node is None:
        return put(text, path, [value])
    if not isinstance(node.value, list):
        raise _wrong_kind(path, "a list")
    return _insert(text, root, node, "", value)


def drop(text: str, path: Path) -> str:
    """The text without the member or element at a path."""
    root = _parse(text)
    node = root and _follow(root, path[:-1])
    item = node and _member(node, path[-1], path[:-1])
    if not node or not item:
        return text
    at = next(place for place, each in enumerate(node.items) if each is item)
    start, end = len(text[: item.start].rstrip()), (item.comma or item.node.end - 1) + 1
    if len(node.items) == 1 and not (text[node.start + 1 : start] + text[end : node.end - 1]).strip():
        return text[: node.start + 1] + text[node.end - 1 :]
    if item.comma and text[_after_line(text, end) :][:1] not in ("", "\r", "\n"):  # others follow on its line
        return text[: item.start] + text[end:].lstrip(" \t")
    left, rest = text[:start], text[end:]
    if not item.comma and at:
        comma = node.items[at - 1].comma or 0
        left = left[:comma] + left[comma + 1 :]
    # A comment that ends the line before it must not swallow what follows.
    swallows = "//" in left[left.rfind("\n") + 1 :] and rest.lstrip(" \t")[:1] not in ("", "\r", "\n")
    return left + (_newline(text) if swallows else "") + rest


def _follow(node: Node, path: Path) -> Node | None:
    for depth, key in enumerate(path):
        found = _member(node, key, path[:depth])
        if found is None:
            return None
        node = found.node
    return node


def _member(node: Node, key: str | int, path: Path) -> Item | None:
    """The element at a place, or the member of a key; the last one counts, as for every parser."""
    of_keys = isinstance(key, str)
    if not isinstance(node.value, dict if of_keys else list):
        raise _wrong_kind(path, "an object" if of_keys else "a list")
    return next((item for item in reversed(node.items) if item.key == key), None) if of_keys else node.items[key]


def _wrong_kind(path: Path, kind: str) -> InvalidInput:
    return InvalidInput(".".join(map(str, path)) or "the whole file", f"is not {kind}", f"{kind}; nothing was changed")


def _insert(text: str, root: Node, node: Node, label: str, value: Any) -> str:
    """The text with one more item at the end of an object or list."""
    newline, unit = _newline(text), _unit(text, root)
    outer = _indent(text, node.start)
    if not node.items:
        inside = text[node.start + 1 : node.end - 1].rstrip()
        item = label + _dumped(value, outer + unit, unit, newline)
        opened = text[: node.start + 1] + inside
        return f"{opened}{newline}{outer}{unit}{item}{newline}{outer}{text[node.end - 1 :]}"
    last = node.items[-1]
    if "\n" not in text[node.start : last.start]:
        comma = "," if last.comma is None else ""
        at = last.node.end if last.comma is None else last.comma + 1
        return f"{text[:at]}{comma} {label}{_plain(value)}{text[at:]}"
    indent = _indent(text, last.start)
    item = newline + indent + label + _dumped(value, indent, unit, newline)
    if last.comma is None:
        at = _after_line(text, last.node.end)
        return f"{text[: last.node.end]},{text[last.node.end : at]}{item}{text[at:]}"
    at = _after_line(text, last.comma + 1)
    return f"{text[:at]}{item},{text[at:]}"


def _after_line(text: str, at: int) -> int:
    """Behind a comment that ends this line, which belongs to what stands before it."""
    found = _LINE_END.match(text, at)
    end = found.end() if found else at
    return end if text[end : end + 1] in ("", "\r", "\n") else at


def _dumped(value: Any, indent: str, unit: str, newline: str) -> str:
    """A value as a person would write it: a list of plain values on one line."""
    inner, parts = indent + unit, []
    if isinstance(value, dict):
        parts = [f"{_key(key)}{_dumped(each, inner, unit, newline)}" for key, each in value.items()]
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        parts = [_dumped(each, inner, unit, newline) for each in value]
    if not parts:
        return _plain(value)
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    return f"{opening}{newline}{inner}{f',{newline}{inner}'.join(parts)}{newline}{indent}{closing}"


def _key(key: str) -> str:
    return f"{_plain(key)}: "


def _plain(value: Any) -> str:
    """A value on one line. Half of a surrogate pair is no character: it stays escaped."""
    return json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode()


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent(text: str, at: int) -> str:
    """The white space that the line of a place begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _unit(text: str, root: Node) -> str:
    """One step of indentation, as the file has it."""
    first = root.items[0].start if root.items else root.start
    return (_indent(text, first) if "\n" in text[root.start : first] else "") or "  "


def _parse(text: str) -> Node | None:
    """The tree of a text; None if there is nothing but white space and comments."""
    at = _skip(text, 1 if text.startswith("\ufeff") else 0)
    if at == len(text):
        return None
    root = _value(text, at, 0)
    end = _skip(text, root.end)
    if end < len(text):
        raise _malformed(text, end, "there is more after the end")
    return root


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> Node:
    if depth > DEEPEST:
        raise _malformed(text, at, "it is nested too deep")
    sign = text[at : at + 1]
    if sign in ("{", "["):
        return _container(text, at, depth)
    if sign == '"':
        return _string(text, at)
    word = _WORD.match(text, at)
    if word is None:
        missing = sign in (",", "}", "]", ":", "")
        raise _malformed(text, at, "a value is missing" if missing else "a value can't begin so")
    try:
        return Node(at, word.end(), json.loads(word[0], parse_constant=_refuse))
    except ValueError:
        raise _malformed(text, at, f"{word[0]!r:.40} is not a value") from None


def _refuse(constant: str) -> None:
    raise ValueError(constant)  # NaN and infinities are not JSON


def _string(text: str, at: int) -> Node:
    found = _STRING.match(text, at)
    if found is None:
        raise _malformed(text, at, "the text in quotes does not end on its line")
    try:
        return Node(at, found.end(), json.loads(found[0]))
    except ValueError:
        raise _malformed(text, at, "the text in quotes has an escape that is not known") from None


def _container(text: str, at: int, depth: int) -> Node:
    of_keys = text[at] == "{"
    node = Node(at, at, {} if of_keys else [])
    closing = "}" if of_keys else "]"
    here = _skip(text, at + 1)
    while text[here : here + 1] != closing:
        if node.items and node.items[-1].comma is None:
            raise _malformed(text, here, f"',' or {closing!r} is missing")
        item = Item(here, node)
        if of_keys:
            if text[here : here + 1] != '"':
                raise _malformed(text, here, f"a key in quotes or {closing!r} is missing")
            name = _string(text, here)
            item.key, here = name.value, _skip(text, name.end)
            if text[here : here + 1] != ":":
                raise _malformed(text, here, "':' is missing")
            here = _skip(text, here + 1)
        item.node = _value(text, here, depth + 1)
        if of_keys:
            node.value[item.key] = item.node.value
        else:
            node.value.append(item.node.value)
        node.items.append(item)
        here = _skip(text, item.node.end)
        if text[here : here + 1] == ",":
            item.comma, here = here, _skip(text, here + 1)
    node.end = here + 1
    return node


def _malformed(text: str, at: int, problem: str) -> InvalidInput:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return InvalidInput(f"line {line}, column {column}", problem, "valid JSON; nothing was changed")
