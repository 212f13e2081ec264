"""A short text as it is compared with another: what it speaks of, in order, and how."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tulving.domain.lexicon import (
    AFTER_NEGATION,
    DENIALS,
    DETERMINERS,
    EMPTY,
    FRAMES,
    LINKS,
    NEGATIONS,
    NUMBERS,
    PAST,
    PLURALS,
    UNCHANGED,
    VERBS,
)
from tulving.domain.stems import stem
from tulving.domain.stopwords import STOP_WORDS
from tulving.domain.text import understood, words

_REWRITES = tuple(
    (sign, re.compile(pattern, re.IGNORECASE), replacement)
    for sign, pattern, replacement in (
        ("can", r"\bcan'?t\b|\bcannot\b", "can not"),
        ("'", r"\bwon't\b", "will not"),
        ("'", r"n't\b", " not"),
        ("'", r"\b(it|he|she|that|there)'s\b", r"\1 is"),
        ("'", r"\bn'(?=\w)", "ne "),
        ("no one", r"\bno one\b", "nobody"),
        ("next to", r"\bnext to\b", "near"),
        ("a couple of", r"\ba couple of\b", "two"),
        (" made ", r"\b(\w{1,40}) made (?:out )?of (\w{1,40})", r"\2 \1"),
        (
            "h",  # of which, who, that
            r"\b(\w{1,40}),? (?:which|that|who) (?:is|are|looks?) (?:very )?(\w{1,40})"
            r"(?=,|\W*$| (?:and|is|are|in|on|at|with|of|by|for|from|into)\b)",
            r"\2 \1",
        ),
    )
)
"""Forms that say the same, as one: "a hut that is small" is "a small hut". First, what every text with it contains."""

_STOPS = re.compile("[，。、；：！]")
_MARKS = ".,;:!?()[]{}\"'`´‘“”„«»¿¡「」『』"
_EDGES = _MARKS + "*_~–—-"
_POSSESSIVE = re.compile(r"\w(?:'s|s')\s")
_ASKING = frozenset("what where who whom whose when why how which".split())
_PRONOUNS = {
    word: group.split()[0]
    for group in ("i me my mine", "you your yours", "he him his", "she her hers", "we us our ours", "they them their")
    for word in group.split()
}
_BE = frozenset("is are am be being".split())
_PRESENT = _BE | {"has", "have"}
_JOINING = frozenset("and every each who which that".split()).union(LINKS, _BE)
_AFTER_DOER = frozenset("and who which that is are".split()).union(LINKS) - {"of"}


class Token(NamedTuple):
    """A word of a text, folded; or a `code` as it is written: with digits or signs, or a single capital letter."""

    word: str
    capital: bool = False
    code: bool = False


_BREAK = Token("and")


class Term(NamedTuple):
    """A keyword in its place. `apart`: a word that is none stands before it, and if `joined` one that joins phrases.
    `certain`: it is about certain things, not about all of a kind. `name`: it may be one, since it has a capital or is
    a code."""

    stem: str
    word: str
    apart: bool
    joined: bool
    certain: bool
    name: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text speaks of, and how. `words` are all but negations. Without a stop word of any, the language is
    unknown ("")."""

    terms: Sequence[Term]
    words: Sequence[str]
    frames: frozenset[str]
    links: frozenset[str]
    pronouns: Sequence[str]
    negations: int
    language: str
    past: bool
    possessive: bool
    asks: bool


@lru_cache(64)  # an offered text is compared with several known ones
def read(text: str) -> Reading:
    """Read a text. Beyond its words and negations, only English is understood."""
    text = unicodedata.normalize("NFKC", _STOPS.sub(" ", text)).replace("’", "'")
    low = text.lower()
    for sign, pattern, replacement in _REWRITES:
        if sign in low:
            text = pattern.sub(replacement, text)
    chunks = text.split()
    tokens = _active(list(_tokens(chunks)))
    plain = [token.word for token in tokens]
    negations = _negations(plain)
    return Reading(
        terms=list(_terms(tokens)),
        words=[word for word in plain if word not in NEGATIONS],
        frames=FRAMES.intersection(plain).difference(AFTER_NEGATION if negations else ()),
        links=frozenset(LINKS[word] for word in plain if word in LINKS),
        pronouns=list(dict.fromkeys(_PRONOUNS[word] for word in plain if word in _PRONOUNS)),
        negations=negations,
        language=_language(text, plain),
        past=_is_past(plain),
        possessive=_POSSESSIVE.search(text) is not None,
        asks=any(chunk.endswith("?") for chunk in chunks) or (plain[:1] != [] and plain[0] in _ASKING),
    )


