"""Visitors of the console: one without scripts, in this process, and one with a real browser and a real server."""

import itertools
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import httpx2
from axe_playwright_python.base import AXE_SCRIPT
from html_tree import Element, Tree
from http_parts import BASE, SOURCE, new_token, opening, started
from playwright.async_api import BrowserContext, Page, Request
from starlette.applications import Starlette

from tulving import Caller, Memory
from tulving.bootstrap import utc_now
from tulving.domain.access import ALL_RIGHTS
from tulving.interfaces import console
from tulving.interfaces.calls import open_lazily
from tulving.interfaces.cli import story
from tulving.interfaces.http import api
from tulving.interfaces.http.application import application
from tulving.interfaces.http.authentication import Access
from tulving.interfaces.http.hosts import Endpoint
from tulving.services.administration import Administration
from tulving.settings import MemoryModuleConfig

ADDRESS = Endpoint("127.0.0.1", 8321)
KEY = "tulving_the-key-of-this-server-0123456789"
PICTURES = "TULVING_TEST_PICTURES"
"""A folder for screenshots; without it none are taken."""
NARROW, WIDE = {"width": 360, "height": 740}, {"width": 1280, "height": 900}
BARRIERS = """async (options) => (await axe.run(options)).violations
    .filter((each) => ["serious", "critical"].includes(each.impact))
    .flatMap(({id, help, nodes}) => nodes.map(
        (node) => `${id}, ${help}: ${node.html.slice(0, 300)} ${node.failureSummary ?? ""}`))"""
STORY = MemoryModuleConfig(conflicts=story.UNSURE)


@asynccontextmanager
async def application_of(memory: Memory) -> AsyncIterator[Starlette]:
    """The application with its API and its console, in this process."""
    config = memory._env.config
    async with open_lazily(opening(memory)) as served:
        access = Access(served, key=KEY)
        more = [*api.routes(config, access), *console.routes(config, access)]
        yield application(config, served, ADDRESS, access, more)


@contextmanager
def serving(folder: Path, *options: str, **settings: str) -> Iterator[str]:
    """`tulving serve` in a process of its own, and the link to its console that it prints when it is ready."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TULVING_")}
    environ = kept | settings | {"PYTHONPATH": SOURCE}
    with started("serve", "127.0.0.1:0", *options, cwd=folder, environ=environ) as served:
        yield served.said.partition("Console: ")[2].split()[0]
        served.end()


class Visitor:
    """A browser without scripts: it keeps cookies, follows links and redirects, and sends forms with all that is in
    them. What it shows last is `status`, `page` (HTML) and `text` (what can be read)."""

    def __init__(self, app: Any, base: str = BASE) -> None:
        transport = httpx2.ASGITransport(app, raise_app_exceptions=True) if app is not None else None
        self.base = base
        self.web = httpx2.AsyncClient(transport=transport, base_url=base, follow_redirects=True, timeout=30)
        self.response: httpx2.Response | None = None

    async def log_in(self, secret: str) -> "Visitor":
        """Log in with a token, through the form."""
        await self.open("/console/login")
        await self.press("Log in", token=secret)
        assert self.status == 200, self.text
        return self

    @property
    def status(self) -> int:
        return self.last.status_code

    @property
    def page(self) -> str:
        return self.last.text

    @property
    def path(self) -> str:
        """The address that is shown, with its parameters."""
        return self.last.url.raw_path.decode()

    @property
    def tree(self) -> Element:
        return _parsed(self.page)

    @property
    def text(self) -> str:
        """What can be read on the page, without the navigation."""
        return self.tree.one("main").text

    @property
    def heading(self) -> str:
        return self.tree.one("h1").text

    @property
    def last(self) -> httpx2.Response:
        assert self.response is not None, "nothing was opened yet"
        return self.response

    async def open(self, path: str, **query: Any) -> "Visitor":
        """Open an address, as if it had been typed in."""
        return await self.send("GET", path, params=query or None, headers={"sec-fetch-site": "none"})

    async def send(self, method: str, path: str, **options: Any) -> "Visitor":
        """Send any request, with the visitor's cookies."""
        self.response = await self.web.request(method, path, **options)
        return self

    def links(self, label: str | None = None) -> list[str]:
        """Where the links lead, or those of a name."""
        return [each["href"] for each in self.tree.all("a") if label is None or each.label == label]

    def buttons(self) -> list[str]:
        """What can be pressed on the page itself."""
        return [each.label for each in self.tree.one("main").all("button") if "hidden" not in each]

    async def follow(self, label: str, near: str = "") -> "Visitor":
        """Follow the link of this name: the first one, or the one near a text."""
        link = _nearest([each for each in self.tree.all("a") if each.label == label], label, near)
        return await self._go("GET", link["href"])

    async def press(self, label: str, near: str = "", **fields: Any) -> "Visitor":
        """Press the button of this name, the first one or the one near a text, after filling in fields of its form
        by their name. None leaves a field or box out."""
        found = [each for each in self.tree.all("button", "input") if _pressable(each) and _name(each) == label]
        button = _nearest(found, label, near)
        form = next(each for each in button.within() if each.tag == "form")
        values = _values(form, fields)
        if button["name"]:
            values.append((button["name"], button["value"]))
        method = (button["formmethod"] or form["method"] or "get").upper()
        return await self._go(method, button["formaction"] or form["action"], values)

    async def _go(self, method: str, address: str, values: list[tuple[str, str]] | None = None) -> "Visitor":
        target = urljoin(str(self.last.url), address)
        assert target.startswith(self.base), f"{target} leaves the console"
        headers = {"sec-fetch-site": "same-origin", "referer": str(self.last.url)}
        if method == "POST":
            headers |= {"origin": self.base, "content-type": "application/x-www-form-urlencoded"}
            return await self.send("POST", target, content=urlencode(values or []), headers=headers)
        if values is not None:
            target = urlsplit(target)._replace(query=urlencode(values)).geturl()
        return await self.send("GET", target, headers=headers)


