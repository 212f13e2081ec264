"""What two short texts have to do with each other: whether they say the same, the opposite, or different things.

Decided by words alone. A cosine can't tell: "meeting at 3" and "meeting at 4", or "Anna manages Bob" and "Bob manages
Anna", have a higher one than most texts that say the same.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Literal

from tulving.domain.lexicon import BROADER, LIMITING, NEGATIONS, SYNONYMS
from tulving.domain.reading import Reading, Term, read
from tulving.domain.stems import stem
from tulving.domain.stopwords import OTHER_STOP_WORDS, STOP_WORDS
from tulving.domain.text import fold, understood, words

MOST_KEYWORDS = 200
LONGEST = 4_000
"""Characters. Of a longer text the beginning is looked at for keywords; with another, it is only the same or not."""

_ANY_STOP_WORD = STOP_WORDS.union(*OTHER_STOP_WORDS.values()) - NEGATIONS
_FEWEST = 2
"""Keywords that two texts must have in common before one can be called the fuller one."""


Side = Literal["first", "second"]


@dataclass(frozen=True, slots=True)
class Likeness:
    """Two texts beside each other. `fuller` is the one of two with the same meaning that says more."""

    verdict: Literal["same", "opposite", "different"]
    fuller: Side | None = None


DIFFERENT = Likeness("different")


def keywords(text: str) -> list[str]:
    """The distinct stems of a text without stop words, in order; of ideographs, each with the next one."""
    return list(_keywords(text[:LONGEST]))


@lru_cache(64)  # those of a text are asked for at each comparison
def _keywords(text: str) -> tuple[str, ...]:
    found, language = understood(text)
    kept = {word for word in found if len(word) > 1 or _is_ideograph(word)}
    told = [word for word in words(text) if word in kept]
    return tuple(dict.fromkeys(stem(word) if language == "en" else word for word in _paired(told)))[:MOST_KEYWORDS]


def _is_ideograph(word: str) -> bool:
    return len(word) == 1 and word >= "\u3040"


def _paired(told: Sequence[str]) -> Iterator[str]:
    for ideographs, group in groupby(told, _is_ideograph):
        run = list(group)
        yield from (map("".join, pairwise(run)) if ideographs and len(run) > 1 else run)


def compare(first: str, second: str) -> Likeness:
    """What two texts have to do with each other. In doubt they are different: of two that are not, one may go."""
    if max(len(first), len(second)) > LONGEST:
        return Likeness("same") if fold(first) == fold(second) else DIFFERENT
    one, other = read(first), read(second)
    if _order(one) >= _order(other):
        return _compared(one, other, "first", "second")
    return _compared(other, one, "second", "first")


def _order(reading: Reading) -> tuple[int, list[str]]:
    """Texts are compared in this order, so that the verdict does not depend on which comes first."""
    return len(reading.terms), [term.stem for term in reading.terms]


def _compared(one: Reading, other: Reading, name: Side, other_name: Side) -> Likeness:
    opposed = one.negations != other.negations
    if not _comparable(one, other):
        return DIFFERENT
    if {one.language, other.language} not in ({"en"}, {"en", ""}):
        alike = _differ_in_stop_words(one.words, other.words)
        return Likeness("opposite" if opposed else "same") if alike else DIFFERENT
    if not (_same_circumstances(one, other) and _much_in_common(one.terms, other.terms)):
        return DIFFERENT
    pairs = list(_unequal(one.terms, other.terms))
    more = any(b is None or (a and _is_narrower(a, b)) for a, b in pairs)
    less = any(a is None or (b and _is_narrower(b, a)) for a, b in pairs)
    if more and less:
        return DIFFERENT
    if not (more or less):
        return Likeness("opposite" if opposed else "same")
    fuller, rest = (one, other) if more else (other, one)
    extra = [term for a, b in pairs if (term := a if b is None else b if a is None else None)]
    limited = fuller.negations or any(term.stem in LIMITING for term in fuller.terms)
    if limited or not _refines(fuller.terms, extra, rest.terms[0]):
        return DIFFERENT
    return Likeness("opposite") if opposed else Likeness("same", name if more else other_name)


def _comparable(one: Reading, other: Reading) -> bool:
    """Whether both state something, and deny it at most once."""
    stated = one.terms and other.terms and not (one.asks or other.asks)
    return bool(stated) and max(one.negations, other.negations) <= 1


def _same_circumstances(one: Reading, other: Reading) -> bool:
    """Whether tense, frame, persons and relations agree. One may leave out a pronoun or a relation."""
    if (one.frames, one.past, one.possessive) != (other.frames, other.past, other.possessive):
        return False
    if one.pronouns and other.pronouns and one.pronouns != other.pronouns:
        return False
    return one.links <= other.links or other.links <= one.links


def _differ_in_stop_words(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether the longer text is the shorter one with some stop words between; of whichever language."""
    shorter, longer = sorted((one, other), key=len)
    missing = iter([*shorter, None])
    awaited = next(missing)
    for word in longer:
        if word == awaited:
            awaited = next(missing)
        elif word not in _ANY_STOP_WORD:
            return False
    return awaited is None


