"""BERT's uncased WordPiece in plain Python: the ids that the `tokenizers` package gives, without the package."""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

MAX_TOKENS = 256
LONGEST_WORD = 100

UNKNOWN, START, END = 100, 101, 102
SPECIAL = {"[PAD]": 0, "[UNK]": UNKNOWN, "[CLS]": START, "[SEP]": END, "[MASK]": 103}

_SPECIAL_TOKEN = re.compile(r"(\[(?:PAD|UNK|CLS|SEP|MASK)\])")
_WINDOW = 2_048
_WORDS_REMEMBERED = 32_768

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


def is_ideograph(codepoint: int) -> bool:
    """Whether BERT takes the character for a word of its own: Chinese and Japanese put no spaces."""
    return codepoint >= 0x3400 and any(first <= codepoint <= last for first, last in _IDEOGRAPHS)


class WordPiece:
    """Turns text into at most `max_tokens` token ids, start and end included. Safe to share among threads.

    Only as much of a text is looked at as is needed to fill the ids, so a very long one costs little.
    Characters younger than the tables of `tokenizers` (Unicode 9) may be judged by Python's younger ones.
    """

    def __init__(self, vocabulary: list[str], max_tokens: int = MAX_TOKENS) -> None:
        self._id_of = {token: number for number, token in enumerate(vocabulary)}
        self._max_tokens = max_tokens
        self._pieces = lru_cache(_WORDS_REMEMBERED)(self._split)

    @classmethod
    def from_file(cls, path: Path) -> "WordPiece":
        """Reads a `vocab.txt`: one token a line, its id being the number of the line."""
        return cls(path.read_bytes().decode().rstrip("\n").split("\n"))

    def ids(self, text: str) -> list[int]:
        """The ids of `text` between the start and end marks, cut at `max_tokens`."""
        room = self._max_tokens - 1
        ids = [START]
        for word in _words(text):
            ids += self._pieces(word) if len(word) <= LONGEST_WORD else (UNKNOWN,)
            if len(ids) >= room:
                break
        return [*ids[:room], END]

    def _split(self, word: str) -> tuple[int, ...]:
        """The longest known piece from the left, again and again; unknown if there is a gap."""
        if word in SPECIAL:
            return (SPECIAL[word],)
        ids: list[int] = []
        start, prefix = 0, ""
        while start < len(word):
            for end in range(len(word), start, -1):
                number = self._id_of.get(prefix + word[start:end])
                if number is not None:
                    break
            else:
                return (UNKNOWN,)
            ids.append(number)
            start, prefix = end, "##"
        return tuple(ids)


def _words(text: str) -> Iterator[str]:
    """Normalised words, lazily. A written special token such as [SEP] stays whole, as in `tokenizers`.

    No other word can look like one: brackets are words of their own.
    """
    for part in _SPECIAL_TOKEN.split(text):
        if part in SPECIAL:
            yield part
            continue
        begun = ""
        for start in range(0, len(part), _WINDOW):
            plain = begun + part[start : start + _WINDOW].translate(_PLAIN)
            words = plain.split()
            # The last word may go on in the next window; past the longest word its length no longer matters.
            begun = words.pop()[: LONGEST_WORD + 1] if words and not plain.endswith(" ") else ""
            yield from words
        if begun:
            yield begun


class _Plain(dict[int, str]):
    """For `str.translate`: what each character becomes, worked out once. A space parts words.

    BERT's steps (clean, space out ideographs, strip accents, lower, split at punctuation) all work on single
    characters, so one table does them at once.
    """

    def __missing__(self, codepoint: int) -> str:
        plain = _plain(chr(codepoint))
        if codepoint <= 0xFFFF:  # a bound on memory
            self[codepoint] = plain
        return plain


def _plain(character: str) -> str:
    if character in "\t\n\r":
        return " "
    if unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs") or character == "\ufffd":
        return ""
    if character.isspace():
        return " "
    decomposed = unicodedata.normalize("NFD", character)
    plain = "".join(mark for mark in decomposed if unicodedata.category(mark) != "Mn").lower()
    if is_ideograph(ord(character)):
        return f" {plain} "
    return "".join(f" {mark} " if _is_punctuation(mark) else mark for mark in plain)


def _is_punctuation(character: str) -> bool:
    """BERT also counts ASCII symbols such as $ and +."""
    if character.isascii():
        return not character.isalnum()
    return unicodedata.category(character).startswith("P")


_PLAIN = _Plain()
