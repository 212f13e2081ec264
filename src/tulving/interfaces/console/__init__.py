"""The web console."""

from starlette.routing import BaseRoute

from tulving.interfaces.http.authentication import Access
from tulving.settings import MemoryModuleConfig

PATH = "/console"


def routes(config: MemoryModuleConfig, access: Access) -> list[BaseRoute]:
    """The pages."""
    return []