def _tokens(chunks: Sequence[str]) -> Iterator[Token]:
    first = True
    for chunk in chunks:
        core = chunk.strip(_EDGES)
        if not core:
            continue
        if not core.isalpha():
            core = chunk.strip(_MARKS)  # -5 is not 5
        letter = len(core) == 1 and core != "I" and core.isupper() and not first
        if letter or not (core.isalpha() or core.replace("-", "").replace("'", "").isalpha()):
            yield Token(core, code=True)
        elif core.isascii() and core.isalpha():
            yield Token(core.lower(), core[0].isupper())
        else:
            yield from (Token(word, core[0].isupper()) for word in words(core))
        first = False


def _active(tokens: list[Token]) -> list[Token]:
    """The words of a passive sentence in the order of an active one: who does it, what, to whom."""
    plain = [token.word for token in tokens]
    for at, word in enumerate(plain):
        if word in _BE or word in PAST:
            verb = at + 1
            while verb < len(plain) and (plain[verb] in NEGATIONS or plain[verb].endswith(("ly", "being", "been"))):
                verb += 1
            if verb < len(plain) and (plain[verb].endswith("ed") or plain[verb] in VERBS or plain[verb] in UNCHANGED):
                by = plain.index("by", verb) if "by" in plain[verb:] else len(plain)
                end = next((at for at in range(by + 2, len(plain)) if plain[at] in _AFTER_DOER), len(plain))
                doer, rest = tokens[by + 1 : end], tokens[end:]
                return [*doer, *tokens[at : verb + 1], _BREAK, *tokens[:at], *tokens[verb + 1 : by], *rest]
    return tokens


def _terms(tokens: Sequence[Token]) -> Iterator[Term]:
    between: list[str] = []
    certain = negated = False
    for token in tokens:
        word = token.word
        negated = negated or word in NEGATIONS
        if negated and word in AFTER_NEGATION:
            continue
        if _is_keyword(token):
            certain = certain or word in NUMBERS
            joined = not _JOINING.isdisjoint(between)
            name = token.code or (token.capital and word not in NUMBERS)
            yield Term(word if token.code else _root(word), word, bool(between), joined, certain, name)
            between = []
        else:
            between.append(word)
            certain = word in DETERMINERS or word in _BE


def _is_keyword(token: Token) -> bool:
    word = token.word
    if token.code or word in NUMBERS or word == "nobody":
        return True
    return not (word in STOP_WORDS or word in LINKS or word in NEGATIONS or word in EMPTY)


def _root(word: str) -> str:
    if word == "nobody":
        return "person"
    root = NUMBERS.get(word) or stem(VERBS.get(word) or PLURALS.get(word) or word)
    return DENIALS.get(root, root)


def _negations(plain: Sequence[str]) -> int:
    """How often something is denied. French does it with two words."""
    found = [word for word in plain if word in NEGATIONS]
    return len(found) - ("ne" in found and len(found) > 1) + sum(stem(word) in DENIALS for word in plain)


def _language(text: str, plain: Sequence[str]) -> str:
    language = understood(text)[1]
    return "" if language == "en" and STOP_WORDS.isdisjoint(plain) else language


def _is_past(plain: Sequence[str]) -> bool:
    if not PAST.isdisjoint(plain):
        return True
    formed = any(word in VERBS or (word.endswith("ed") and stem(word) != word) for word in plain)
    return formed and _PRESENT.isdisjoint(plain)
