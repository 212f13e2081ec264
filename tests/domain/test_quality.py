"""How answers are judged, and what many of them amount to."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from tulving.domain.model import Hit, Rule
from tulving.domain.quality import Question, estimate, judge, summarize

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedHit(Hit):
    """A hit as a search with a floor and with newer statements may tell it."""

    weak: bool = False
    newer: UUID | None = None


def hit(number: int, content: str = "x", **marks) -> MarkedHit:
    item = Rule(tenant_id="t", id=UUID(int=number), content=content, content_hash=None, created_at=NOW, updated_at=NOW)
    return MarkedHit(memory_type="rule", item=item, score=0.5, parts={}, **marks)


def asked(*expected: int, **fields) -> Question:
    return Question(text="what?", expected=[UUID(int=number) for number in expected], **fields)


def test_ranks_count_from_one_and_what_is_missing_has_none():
    answer = judge(asked(3, 9, 1), [hit(1), hit(2), hit(3)], 2.5)
    assert answer.ranks == [3, None, 1]
    assert (answer.recall(1), answer.recall(2), answer.recall(3)) == (1 / 3, 1 / 3, 2 / 3)
    assert (answer.reciprocal_rank, answer.milliseconds) == (1.0, 2.5)


def test_nothing_found_scores_nothing():
    answer = judge(asked(1), [], 1)
    assert (answer.ranks, answer.recall(20), answer.reciprocal_rank, answer.weak) == ([None], 0, 0, True)


def test_a_text_is_found_in_the_first_memory_that_contains_it_whatever_its_case():
    hits = [hit(1, "tea"), hit(2, "Drinks ESPRESSO"), hit(3, "espresso again")]
    assert judge(asked(3, contains=["espresso", "cocoa"]), hits, 1).ranks == [3, 2, None]


@pytest.mark.parametrize(("marks", "weak"), [((True, True), True), ((True, False), False), ((False, False), False)])
def test_an_answer_is_weak_if_all_its_hits_are(marks, weak):
    assert judge(asked(1), [hit(number, weak=mark) for number, mark in enumerate(marks)], 1).weak is weak


def test_hits_without_marks_are_not_weak():
    marked = hit(1)
    plain = Hit(memory_type="rule", item=marked.item, score=1, parts={})
    answer = judge(asked(2, outdated=[UUID(int=1)]), [plain], 1)
    assert (answer.weak, answer.misleading) == (False, True)


@pytest.mark.parametrize(
    ("hits", "misleading"),
    [
        ([hit(1), hit(2)], False),
        ([hit(2), hit(1)], True),
        ([hit(2)], True),
        ([hit(7), hit(1)], False),
        ([hit(2, newer=UUID(int=1)), hit(1)], False),
        ([], False),
    ],
    ids=["below", "above", "alone", "other", "marked", "nothing"],
)
def test_an_outdated_memory_misleads_when_it_stands_above_unmarked(hits, misleading):
    assert judge(asked(1, outdated=[UUID(int=2)]), hits, 1).misleading is misleading


def test_the_relevance_of_the_first_hit_and_of_the_first_expected_one_is_kept():
    hits = [replace(hit(number), parts={"relevance": number / 10}) for number in (9, 4, 2)]
    answer = judge(asked(2, 4), hits, 1)
    assert (answer.best, answer.evidence) == (0.9, 0.4)
    plain = judge(asked(2), [hit(1)], 1)
    assert (plain.best, plain.evidence) == (0.5, None), "the score, where there is no relevance"
    assert judge(asked(2), [], 1).best is None


def test_the_summary_has_groups_and_shares():
    found, missed = [hit(1)], [hit(2)]
    quality = summarize(
        [
            judge(asked(1, category="a"), found, 1),
            judge(asked(1, category="a"), missed, 2),
            judge(asked(1, category="b", outdated=[UUID(int=2)]), missed, 3),
            judge(asked(1), [], 4),
            judge(asked(answerable=False, category="a"), [hit(1, weak=True)], 5),
            judge(asked(answerable=False), found, 100),
        ],
        limit=20,
    )
    assert quality.scores is not None
    assert (quality.scores.questions, quality.scores.mrr.mean) == (4, 0.25)
    assert {name: (each.questions, each.recall[5].mean) for name, each in quality.categories.items()} == {
        "a": (2, 0.5),
        "b": (1, 0.0),
    }
    assert quality.unanswerable_weak is not None and quality.answerable_weak is not None
    assert (quality.unanswerable, quality.unanswerable_weak.mean, quality.answerable_weak.mean) == (2, 0.5, 0.25)
    assert quality.misleading is not None
    assert (quality.changing, quality.misleading.mean) == (1, 1.0)
    assert (quality.median_ms, quality.p95_ms) == (3.5, 5)


@pytest.mark.parametrize(
    ("limit", "depths"), [(1, [1]), (5, [5]), (7, [5, 7]), (20, [5, 10, 20]), (50, [5, 10, 20, 50])]
)
def test_recall_is_told_as_deep_as_was_asked(limit, depths):
    quality = summarize([judge(asked(1), [hit(1)], 1)], limit)
    assert quality.scores is not None
    assert list(quality.scores.recall) == depths


def test_a_summary_of_nothing_is_empty():
    quality = summarize([], 20)
    assert (quality.scores, quality.categories, quality.unanswerable_weak, quality.median_ms) == (None, {}, None, 0)


def test_an_interval_encloses_its_mean_is_repeatable_and_shrinks_with_more_questions():
    few, many = estimate([0.0, 1.0] * 20), estimate([0.0, 1.0] * 500)
    assert few is not None and many is not None
    assert 0 < few.low < 0.5 < few.high < 1
    assert few == estimate([0.0, 1.0] * 20)
    assert many.high - many.low < (few.high - few.low) / 3
    same = estimate([1.0, 1.0])
    assert same is not None and (same.low, same.mean, same.high) == (1, 1, 1)
    assert estimate([]) is None


def test_an_interval_is_close_to_the_textbook():
    """400 tosses: 1.96 standard errors are 4.9 points."""
    tossed = estimate([0.0, 1.0] * 200)
    assert tossed is not None
    assert tossed.low == pytest.approx(0.451, abs=0.01)
    assert tossed.high == pytest.approx(0.549, abs=0.01)
