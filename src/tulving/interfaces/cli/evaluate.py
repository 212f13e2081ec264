"""`tulving evaluate`: how well a memory answers a person's own questions."""

from collections.abc import Iterator

from tulving.domain.quality import Estimate, Quality


def headers(quality: Quality) -> list[str]:
    """The columns of `rows`."""
    depths = quality.scores.recall if quality.scores else ()
    return ["", "n", *(f"R@{depth}" for depth in depths), "MRR"]


def rows(quality: Quality) -> Iterator[list[str]]:
    """A row for all questions that have an answer, and one for each category."""
    groups = {"all": quality.scores, **quality.categories}
    for name, scores in groups.items():
        if scores is not None:
            yield [name, str(scores.questions), *map(_percent, scores.recall.values()), _plain(scores.mrr)]


def sentences(quality: Quality) -> Iterator[str]:
    """What the table does not say."""
    if quality.unanswerable_weak:
        share = _percent(quality.unanswerable_weak)
        yield f"questions without an answer that got nothing or only weak hits: {share} % of {quality.unanswerable}"
    if quality.answerable_weak and quality.scores:
        share = _percent(quality.answerable_weak)
        yield f"questions with an answer that got nothing or only weak hits: {share} % of {quality.scores.questions}"
    if quality.misleading:
        yield f"an outdated memory above the current one: {_percent(quality.misleading)} % of {quality.changing}"
    yield f"one question: {quality.median_ms:.1f} ms (p95 {quality.p95_ms:.1f} ms)"


def _percent(estimate: Estimate) -> str:
    return f"{100 * estimate.mean:.1f} ({100 * estimate.low:.1f}–{100 * estimate.high:.1f})"


def _plain(estimate: Estimate) -> str:
    return f"{estimate.mean:.3f} ({estimate.low:.3f}–{estimate.high:.3f})"
