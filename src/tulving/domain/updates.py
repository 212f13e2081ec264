"""Which memories seem to be outdated: a later one says something similar of the same thing."""

import math
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import NamedTuple, TypeVar

from tulving.domain.model import Kind
from tulving.domain.relevance import TURN
from tulving.domain.stems import stem
from tulving.domain.stopwords import STOP_WORDS
from tulving.domain.text import words

Key = TypeVar("Key", bound=Hashable)

LATER = timedelta(hours=1)
"""What follows sooner is part of the same conversation."""
AS_RELEVANT = 0.8
"""The share of a memory's relevance that a later one needs to answer the same question."""
ALIKE: dict[Kind, float] = {"episode": 0.3, "fact": 0.5}
"""The share of common words that two memories of a kind need to be about the same thing. Rules are instructions:
similar ones hold beside each other."""


class Statement(NamedTuple):
    """A memory that was found, as far as it matters here. `about` names its speaker or subject; of its words, for which
    only those are asked that may be outdated, the first ones are compared."""

    kind: Kind
    about: frozenset[str]
    moment: datetime
    relevance: float
    words: Callable[[], str]


def newer(found: Mapping[Key, Statement]) -> dict[Key, Key]:
    """For each memory that seems to be outdated, the latest one that says something similar."""
    terms = cache(lambda key: _terms(found[key]))
    by_time = sorted(found, key=lambda key: (found[key].moment, found[key].relevance))[::-1]
    latest: dict[Key, Key] = {}
    for old, statement in found.items():
        least = ALIKE.get(statement.kind, math.inf)
        for key in by_time:
            if found[key].moment - statement.moment < LATER:
                break
            if _same_thing(statement, found[key]) and _alike(terms(old), terms(key)) >= least:
                latest[old] = key
                break
    return latest


def _same_thing(old: Statement, new: Statement) -> bool:
    return old.kind == new.kind and old.about == new.about and new.relevance >= AS_RELEVANT * old.relevance


def _alike(some: frozenset[str], others: frozenset[str]) -> float:
    """The cosine of the angle between two sets of words."""
    return len(some & others) / ((len(some) * len(others)) ** 0.5 or 1.0)


def _terms(found: Statement) -> frozenset[str]:
    """The stems of its first words. Whom it is about does not count: that is the same in all."""
    common = STOP_WORDS.union(*map(words, found.about))
    first = found.words().split(" ", TURN)[:TURN]
    return frozenset(stem(word) for word in first if word not in common)
