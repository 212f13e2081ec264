"""Conflicts between an unkeyed fact that is offered and those that are known: what tells of them."""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar
from uuid import UUID

from tulving.domain.lexicon import EMPTY
from tulving.domain.likeness import DIFFERENT, LONGEST, compare, keywords
from tulving.domain.model import Fact
from tulving.domain.stems import stem
from tulving.domain.stopwords import STOP_WORDS
from tulving.domain.text import lookup_terms, words
from tulving.domain.validity import start

Key = TypeVar("Key", bound=Hashable)
SignalKind = Literal["semantic", "keyword", "time", "importance"]
Mode = Literal["cautious", "signals", "literal"]
MODES: tuple[Mode, ...] = ("cautious", "signals", "literal")


@dataclass(frozen=True, slots=True)
class Detection:
    """When two facts are in conflict, and when a person must decide. A threshold is reached at its value.

    `cautious`: a semantic or keyword signal, and the texts say the same or the opposite (`likeness`). `signals`: a
    semantic or keyword signal. `literal`: any signal (000-022 to 000-025 to the letter).

    A settlement less certain than `review_below` waits for a person; a merge in a model's run also if it is less
    certain than `review_model_merges_below`.
    """

    mode: str = "cautious"
    semantic_threshold: float = 0.8
    keyword_threshold: float = 0.5
    time_window: float = 300.0
    importance_delta: float = 0.4
    review_below: float = 0.0
    review_model_merges_below: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One sign of a conflict with `target_id`, from 0 to 1, and what it was seen in."""

    kind: SignalKind
    score: float
    target_id: UUID
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A known fact beside the offered one, and the cosine similarity of the two if both have a vector."""

    fact: Fact
    similarity: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A known fact that the offered one is in conflict with."""

    existing: Fact
    signals: Sequence[Signal]
    similarity: float | None = None
    same: bool = False
    """Both say the same thing."""
    fuller: UUID | None = None
    """The fact that says all that the other one says, and more."""

    @property
    def severity(self) -> float:
        """000-031: the total score of its signals."""
        return sum(signal.score for signal in self.signals)


def detect(candidate: Fact, neighbours: Sequence[Neighbour], settings: Detection) -> list[Conflict]:
    """The known facts that an offered one is in conflict with, the most severe first. 000-022 to 000-025."""
    terms = frozenset(keywords(candidate.content))
    found: list[Conflict] = []
    for neighbour in neighbours:
        if not _concerns_the_same(candidate, neighbour.fact):
            continue
        signals = [*_of_texts(terms, neighbour, settings), *_of_circumstances(candidate, neighbour.fact, settings)]
        if any(settings.mode == "literal" or signal.kind in ("semantic", "keyword") for signal in signals):
            known, similarity = neighbour.fact, neighbour.similarity
            likeness = compare(candidate.content, known.content)
            if settings.mode != "cautious" or likeness.verdict != "different":
                fuller = {"first": candidate.id, "second": known.id, None: None}[likeness.fuller]
                same = likeness.verdict == "same"
                found.append(Conflict(existing=known, signals=signals, similarity=similarity, same=same, fuller=fuller))
    return sorted(found, key=lambda conflict: (-conflict.severity, conflict.existing.id))


def comparable(text: str, known: Mapping[Key, str], settings: Detection) -> set[Key]:
    """Which known texts may be in conflict with an offered one: in the cautious mode those that say the same or the
    opposite, else any."""
    if settings.mode != "cautious":
        return {*known}
    ours = _stems(text)
    return {key for key, other in known.items() if _shares_words(ours, other) and compare(text, other) != DIFFERENT}


def _shares_words(ours: frozenset[str], other: str) -> bool:
    """Whether a third of the words is common. This is soon found out, and without it no text says the same or the
    opposite."""
    theirs = _stems(other)
    return 3 * len(ours & theirs) >= min(len(ours), len(theirs))


def _stems(text: str) -> frozenset[str]:
    found = frozenset(words(text[:LONGEST]))
    return frozenset(map(stem, found - STOP_WORDS or found))


def shared_terms(text: str) -> list[str]:
    """What the keyword index is asked for to find texts that say the same or the opposite: each alternative leaves out
    one of the most telling words, the longest ones, so that a text with all alternatives has at least two of them."""
    telling = sorted((term for term in lookup_terms(text) if term not in EMPTY), key=lambda term: (-len(term), term))
    telling = telling[:MOST_TELLING]
    if len(telling) < 3:
        return telling
    return ["|".join(telling[:at] + telling[at + 1 :]) for at in range(len(telling))]


MOST_TELLING = 4


def _concerns_the_same(candidate: Fact, known: Fact) -> bool:
    """Whether both are of the same tenant and user, and of no two personas or households; and are two."""
    return (
        candidate.id != known.id
        and (candidate.tenant_id, candidate.user_id) == (known.tenant_id, known.user_id)
        and _agree(candidate.persona_id, known.persona_id)
        and _agree(candidate.household_id, known.household_id)
    )


def _agree(one: str | None, other: str | None) -> bool:
    return one is None or other is None or one == other


def _of_texts(terms: Collection[str], neighbour: Neighbour, settings: Detection) -> Iterator[Signal]:
    """The signals that what the facts say gives: 000-022 and 000-023."""
    target, similarity = neighbour.fact.id, neighbour.similarity
    if similarity is not None and similarity >= settings.semantic_threshold:
        yield Signal(kind="semantic", score=min(1.0, similarity), target_id=target)
    known = frozenset(keywords(neighbour.fact.content))
    if shared := known.intersection(terms):
        share = len(shared) / min(len(known), len(terms))
        if share >= settings.keyword_threshold:
            yield Signal(kind="keyword", score=share, target_id=target, evidence={"keywords": sorted(shared)})


def _of_circumstances(candidate: Fact, known: Fact, settings: Detection) -> Iterator[Signal]:
    """The signals that when they hold and how important they are gives: 000-024 and 000-025."""
    delta, window = abs((start(candidate) - start(known)).total_seconds()), settings.time_window
    if delta <= window:
        score = 1 - delta / window if window else 1.0
        evidence = {"delta_seconds": delta, "window_seconds": window}
        yield Signal(kind="time", score=score, target_id=known.id, evidence=evidence)
    difference = round(abs(candidate.importance - known.importance) / 10, 9)  # 0.4 for 4.1 and 0.1, too
    if difference >= settings.importance_delta:
        room = 1 - settings.importance_delta
        score = min(1.0, difference / room) if room else 1.0
        yield Signal(kind="importance", score=score, target_id=known.id, evidence={"difference": difference})