@lru_cache(maxsize=8)
def _parsed(page: str) -> Element:
    return Tree(page).root


def _pressable(element: Element) -> bool:
    kind = element["type"] or "submit"
    return kind == "submit" and "disabled" not in element and (element.tag == "button" or "type" in element)


def _name(button: Element) -> str:
    return button["value"] if button.tag == "input" else button.label


def _nearest(found: list[Element], label: str, near: str) -> Element:
    """The one whose closest surroundings have the text."""
    assert found, f"there is no {label!r}"
    if not near:
        return found[0]
    depths = {
        each: next((depth for depth, around in enumerate(each.within()) if near in around.text), None) for each in found
    }
    closest = min((depth for depth in depths.values() if depth is not None), default=None)
    assert closest is not None, f"there is no {label!r} near {near!r}"
    return next(each for each, depth in depths.items() if depth == closest)


def _values(form: Element, fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a browser sends of a form."""
    known, sent = set(), []
    for each in form.all("input", "select", "textarea"):
        name, kind = each["name"], each["type"] or each.tag
        if not name or "disabled" in each or kind in ("submit", "button"):
            continue
        known.add(name)
        if kind in ("checkbox", "radio"):
            value = each["value"] or "on"
            chosen = fields[name] in (True, value) if name in fields else "checked" in each
            sent += [(name, value)] if chosen else []
        elif name in fields:
            if fields[name] is not None:
                assert each.tag != "select" or fields[name] in _options(each), f"{name} can't be {fields[name]!r}"
                sent.append((name, str(fields[name])))
        elif each.tag == "select":
            options = _options(each)
            sent.append((name, next((value for value, is_chosen in options.items() if is_chosen), next(iter(options)))))
        elif each.tag == "textarea":
            sent.append((name, each.raw_text.removeprefix("\n").replace("\n", "\r\n")))
        else:
            sent.append((name, each["value"]))
    assert fields.keys() <= known, f"the form has no {fields.keys() - known}, only {known}"
    return sent


def _options(select: Element) -> dict[str, bool]:
    return {
        each.attributes.get("value", each.text): "selected" in each
        for each in select.all("option")
        if "disabled" not in each
    }


@dataclass
class Service:
    """`tulving serve` in a process of its own, and the store behind it, opened a second time."""

    base: str
    key: str
    administration: Administration
    numbers: itertools.count = field(default_factory=itertools.count)

    def new_tenant(self) -> str:
        """A tenant that nobody has used yet."""
        return f"tenant-{next(self.numbers)}"

    async def token(self, tenant: str, *rights: str) -> str:
        """A new token for a tenant."""
        return await new_token(self.memory(tenant), name=f"tester of {tenant}", rights=rights or ALL_RIGHTS)

    async def tell_the_story(self, tenant: str) -> None:
        """Fill the memory of a tenant with what `tulving serve --demo` shows."""
        clock = story.StoryClock(utc_now())
        await story.tell(self.memory(tenant, clock=clock, config=STORY), clock)

    def memory(self, tenant: str, **parts: Any) -> Memory:
        """The memory of a tenant, perhaps with other parts than the service has (`clock`, `config`)."""
        return Memory(replace(self.administration._env, **parts), Caller(tenant))


class Browser:
    """A person with a real browser, logged in to a tenant of their own. `page` is Playwright's, `memory` what they look
    at. What goes wrong in the browser is in `faults`; unless it is forgiven, the test fails."""

    def __init__(self, service: Service, context: BrowserContext, page: Page, tenant: str, secret: str) -> None:
        self.service, self.context, self.page = service, context, page
        self.tenant, self.secret = tenant, secret
        self.memory = service.memory(tenant)
        self.faults: list[str] = []
        self._forgiven: list[str] = []
        context.on("request", self._watch)
        context.on("page", self._listen)
        self._listen(page)

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[Visitor]:
        """The same person without scripts, at the same server."""
        visitor = Visitor(None, self.service.base)
        async with visitor.web:
            yield await visitor.log_in(self.secret)

    async def enter(self) -> None:
        """Be logged in without the form, by the cookie that it sets."""
        name = f"tulving_access_{urlsplit(self.service.base).port}"
        value, site = self.secret, "127.0.0.1"
        await self.context.add_cookies([{"name": name, "value": value, "domain": site, "path": console.PATH}])

    async def log_in(self) -> None:
        """By the form, as the holder of a token does."""
        await self.context.clear_cookies()
        await self.open("/console/login")
        await self.page.fill("[name=token]", self.secret)
        await self.page.keyboard.press("Enter")
        await self.page.wait_for_url("**/console")

    async def open(self, path: str) -> None:
        """Open an address below the server's root."""
        await self.page.goto(self.service.base + path)

    async def text(self) -> str:
        """What can be read on the page, without the navigation."""
        return await self.page.locator("main").inner_text()

    async def press(self, label: str) -> None:
        """Press a button by its name."""
        await self.page.get_by_role("button", name=label, exact=True).first.click()

    async def follow(self, label: str) -> None:
        """Follow a link by its name."""
        await self.page.get_by_role("link", name=label, exact=True).first.click()

    async def theme(self, name: str) -> None:
        """light or dark, as the system of the visitor has it."""
        await self.page.emulate_media(color_scheme=name, reduced_motion="reduce")

    async def overflow(self) -> int:
        """How many pixels the page is wider than the window."""
        wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        for _ in range(100):  # what is drawn follows the size of the window a moment later
            if (found := await self.page.evaluate(wider)) <= 0:
                return 0
            await self.page.wait_for_timeout(50)
        return found

    async def barriers(self, *rules: str) -> list[str]:
        """What axe-core finds that is serious or critical, in the theme that is shown; by some rules or by all."""
        options = {"resultTypes": ["violations"]} | ({"runOnly": list(rules)} if rules else {})
        if await self.page.evaluate("!window.axe"):
            await self.page.evaluate(AXE_SCRIPT)
        return [f"{self.page.url}: {each}" for each in await self.page.evaluate(BARRIERS, options)]

    async def pictures(self, name: str) -> None:
        """Screenshots in both themes, wide and narrow, where a folder for them is named."""
        if not (folder := os.environ.get(PICTURES)):
            return
        for theme, (size, view) in itertools.product(("light", "dark"), {"wide": WIDE, "narrow": NARROW}.items()):
            await self.page.set_viewport_size(view)
            await self.theme(theme)
            await self.overflow()
            await self.page.screenshot(path=Path(folder) / f"{name}-{theme}-{size}.png", full_page=True)
        await self.page.set_viewport_size(WIDE)
        await self.theme("light")

    def forgive(self, pattern: str) -> None:
        """Expect a fault, as the message that a browser logs when a request is refused."""
        self._forgiven.append(pattern)

    def check(self) -> None:
        """Fail if anything went wrong that was not expected."""
        left = [each for each in self.faults if not any(re.search(known, each) for known in self._forgiven)]
        assert not left, "\n".join(left)

    def _listen(self, page: Page) -> None:
        def logged(message: Any) -> None:
            if message.type in ("error", "warning"):
                self.faults.append(f"{page.url}: console {message.type}: {message.text}")

        async def asked(dialog: Any) -> None:
            self.faults.append(f"{page.url}: a dialog: {dialog.message}")
            await dialog.dismiss()

        page.on("console", logged)
        page.on("pageerror", lambda error: self.faults.append(f"{page.url}: {error}"))
        page.on("dialog", asked)

    def _watch(self, request: Request) -> None:
        if not request.url.startswith((self.service.base + "/", "data:")):
            self.faults.append(f"a request to another host: {request.url}")


def chromium() -> str | None:
    """A browser of this machine."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def flags() -> list[str]:
    """How it is started: quiet, and without its sandbox only where it can't have one."""
    quiet = ["--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    return [*quiet, "--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]


def query_of(path: str) -> dict[str, str]:
    """The parameters of an address."""
    return dict(parse_qsl(urlsplit(path).query))
