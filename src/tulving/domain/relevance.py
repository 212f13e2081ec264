"""How well a memory answers a query: a weighted sum of signals, over a pool of candidates."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter, mul
from typing import Generic, NamedTuple, TypeVar

from tulving.domain.questions import Question, asks, of_oneself, tells_time
from tulving.domain.stems import stem

Key = TypeVar("Key", bound=Hashable)


class Signal(NamedTuple):
    """One reason to find a memory: its weight, and what it means in words."""

    weight: float
    reason: str


SIGNALS: dict[str, Signal] = {
    "meaning": Signal(1.2, "its meaning is close to that of the query, names left out"),
    "window": Signal(0.75, "it and its neighbours in the session contain the query's words"),
    "words": Signal(0.2, "it contains the query's words, rare ones counting more"),
    "speaker": Signal(0.5, "it was said by, or is about, someone whom the query names"),
    "session": Signal(0.75, "its session holds other good answers"),
    "answer": Signal(0.5, "it follows a question in its session that resembles the query"),
    "time": Signal(0.2, "it names a time, and the query asks for one"),
    "substance": Signal(0.2, "it says something, rather than greet or thank"),
    "date": Signal(0.1, "it happened at the time that the query speaks of"),
}
"""What relevance is made of. The weights are round, and were chosen on development data only (docs/quality.md)."""


def why(parts: Mapping[str, float]) -> dict[str, str]:
    """What each signal in the parts of a hit means, in words; the greatest contribution first."""
    strong = [name for name in SIGNALS if parts.get(name)]
    strong.sort(key=lambda name: -parts[name] * SIGNALS[name].weight)
    return {name: SIGNALS[name].reason for name in strong}


def contributions(parts: Mapping[str, float], meaning: float = 1.0) -> dict[str, float]:
    """What each signal in the parts of a hit adds to its relevance, the greatest first; `meaning` is as for `weigh`."""
    weights = {name: SIGNALS[name].weight * (meaning if name == "meaning" else 1.0) for name in why(parts)}
    added = {name: weight * parts[name] for name, weight in weights.items() if weight}
    share = parts.get("relevance", 0.0) / (sum(added.values()) or 1.0)
    return dict(sorted(((name, value * share) for name, value in added.items()), key=itemgetter(1), reverse=True))


WEAK = 0.29
"""The relevance below which a hit probably does not answer the query: half of the questions about other conversations
get only such hits, and one in a hundred of those that have an answer loses it (docs/quality.md)."""
TURN = 120
"""Words of a turn in a conversation, which needs its neighbours to be understood. A longer text stands alone."""
OPENING = 80
"""The first words of a longer text, which say what it is about."""
SATURATION = 10
"""Words at which a text has half the substance it can have."""
ASKING = 0.5
"""The share of its substance that a text has which ends with a question."""
UNKNOWN_MEANING = 0.5
"""A memory without a vector: the share of the query's words that its meaning is estimated from."""
SPEAKS = 2 / 3
"""The strength of a statement by the named speaker that is not in the first person."""
BEST_OF_SESSION = 2
"""How many of a session's candidates speak for it."""


@dataclass(slots=True)
class Candidate(Generic[Key]):
    """A memory that may answer the query, as the signals see it.

    `words` are those that it is found by, separated by spaces, each with the `mark` of `weigh`. `moment`, when it
    happened, matters only for a question about a time. `similarity` is None without a vector. `about` are the folded
    names of its speaker or subject, or its entity. A memory outside any conversation has neither session nor
    neighbours. `distilled` means that a fact or rule was made of what was said.
    """

    words: str
    content: str
    moment: datetime | None = None
    similarity: float | None = None
    about: frozenset[str] = frozenset()
    distilled: bool = False
    session: Hashable = None
    before: Key | None = None
    after: Key | None = None
    terms: int = field(default=0, init=False)
    opening: int = field(default=0, init=False)
    """The query's terms in it, and those in its first words, with a bit for each term."""
    length: int = field(default=1, init=False)

    @property
    def long(self) -> bool:
        return self.length > TURN


