"""Observers: how an activity ends for each of them, several combined into one, and the one that notes which operation
the current request calls."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from tulving.errors import StoreBusy
from tulving.interfaces.calls import REFUSED
from tulving.interfaces.current_request import current
from tulving.ports import UNOBSERVED, Activity, Happening, Observation, Observer, Told

OUTCOMES = ("ok", "refused", "busy", "cancelled", "failed")
"""How an activity ends. Refused: the caller must correct something. Busy: it may try again later."""


def outcome(error: type[BaseException] | None) -> str:
    """How an activity ended that raised an error of this type, or none."""
    if error is None:
        return "ok"
    if issubclass(error, REFUSED):
        return "refused"
    if issubclass(error, StoreBusy):
        return "busy"
    return "failed" if issubclass(error, Exception) else "cancelled"


def together(observers: Sequence[Observer]) -> Observer:
    """One observer that stands for all of these."""
    if not observers:
        return UNOBSERVED
    return observers[0] if len(observers) == 1 else Several(observers)


class Several:
    """Passes every activity and event on to each observer."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    @contextmanager
    def _all(self, begun: Sequence[AbstractContextManager[Observation]]) -> Iterator[Observation]:
        with ExitStack() as stack:
            yield _Observations([stack.enter_context(each) for each in begun])

    def during(self, activity: Activity, **about: Told) -> AbstractContextManager[Observation]:
        begun = [each.during(activity, **about) for each in self._observers]
        measured = [each for each in begun if each is not UNOBSERVED]
        return measured[0] if len(measured) == 1 else self._all(measured)

    def note(self, happening: Happening, amount: float = 1, **about: str) -> None:
        for each in self._observers:
            each.note(happening, amount, **about)


class _Observations:
    def __init__(self, observations: Sequence[Observation]) -> None:
        self._observations = observations

    def tell(self, **about: Told) -> None:
        for each in self._observations:
            each.tell(**about)


class RequestNotes:
    """An observer that notes on the current request which operation it calls, and for which tenant."""

    def during(self, activity: Activity, **about: Told) -> AbstractContextManager[Observation]:
        if activity == "operation" and (request := current()) is not None:
            request.operation, request.tenant = str(about["operation"]), str(about["tenant"])
        return UNOBSERVED

    def note(self, happening: Happening, amount: float = 1, **about: str) -> None:
        pass
