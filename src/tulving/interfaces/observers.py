"""Several observers as one, and the one that notes what the current request does."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from tulving.interfaces.current import current
from tulving.ports import UNOBSERVED, Activity, Happening, Observation, Observer, Told


def together(observers: Sequence[Observer]) -> Observer:
    """All of these as one observer."""
    if not observers:
        return UNOBSERVED
    return observers[0] if len(observers) == 1 else Several(observers)


class Several:
    """Passes on to each what it is told."""

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


class Noticing:
    """An observer that notes which operation the current request calls, and for which tenant."""

    def during(self, activity: Activity, **about: Told) -> AbstractContextManager[Observation]:
        if activity == "operation" and (request := current()) is not None:
            request.operation, request.tenant = str(about["operation"]), str(about["tenant"])
        return UNOBSERVED

    def note(self, happening: Happening, amount: float = 1, **about: str) -> None:
        pass
