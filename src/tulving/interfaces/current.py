"""The request that is being answered: what a log line tells of it, and where a trace that it belongs to goes on.

It is kept in a context variable, which tasks inherit, so it also says when it is over: what a request has started may
go on after it.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from tulving.errors import ChangedSince, Forbidden, InvalidInput, NotFound, StoreBusy

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(slots=True)
class CurrentRequest:
    """What is known of a request by now. The tenant is a name that the operator has given, and no secret to them."""

    id: str
    trace_id: str = ""
    tenant: str = ""
    operation: str = ""
    is_over: bool = False


_current: ContextVar[CurrentRequest | None] = ContextVar("current_request", default=None)


def current() -> CurrentRequest | None:
    """The request that is being answered here, if any."""
    request = _current.get()
    return None if request is None or request.is_over else request


@contextmanager
def answering(request: CurrentRequest) -> Iterator[CurrentRequest]:
    """A block in which a request is answered."""
    token = _current.set(request)
    try:
        yield request
    finally:
        request.is_over = True
        _current.reset(token)


def is_id(text: str) -> bool:
    """Whether a client's own id for its request is one: anything else could be content, or forge a line."""
    return _ID.fullmatch(text) is not None


OUTCOMES = ("ok", "refused", "busy", "cancelled", "failed")
"""How an activity ends. Refused: the caller must correct something. Busy: it may try again later."""
_REFUSED = (InvalidInput, NotFound, Forbidden, ChangedSince)


def outcome(error: type[BaseException] | None) -> str:
    """How an activity ended that raised this, or nothing."""
    if error is None:
        return "ok"
    if issubclass(error, _REFUSED):
        return "refused"
    if issubclass(error, StoreBusy):
        return "busy"
    return "failed" if issubclass(error, Exception) else "cancelled"
