"""Access to the console: authentication, login and logout, CSRF protection and error pages."""

import logging
from collections.abc import Awaitable, Callable
from urllib.parse import quote, unquote

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from tulving.errors import Forbidden, NotFound
from tulving.interfaces.console import presentation, security
from tulving.interfaces.console.guard import problem_page
from tulving.interfaces.console.navigation import all_pages, navigation
from tulving.interfaces.console.security import LOGIN, PATH
from tulving.interfaces.console.visit import Page, Visit, form_of, page, redirect, theme_of
from tulving.interfaces.http import problems
from tulving.interfaces.http.authentication import Access
from tulving.interfaces.http.credentials import Refusal
from tulving.interfaces.http.events import event_stream
from tulving.settings import MemoryModuleConfig

log = logging.getLogger("tulving")

ASK, SURE, TOKEN = "_ask", "_sure", "_token"
"""Form fields: the confirmation question, whether it was confirmed, and the CSRF token."""
TITLES = {
    403: "You may not do this",
    404: "There is nothing here",
    409: "What is stored does not allow this",
    412: "It was changed in the meantime",
    422: "This can't be done",
    429: "This can't be done now",
    503: "The store can't be reached",
}
"""The titles of error pages, by their status."""
UNKNOWN = "The page does not exist, or what it showed is gone."
OUTDATED = "This form is out of date, or was not made by this console. Go back, reload the page and try again."
STALE = "This link is not of the running server. Open the one that it printed at its start, or log in with a token."

Endpoint = Callable[[Request], Awaitable[Response]]


