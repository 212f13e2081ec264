"""All pages of the console, found by their links, so that a page that is added is tested without being named."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from console_parts import Visitor
from starlette.routing import compile_path

from tulving.interfaces.console.navigation import all_pages

READ = [page for page in all_pages() if "GET" in page.methods]
ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ROUTES = sorted((page.path for page in READ), key=lambda path: path.count("{"))


def route_of(address: str) -> str | None:
    """The route of an address; None if it leads to no page."""
    path = urlsplit(address).path.removeprefix("/console") or "/"
    return next((route for route in ROUTES if compile_path(route)[0].fullmatch(path)), None)


async def crawl(
    visitor: Visitor, most: int, more: Sequence[str] = (), look: Callable[[], object] = lambda: None
) -> dict[str, list[str]]:
    """The addresses of each route that can be reached from the navigation and from `more`, up to so many. `look` is
    called while the visitor is at each of them."""
    waiting = [f"/console{route}".rstrip("/") for route in ROUTES if "{" not in route] + list(more)
    found: dict[str, list[str]] = defaultdict(list)
    seen = set(waiting)
    for address in waiting:
        route = route_of(address)
        if route is None or len(found[route]) >= most:
            continue
        await visitor.open(address)
        assert visitor.status == 200, (address, visitor.status, visitor.text[:300])
        found[route].append(address)
        look()
        for link in visitor.links():
            link = link.partition("#")[0]
            if link.startswith("/console") and link not in seen and not link.startswith("/console/login"):
                seen.add(link)
                waiting.append(link)
    for route in ROUTES:
        if not found[route]:
            await _guessed(visitor, route, seen)
            if route_of(visitor.path) == route:  # else it has led on to another
                found[route].append(visitor.path)
            look()
    return {route: addresses for route, addresses in found.items() if addresses}


async def _guessed(visitor: Visitor, route: str, seen: set[str]) -> None:
    """Open a page to which no link leads: its parameters are filled in with ids that others have."""
    ids = dict.fromkeys(id_ for address in sorted(seen) for id_ in ID.findall(address))
    for id_ in ids:
        await visitor.open(f"/console{re.sub(r'{[^}]*}', id_, route)}")
        if visitor.status == 200:
            return
    raise AssertionError(f"no link leads to {route}")
