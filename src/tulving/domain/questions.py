"""What a query asks for beyond its words: whom it names, which time it means, whether it asks for a time."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tulving.domain.stems import stem
from tulving.domain.text import MONTHS, lookup_terms

_MONTH = {name.lower()[:length]: number for number, name in enumerate(MONTHS, 1) for length in (3, len(name))}
_NUMBERS = {word: number for number, word in enumerate("one two three four five six seven eight nine ten".split(), 1)}
_NUMBERS |= {"a": 1, "an": 1, "couple of": 2, "few": 3}
_DAYS = {"day": 1, "week": 7, "month": 30}
_MONTH_NAME = "|".join(sorted(_MONTH, key=len, reverse=True))
_ISO = re.compile(r"\b(\d{4})-(\d{1,2})(?:-(\d{1,2}))?\b")
_DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({_MONTH_NAME})\b\.?,?(?: (\d{{4}})\b)?")
_MONTH_DAY = re.compile(rf"\b({_MONTH_NAME})\.? (\d{{1,2}})(?:st|nd|rd|th)?\b,?(?: (\d{{4}})\b)?")
# A month alone needs a year or a preposition: "may" and "march" are words too.
_MONTH_ALONE = re.compile(
    rf"\b(?:(?:in|during|of|since|until|early|late|mid|last|this) ({_MONTH_NAME})\b(?:,? (\d{{4}})\b)?"
    rf"|({_MONTH_NAME}),? (\d{{4}})\b)"
)
_YEAR = re.compile(r"\b(?:in|during|since|of|year) ((?:19|20)\d\d)\b")
_AGO = re.compile(rf"\b(\d{{1,3}}|{'|'.join(_NUMBERS)}) (day|week|month)s? ago\b")
_LAST = re.compile(r"\b(last|past|previous|this) (week|month)\b")
_NEAR_DAYS = {"today": 0, "tonight": 0, "yesterday": 1, "last night": 1}
_ASKS_TIME = re.compile(r"^\W*(?:(?:since|until|by|and) )?when\b|\bwhat (?:day|date|year|month|time)\b")


@dataclass(frozen=True, slots=True)
class Span:
    """A time that a query speaks of. Without a year, that time of any year."""

    start: datetime
    length: timedelta
    yearly: bool = False

    def holds(self, moment: datetime) -> float:
        """1 inside the span, less in the week after it, in which people still speak of it."""
        start = self.start
        if self.yearly:  # the last time before the moment
            start = start.replace(year=moment.year)
            start = start if start <= moment else start.replace(year=max(1, moment.year - 1))
        since = moment - start
        if timedelta(0) <= since < self.length:
            return 1.0
        return SOON_AFTER if self.length <= since < self.length + timedelta(days=7) else 0.0


SOON_AFTER = 0.7


@dataclass(frozen=True, slots=True)
class Question:
    """A query as the signals of relevance read it. `terms` are those of `text.lookup_terms`, each stem once."""

    terms: Sequence[str]
    names: frozenset[str] = frozenset()
    span: Span | None = None
    asks_time: bool = False


def understand(query: str, names: frozenset[str], now: datetime) -> Question:
    """Read a query. `names` are the known names in it, folded."""
    line = query.casefold()
    terms = tuple({stem(term): term for term in lookup_terms(query)}.values())
    return Question(terms, names, span(line, now), _ASKS_TIME.search(line) is not None)


def span(line: str, now: datetime) -> Span | None:
    """The time that a casefolded text speaks of: a date, a month, a year, or a time relative to now."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        return _absolute(line, midnight) or _relative(line, midnight)
    except (ValueError, OverflowError):  # "31 February", "999 years ago"
        return None


def _absolute(line: str, midnight: datetime) -> Span | None:
    year: str | None = None
    month = day = 0
    if found := _ISO.search(line):
        year, month, day = found[1], int(found[2]), int(found[3] or 0)
    elif found := _DAY_MONTH.search(line):
        year, month, day = found[3], _MONTH[found[2]], int(found[1])
    elif found := _MONTH_DAY.search(line):
        year, month, day = found[3], _MONTH[found[1]], int(found[2])
    elif found := _MONTH_ALONE.search(line):
        year, month = found[2] or found[4], _MONTH[found[1] or found[3]]
    elif found := _YEAR.search(line):
        year = found[1]
    else:
        return None
    start = midnight.replace(int(year or LEAP_YEAR), month or 1, day or 1)
    length = timedelta(days=1 if day else 31 if month else 366)
    if not year and (start.month, start.day) == (2, 29):
        start, length = start - length, 2 * length  # the day before exists in every year
    return Span(start, length, yearly=not year)


LEAP_YEAR = 2024


def _relative(line: str, midnight: datetime) -> Span | None:
    for word, days in _NEAR_DAYS.items():
        if re.search(rf"\b{word}\b", line):
            return Span(midnight - timedelta(days=days), timedelta(days=1))
    if found := _AGO.search(line):
        count = _NUMBERS.get(found[1]) or int(found[1])
        unit = timedelta(days=_DAYS[found[2]])
        return Span(midnight - count * unit - unit // 2, unit)
    if found := _LAST.search(line):
        unit = timedelta(days=_DAYS[found[2]])
        begun = 1 if found[1] == "this" else 2
        return Span(midnight - begun * unit, begun * unit + timedelta(days=1))
    return None


_TIMES = """
yesterday today tonight tomorrow ago last next week weekend month year
monday tuesday wednesday thursday friday saturday sunday
january february march april june july august september october november december
""".split()
_TELLS_TIME = re.compile(rf"\b(?:{'|'.join(_TIMES)}|(?:19|20)\d\d)\b")
_OF_ONESELF = re.compile(r"\b(?:I|my|me|we|our)\b")


def tells_time(content: str) -> bool:
    """Whether a text names a time, as the answer to "when" would."""
    return _TELLS_TIME.search(content.casefold()) is not None


def of_oneself(content: str) -> bool:
    """Whether it is in the first person."""
    return _OF_ONESELF.search(content) is not None


def asks(content: str) -> bool:
    """Whether a text ends with a question, which the next one in its session then answers."""
    return "?" in content[-80:]
