"""What of a foreign message may be shown and logged: never a key, and nothing of a private text."""

from collections.abc import Sequence

LONGEST = 200
SHARED = 16
"""A message that has so many characters in a row in common with a private text counts as quoting it."""


def presentable(said: str, key: str, texts: Sequence[str]) -> str:
    """One short line of a message, with the key replaced by dots; empty if the line quotes one of the texts."""
    line = _line(said.replace(key, "...") if key else said)[:LONGEST]
    return "" if any(_quotes(line, _line(text)) for text in texts) else line


def _line(text: str) -> str:
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def _quotes(line: str, text: str) -> bool:
    width = min(SHARED, len(line))
    shared = any(line[start : start + width] in text for start in range(len(line) - width + 1))
    return shared or (bool(text) and text[:SHARED] in line)