Evidence = dict[str, float]
"""The strength of each signal from 0 to 1, and `relevance`."""
_DIRECT: Sequence[str] = ("meaning", "window", "words", "speaker", "time", "substance", "date")
"""The signals of a candidate that do not depend on how others are judged."""


class Weighed(dict[Key, float]):
    """The relevance of each candidate of a pool. What it is made of is told of the few that are returned."""

    def __init__(self, pool: Mapping[Key, Candidate[Key]], unasked: Collection[str]) -> None:
        self._pool, self._unasked = pool, unasked
        self.direct: dict[Key, tuple[float, ...]] = {}
        self.beside: dict[Key, tuple[float, float]] = {}
        """The signals `session` and `answer` of those that have a session."""

    def evidence(self, key: Key) -> Evidence:
        found = dict(zip(_DIRECT, self.direct[key], strict=True))
        if key in self.beside:
            found["session"], found["answer"] = self.beside[key]
        for name in self._unasked:
            del found[name]
        found["relevance"] = self[key]
        return found


def weigh(question: Question, pool: Mapping[Key, Candidate[Key]], meaning: float = 1.0, mark: str = "") -> Weighed[Key]:
    """Weigh the candidates of a pool. `meaning` is how far the embedder's similarities are to be trusted, `mark` what
    each word of a candidate begins with.

    A signal that the query does not call for (a name, a date) is left out of the sum for all candidates.
    """
    _find_terms(question.terms, pool.values(), mark)
    shares = _Shares(question.terms, [candidate.terms for candidate in pool.values()])
    weights = {name: signal.weight for name, signal in SIGNALS.items()}
    weights["meaning"] *= meaning if any(each.similarity is not None for each in pool.values()) else 0.0
    called_for = {"speaker": question.names, "date": question.span, "time": question.asks_time}
    unasked = [name for name, reason in called_for.items() if not reason]
    weights |= dict.fromkeys(unasked, 0.0)
    of_direct = [weights[name] for name in _DIRECT]
    weighed = Weighed(pool, unasked)
    weighed.direct = {key: _direct(question, candidate, pool, shares) for key, candidate in pool.items()}
    direct = {key: sum(map(mul, of_direct, strengths)) for key, strengths in weighed.direct.items()}
    own = sum(weights.values()) - weights["session"] - weights["answer"]
    sessions = _sessions(pool, direct)
    for key, candidate in pool.items():
        total = direct[key]
        session = sessions.get(candidate.session, total) / own
        answer = 0.0 if candidate.before is None else _answered(candidate, pool, direct) / own
        total = total + weights["session"] * session + weights["answer"] * answer  # in this order: ties stay ties
        if candidate.session is not None:
            weighed.beside[key] = session, answer
        weighed[key] = min(1.0, total / (own + weights["session"]))
    return weighed


def _direct(
    question: Question, candidate: Candidate[Key], pool: Mapping[Key, Candidate[Key]], shares: "_Shares"
) -> tuple[float, ...]:
    """The strengths of `_DIRECT`."""
    words = shares[candidate.terms]
    window = candidate.opening
    for near in (candidate.before, candidate.after):
        if near is not None and near in pool and _talk(candidate, pool[near]):
            window |= pool[near].terms
    similarity = candidate.similarity
    return (
        UNKNOWN_MEANING * words if similarity is None else max(0.0, similarity),
        shares[window],
        words,
        _speaks(question.names, candidate) if question.names else 0.0,
        1.0 if question.asks_time and tells_time(candidate.content) else 0.0,
        1.0 if candidate.distilled else _substance(candidate),
        question.span.holds(candidate.moment) if question.span and candidate.moment else 0.0,
    )


def _substance(candidate: Candidate[Key]) -> float:
    return candidate.length / (candidate.length + SATURATION) * (ASKING if candidate.content.endswith("?") else 1.0)


def _speaks(names: frozenset[str], candidate: Candidate[Key]) -> float:
    if not names & candidate.about:
        return 0.0
    return 1.0 if candidate.distilled or of_oneself(candidate.content) else SPEAKS


