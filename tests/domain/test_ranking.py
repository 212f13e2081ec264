from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulving.domain.ranking import (
    FACTORS,
    WEIGHTS,
    Factor,
    Match,
    composite,
    fuse,
    recency,
    relevance,
    rrf_score,
    stable_order,
)

NOW = datetime(2026, 6, 1, tzinfo=UTC)
A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)


@pytest.mark.scenario("001-032")
def test_composite_is_the_weighted_sum():
    def match(relevance, importance, referenced, confidence):
        return Match("fact", relevance, importance, confidence, None, referenced, NOW)

    assert composite(match(1, 10, NOW, 1), WEIGHTS)[0] == pytest.approx(1.0)
    assert composite(match(0, 0, None, 0), WEIGHTS)[0] == 0.0
    score, strengths = composite(match(0.5, 5, NOW - timedelta(days=14), 0.8), WEIGHTS)
    assert score == pytest.approx(0.4 * 0.5 + 0.3 * 0.5 + 0.2 * 0.25 + 0.1 * 0.8)
    assert strengths == pytest.approx({"relevance": 0.5, "importance": 0.5, "recency": 0.25, "confidence": 0.8})


def test_a_factor_is_one_entry(monkeypatch):
    """A new one is weighed, shown and configurable without a change elsewhere."""
    monkeypatch.setitem(FACTORS, "ruling", Factor(1.0, lambda match: float(match.kind == "rule")))
    score, strengths = composite(Match("rule", 0, None, 0, None, None, NOW), {**WEIGHTS, "ruling": 0.5})
    assert strengths["ruling"] == 1.0 and strengths["importance"] == 0.5, "a rule has no importance of its own"
    assert score == pytest.approx(0.5 + 0.3 * 0.5)


@pytest.mark.scenario("001-033")
@pytest.mark.parametrize(
    ("days", "half_life", "score"), [(0, 7, 1.0), (7, 7, 0.5), (14, 7, 0.25), (1, 1, 0.5), (-3, 7, 1.0)]
)
def test_recency_halves(days, half_life, score):
    assert recency(NOW - timedelta(days=days), NOW, half_life) == pytest.approx(score)


@pytest.mark.scenario("001-033")
def test_recency_of_the_never_and_the_long_ago():
    assert recency(None, NOW) == 0.0
    assert 0 < recency(NOW - timedelta(days=60), NOW) < 0.01


@pytest.mark.scenario("001-033")
def test_an_episode_is_as_recent_as_it_happened_and_anything_else_as_its_last_reference():
    week = timedelta(days=7)

    def strength(kind, happened, last):
        return composite(Match(kind, 0, 0, 0, happened, last, NOW), WEIGHTS)[1]["recency"]

    for last in (None, NOW):
        assert strength("episode", NOW - week, last) == pytest.approx(0.5), "whoever has referred to it"
    assert strength("fact", NOW, None) == 0.0
    assert strength("fact", NOW, NOW - week) == pytest.approx(0.5)


@pytest.mark.scenario("001-030")
def test_a_missing_lane_counts_as_the_rank_after_the_last():
    (only,) = fuse([A], [], limit=5)
    assert (only.semantic_rank, only.keyword_rank) == (1, 6)
    assert only.rrf_score == pytest.approx(1 / 61 + 1 / 66)


@pytest.mark.scenario("001-030")
def test_equal_scores_go_to_the_better_semantic_rank():
    first, second = fuse([A, B], [B, A], limit=5)
    assert first.rrf_score == second.rrf_score
    assert (first.key, second.key) == (A, B)


@pytest.mark.scenario("002-011")
def test_in_both_lanes_beats_one_lane_at_the_same_rank():
    order = [hit.key for hit in fuse([A, C], [A, B], limit=10)]
    assert order[0] == A


def test_relevance_spans_its_range():
    for limit in (1, 2, 10, 50, 1000):
        assert relevance(rrf_score(1, 1), limit) == 1.0
        assert relevance(rrf_score(limit, limit + 1), limit) == pytest.approx(0.0)
        assert relevance(rrf_score(limit + 1, limit), limit) == pytest.approx(0.0)
        assert relevance(rrf_score(1, limit + 1), limit, lanes=1) == pytest.approx(1.0)


@given(st.integers(1, 50), st.integers(1, 51), st.integers(1, 51))
def test_relevance_is_a_share(limit, semantic, keyword):
    assert 0.0 <= relevance(rrf_score(semantic, keyword), limit) <= 1.0


ids = st.lists(st.integers(1, 40).map(lambda number: UUID(int=number)), unique=True, max_size=30)


@given(ids, ids, st.integers(1, 20))
def test_fusion_holds_each_candidate_once_in_descending_order(semantic, keyword, limit):
    fused = fuse(semantic, keyword, limit)
    assert {hit.key for hit in fused} == {*semantic[:limit], *keyword[:limit]}
    assert len(fused) == len({hit.key for hit in fused})
    assert [hit.rrf_score for hit in fused] == sorted((hit.rrf_score for hit in fused), reverse=True)
    for hit in fused:
        assert hit.rrf_score == rrf_score(hit.semantic_rank, hit.keyword_rank)


@pytest.mark.scenario("001-126")
def test_ties_go_to_the_newer_then_to_the_lower_id():
    later = NOW + timedelta(microseconds=1)
    order = sorted([(0.5, NOW, B), (0.5, NOW, A), (0.5, later, C), (0.6, NOW, C)], key=lambda row: stable_order(*row))
    assert order == [(0.6, NOW, C), (0.5, later, C), (0.5, NOW, A), (0.5, NOW, B)]
