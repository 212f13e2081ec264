"""Vectors in a byte a number: answers are those of a comparison of all rows in 32 bits, though few rows are read."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vector_parts import Stored

from tulving.errors import DamagedStore
from tulving.storage.sqlite.vector_codes import bounds, reduced, similarities, unit_rows

TIMES = ("2026-01-01T00:00:00.000000+00:00", "2026-01-02T00:00:00.000000+00:00")


def unit(vector):
    return (vector / numpy.linalg.norm(vector)).astype("f4")


def filled(rows, times=TIMES[:1]) -> Stored:
    matrix = Stored(len(rows[0]))
    for number, row in enumerate(rows):
        id_ = f"{number * 7 % len(rows):05}"
        matrix.rows[id_] = id_, times[number % len(times)], row.astype("<f4").tobytes()
    matrix.load([[(id_, blob) for id_, _, blob in matrix.rows.values()]])
    return matrix


def compared_with_all(matrix: Stored, query) -> list[tuple[str, float]]:
    found = similarities([blob for *_, blob in matrix.rows.values()], query).tolist()
    rows = sorted(zip(found, matrix.rows.values(), strict=True), key=lambda each: each[1][0])
    rows.sort(key=lambda each: each[1][1], reverse=True)
    return [(row[0], similarity) for similarity, row in sorted(rows, key=lambda each: each[0], reverse=True)]


@st.composite
def hard(draw):
    """Rows that are hard to tell apart, and a query: almost equal ones, equal ones, zeros, contrary ones, sparse ones,
    ones of any length."""
    chance = numpy.random.default_rng(draw(st.integers(0, 2**32)))
    dimension, count = draw(st.sampled_from([1, 2, 5, 32, 384])), draw(st.integers(1, 150))
    middle = chance.normal(size=dimension)
    noise = draw(st.sampled_from([0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.03, 1]))
    rows = middle + noise * chance.normal(size=(count, dimension))
    rows[chance.random(count) < draw(st.sampled_from([0, 0.2]))] = middle
    rows[chance.random(count) < draw(st.sampled_from([0, 0.2]))] *= -1
    rows[chance.random(rows.shape) < draw(st.sampled_from([0, 0.5, 0.95]))] = 0
    rows[chance.random(count) < draw(st.sampled_from([0, 0.3]))] = 0
    rows *= 10.0 ** chance.integers(-12, 13, size=(count, 1)) if draw(st.booleans()) else 1
    query = chance.normal(size=dimension) if draw(st.booleans()) else middle.copy()
    query[chance.random(dimension) < draw(st.sampled_from([0, 0.8]))] = 0
    query[0] = query[0] or 1
    return rows, unit(query)


@given(hard(), st.integers(1, 160), st.booleans(), st.data())
def test_the_best_are_those_of_a_comparison_of_all(hard, count, alike, data):
    rows, query = hard
    matrix = filled(rows, TIMES)
    exact = [each for each in compared_with_all(matrix, query) if each[1] > 0 or not alike]
    assert matrix.ranked(query).best(count, alike=alike) == exact[:count]
    among = set(data.draw(st.lists(st.sampled_from([*matrix.rows, "unknown"]))))
    assert matrix.ranked(query).best(count, among, alike) == [each for each in exact if each[0] in among][:count]
    ranking = matrix.ranked(query)
    assert ranking.of([*matrix.rows, "unknown"]) == dict(compared_with_all(matrix, query))


@given(hard())
def test_a_similarity_is_between_its_bounds(hard):
    rows, query = hard
    blobs = [row.astype("<f4").tobytes() for row in rows]
    least, greatest = bounds(*reduced(unit_rows(blobs, len(query))), query)
    exact = similarities(blobs, query)
    assert (least <= exact).all() and (exact <= greatest).all()


def test_few_rows_are_read_to_find_the_best():
    chance = numpy.random.default_rng(3)
    matrix = filled(chance.normal(size=(3_000, 384)))
    matrix.ranked(unit(chance.normal(size=384))).best(10)
    assert 10 <= matrix.read < 200


def test_what_was_read_is_not_read_again():
    matrix = filled(numpy.random.default_rng(3).normal(size=(500, 64)))
    ranking = matrix.ranked(unit(numpy.ones(64)))
    ranking.best(20)
    read = matrix.read
    assert len(ranking.of(id_ for id_, _ in ranking.best(20))) == 20
    assert matrix.read == read


def test_rows_that_have_nothing_in_common_with_the_query_are_not_read():
    """However small a number is: it is something."""
    rows = numpy.zeros((400, 64))
    rows[:, 5] = 1
    rows[:3, 7] = (1, 1e-9, -1e-9)
    matrix = filled(rows)
    best = matrix.ranked(numpy.eye(64, dtype="f4")[7]).best(100, alike=True)
    assert best == [("00000", round(2**-0.5, 5))]
    assert matrix.read == 3


def test_a_vector_takes_a_byte_a_number():
    matrix = filled(numpy.random.default_rng(3).normal(size=(500, 384)))
    assert matrix._codes.nbytes == 500 * 384
    assert matrix.nbytes < 500 * 384 * 2


def test_a_ranking_does_not_change_with_the_rows():
    matrix = filled(numpy.random.default_rng(3).normal(size=(50, 8)))
    query = unit(numpy.ones(8))
    ranking, exact = matrix.ranked(query), compared_with_all(matrix, query)
    stored = dict(matrix.rows)
    for id_, _ in exact[::2]:
        matrix.drop(id_)
    matrix.put("new", numpy.ones(8, "<f4").tobytes())
    matrix.rows = stored
    assert ranking.best(50) == exact and len(ranking) == 50


def test_a_row_that_is_gone_is_left_out():
    """Another process may have removed it after this matrix was made."""
    matrix = filled(numpy.random.default_rng(3).normal(size=(50, 8)))
    query = unit(numpy.ones(8))
    (gone, _), *others = compared_with_all(matrix, query)
    del matrix.rows[gone]
    ranking = matrix.ranked(query)
    assert ranking.best(50) == others and gone not in ranking.of([gone])


@pytest.mark.parametrize(
    ("blob", "problem"),
    [
        (b"\0" * 12, "does not have 4 dimensions"),
        (numpy.array([1, numpy.nan, 0, 0], "<f4").tobytes(), "contains NaN or infinity"),
        (numpy.array([1, -numpy.inf, 0, 0], "<f4").tobytes(), "contains NaN or infinity"),
    ],
)
def test_a_damaged_vector_is_noticed_where_it_is_read(blob, problem):
    whole = numpy.array([1, 0, 0, 0], "<f4").tobytes()
    with pytest.raises(DamagedStore, match=problem):
        Stored(4).load([[("one", whole), ("two", blob)]])
    with pytest.raises(DamagedStore, match=problem):
        similarities([whole, blob], numpy.eye(4, dtype="f4")[0])


def test_a_damaged_time_is_noticed_where_it_is_read():
    matrix = Stored(4)
    matrix.put("one", numpy.ones(4, "<f4").tobytes(), "once upon a time")
    with pytest.raises(DamagedStore, match="a stored time can't be read"):
        matrix.ranked(unit(numpy.ones(4))).best(1)


@pytest.mark.parametrize("length", [1e-30, 1e-3, 1.01, 1e20, 3e37])
def test_a_vector_of_any_length_counts_by_its_direction(length):
    rows = length * numpy.array([[0.6, 0.8], [0.8, -0.6]])
    assert similarities([row.astype("<f4").tobytes() for row in rows], unit(numpy.array([1, 0]))).tolist() == [0.6, 0.8]
