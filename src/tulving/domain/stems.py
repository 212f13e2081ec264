"""The stem of an English word, by Porter's algorithm; SQLite's keyword index has two more rules (`-bly`, `-logy`)."""

import threading
from functools import lru_cache


class _Stemmer(threading.local):
    """One stemmer for each thread: they are not safe to share."""

    def __init__(self) -> None:
        from Stemmer import Stemmer

        self.stem = Stemmer("porter").stemWord


_own = _Stemmer()


@lru_cache(50_000)
def stem(word: str) -> str:
    return _own.stem(word) if 3 <= len(word) <= LONGEST else word


LONGEST = 64
"""Longer words, and those of one or two letters, are their own stems, as in the index."""
