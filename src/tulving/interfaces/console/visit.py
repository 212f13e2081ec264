"""A visit: one authenticated request to the console."""

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
from tulving.interfaces.console import presentation, security
from tulving.interfaces.principal import Principal
from tulving.services.layers import MOST_DETAILS
from tulving.settings import MemoryModuleConfig

if TYPE_CHECKING:
    from tulving.services.memory import Memory

MESSAGE = 400
"""The length of a message for the next page: in the worst case of escaping it still fits into a cookie."""
LARGEST_FORM = 4 * 1024 * 1024
"""The largest body of a form, in bytes."""
UNCHANGED = ":/%#?=@[]!$&'()*+,;"
"""Characters that need no percent-encoding in a URL that is encoded already."""

Handler = Callable[["Visit"], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the console: its path below /console in the syntax of Starlette ("/entities/{entity_id}"), its handler,
    its methods, and the right that it needs."""

    path: str
    handler: Handler
    methods: tuple[str, ...] = ("GET",)
    right: str = "read"


@dataclass(frozen=True, slots=True)
class Link:
    """An entry of the navigation. `key` is its shortcut after the key `g`."""

    name: str
    path: str
    key: str


class Visit:
    """One request: its visitor, its parameters, and ways to respond. `memory` is the visitor's memory.

    Paths in links, forms and `go` are absolute ("/console/facts"). Templates have the visit as `visit`, and the macros
    of parts.html as `parts`.
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
        self.memory, self._key, self.navigation = memory, key, navigation

    @property
    def query(self) -> QueryParams:
        """The query parameters."""
        return self.request.query_params

    @property
    def path(self) -> str:
        """The path of the URL."""
        return self.request.url.path

    @property
    def now(self) -> datetime:
        """The time by the memory's clock."""
        return self.memory.now()

    @property
    def is_partial(self) -> bool:
        """Whether htmx requests a part of the page."""
        return "hx-request" in self.request.headers and "hx-history-restore-request" not in self.request.headers

    @property
    def form_token(self) -> str:
        """The CSRF token, which every form must have in the field `_token`."""
        return security.form_token(self._key)

    @property
    def is_known(self) -> bool:
        """Whether the visitor has logged in, which is not needed on an open server."""
        return security.get_cookie(self.request, security.ACCESS) is not None

    @property
    def came_from(self) -> str:
        """The page that linked here."""
        before = urlsplit(self.request.headers.get("referer", ""))
        path = before.path + (f"?{before.query}" if before.query else "")
        return path if security.is_within(path) else security.PATH

    @property
    def theme(self) -> str:
        """light, dark, or empty for the setting of the system."""
        return theme_of(self.request)

    @cached_property
    def message(self) -> Any:
        """The message of the previous request, which is shown once."""
        return security.unsealed(self._key, security.get_cookie(self.request, security.SAID))

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Call an operation with the visitor's rights, without counting references."""
        return await self.principal.call(tool, arguments, by_person=True)

    async def memories(self, ids: Sequence[UUID]) -> dict[UUID, Item]:
        """The memories with these ids, as far as the visitor may read them."""
        found: dict[UUID, Item] = {}
        for start in range(0, len(ids), MOST_DETAILS):
            details = await self.memory.look_at([*ids[start : start + MOST_DETAILS]])
            found |= {each.memory.id: each.memory for each in details}
        return found

    def may(self, right: str) -> bool:
        """Whether the visitor has a right."""
        return right in self.principal.rights

    async def form(self) -> FormData:
        """The fields of a form, whose CSRF token has been checked."""
        return await form_of(self.request)

    def with_query(self, **changed: str | None) -> str:
        """The URL of this page with some query parameters changed; None removes one."""
        kept = [(name, value) for name, value in self.query.multi_items() if name not in changed]
        asked = urlencode(kept + [(name, value) for name, value in changed.items() if value is not None])
        return f"{self.path}?{asked}" if asked else self.path

    def render(self, template: str, fragment: str = "content", status: int = 200, **values: Any) -> Response:
        """Render a page, or for htmx only one block of its template."""
        if self.is_partial:
            return page(presentation.rendered_block(template, fragment, visit=self, **values), status)
        response = page(presentation.rendered(template, visit=self, **values), status)
        if self.message is not None and "x-tulving-live" not in self.request.headers:
            security.drop_cookie(self.request, response, security.SAID)
        return response

    def go(self, path: str, said: str = "", undo: tuple[str, str] | None = None) -> Response:
        """Redirect to another page after a change, which shows a message once. `undo` is the label of a button in it,
        and the path to which that posts."""
        response = redirect(self.request, path)
        if said:
            message = {"said": said[:MESSAGE], "undo": undo}
            security.set_cookie(self.request, response, security.SAID, security.sealed(self._key, message), max_age=60)
        return response


def path_with(path: str, **asked: str | None) -> str:
    """A URL with query parameters, except those that are None."""
    given = urlencode({name: value for name, value in asked.items() if value is not None})
    return f"{path}?{given}" if given else path


async def form_of(request: Request) -> FormData:
    """The fields of a form. Files are refused."""
    return await request.form(max_files=0, max_part_size=LARGEST_FORM)


def page(text: str, status: int = 200) -> Response:
    """An HTML response."""
    return Response(text.encode(errors="replace"), status, media_type="text/html")


def redirect(request: Request, path: str) -> Response:
    """Redirect the browser to another page, also if htmx made the request."""
    if "hx-request" in request.headers:
        return Response(status_code=204, headers={"HX-Redirect": quote(path, safe=UNCHANGED)})
    return RedirectResponse(path, 303)


def theme_of(request: Request) -> str:
    """The theme that the visitor has chosen."""
    chosen = security.get_cookie(request, security.THEME)
    return chosen if chosen in ("light", "dark") else ""
