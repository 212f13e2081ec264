"""The memory itself: every verb in one place, for one caller."""

from tulving.services.context import Context
from tulving.services.entities import Entities
from tulving.services.episodes import Episodes
from tulving.services.facts import Facts
from tulving.services.health import HealthCheck
from tulving.services.items import Items
from tulving.services.lifecycle import Lifecycle
from tulving.services.lineage import Lineage
from tulving.services.moving import Moving
from tulving.services.rules import Rules
from tulving.services.tokens import Tokens


class Memory(Episodes, Facts, Rules, Entities, Items, Context, Lineage, Lifecycle, Moving, Tokens, HealthCheck):
    """A memory as one caller sees it. Made by `tulving.open_memory`."""