def _find_terms(terms: Sequence[str], candidates: Collection[Candidate[Key]], mark: str) -> None:
    """Note for each candidate which of the terms its words are forms of."""
    within = _Forms(terms, mark).within
    for candidate in candidates:
        candidate.length = candidate.words.count(" ") + 1
        candidate.terms = candidate.opening = within(candidate.words)
        if candidate.long and candidate.terms:
            candidate.opening = within(" ".join(candidate.words.split(" ", OPENING)[:OPENING]))


def word_scores(terms: Sequence[str], texts: Mapping[Key, str]) -> dict[Key, float]:
    """The texts with any of the terms, for texts that no index knows: 0 to 1 by how much these tell, 2 with all."""
    within = _Forms(terms, "").within
    found = {key: within(words) for key, words in texts.items()}
    shares, every = _Shares(terms, list(found.values())), (1 << len(terms)) - 1
    return {key: 2.0 if bits == every else shares[bits] for key, bits in found.items() if bits}


class _Forms(dict[str, int]):
    """The terms of a query (`text.lookup_terms`) that a word is a form of, as bits. A word matches by its
    stem, or by its beginning where the term says so. Only words that begin like a term are looked at."""

    def __init__(self, terms: Sequence[str], mark: str) -> None:
        self._stems: dict[str, int] = {}
        self._beginnings: list[tuple[str, int]] = []
        for at, term in enumerate(terms):
            for form in term.split("|"):
                if form.endswith("*"):
                    self._beginnings.append((form[:-1], 1 << at))
                else:
                    self._stems[stem(form)] = self._stems.get(stem(form), 0) | 1 << at
        heads = {head[:3] for head in (*self._stems, *(beginning for beginning, _ in self._beginnings))}
        begin = "|".join(map(re.escape, sorted(heads)))
        self._alike = re.compile(rf"{re.escape(mark) or '(?:^|(?<= ))'}((?:{begin})[^ ]*)").findall

    def within(self, words: str) -> int:
        """The terms in a text."""
        found = 0
        for word in self._alike(words):
            found |= self[word]
        return found

    def __missing__(self, word: str) -> int:
        found = self._stems.get(stem(word), 0)
        for beginning, bit in self._beginnings:
            if word.startswith(beginning):
                found |= bit
        self[word] = found
        return found


class _Shares(dict[int, float]):
    """The share of some terms in the query: the fewer candidates contain a term, the more it tells. All together have
    the share 1. Sums are in the order of the terms, so that equal candidates have equal shares."""

    def __init__(self, terms: Sequence[str], found: Sequence[int]) -> None:
        counts = Counter(found)
        among = [sum(count for bits, count in counts.items() if bits >> at & 1) for at in range(len(terms))]
        raw = [math.log(1 + (len(found) - count + 0.5) / (count + 0.5)) for count in among]
        total = sum(raw) or 1.0
        self._shares = [value / total for value in raw]

    def __missing__(self, bits: int) -> float:
        self[bits] = share = sum(value for at, value in enumerate(self._shares) if bits >> at & 1)
        return share


def _sessions(pool: Mapping[Key, Candidate[Key]], direct: Mapping[Key, float]) -> dict[Hashable, float]:
    """For each session the mean of its best candidates."""
    strengths: defaultdict[Hashable, list[float]] = defaultdict(list)
    for key, candidate in pool.items():
        if candidate.session is not None:
            strengths[candidate.session].append(direct[key])
    best = {session: sorted(values)[-BEST_OF_SESSION:] for session, values in strengths.items()}
    return {session: sum(values) / len(values) for session, values in best.items()}


def _answered(candidate: Candidate[Key], pool: Mapping[Key, Candidate[Key]], direct: Mapping[Key, float]) -> float:
    before = candidate.before
    if before is None or before not in pool or not _talk(candidate, pool[before]) or not asks(pool[before].content):
        return 0.0
    return direct[before]


def _talk(candidate: Candidate[Key], neighbour: Candidate[Key]) -> bool:
    """Whether two neighbours are turns of a talk between two speakers, who answer each other. What one person says in
    succession may be about anything."""
    return not candidate.long and not neighbour.long and candidate.about != neighbour.about