def _much_in_common(one: Sequence[Term], other: Sequence[Term]) -> bool:
    """Whether a third of the shorter text is in the longer one: less is not enough, and this is quickly found out."""
    if max(len(one), len(other)) > MOST_KEYWORDS:
        return False
    shared = Counter(term.stem for term in one) & Counter(term.stem for term in other)
    return 3 * shared.total() >= min(len(one), len(other))


def _unequal(one: Sequence[Term], other: Sequence[Term]) -> Iterator[tuple[Term | None, Term | None]]:
    """The terms in which two texts differ, in order: a pair of related ones, or one that has no counterpart.
    Nothing stands for a part of a name; only the first word has a capital in any case."""
    matcher = SequenceMatcher(None, [term.stem for term in one], [term.stem for term in other], autojunk=False)
    for kind, at, end, beside, stop in matcher.get_opcodes():
        if kind == "equal":
            continue
        while at < end and beside < stop:
            named = (at > 0 and one[at].name) or (beside > 0 and other[beside].name)
            if not named and _is_related(one[at], other[beside]):
                yield one[at], other[beside]
                at, beside = at + 1, beside + 1
            elif end - at >= stop - beside:
                yield one[at], None
                at += 1
            else:
                yield None, other[beside]
                beside += 1
        yield from ((term, None) for term in one[at:end])
        yield from ((None, term) for term in other[beside:stop])


def _index(groups: Iterable[Iterable[str]]) -> dict[str, set[int]]:
    """Each stem, and the numbers of its groups."""
    found: dict[str, set[int]] = {}
    for number, group in enumerate(groups):
        for word in group:
            found.setdefault(stem(word), set()).add(number)
    return found


_SYNONYMS = _index(SYNONYMS)
_GENERAL = _index([general] for general, _ in BROADER)
_SPECIAL = _index(special for _, special in BROADER)
_NONE: frozenset[int] = frozenset()
_ALWAYS_CERTAIN = frozenset(map(stem, ("someone", "somebody")))


def _is_related(one: Term, other: Term) -> bool:
    synonyms = not _SYNONYMS.get(one.stem, _NONE).isdisjoint(_SYNONYMS.get(other.stem, _NONE))
    return synonyms or _is_narrower(one, other) or _is_narrower(other, one)


def _is_narrower(one: Term, other: Term) -> bool:
    """Whether the first says more than the second. Not if that is about all of a kind: who likes dogs, may not like all
    animals."""
    known = not _SPECIAL.get(one.stem, _NONE).isdisjoint(_GENERAL.get(other.stem, _NONE))
    return known and (other.certain or other.stem in _ALWAYS_CERTAIN)


def _refines(terms: Sequence[Term], extra: Sequence[Term], opening: Term) -> bool:
    """Whether the extra ones of these terms only add to what the others say. `opening` begins the text without them."""
    if len(terms) - len(extra) < _FEWEST or any(term.name for term in extra):
        return False
    places = [at for at, term in enumerate(terms) if any(term is each for each in extra)]
    starts = [at for at in places if at - 1 not in places]
    ends = [at + 1 for at in places if at + 1 not in places]
    return all(_adds(terms, start, end, opening) for start, end in zip(starts, ends, strict=True))


def _adds(terms: Sequence[Term], start: int, end: int, opening: Term) -> bool:
    """Whether the words from `start` to `end` add to those around them.

    Before a noun they describe it; but "red wine" is not all wine, and what stands before a verb may be whom the text
    is about. Behind a noun they make something else of it ("dog allergy"), unless something joins them to it.
    """
    adverb = terms[end - 1].word.endswith("ly")
    if end < len(terms) and not terms[end].apart:
        described = terms[end]
        return adverb or (described.certain and (start > 0 or opening.certain))
    return start > 0 and (adverb or terms[start].joined)
