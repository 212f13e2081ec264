"""The tenants with the most calls, counted in bounded memory however many tenants there are."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass

COUNTED = 10
"""For each tenant that is shown, so many are counted."""
LEAD = 1.25
"""How many times as often as one that is shown another tenant must have called to take its place: without a lead,
tenants of about equal size would take turns, each with a new time series."""
OTHERS = "other"


@dataclass(slots=True)
class Usage:
    """What a tenant has used."""

    calls: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.calls += 1
        self.seconds += seconds


class Busiest:
    """Figures of the `most` tenants that call most often, and of all others together.

    Each call counts once, for the tenant if it is shown at that time, else for the others: so no figure decreases while
    it is shown. One that loses its place takes its calls with it. Who calls most often is counted with the Space-Saving
    algorithm (Metwally et al., 2005): where there is no place for a tenant, it takes that of the one with the fewest
    calls, and its count.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: dict[str, int] = {}
        self._shown: dict[str, Usage] = {}
        self._others = Usage()
        self._lock = threading.Lock()

    def add(self, tenant: str, seconds: float) -> None:
        """Count a call."""
        with self._lock:
            if self._most:
                self._count(tenant)
                if len(self._shown) < self._most:
                    self._shown.setdefault(tenant, Usage())
            self._shown.get(tenant, self._others).add(seconds)

    def figures(self) -> Mapping[str, Usage]:
        """The figures by now. Here tenants take the places of others, so that a series lives from look to look."""
        with self._lock:
            self._exchange()
            told = {name: Usage(each.calls, each.seconds) for name, each in self._shown.items() if name != OTHERS}
            others = Usage(self._others.calls, self._others.seconds)
            if namesake := self._shown.get(OTHERS):
                others = Usage(others.calls + namesake.calls, others.seconds + namesake.seconds)
            return {**told, OTHERS: others}

    def _count(self, tenant: str) -> None:
        counts = self._counts
        if tenant in counts or len(counts) < COUNTED * self._most:
            counts[tenant] = counts.get(tenant, 0) + 1
        else:
            rarest = min(counts, key=counts.__getitem__)
            counts[tenant] = counts.pop(rarest) + 1

    def _exchange(self) -> None:
        waiting = sorted(self._counts.keys() - self._shown.keys(), key=lambda name: (self._counts[name], name))
        while waiting:
            best = waiting.pop()
            least = min(self._shown, key=lambda name: self._counts.get(name, 0))
            if self._counts[best] < LEAD * self._counts.get(least, 0):
                return
            del self._shown[least]
            self._shown[best] = Usage()
