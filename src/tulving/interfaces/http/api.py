"""The HTTP API: a route for each operation of the registry."""

from starlette.routing import BaseRoute

from tulving.interfaces.http.authentication import Access
from tulving.settings import MemoryModuleConfig


def routes(config: MemoryModuleConfig, access: Access) -> list[BaseRoute]:
    """The routes of the API."""
    return []
