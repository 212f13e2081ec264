"""TF-IDF vectors by feature hashing: an embedder that needs no model, no download and no other package.

It compares words, not meanings. Inverse document frequencies are frozen in a table (`data/idf-en-1.txt.gz`, made
from WordNet's glosses by `scripts/build_idf.py`), so that a vector never depends on what was stored before.
"""

import gzip
import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import resources
from math import log, sqrt

from tulving.domain.stopwords import STOP_WORDS
from tulving.errors import InvalidInput
from tulving.providers.characters import CharacterTable, is_ideograph

IDF_VERSION = "idf-en-1"
"""Must change with everything that changes a vector: the table, the stop words, how words are found."""

SMALLEST, LARGEST = 16, 4_096

_ASCII_WORD = re.compile(r"[a-z0-9]+")
_SIGN_BIT = 1 << 31
_TERMS_REMEMBERED = 65_536
_LONGEST_REMEMBERED = 64


class Hashing:
    """The light embedder (002-009): microseconds per text.

    Each word goes to the bucket FNV-1a modulo `dimension`, with the weight (1 + ln count) * idf; the sign is the
    hash's highest bit, so that words that share a bucket cancel out rather than add up. The vector has length 1,
    or is zero if the text has only stop words.
    """

    version: str = IDF_VERSION
    light: bool = True
    trust: float = 0.25

    def __init__(self, dimension: int = 256) -> None:
        if type(dimension) is not int or not SMALLEST <= dimension <= LARGEST:
            raise InvalidInput("dimension", f"{dimension!r} can't be used", f"{SMALLEST} to {LARGEST}")
        self.model = f"hashing-{dimension}"
        self.dimension = dimension
        self._remembered = lru_cache(_TERMS_REMEMBERED)(self._term)

    def unready(self) -> None:
        """Always ready."""

    def embed(self, text: str | None) -> list[float]:
        """The vector of a text. None counts as a space, which has no words: a zero vector."""
        counts: dict[str, int] = {}
        for word in words(text or " "):
            counts[word] = counts.get(word, 0) + 1
        vector = [0.0] * self.dimension
        used = set()
        for word, count in counts.items():
            bucket, weight = (self._remembered if len(word) <= _LONGEST_REMEMBERED else self._term)(word)
            vector[bucket] += weight * (1 + log(count))
            used.add(bucket)
        length = sqrt(sum(vector[bucket] ** 2 for bucket in used))
        if length:
            for bucket in used:
                vector[bucket] /= length
        return vector

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        """One vector per text, in their order."""
        return [self.embed(text) for text in texts]

    def _term(self, word: str) -> tuple[int, float]:
        """The bucket of a word and its signed idf."""
        value, rarity = fnv1a(word.encode()), idf(word)
        return value % self.dimension, -rarity if value & _SIGN_BIT else rarity


def fnv1a(data: bytes) -> int:
    """The 32-bit FNV-1a hash."""
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def words(text: str) -> list[str]:
    """The casefolded words of a text, split at everything but letters, digits and marks, without stop words."""
    folded = text.casefold()
    if folded.isascii():
        found = _ASCII_WORD.findall(folded)
    else:
        found = unicodedata.normalize("NFC", folded).translate(_SPACED).split()
    return [word for word in found if word not in STOP_WORDS]


def idf(word: str) -> float:
    """Inverse document frequency, ln((1 + documents) / (1 + documents with the word)); of unknown words the highest."""
    known, highest = _table()
    return known.get(word, highest)


@cache
def _table() -> tuple[dict[str, float], float]:
    """Reads the shipped table: the number of documents, then lines of a frequency and the words that have it. Returns
    the idf of each word and the highest one."""
    packed = resources.files("tulving.providers").joinpath("data", f"{IDF_VERSION}.txt.gz").read_bytes()
    documents, *lines = gzip.decompress(packed).decode().splitlines()
    highest = log(1 + int(documents))
    known: dict[str, float] = {}
    for line in lines:
        frequency, *having = line.split(" ")
        known |= dict.fromkeys(having, highest - log(1 + int(frequency)))
    return known, highest


def _spaced(character: str) -> str:
    if is_ideograph(character):
        return f" {character} "
    return character if unicodedata.category(character)[0] in "LNM" else " "


_SPACED = CharacterTable(_spaced)
