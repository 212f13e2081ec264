"""The web console: server-rendered pages that work with and without JavaScript."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router

from tulving.interfaces.console.door import Door
from tulving.interfaces.console.files import Files
from tulving.interfaces.console.guard import Guard
from tulving.interfaces.console.security import PATH
from tulving.interfaces.http.authentication import Access
from tulving.settings import MemoryModuleConfig

__all__ = ["PATH", "routes"]


def routes(config: MemoryModuleConfig, access: Access) -> list[BaseRoute]:
    """The routes of the console, and a redirect to it from the root."""
    door = Door(config, access)
    inside = [
        Route("/login", door.login, methods=["GET", "POST"]),
        Route("/logout", door.logout, methods=["POST"]),
        Route("/theme", door.theme, methods=["POST"]),
        Route("/live", door.live),
        Mount("/static", Files()),
        *(Route(page.path, door.opens(page), methods=list(page.methods)) for page in door.pages),
        Route("/{rest:path}", door.nowhere, methods=["GET", "POST"]),
    ]
    overview = Route(PATH, door.opens(door.pages[0]), methods=list(door.pages[0].methods))

    return [Route("/", to_console), Route(PATH, Guard(Router([overview]))), Mount(PATH, Guard(Router(inside)))]


async def to_console(request: Request) -> Response:
    """Redirect from the root to the console."""
    return RedirectResponse(PATH, 303)
