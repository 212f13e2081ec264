"""The sentences of a text, and which of them only repeat others.

Leaving a sentence out must lose nothing. So another one has to say the same words in the same order, without a negation
or a question mark of its own. Case, white space, punctuation and a few empty words do not count.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from tulving.domain import stems
from tulving.domain.lexicon import NEGATIONS
from tulving.domain.stopwords import STOP_WORDS
from tulving.domain.text import clean, fold

Words = tuple[str, ...]

MOST_SENTENCES = 5_000
"""What follows these in a text counts as one more."""
MOST_COMPARED = 200
"""Of more sentences, only equal ones are found, since comparing takes quadratic time."""
LONGEST_COMPARED = 2_000
"""Characters. A longer sentence counts as one word."""
FILLERS = frozenset("a also an just really that the very".split())
REVERSALS = NEGATIONS.union("? cannot t hardly longer stopped n mai jamás ningún não 别 別 否 な ず ん 안 못".split())
"""What makes another statement of one: negations, in kana and ideographs by character, and the question mark."""

# An initial, a number in a list or a title does not end a sentence. A run of full stops is looked at once, from its
# first one, and the expression begins with a set, to which the search can jump.
_CLOSING = r"[\"'”’»)\]」』）*_]*+"
_NO_TITLE = r"(?<!\b\w.)(?<!\b\d\d.)(?<!\b[DM]r.)(?<!\bM[sx].)(?<!\bMrs.)(?<!\bSt.)(?<!\bvs.)"
_END = re.compile(
    rf"[.!?…。！？｡؟।\n](?:(?<=\n)|(?<=[。！？｡؟।])[。！？｡؟।]*+{_CLOSING}"
    rf"|(?<=[.!?…])(?<![.!?…].){_NO_TITLE}[.!?…]*+{_CLOSING}(?=\s))\s*+"
)
_BETWEEN = re.compile(r"(?:[\s.,;:!…'\"‘’“”„«»()\[\]{}`*_|•·–—。｡、，；：！।「」『』（）]|-(?!\d))+")
_QUESTION = re.compile("[?？؟]+")
_IDEOGRAPH = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f])")


class Sentence(NamedTuple):
    """A part of a text up to the next one, and its words as they are compared."""

    text: str
    words: Words


def sentences(text: str) -> list[Sentence]:
    """The sentences and lines of a text, which together are the text. What has no word belongs to a neighbour."""
    found: list[Sentence] = []
    start = since = 0
    ends = islice(_END.finditer(text), MOST_SENTENCES)
    for end in (*(match.end() for match in ends), len(text)):
        if words := _compared(text[since:end]):
            found.append(Sentence(text[start:end], words))
            start = end
        since = end
    if start < len(text):
        last = found.pop() if found else Sentence("", ())
        found.append(Sentence(last.text + text[start:], last.words))
    return found


def keywords(words: Words) -> Words:
    """The stems of words that are no stop words, and negations, in order. If there is none, the words."""
    kept = (word for word in words if word in REVERSALS or word not in STOP_WORDS)
    return tuple(word if word in REVERSALS else _stem(word) for word in kept) or words


def unrepeated(offered: Sequence[Words], threshold: float, known: Sequence[Words] = ()) -> list[int]:
    """The places of those that neither a known one says nor one before, to a share of at least `threshold`."""
    said = {words: frozenset(words) for words in known}
    few = len(known) + len(offered) <= MOST_COMPARED
    kept: list[int] = []
    for place, words in enumerate(offered):
        if words in said or (few and any(_says(*other, words, threshold) for other in said.items())):
            continue
        kept.append(place)
        said[words] = frozenset(words)
    return kept


def _says(full: Words, known: frozenset[str], words: Words, threshold: float) -> bool:
    """Whether a sentence, given with the set of its words, says all that another one says, and has that share of words
    in common with it."""
    asked = set(words)
    if len(known & asked) / (max(len(known), len(asked)) or 1) < threshold:
        return False
    rest = iter(full)
    return REVERSALS.isdisjoint(known - asked) and all(word in rest for word in words if word not in FILLERS)


def _compared(text: str) -> Words:
    """The words of a text. Accents and signs such as those in `C++` count, unlike in the index of words: without them,
    sentences that say different things would be the same."""
    folded = fold(clean(text))
    if len(folded) > LONGEST_COMPARED:
        return (folded,)
    folded = _QUESTION.sub(" ? ", folded)
    if not folded.isascii():
        folded = _IDEOGRAPH.sub(r" \1 ", unicodedata.normalize("NFC", folded))
    return tuple(_BETWEEN.sub(" ", folded).split())


def _stem(word: str) -> str:
    return stems.stem(word) if len(word) <= stems.LONGEST else word  # very long ones would fill the cache
