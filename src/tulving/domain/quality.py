"""How well questions are answered: at which rank the expected memories stand, and what that amounts to over many."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, median
from uuid import UUID

from tulving.domain.model import Hit

DEPTHS = (5, 10, 20)
RESAMPLES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and what answers it: memories by id, or texts that a memory contains, whatever their case. What is
    `outdated` must not stand above that."""

    text: str
    expected: Sequence[UUID] = ()
    contains: Sequence[str] = ()
    outdated: Sequence[UUID] = ()
    category: str = ""
    answerable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rank of each expected memory or text, None for one that was not found.

    `weak` means that there was no hit that is not marked as weak, `misleading` that an outdated memory, not marked as
    having a newer one, stands above everything expected. `best` is the relevance of the first hit and `evidence` that
    of the first expected one; a floor between the two kinds of question is chosen by them.
    """

    question: Question
    ranks: Sequence[int | None]
    weak: bool
    misleading: bool
    best: float | None
    evidence: float | None
    milliseconds: float

    def recall(self, depth: int) -> float:
        """The share of what is expected that stands in the first `depth` hits."""
        return sum(rank is not None and rank <= depth for rank in self.ranks) / len(self.ranks)

    @property
    def reciprocal_rank(self) -> float:
        return max((1 / rank for rank in self.ranks if rank is not None), default=0.0)


def judge(question: Question, hits: Sequence[Hit], milliseconds: float) -> Answer:
    """Compare the hits with what was expected."""
    places = {hit.item.id: place for place, hit in enumerate(hits, 1)}
    texts = [hit.item.content.casefold() for hit in hits]
    ranks = [places.get(id_) for id_ in question.expected]
    for wanted in question.contains:
        folded = wanted.casefold()
        ranks.append(next((place for place, text in enumerate(texts, 1) if folded in text), None))
    first = min((rank for rank in ranks if rank is not None), default=len(hits) + 1)
    unmarked = {hit.item.id for hit in hits[: first - 1] if getattr(hit, "newer", None) is None}
    return Answer(
        question=question,
        ranks=ranks,
        weak=all(getattr(hit, "weak", False) for hit in hits),
        misleading=not unmarked.isdisjoint(question.outdated),
        best=_relevance(hits[:1]),
        evidence=_relevance(hits[first - 1 : first]),
        milliseconds=milliseconds,
    )


def _relevance(hits: Sequence[Hit]) -> float | None:
    return next((hit.parts.get("relevance", hit.score) for hit in hits), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean, and the interval in which 95 % of the means of resampled questions lie."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """R@k for each depth that was asked for, and MRR, over the answerable questions of a group."""

    questions: int
    recall: Mapping[int, Estimate]
    mrr: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """What many answers amount to. The shares are None where no question is of that kind."""

    scores: Scores | None
    categories: Mapping[str, Scores]
    unanswerable: int
    unanswerable_weak: Estimate | None
    answerable_weak: Estimate | None
    changing: int
    misleading: Estimate | None
    median_ms: float
    p95_ms: float


def summarize(answers: Sequence[Answer], limit: int) -> Quality:
    """The quality of answers to questions that were asked with this limit."""
    answerable = [answer for answer in answers if answer.question.answerable]
    unanswerable = [answer for answer in answers if not answer.question.answerable]
    changing = [answer for answer in answerable if answer.question.outdated]
    groups: dict[str, list[Answer]] = {}
    for answer in answerable:
        groups.setdefault(answer.question.category, []).append(answer)
    times = sorted(answer.milliseconds for answer in answers) or [0.0]
    return Quality(
        scores=_scores(answerable, limit) if answerable else None,
        categories={name: _scores(group, limit) for name, group in sorted(groups.items()) if name},
        unanswerable=len(unanswerable),
        unanswerable_weak=estimate([answer.weak for answer in unanswerable]),
        answerable_weak=estimate([answer.weak for answer in answerable]),
        changing=len(changing),
        misleading=estimate([answer.misleading for answer in changing]),
        median_ms=median(times),
        p95_ms=times[int(0.95 * (len(times) - 1))],
    )


def _scores(answers: Sequence[Answer], limit: int) -> Scores:
    return Scores(
        questions=len(answers),
        recall={
            depth: _mean([answer.recall(depth) for answer in answers])
            for depth in dict.fromkeys((*(depth for depth in DEPTHS if depth < limit), limit))
        },
        mrr=_mean([answer.reciprocal_rank for answer in answers]),
    )


def estimate(values: Sequence[float]) -> Estimate | None:
    """The mean of the values with its interval; None if there are none."""
    return _mean(values) if values else None


def _mean(values: Sequence[float]) -> Estimate:
    random = Random(1)  # the same answers always have the same interval
    means = sorted(fmean(random.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return Estimate(mean=fmean(values), low=means[int(0.025 * RESAMPLES)], high=means[int(0.975 * RESAMPLES)])
