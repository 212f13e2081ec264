"""The HTTP request that is being handled, for log lines and trace ids.

It is kept in a context variable. Tasks inherit those and may outlive the request that started them, so the request is
marked when it is over.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(slots=True)
class CurrentRequest:
    """What is known about a request so far. The tenant's name is not content: operators choose it, and may see it."""

    id: str
    trace_id: str = ""
    tenant: str = ""
    operation: str = ""
    is_over: bool = False


_current: ContextVar[CurrentRequest | None] = ContextVar("current_request", default=None)


def current() -> CurrentRequest | None:
    """The request in whose context this is called, if it is not over yet."""
    request = _current.get()
    return None if request is None or request.is_over else request


@contextmanager
def answering(request: CurrentRequest) -> Iterator[CurrentRequest]:
    """Make a request the current one within a `with` block."""
    token = _current.set(request)
    try:
        yield request
    finally:
        request.is_over = True
        _current.reset(token)


def is_id(text: str) -> bool:
    """Whether the request id that a client sent may be logged: anything else could hold content or forge a log line."""
    return _ID.fullmatch(text) is not None
