"""The memory itself: all verbs of one tenant, for one caller."""

from tulving.ports import Publisher
from tulving.services.auditing import Auditing
from tulving.services.bridge import Bridge
from tulving.services.bus import Bus
from tulving.services.conflicts import Conflicts
from tulving.services.context import Context
from tulving.services.entities import Entities
from tulving.services.episodes import Episodes
from tulving.services.graph import Graph
from tulving.services.health import HealthCheck
from tulving.services.layers import Layers
from tulving.services.merge_rules import MergeRules
from tulving.services.moving import Moving
from tulving.services.naming import Naming
from tulving.services.profiles import Profiles
from tulving.services.reviewing import Reviewing
from tulving.services.sessions import Sessions
from tulving.services.statistics import Counting
from tulving.services.windows import Windows


class Memory(
    Graph,
    Episodes,
    Windows,
    Conflicts,
    Reviewing,
    Profiles,
    Entities,
    MergeRules,
    Context,
    Layers,
    Sessions,
    Counting,
    Auditing,
    Naming,
    Moving,
    Bus,
    Bridge,
    HealthCheck,
):
    """A memory as one caller sees it. Opened by `tulving.open_memory`."""

    def subscribe(self, publisher: Publisher) -> None:
        """Receive the events of every change to this tenant's memory made in this process, after its commit."""
        self._env.subscribers.add(self.caller.tenant_id, publisher)

    async def settle(self) -> None:
        """Wait until the references of all answers so far are counted. Only tests need this."""
        await self._env.references.settle()
