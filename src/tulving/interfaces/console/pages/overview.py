"""Overview: how much is remembered, how it grows and fades, and what needs attention."""

from starlette.responses import Response

from tulving.interfaces.console.visit import Page, Visit


async def show(visit: Visit) -> Response:
    """The state of the memory at a glance."""
    memory = await visit.memory()
    counts, glance, readiness = await memory.overview(), await memory.glance(), await memory.readiness()
    return visit.render("overview.html", counts=counts, glance=glance, readiness=readiness)


PAGES = [Page("/", show)]
