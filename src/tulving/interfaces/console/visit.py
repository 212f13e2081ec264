"""A visit: one request to the console, by somebody who was admitted."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit
from uuid import UUID

from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tulving.domain.model import Item
from tulving.errors import Forbidden
from tulving.interfaces.console import presentation, security
from tulving.interfaces.principal import Principal
from tulving.services.layers import MOST_DETAILS
from tulving.settings import MemoryModuleConfig

if TYPE_CHECKING:
    from tulving.services.administration import Administration
    from tulving.services.memory import Memory

MESSAGE = 400
"""Characters of a message for the next page, so few that they fit into a cookie however they are written there."""
LARGEST_FORM = 4 * 1024 * 1024
"""Bytes of a form, as it is sent."""
UNCHANGED = ":/%#?=@[]!$&'()*+,;"
"""What an address may have in it as it is."""

Handler = Callable[["Visit"], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the console: its path below /console (as Starlette has it: "/facts/{fact_id}"), what answers requests
    for it, by which methods, and the right that it needs."""

    path: str
    handler: Handler
    methods: tuple[str, ...] = ("GET",)
    right: str = "read"


@dataclass(frozen=True, slots=True)
class Link:
    """An entry of the navigation. `key` is its shortcut after `g`."""

    name: str
    path: str
    key: str


class Visit:
    """One request: who makes it and what for, and the ways to answer it.

    Paths in links, forms and `go` are whole ("/console/facts"). Templates have the visit as `visit`, and the macros of
    parts.html as `parts`.
    """

    def __init__(
        self,
        request: Request,
        config: MemoryModuleConfig,
        principal: Principal,
        memory: "Memory",
        key: str,
        navigation: Mapping[str, list[Link]],
    ) -> None:
        self.request, self.config, self.principal = request, config, principal
        self._memory, self._key, self.navigation = memory, key, navigation

    @property
    def query(self) -> QueryParams:
        """The parameters in the address."""
        return self.request.query_params

    @property
    def path(self) -> str:
        """The address without its parameters."""
        return self.request.url.path

    @property
    def now(self) -> datetime:
        """The time by the memory's clock."""
        return self._memory.now()

    @property
    def is_partial(self) -> bool:
        """Whether htmx asks for a part of the page."""
        return "hx-request" in self.request.headers and "hx-history-restore-request" not in self.request.headers

    @property
    def form_token(self) -> str:
        """What every form must carry, in the field `_token`."""
        return security.form_token(self._key)

    @property
    def is_known(self) -> bool:
        """Whether the visitor has logged in; on an open server nobody needs to."""
        return security.get_cookie(self.request, security.ACCESS) is not None

    @property
    def came_from(self) -> str:
        """The page that led here, for the way back."""
        before = urlsplit(self.request.headers.get("referer", ""))
        path = before.path + (f"?{before.query}" if before.query else "")
        return path if security.is_within(path) else security.PATH

    @property
    def theme(self) -> str:
        """light, dark, or empty: as the system has it."""
        return theme_of(self.request)

    @cached_property
    def message(self) -> Any:
        """What the last request left to be said on this page, once."""
        return security.unsealed(self._key, security.get_cookie(self.request, security.SAID))

    async def memory(self) -> "Memory":
        """The memory of whom the request is made for."""
        return self._memory

    async def administration(self) -> "Administration":
        """What concerns the whole store."""
        if self.principal.administration is None or not self.may("admin"):
            raise Forbidden("this needs the right to admin")
        return await self.principal.administration()

    async def call(self, tool: str, **arguments: Any) -> Any:
        """The result of an operation, called by a person with their own rights."""
        return await self.principal.call(tool, arguments, by_person=True)

    async def memories(self, ids: Sequence[UUID]) -> dict[UUID, Item]:
        """The memories with these ids, as far as the visitor may read them."""
        found: dict[UUID, Item] = {}
        for start in range(0, len(ids), MOST_DETAILS):
            details = await self._memory.look_at([*ids[start : start + MOST_DETAILS]])
            found |= {each.memory.id: each.memory for each in details}
        return found

    def may(self, right: str) -> bool:
        """Whether the visitor has a right."""
        return right in self.principal.rights

    async def form(self) -> FormData:
        """The fields of a form. That it was made for this visitor has been checked."""
        return await form_of(self.request)

    def with_query(self, **changed: str | None) -> str:
        """The address of this page with some of its parameters changed; None takes one away."""
        kept = [(name, value) for name, value in self.query.multi_items() if name not in changed]
        asked = urlencode(kept + [(name, value) for name, value in changed.items() if value is not None])
        return f"{self.path}?{asked}" if asked else self.path

    def render(self, template: str, fragment: str = "content", status: int = 200, **values: Any) -> Response:
        """A page; where htmx asks, only one block of its template."""
        if self.is_partial:
            return page(presentation.rendered_block(template, fragment, visit=self, **values), status)
        response = page(presentation.rendered(template, visit=self, **values), status)
        if self.message is not None and "x-tulving-live" not in self.request.headers:
            security.drop_cookie(self.request, response, security.SAID)
        return response

    def go(self, path: str, said: str = "", undo: tuple[str, str] | None = None) -> Response:
        """Lead to another page after a change, which says once what was done. `undo` is the label of a button and the
        path that it posts to."""
        response = redirect(self.request, path)
        if said:
            message = {"said": said[:MESSAGE], "undo": undo}
            security.set_cookie(self.request, response, security.SAID, security.sealed(self._key, message), max_age=60)
        return response


def path_with(path: str, **asked: str | None) -> str:
    """An address with parameters; what is None is left out."""
    given = urlencode({name: value for name, value in asked.items() if value is not None})
    return f"{path}?{given}" if given else path


async def form_of(request: Request) -> FormData:
    """The fields of a form; files are refused."""
    return await request.form(max_files=0, max_part_size=LARGEST_FORM)


def page(text: str, status: int = 200) -> Response:
    """A page."""
    return Response(text.encode(errors="replace"), status, media_type="text/html")


def redirect(request: Request, path: str) -> Response:
    """Lead the browser to another page, also where htmx made the request."""
    if "hx-request" in request.headers:
        return Response(status_code=204, headers={"HX-Redirect": quote(path, safe=UNCHANGED)})
    return RedirectResponse(path, 303)


def theme_of(request: Request) -> str:
    """The theme that the visitor has chosen."""
    chosen = security.get_cookie(request, security.THEME)
    return chosen if chosen in ("light", "dark") else ""
