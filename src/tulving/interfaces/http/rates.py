"""How often something may happen: a limit per minute for each of many, in bounded memory."""

from collections import OrderedDict
from collections.abc import Callable, Hashable

MINUTE = 60.0
MOST_KNOWN = 10_000
ROUNDING = 1e-6


class Rates:
    """A limit per minute for each key. A minute's worth may come at once; then it comes back evenly.

    Each key has one number: until when what it has used would last at an even pace. One whose time has passed has
    used nothing and need not be kept. Beyond a number of keys the one that was used longest ago is forgotten.
    """

    def __init__(self, clock: Callable[[], float], most_known: int = MOST_KNOWN) -> None:
        self._clock, self._most_known = clock, most_known
        self._used_until: OrderedDict[Hashable, float] = OrderedDict()

    def wait(self, key: Hashable, per_minute: int) -> float:
        """After how many seconds the next one is possible; 0.0 if it is now."""
        wait = self._next(key, per_minute) - MINUTE - self._clock()
        return wait if wait > ROUNDING else 0.0

    def take(self, key: Hashable, per_minute: int) -> float:
        """Use one, if it is possible now; else the seconds until it is."""
        if wait := self.wait(key, per_minute):
            return wait
        self._used_until[key] = self._next(key, per_minute)
        self._used_until.move_to_end(key)
        while len(self._used_until) > self._most_known or self._is_over():
            self._used_until.popitem(last=False)
        return 0.0

    def __len__(self) -> int:
        return len(self._used_until)

    def _next(self, key: Hashable, per_minute: int) -> float:
        return max(self._used_until.get(key, 0.0), self._clock()) + MINUTE / per_minute

    def _is_over(self) -> bool:
        """Whether the one that was used longest ago has nothing left to remember."""
        return bool(self._used_until) and next(iter(self._used_until.values())) <= self._clock()
