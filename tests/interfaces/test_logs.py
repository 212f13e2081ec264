"""The log of a process of ours: whatever text a caller sends, no line of it looks like a record."""

import json
import logging
import re
import sys

import pytest

from tulving.interfaces.terminal import LogLines

FORGED = "2026-01-01 00:00:00,000 ERROR tulving: all is lost"
RECORD = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ ", re.MULTILINE)
BREAKS = ["\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"]


def formatted(message: str, *args: object, error: BaseException | None = None) -> str:
    told = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord("tulving", logging.WARNING, "x.py", 1, message, args, told)
    return LogLines("%(asctime)s %(levelname)s %(name)s: %(message)s").format(record)


@pytest.mark.parametrize("line_break", BREAKS, ids=repr)
def test_a_message_is_one_line(line_break: str):
    line = formatted("left out: %s", f"key{line_break}{FORGED}")
    assert len(line.splitlines()) == 1
    assert len(RECORD.findall(line)) == 1 and "all is lost" in line


@pytest.mark.parametrize("sign", ["\x00", "\x07", "\x1b[31m", "\x9b31m", "\u202e", "\ud800"], ids=repr)
def test_no_message_controls_a_terminal(sign: str):
    line = formatted("left out: %s", f"key{sign}value")
    assert line.isprintable() or sign == "\ud800"
    line.encode(sys.stderr.encoding or "utf-8", "backslashreplace")


@pytest.mark.parametrize("line_break", BREAKS, ids=repr)
def test_the_lines_of_a_traceback_are_indented(line_break: str):
    try:
        raise ValueError(f"bad{line_break}{FORGED}")
    except ValueError as error:
        text = formatted("it failed", error=error)
    first, *rest = text.split("\n")
    assert first.endswith("WARNING tulving: it failed")
    assert "Traceback" in rest[0] and len(rest) > 2
    assert all(line.startswith("    ") for line in rest)
    assert len(RECORD.findall(text)) == 1
    assert not any(line.startswith(FORGED) for line in text.splitlines())


def test_keys_of_domain_scores_forge_no_line(process):
    assert process("entity", "create", "Anna", "person").code == 0
    hints = json.dumps({"domain_scores": {f"x\n{FORGED}\x1b[31m": "high"}})
    ran = process("--verbose", "entity", "resolve", "Anna", "--context-hints", hints)
    assert ran.code == 0
    (line,) = [line for line in ran.err.splitlines() if "all is lost" in line]
    assert "domain scores that are no numbers were left out" in line
    assert RECORD.match(line) and not line.startswith(FORGED)
    assert "\x1b" not in ran.err
