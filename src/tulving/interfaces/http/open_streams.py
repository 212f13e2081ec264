"""The event streams that a server has open: their limits, and the signal that closes them at shutdown."""

import asyncio
from collections import Counter
from collections.abc import Hashable

from tulving.settings import HttpConfig


class OpenStreams:
    """Counts the streams of each caller and in all."""

    _ending: asyncio.Future[None] | None = None

    def __init__(self) -> None:
        self._of = Counter[Hashable]()

    @property
    def ending(self) -> asyncio.Future[None]:
        """Done when the server shuts down: it waits for open responses, so streams must end by themselves."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_future()
        return self._ending

    def end(self) -> None:
        """End all streams, and those that are still being opened."""
        if not self.ending.done():
            self.ending.set_result(None)

    def full(self, who: Hashable, limits: HttpConfig) -> str | None:
        """Why a caller can't open another stream; None if it can."""
        if self._of[who] >= limits.max_streams_per_token:
            return f"{limits.max_streams_per_token} streams are open for this access token already"
        if self._of.total() >= limits.max_streams:
            return f"all {limits.max_streams} streams of this server are in use"
        return None

    def take(self, who: Hashable) -> None:
        """Count a stream that was opened."""
        self._of[who] += 1

    def give_back(self, who: Hashable) -> None:
        """Count a stream that was closed."""
        self._of[who] -= 1
        if not self._of[who]:
            del self._of[who]
