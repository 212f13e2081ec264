"""The tenants with the most calls, in memory that does not grow with the number of tenants."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass

COUNTED = 10
"""Counters kept for each tenant that is shown."""
LEAD = 1.25
"""A tenant replaces one that is shown when it has this many times as many calls. Otherwise tenants of about equal size
would keep replacing each other, each time with a new time series."""
OTHERS = "other"


@dataclass(slots=True)
class Usage:
    """Calls and the time they took."""

    calls: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.calls += 1
        self.seconds += seconds


class Busiest:
    """Usage by the `most` tenants with the most calls, and by all others together.

    A call counts for its tenant if that is shown at the time, else for the others, so no counter decreases while it is
    shown. The counters of a tenant that is replaced are dropped. The ranking uses the Space-Saving algorithm (Metwally
    et al., 2005): when all counters are taken, a new tenant takes over the smallest one, with its count.
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
        """The current counters. Tenants replace each other only here, so the series are stable between two scrapes."""
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
