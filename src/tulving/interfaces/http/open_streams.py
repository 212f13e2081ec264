"""The streams that one server has open: how many there may be, and what ends them when the server ends."""

import asyncio
from collections import Counter
from collections.abc import Hashable

from tulving.settings import HttpConfig


class OpenStreams:
    """Counts the streams of each caller, and of all."""

    _ending: asyncio.Future[None] | None = None

    def __init__(self) -> None:
        self._of = Counter[Hashable]()

    @property
    def ending(self) -> asyncio.Future[None]:
        """Done when the server is about to end, which waits for its answers to be complete."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_future()
        return self._ending

    def end(self) -> None:
        """Let all streams end, also those that are yet to begin."""
        if not self.ending.done():
            self.ending.set_result(None)

    def full(self, who: Hashable, limits: HttpConfig) -> str | None:
        """Why there can't be one more for a caller; None if there can."""
        if self._of[who] >= limits.max_streams_per_token:
            return f"{limits.max_streams_per_token} streams are open for this access token already"
        if self._of.total() >= limits.max_streams:
            return f"all {limits.max_streams} streams of this server are in use"
        return None

    def take(self, who: Hashable) -> None:
        """Count one more."""
        self._of[who] += 1

    def give_back(self, who: Hashable) -> None:
        """Count one less."""
        self._of[who] -= 1
        if not self._of[who]:
            del self._of[who]
