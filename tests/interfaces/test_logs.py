"""What reaches the log: one line a record, and a limited number of them."""

import json
import logging

import pytest

from tulving.interfaces.logs import FORMAT, MOST_A_MINUTE, Lines, RateLimit, escaped


def record(message: str = "refused %s", *args: object, at: float = 1000.0, line: int = 1, level: int = logging.WARNING):
    made = logging.LogRecord("tulving", level, "hosts.py", line, message, args, None)
    made.created = at
    return made


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("plain, even Köln and 東京", "plain, even Köln and 東京"),
        ("a\n2026-01-01 ERROR tulving: forged", r"a\n2026-01-01 ERROR tulving: forged"),
        ("\r\x1b[2J\x00\x7f\x85", r"\r\x1b[2J\x00\x7f\x85"),
        ("\u2028\u202e\ufeff", r"\u2028\u202e\ufeff"),
        ("\ud83d", r"\ud83d"),
        ("", ""),
    ],
)
def test_what_a_caller_sent_stays_on_its_line(sent: str, shown: str):
    assert escaped(sent) == shown
    line = Lines(FORMAT).format(record("refused %s", sent))
    assert line.endswith(f" WARNING tulving: refused {shown}")
    assert len(line.splitlines()) == 1


def test_no_line_of_a_traceback_looks_like_a_record():
    try:
        raise ValueError("odd\n2026-01-01 00:00:00,000 ERROR tulving: forged\x1b[2J\rX")
    except ValueError as error:
        failed = record("it failed")
        failed.exc_info = (type(error), error, error.__traceback__)
    first, *rest = Lines(FORMAT).format(failed).split("\n")
    assert first.endswith("it failed")
    assert "forged" in rest[-1]
    assert all(line.startswith("  ") and line.isprintable() for line in rest)


def test_a_flood_from_one_place_is_cut_and_counted():
    limit = RateLimit()
    passed = [limit.filter(record(at=1000 + number / 100)) for number in range(5000)]
    assert passed == [True] * MOST_A_MINUTE + [False] * (5000 - MOST_A_MINUTE)
    assert limit.filter(record(line=2)), "another place is another matter"
    later = record("refused %s", "x", at=1060)
    assert limit.filter(later)
    assert later.getMessage() == f"refused x (and {5000 - MOST_A_MINUTE} more like it since the last one)"
    following = record("refused %s", "x", at=1061)
    assert limit.filter(following)
    assert following.getMessage() == "refused x"


def test_records_below_a_warning_are_not_limited():
    limit = RateLimit()
    assert all(limit.filter(record(level=logging.DEBUG)) for _ in range(100))


def test_a_clock_that_is_set_back_silences_nothing():
    limit = RateLimit()
    for _ in range(MOST_A_MINUTE + 1):
        limit.filter(record(at=5000))
    assert limit.filter(record(at=1000))


@pytest.mark.usefixtures("path")  # whatever the engine
def test_keys_of_domain_scores_forge_no_line(cli, process):
    forged = "2026-01-01 00:00:00,000 ERROR tulving: all is lost"
    assert cli("entity", "create", "Anna", "person").code == 0
    hints = json.dumps({"domain_scores": {f"x\n{forged}\x1b[31m": "high"}})
    ran = process("--verbose", "entity", "resolve", "Anna", "--context-hints", hints)
    assert ran.code == 0
    (line,) = [line for line in ran.err.splitlines() if "all is lost" in line]
    assert "domain scores that are not numbers were ignored" in line
    assert not line.startswith(forged)
    assert "\x1b" not in ran.err
