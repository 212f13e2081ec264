"""Tenants: the tenants of the store, what each has, and its last change."""

from starlette.responses import Response

from tulving.interfaces.console.visit import Page, Visit

AT_A_TIME = 50


async def show(visit: Visit) -> Response:
    """The tenants by name."""
    page = await visit.call("memory_tenants", limit=AT_A_TIME, cursor=visit.query.get("cursor") or None)
    own = visit.memory.caller.tenant_id
    return visit.render("tenants.html", page=page, own=own)


PAGES = [Page("/tenants", show, right="admin")]
