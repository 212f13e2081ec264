from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulving.domain.questions import SOON_AFTER, Span, asks, of_oneself, span, tells_time, understand

NOW = datetime(2026, 6, 10, 9, 30, tzinfo=UTC)


def day(year, month, number):
    return datetime(year, month, number, tzinfo=UTC)


def held(line, *moments, now=NOW):
    found = span(line.casefold(), now)
    assert found is not None, line
    return [found.holds(moment) for moment in moments]


@pytest.mark.parametrize(
    "line",
    [
        "what happened on 2026-05-07?",
        "what happened on 2026-5-7",
        "what happened on 7 May 2026",
        "what happened on 7th May 2026",
        "what happened on the 7th of May, 2026",
        "What Happened On May 7th, 2026?",
        "what happened on may 7 2026",
    ],
)
def test_a_day_in_many_forms(line):
    start = day(2026, 5, 7)
    almost = timedelta(microseconds=1)
    assert held(line, start - almost, start, start + timedelta(days=1) - almost) == [0, 1, 1]
    assert held(line, start + timedelta(days=1), start + timedelta(days=8) - almost) == [SOON_AFTER] * 2
    assert held(line, start + timedelta(days=8), day(2025, 5, 7), day(2027, 5, 7)) == [0, 0, 0]


@pytest.mark.parametrize("line", ["what happened on 7 may", "on May 7th", "the 7th of May", "7 May, I think"])
def test_a_day_without_a_year_is_that_day_of_any_year(line):
    assert held(line, *(day(year, 5, 7) for year in (1999, 2024, 2026))) == [1, 1, 1]
    assert held(line, day(2025, 4, 7)) == [0]


@pytest.mark.parametrize(
    "line", ["in May 2026", "May 2026", "may, 2026", "during may 2026", "2026-05", "early May 2026"]
)
def test_a_month(line):
    assert held(line, day(2026, 4, 30), day(2026, 5, 1), day(2026, 5, 31)) == [0, 1, 1]
    assert held(line, day(2026, 6, 1), day(2026, 6, 8), day(2025, 5, 5)) == [SOON_AFTER, 0, 0]


@pytest.mark.parametrize("line", ["in May", "during may", "since May", "last may", "late May"])
def test_a_month_of_any_year(line):
    assert held(line, day(2020, 5, 1), day(2026, 5, 31), day(2026, 4, 30)) == [1, 1, 0]


def test_a_year():
    assert held("in 2024", day(2023, 12, 31), day(2024, 1, 1), day(2024, 12, 31), day(2025, 2, 1)) == [0, 1, 1, 0]
    assert held("what happened in the year 2024", day(2024, 7, 1)) == [1]


def test_the_last_day_of_february():
    assert held("on 29 February 2024", day(2024, 2, 29), day(2024, 2, 28)) == [1, 0]
    assert held("on 29 February", day(2024, 2, 29)) == [1]
    assert held("on 29 February", day(2025, 2, 28)) == [1], "a year without that day"
    assert held("in February", *(day(year, 2, 28) for year in (2023, 2024))) == [1, 1]
    assert held("yesterday", day(2024, 2, 29), day(2024, 3, 1), now=day(2024, 3, 1)) == [1, SOON_AFTER]


def test_a_time_at_the_end_of_a_year_is_still_spoken_of_in_january():
    assert held("on 31 December", day(2025, 12, 31), day(2026, 1, 2), day(2026, 1, 9)) == [1, SOON_AFTER, 0]
    assert held("in December", day(2025, 12, 1), day(2026, 1, 5)) == [1, SOON_AFTER]


@pytest.mark.parametrize(
    ("line", "inside", "outside"),
    [
        ("what did I eat today", day(2026, 6, 10), day(2026, 6, 9)),
        ("and tonight?", NOW, day(2026, 6, 9)),
        ("what happened yesterday?", day(2026, 6, 9), day(2026, 6, 8)),
        ("last night", day(2026, 6, 9), day(2026, 6, 8)),
        ("3 days ago", day(2026, 6, 7), day(2026, 6, 5)),
        ("two weeks ago", day(2026, 5, 27), day(2026, 5, 20)),
        ("a week ago", day(2026, 6, 3), day(2026, 5, 28)),
        ("a couple of months ago", day(2026, 4, 11), day(2026, 3, 20)),
        ("a few days ago", day(2026, 6, 7), day(2026, 6, 5)),
        ("ten days ago", day(2026, 5, 31), day(2026, 5, 29)),
        ("this week", day(2026, 6, 5), day(2026, 6, 1)),
        ("last week", day(2026, 6, 1), day(2026, 5, 20)),
        ("in the past month", day(2026, 5, 1), day(2026, 4, 1)),
    ],
)
def test_a_time_relative_to_now(line, inside, outside):
    assert held(line, inside, outside) == [1, 0]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "what may I eat",
        "march on, said the sergeant",
        "the second of them",
        "31 February 2026",
        "on 31 june",
        "2026-02-29",
        "2026-13-01",
        "0000-01-01",
        "version 2.2024",
        "call 2024 people",
        "1000 days ago",
        "ten years ago",
        "the decade before last",
    ],
)
def test_nonsense_and_ordinary_words_are_no_time(line):
    assert span(line, NOW) is None


@pytest.mark.parametrize("now", [day(1, 1, 1), day(9999, 12, 31)])
@pytest.mark.parametrize(
    "line", ["yesterday", "999 months ago", "last month", "9999-12-31", "today", "in may", "in 1999"]
)
def test_the_ends_of_the_calendar_do_no_harm(line, now):
    found = span(line, now)
    assert found is None or all(
        found.holds(moment) in (0, SOON_AFTER, 1) for moment in (day(1, 1, 1), day(9999, 12, 31))
    )


@given(st.text(max_size=60) | st.from_regex(r"(in|on|last) [a-z]{3,9} \d{1,4}(-\d{1,2}){0,2}"))
def test_any_text_is_read(text):
    question = understand(text, frozenset(), NOW)
    assert question.span is None or isinstance(question.span, Span)
    assert len(set(question.terms)) == len(question.terms)


def test_the_terms_are_the_words_in_order_and_each_stem_once():
    assert understand("Which paintings did Anna paint, and the PAINTED ones?", frozenset(), NOW).terms == (
        "painted",
        "anna",
        "ones",
    )
    assert understand("the of", frozenset(), NOW).terms == ("the", "of"), "stop words only if there are no others"
    assert understand("", frozenset(), NOW).terms == ()


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("When did Anna move?", True),
        ("what year was it", True),
        ("and since when?", False),
        ("Since when has she lived there", True),
        ("tell me when it rains", False),
        ("whenever you like", False),
        ("how many cats has she", False),
        ("what did she say", False),
        ("", False),
    ],
)
def test_whether_a_time_is_asked_for(query, asked):
    assert understand(query, frozenset(), NOW).asks_time is asked


@pytest.mark.parametrize(
    ("content", "tells"),
    [("we met last Friday", True), ("in 2023", True), ("Yesterday!", True), ("you may go", False), ("", False)],
)
def test_whether_a_text_tells_a_time(content, tells):
    assert tells_time(content) is tells


def test_who_speaks_of_himself_and_who_asks():
    assert of_oneself("I like it") and of_oneself("this is our house")
    assert not of_oneself("Imagine a meal") and not of_oneself("")
    assert asks("do you like it?") and asks("do you like it? :)") and not asks("I like it") and not asks("")
    assert not asks("really? " + "x" * 80), "the end counts"
