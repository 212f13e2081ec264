"""The queue of a server: the requests that are worked on, and those that wait for their turn."""

import asyncio

from tulving.settings import HttpConfig


class Queue:
    """Counts the requests, and has a turn for each that may be worked on."""

    def __init__(self, limits: HttpConfig) -> None:
        self.limits = limits
        self.length = self.waiting = 0
        self.free = asyncio.Semaphore(limits.max_working)

    @property
    def is_full(self) -> bool:
        return self.length >= self.limits.max_working + self.limits.max_waiting

    def __str__(self) -> str:
        return f"{self.limits.max_working} are in progress and {self.limits.max_waiting} wait"
