"""The log of a process: one line a record, whatever a caller sent, and not so many that they fill a disk."""

import logging
import sys
from dataclasses import dataclass
from typing import Any

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
MOST_A_MINUTE = 10
_MINUTE = 60.0


def to_stderr() -> None:
    """Log to standard error, unless logging is configured already."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines(FORMAT))
    handler.addFilter(RateLimit())
    logging.basicConfig(handlers=[handler])


class Lines(logging.Formatter):
    """Escapes what could begin a line or control a terminal, so that only records begin a line without indent."""

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
class _Minute:
    """What one place in the code has logged in the minute that began at `since`."""

    since: float
    lines: int = 0
    dropped: int = 0


class RateLimit(logging.Filter):
    """Lets ten warnings or errors a minute pass from each place in the code, and then says how many it dropped."""

    def __init__(self) -> None:
        super().__init__()
        self._minutes: dict[tuple[str, int], _Minute] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        place = record.pathname, record.lineno
        minute = self._minutes.setdefault(place, _Minute(record.created))
        if not 0 <= record.created - minute.since < _MINUTE:
            if minute.dropped:
                record.msg = f"{record.getMessage()} (and {minute.dropped} more like it since the last one)"
                record.args = None
            minute = self._minutes[place] = _Minute(record.created)
        minute.lines += 1
        minute.dropped += minute.lines > MOST_A_MINUTE
        return minute.lines <= MOST_A_MINUTE
