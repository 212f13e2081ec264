"""The memory itself: every verb of one tenant in one place, for one caller."""

from tulving.ports import Publisher
from tulving.services.context import Context
from tulving.services.entities import Entities
from tulving.services.episodes import Episodes
from tulving.services.facts import Facts
from tulving.services.health import HealthCheck
from tulving.services.moving import Moving
from tulving.services.rules import Rules
from tulving.services.statistics import Counting


class Memory(Episodes, Facts, Rules, Entities, Context, Counting, Moving, HealthCheck):
    """A memory as one caller sees it. Made by `tulving.open_memory`."""

    def subscribe(self, publisher: Publisher) -> None:
        """Be told of every change to this tenant's memory made through this process, after it is committed."""
        self._env.subscribers.add(self.caller.tenant_id, publisher)

    async def settle(self) -> None:
        """Wait until the references of what was answered so far are counted. Only tests need to."""
        await self._env.references.settle()
