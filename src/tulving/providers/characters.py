"""Single characters, as tokenizers see them."""

from collections.abc import Callable

_IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)
_LARGEST_REMEMBERED = 0xFFFF


def is_ideograph(character: str) -> bool:
    """Whether BERT treats it as a word of its own, since Chinese and Japanese are written without spaces."""
    codepoint = ord(character)
    return codepoint >= 0x3400 and any(first <= codepoint <= last for first, last in _IDEOGRAPHS)


class CharacterTable(dict[int, str]):
    """A table for `str.translate` that calls `becomes` once per character of the Basic Multilingual Plane, and each
    time for others, so that the table stays small."""

    def __init__(self, becomes: Callable[[str], str]) -> None:
        self._becomes = becomes

    def __missing__(self, codepoint: int) -> str:
        text = self._becomes(chr(codepoint))
        if codepoint <= _LARGEST_REMEMBERED:
            self[codepoint] = text
        return text
