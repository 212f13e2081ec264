"""What two short texts have to do with each other: whether they say the same, the opposite, or different things."""

from dataclasses import dataclass
from typing import Literal

from tulving.domain.stems import stem
from tulving.domain.stopwords import STOP_WORDS
from tulving.domain.text import words

MOST_KEYWORDS = 200
"""Of one text."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """What the first of two texts says beside the second, and which of two that say the same says more."""

    verdict: Literal["same", "opposite", "different"]
    fuller: Literal["first", "second"] | None = None


def keywords(text: str) -> list[str]:
    """The distinct stems of a text without stop words, in order."""
    return list(dict.fromkeys(stem(word) for word in words(text) if word not in STOP_WORDS))[:MOST_KEYWORDS]


def compare(first: str, second: str, similarity: float | None) -> Likeness:
    """What two texts have to do with each other. `similarity` is their cosine, if both have a vector."""
    one, other = keywords(first), keywords(second)
    return Likeness("same" if one == other else "different")
