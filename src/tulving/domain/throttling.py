"""How many writes may wait for the store at once, by how long the latest ones took."""

from collections import deque

FEWEST = 16
"""So many may always wait: writes that wait together share a commit, so fewer would only be slower."""
WINDOW = 60.0
"""Seconds after which a measurement says nothing about now."""
MEASURED = 64


FEWEST_MEASURED = 8


class Latency:
    """How many seconds the latest writes took. The median counts: one large batch says nothing about the others."""

    def __init__(self) -> None:
        self._taken: deque[tuple[float, float]] = deque(maxlen=MEASURED)

    def add(self, now: float, took: float) -> None:
        self._taken.append((now, took))

    def median(self, now: float) -> float:
        """0.0 if there were too few writes lately to tell."""
        while self._taken and self._taken[0][0] < now - WINDOW:
            self._taken.popleft()
        if len(self._taken) < FEWEST_MEASURED:
            return 0.0
        return sorted(took for _, took in self._taken)[len(self._taken) // 2]


def is_slow(latency: float, target: float, was_slow: bool) -> bool:
    """000-011: whether writes are slow. Once they are, they must take less than half of the target to be well again, so
    that a latency near the target does not raise one alarm after another."""
    return latency >= target or (was_slow and latency >= target / 2)


def allowed(before: int, waiting: int, latency: float, target: float, most: int) -> int:
    """000-011: how many writes may wait from now on, if `waiting` ones take so long.

    The time that a write takes grows with the number of those that wait (Little's law), so beyond the target the number
    is cut in proportion. It doubles again when writes take less than half of the target.
    """
    if latency >= target:
        return max(min(FEWEST, most), min(before, int(waiting * target / latency)))
    return before if latency >= target / 2 else min(most, 2 * before)
