"""BERT's uncased WordPiece in plain Python: the ids that the `tokenizers` package gives, without the package."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from tulving.providers.characters import CharacterTable, is_ideograph

MAX_TOKENS = 256
LONGEST_WORD = 100

UNKNOWN, START, END = 100, 101, 102
SPECIAL = {"[PAD]": 0, "[UNK]": UNKNOWN, "[CLS]": START, "[SEP]": END, "[MASK]": 103}

_SPECIAL = re.compile(r"(\[(?:PAD|UNK|CLS|SEP|MASK)\])")
_WINDOW = 2_048
_WORDS_REMEMBERED = 32_768


class WordPiece:
    """Turns a text into at most `max_tokens` ids, start and end included. Safe to share among threads.

    It reads no more of a text than fills the ids, so a very long one costs little. Characters newer than the tables
    inside `tokenizers` (Unicode 9) are classified by Python's.
    """

    def __init__(self, vocabulary: Sequence[str], max_tokens: int = MAX_TOKENS) -> None:
        self._number = {token: number for number, token in enumerate(vocabulary)}
        self._room = max_tokens - 1
        self._pieces = lru_cache(_WORDS_REMEMBERED)(self._split)

    @classmethod
    def from_file(cls, path: Path) -> "WordPiece":
        """Reads a `vocab.txt`: one token per line, numbered from 0."""
        return cls(path.read_bytes().decode().split("\n"))

    def ids(self, text: str) -> list[int]:
        """The ids of the text between the start and the end mark."""
        ids = [START]
        for word in _words(text):
            ids += self._pieces(word) if len(word) <= LONGEST_WORD else (UNKNOWN,)
            if len(ids) >= self._room:
                break
        return [*ids[: self._room], END]

    def _split(self, word: str) -> tuple[int, ...]:
        """Greedy longest match from the left; the whole word is unknown if a piece is missing."""
        if word in SPECIAL:
            return (SPECIAL[word],)
        ids: list[int] = []
        begin, prefix = 0, ""
        while begin < len(word):
            end = len(word)
            while (number := self._number.get(prefix + word[begin:end])) is None:
                end -= 1
                if end == begin:
                    return (UNKNOWN,)
            ids.append(number)
            begin, prefix = end, "##"
        return tuple(ids)


def _words(text: str) -> Iterator[str]:
    """The normalised words, lazily.

    A special token in the text, such as [SEP], is kept, as in `tokenizers`. No other word can look like one, since
    brackets are words of their own.
    """
    for part in _SPECIAL.split(text):
        if part in SPECIAL:
            yield part
            continue
        begun = ""
        for start in range(0, len(part), _WINDOW):
            plain = begun + part[start : start + _WINDOW].translate(_PLAIN)
            words = plain.split()
            # The last word may continue in the next window. Beyond the longest word, its length does not matter.
            begun = words.pop()[: LONGEST_WORD + 1] if words and not plain.endswith(" ") else ""
            yield from words
        if begun:
            yield begun


def _plain(character: str) -> str:
    """All of BERT's normalisation at once, since each step works on single characters: clean, separate ideographs,
    strip accents, lower, separate punctuation. A space separates words."""
    if character in "\t\n\r":
        return " "
    if unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs") or character == "\ufffd":
        return ""
    if character.isspace():
        return " "
    decomposed = unicodedata.normalize("NFD", character)
    plain = "".join(part for part in decomposed if unicodedata.category(part) != "Mn").lower()
    if is_ideograph(character):
        return f" {plain} "
    return "".join(f" {part} " if _is_punctuation(part) else part for part in plain)


def _is_punctuation(character: str) -> bool:
    """As BERT has it, which includes ASCII symbols such as $ and +."""
    if character.isascii():
        return not character.isalnum()
    return unicodedata.category(character).startswith("P")


_PLAIN = CharacterTable(_plain)
