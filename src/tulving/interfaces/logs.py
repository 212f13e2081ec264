"""The log of a process: one record, one line, whatever a caller sent; and no caller can fill a disk with it."""

import logging
import sys
from dataclasses import dataclass
from typing import Any

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
MOST_A_MINUTE = 10
_MINUTE = 60.0


def to_stderr() -> None:
    """Log to standard error, unless the host of this process has arranged otherwise."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines(FORMAT))
    handler.addFilter(Sparing())
    logging.basicConfig(handlers=[handler])


class Lines(logging.Formatter):
    """Escapes what could begin a line or control a terminal, so that every line that is not indented is a record's."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return escaped(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        trace = super().formatException(ei)
        return "\n".join(f"  {escaped(line)}" for line in trace.split("\n"))


def escaped(text: str) -> str:
    """Text on one line: line breaks, control characters and lone surrogates as escapes."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


@dataclass(slots=True)
class _Told:
    """What one place in the code has logged in the minute that began at `since`."""

    since: float
    lines: int = 0
    dropped: int = 0


class Sparing(logging.Filter):
    """Lets ten warnings or errors a minute pass from each place in the code, and then says how many it dropped."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[tuple[str, int], _Told] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        place = record.pathname, record.lineno
        told = self._told.setdefault(place, _Told(record.created))
        if not 0 <= record.created - told.since < _MINUTE:
            if told.dropped:
                record.msg = f"{record.getMessage()} (and {told.dropped} more like it since the last one)"
                record.args = None
            told = self._told[place] = _Told(record.created)
        told.lines += 1
        told.dropped += told.lines > MOST_A_MINUTE
        return told.lines <= MOST_A_MINUTE
