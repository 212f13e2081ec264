"""Logging: one line per record, safe against injection by callers, and rate limited so that it can't fill a disk."""

import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tulving.interfaces.current_request import CurrentRequest, current
from tulving.settings import LogsConfig

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
MOST_A_MINUTE = 10
_MINUTE = 60.0

server = logging.getLogger("tulving.server")
access = logging.getLogger("tulving.access")
"""The access log: a line for each HTTP request, if it is switched on."""


def to_stderr() -> None:
    """Log to standard error, unless logging is configured already."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines(FORMAT))
    handler.addFilter(RateLimit())
    logging.basicConfig(handlers=[handler])


def arrange(settings: LogsConfig) -> None:
    """Apply the settings. Where a host has configured logging, they switch the access log only."""
    access.setLevel(logging.INFO if settings.access else logging.CRITICAL)
    server.setLevel(logging.INFO)
    if settings.format == "json":
        for handler in logging.getLogger().handlers:
            if isinstance(handler.formatter, Lines):
                handler.setFormatter(JsonLines())


def announce(said: Sequence[str], settings: LogsConfig) -> None:
    """Print the lines that a server starts with, or log them if the log is JSON."""
    for line in said:
        if settings.format == "json":
            server.info(line)
        else:
            print(line, file=sys.stderr, flush=True)


class Lines(logging.Formatter):
    """The text format. Line breaks and control characters are escaped, so that only records begin a line without
    indent. A line that is logged during a request ends with the request id."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        request = current()
        line = escaped(super().formatMessage(record))
        return line if request is None else f"{line} [{request.id}]"

    def formatException(self, ei: Any) -> str:
        trace = super().formatException(ei)
        return "\n".join(f"  {escaped(line)}" for line in trace.split("\n"))


class JsonLines(logging.Formatter):
    """The JSON format: one object per record, with the current request and the fields in the record's extra `tells`."""

    def format(self, record: logging.LogRecord) -> str:
        request = current()
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **({} if request is None else _about(request)),
            **getattr(record, "tells", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            told["error"] = record.exc_info[0].__name__
            told["trace"] = self.formatException(record.exc_info)
        return json.dumps(told)


def _about(request: CurrentRequest) -> dict[str, str]:
    """The fields of the request during which a line is logged."""
    told = {
        "request_id": request.id,
        "trace_id": request.trace_id,
        "tenant": request.tenant,
        "operation": request.operation,
    }
    return {name: value for name, value in told.items() if value}


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