class Door:
    """Authenticates each request by the credential in its cookie. There are no sessions, so any process of a service
    can serve any visitor."""

    def __init__(self, config: MemoryModuleConfig, access: Access) -> None:
        self._config, self._access = config, access
        self.pages = all_pages()

    def opens(self, wanted: Page) -> Endpoint:
        """The endpoint of a page."""

        async def answer(request: Request) -> Response:
            return await self._guarded(request, lambda visit: self._handled(wanted, visit))

        return answer

    async def nowhere(self, request: Request) -> Response:
        """The endpoint of unknown paths."""
        return await self._guarded(request, _lost)

    async def login(self, request: Request) -> Response:
        """The form for a token, and the link with a key that `tulving serve` prints."""
        after = request.query_params.get("next", PATH)
        # Never back to this page: its link with a key could log the visitor in as someone else.
        after = after if security.is_within(after) and not unquote(after).startswith(LOGIN) else PATH
        visitor = security.get_cookie(request, security.VISITOR)
        if request.method == "POST":
            form = await form_of(request)
            is_ours = visitor is not None and security.is_form_token(visitor, form.get(TOKEN))
            if not is_ours or security.is_foreign(request):
                return self._login_page(request, after, OUTDATED, 403)
            return await self._enter(request, str(form.get("token", "")).strip(), after)
        # Only the server's own key, and not from another site: a link must not log the visitor in as someone else.
        key = request.query_params.get("key")
        if key and not security.is_foreign(request):
            if not self._access.is_key(key):
                return self._login_page(request, after, STALE, 401)
            return await self._enter(request, key, after)
        try:
            await self._access.admit(request, security.get_cookie(request, security.ACCESS))
        except Refusal as refusal:
            return self._login_page(request, after, "" if refusal.status == 401 else refusal.problem)
        return redirect(request, after)

    async def logout(self, request: Request) -> Response:
        """Delete the cookie with the credential."""

        async def leave(visit: Visit) -> Response:
            response = redirect(request, LOGIN)
            security.drop_cookie(request, response, security.ACCESS)
            return response

        return await self._guarded(request, leave)

    async def live(self, request: Request) -> Response:
        """The event stream for the live updates of open pages."""
        if security.is_foreign(request):
            return Response(status_code=403)
        try:
            credential = security.get_cookie(request, security.ACCESS)
            return await event_stream(request, self._access, self._config.http, credential)
        except Exception as error:
            return problems.respond(error)

    async def theme(self, request: Request) -> Response:
        """Store the chosen theme in a cookie."""

        async def choose(visit: Visit) -> Response:
            form = await visit.form()
            after = form.get("next")
            response = redirect(request, str(after) if security.is_within(after) else PATH)
            chosen = form.get("theme")
            if chosen in ("light", "dark"):
                security.set_cookie(request, response, security.THEME, str(chosen), max_age=security.YEAR)
            else:
                security.drop_cookie(request, response, security.THEME)
            return response

        return await self._guarded(request, choose)

    async def _enter(self, request: Request, credential: str, after: str) -> Response:
        if not security.may_be_kept(credential):
            is_long = len(credential) > security.LONGEST_COOKIE
            said = "This token is too long for a browser to keep." if is_long else "This is not a token."
            return self._login_page(request, after, said, 401)
        try:
            await self._access.admit(request, credential)
        except Refusal as refusal:
            said = "This token is unknown, expired or revoked." if refusal.status == 401 else refusal.problem
            response = self._login_page(request, after, said, refusal.status)
            response.headers.update(refusal.headers)
            return response
        response = redirect(request, after)
        security.set_cookie(request, response, security.ACCESS, credential)
        return response

    def _login_page(self, request: Request, after: str, problem: str = "", status: int = 200) -> Response:
        visitor = security.get_cookie(request, security.VISITOR) or security.new_visitor()
        values = {"after": after, "problem": problem, "form_token": security.form_token(visitor)}
        response = page(presentation.rendered("login.html", visit=None, theme=theme_of(request), **values), status)
        security.set_cookie(request, response, security.VISITOR, visitor)
        return response

    async def _guarded(self, request: Request, answer: Callable[[Visit], Awaitable[Response]]) -> Response:
        """Authenticate the visitor and answer. Every error becomes a page here."""
        credential = security.get_cookie(request, security.ACCESS)
        visitor = security.get_cookie(request, security.VISITOR)
        key = credential or visitor or security.new_visitor()
        visit = None
        try:
            principal = await self._access.admit(request, credential)
            memory = await principal.memory()
            visit = Visit(request, self._config, principal, memory, key, navigation(self.pages, principal))
            response = await self._unforged(visit, key) or await answer(visit)
        except Refusal as refusal:
            if refusal.status == 401:
                asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
                after = f"?next={quote(asked)}" if request.method == "GET" and asked != PATH else ""
                response = redirect(request, f"{LOGIN}{after}")
                if credential is not None:
                    security.drop_cookie(request, response, security.ACCESS)
                return response
            response = _problem(request, visit, refusal.status, "This can't be done now", refusal.problem)
            response.headers.update(refusal.headers)
        except ClientDisconnect:
            raise
        except Exception as error:
            response = _failed(request, visit, error)
        if key not in (credential, visitor):
            security.set_cookie(request, response, security.VISITOR, key)
        return response

    async def _unforged(self, visit: Visit, key: str) -> Response | None:
        """An error page for a form without this visitor's CSRF token; None if the form is valid."""
        if visit.request.method != "POST":
            return None
        form = await visit.form()
        token = visit.request.headers.get("x-tulving-form", form.get(TOKEN))
        if security.is_form_token(key, token) and not security.is_foreign(visit.request):
            return None
        return _problem(visit.request, visit, 403, "This form can't be used", OUTDATED)

    async def _handled(self, wanted: Page, visit: Visit) -> Response:
        if not visit.may(wanted.right):
            has = ", ".join(visit.principal.rights)
            raise Forbidden(f"This needs the right to {wanted.right}, and {visit.principal.name} has only {has}.")
        if visit.request.method == "POST":
            form = await visit.form()
            if (question := form.get(ASK)) and not form.get(SURE):
                fields = [(name, value) for name, value in form.multi_items() if name not in (ASK, TOKEN)]
                return visit.render("confirm.html", question=question, fields=fields)
        return await wanted.handler(visit)


async def _lost(visit: Visit) -> Response:
    raise NotFound(UNKNOWN)


def _failed(request: Request, visit: Visit | None, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return _problem(request, visit, error.status_code, "This can't be done", error.detail)
    problem = problems.problem_of(error, is_admin=visit is not None and visit.may("admin"))
    return _problem(request, visit, problem.status, TITLES.get(problem.status, "This did not work"), problem.detail)


def _problem(request: Request, visit: Visit | None, status: int, title: str, problem: str) -> Response:
    """An error page, with the navigation if the visitor is authenticated."""
    if visit is not None:
        return visit.render("error.html", status=status, code=status, title=title, problem=problem)
    return problem_page(request, status, title, problem)
