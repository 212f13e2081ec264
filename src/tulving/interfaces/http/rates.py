"""Rate limits per minute and key, in bounded memory."""

from collections import OrderedDict
from collections.abc import Callable, Hashable

MINUTE = 60.0
MOST_KNOWN = 10_000
ROUNDING = 1e-6


class Rates:
    """A rate limiter (the generic cell rate algorithm): a minute's worth may be used at once and is refilled evenly.

    Each key has one number, the time until which its use would last at an even rate. A key whose time has passed has
    its full allowance and is dropped. Beyond `most_known` keys, the least recently used ones are dropped too.
    """

    def __init__(self, clock: Callable[[], float], most_known: int = MOST_KNOWN) -> None:
        self._clock, self._most_known = clock, most_known
        self._used_until: OrderedDict[Hashable, float] = OrderedDict()

    def wait(self, key: Hashable, per_minute: int) -> float:
        """The seconds until the next use is allowed; 0.0 if it is allowed now."""
        wait = self._next(key, per_minute) - MINUTE - self._clock()
        return wait if wait > ROUNDING else 0.0

    def take(self, key: Hashable, per_minute: int) -> float:
        """Use one and return 0.0 if that is allowed now; else return the seconds until it is."""
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
        """Whether the least recently used key has its full allowance again."""
        return bool(self._used_until) and next(iter(self._used_until.values())) <= self._clock()
