"""Coming in and going out: by token, by key, by a JWT's length, and what happens when the credential ends."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from administration import administer
from console_parts import BASE, KEY, Visitor, opening
from html_tree import Tree
from starlette.requests import Request

from tulving.bootstrap import Served, new_secret
from tulving.errors import StoreUnavailable
from tulving.interfaces import console
from tulving.interfaces.calls import open_lazily
from tulving.interfaces.console import security
from tulving.interfaces.console.visit import MESSAGE
from tulving.interfaces.http.application import application
from tulving.interfaces.http.authentication import Access
from tulving.interfaces.http.hosts import Endpoint, host_names
from tulving.services.operations import OPERATIONS
from tulving.settings import MemoryModuleConfig

ONE_ENGINE = pytest.mark.usefixtures("path")
ACCESS = "tulving_access_8321"
VISITOR = "tulving_visitor_8321"


def cookies(response: httpx2.Response) -> dict[str, str]:
    """The cookies that an answer sets, with their attributes."""
    return {line.partition("=")[0]: line for line in response.headers.get_list("set-cookie")}


async def token(memory, **options) -> str:
    secret = new_secret()
    await administer(memory).create_token(secret, **options)
    return secret


async def test_a_token_opens_the_door(stranger, memory):
    secret = await token(memory, name="Vera")
    await stranger.open("/console")
    assert stranger.path == "/console/login"
    await stranger.press("Log in", token=f"  {secret} ")
    assert (stranger.status, stranger.path, stranger.heading) == (200, "/console", "Overview")
    assert "Vera" in stranger.tree.text
    assert secret not in stranger.page


async def test_who_is_logged_in_needs_no_form(visitor):
    await visitor.open("/console/login")
    assert visitor.path == "/console"


async def test_the_key_in_the_link_opens_the_door_and_leaves_the_address(stranger):
    await stranger.open(f"/console/login?key={KEY}")
    assert (stranger.status, stranger.path) == (200, "/console")
    assert "local owner" in stranger.tree.text


@ONE_ENGINE
@pytest.mark.parametrize("secret", ["tulving_" + "x" * 43, "nonsense", "", "ключ", "a b", "x" * 3_801, "a\nb", "x;y"])
async def test_a_wrong_token_is_refused(stranger, secret):
    await stranger.open("/console/login")
    await stranger.press("Log in", token=secret)
    assert stranger.status == 401
    assert stranger.tree.one("h1").text == "Tulving"
    assert "token" in next(each for each in stranger.tree.all("p") if each["role"] == "alert").text
    assert ACCESS not in stranger.web.cookies
    await stranger.open("/console")
    assert stranger.path == "/console/login"


async def test_a_wrong_key_is_refused(stranger):
    await stranger.open("/console/login?key=wrong")
    assert stranger.status == 401
    assert ACCESS not in stranger.web.cookies


async def test_a_long_credential_fits_into_the_cookie_or_is_refused_in_words(stranger, monkeypatch):
    admitted = []

    async def admit(self, headers, credential=None):
        admitted.append(credential)
        return await plain(self, headers, KEY if credential == long else credential)

    long = "eyJ" + "a.b-c_d" * 500
    plain = Access.admit
    monkeypatch.setattr(Access, "admit", admit)
    await stranger.open("/console/login")
    await stranger.press("Log in", token=long)
    assert (stranger.status, stranger.path) == (200, "/console")
    assert admitted[-1] == long
    for cookie in stranger.web.cookies.jar:
        assert len(f"{cookie.name}={cookie.value}") < 4_000
    await stranger.press("Log out")
    await stranger.press("Log in", token="x" * 3_801)
    assert "too long" in stranger.text


async def test_after_logging_in_the_visitor_is_where_they_wanted_to_be(stranger, memory):
    secret = await token(memory)
    await stranger.open("/console/nowhere?a=1&b=%2F")
    assert stranger.path.startswith("/console/login?next=")
    await stranger.press("Log in", token=secret)
    assert stranger.path == "/console/nowhere?a=1&b=%2F"


async def test_logging_out_forgets_the_credential(visitor):
    await visitor.open("/console")
    await visitor.press("Log out")
    assert visitor.path == "/console/login"
    assert ACCESS not in visitor.web.cookies
    await visitor.open("/console")
    assert visitor.path == "/console/login"


async def test_a_token_that_is_revoked_during_the_visit_ends_it(stranger, memory):
    secret = await token(memory)
    await stranger.log_in(secret)
    [made] = await administer(memory).list_tokens()
    await administer(memory).revoke_token(str(made.id))
    await stranger.open("/console")
    assert stranger.path == "/console/login"
    assert ACCESS not in stranger.web.cookies


async def test_a_form_that_was_open_when_the_token_ended_changes_nothing(stranger, memory):
    await stranger.log_in(await token(memory))
    [made] = await administer(memory).list_tokens()
    await administer(memory).revoke_token(str(made.id))
    await stranger.press("Dark theme")
    assert stranger.path == "/console/login"
    assert "tulving_theme_8321" not in stranger.web.cookies


async def test_a_token_that_expires_ends_the_visit(stranger, memory, clock):
    await stranger.log_in(await token(memory, days=1))
    clock.advance(days=2)
    await stranger.open("/console")
    assert stranger.path == "/console/login"


async def test_an_open_server_asks_nobody(memory):
    config = MemoryModuleConfig()
    async with open_lazily(opening(memory)) as served:
        access = Access(served, is_open=True)
        app = application(config, served, Endpoint("127.0.0.1", 8321), access, console.routes(config, access))
        visitor = await Visitor(app).open("/console")
        assert (visitor.status, visitor.path) == (200, "/console")
        assert "Log out" not in [each.label for each in visitor.tree.all("button")]
        await visitor.press("Dark theme")
        assert visitor.tree.one("html")["data-theme"] == "dark"
        forwarded = await visitor.send("GET", "/console", headers={"x-forwarded-for": "203.0.113.9"})
        assert forwarded.path == "/console/login"
        await token(memory)
        await visitor.open("/console")
        assert visitor.path == "/console/login"


async def test_while_the_store_is_gone_the_door_says_so_and_keeps_the_cookie(memory):
    @asynccontextmanager
    async def failing() -> AsyncIterator[Served]:
        raise StoreUnavailable("it went away")
        yield

    config = MemoryModuleConfig()
    async with open_lazily(failing) as served:
        access = Access(served, key=KEY)
        app = application(config, served, Endpoint("127.0.0.1", 8321), access, console.routes(config, access))
        visitor = Visitor(app)
        visitor.web.cookies.set(ACCESS, "tulving_a-good-one", domain="127.0.0.1", path="/console")
        await visitor.open("/console")
        assert visitor.status == 503
        assert "can't be reached" in visitor.text
        assert ACCESS not in cookies(visitor.response)
        assert visitor.response.headers["retry-after"]


@ONE_ENGINE
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_under_a_name_of_its_own_the_console_takes_its_own_forms(memory, scheme):
    """Browsers name the origin of a form also to the server that it came from; a proxy may have taken TLS off."""
    config, secret = MemoryModuleConfig(), await token(memory)
    at = Endpoint("192.0.2.1", 8321, is_loopback=False, allowed_hosts=host_names("memory.example.com"))
    async with open_lazily(opening(memory)) as served:
        access = Access(served)
        app = application(config, served, at, access, console.routes(config, access))
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app), base_url="http://memory.example.com", follow_redirects=True
        ) as web:
            page = Tree((await web.get("/console/login")).text).root
            form = {"token": secret, "_token": page.one("form").one("input")["value"]}
            origin = f"{scheme}://memory.example.com"
            entered = await web.post("/console/login", data=form, headers={"origin": origin})
            assert (entered.status_code, entered.url.path) == (200, "/console")
            for foreign in ("https://evil.example", "http://memory.example.com.evil.example", "null"):
                assert (await web.post("/console/theme", headers={"origin": foreign})).status_code == 403


@pytest.mark.parametrize("wanted", ["/", "/console/"])
async def test_the_roots_lead_to_the_overview(visitor, wanted):
    await visitor.open(wanted)
    assert (visitor.status, visitor.heading) == (200, "Overview")


@ONE_ENGINE
@pytest.mark.parametrize(
    "after",
    [
        "//evil.example",
        "https://evil.example/console",
        "/\\evil.example",
        "/console/../../evil",
        "/console/%2e%2e/v1",
        "/consoleevil",
        "/console\r\nset-cookie:a=b",
        "javascript:alert(1)",
        "/console/login?key=tulving_another",
        "/console/%6Cogin?key=tulving_another",
        "/console/./login?key=tulving_another",
        "/console/%2E/login?key=tulving_another",
        "/console//login?key=tulving_another",
        "/console/\t//evil",
        "",
    ],
)
async def test_nobody_is_led_elsewhere_after_logging_in(stranger, memory, after):
    secret = await token(memory)
    await stranger.open("/console/login", next=after)
    await stranger.press("Log in", token=secret)
    assert stranger.path == "/console"
    await stranger.open("/console/login", next=after)
    assert stranger.path == "/console"


@ONE_ENGINE
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_no_other_site_chooses_as_whom_somebody_works(stranger, memory, site):
    secret = await token(memory)
    await stranger.send("GET", f"/console/login?key={secret}", headers={"sec-fetch-site": site})
    assert stranger.path.startswith("/console/login")
    assert ACCESS not in stranger.web.cookies
    await stranger.open("/console/login")
    form = {"_token": next(each["value"] for each in stranger.tree.all("input") if each["name"] == "_token")}
    sent = {"data": form | {"token": secret}, "headers": {"sec-fetch-site": site}}
    await stranger.send("POST", "/console/login", **sent)
    assert stranger.status == 403
    assert ACCESS not in stranger.web.cookies


async def test_the_form_for_the_token_must_come_from_this_browser(stranger, memory):
    secret = await token(memory)
    for form in ({}, {"_token": ""}, {"_token": "0" * 64}, {"_token": security.form_token("of somebody else")}):
        await stranger.send("POST", "/console/login", data=form | {"token": secret})
        assert stranger.status == 403
        assert ACCESS not in stranger.web.cookies


@ONE_ENGINE
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_the_cookies_are_for_this_server_and_not_for_scripts(app, scheme):
    base = BASE.replace("http", scheme)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=base) as web:
        first = await web.get("/console/login")
        entered = await web.get(f"/console/login?key={KEY}")
        theme = await web.post(
            "/console/theme", data={"theme": "dark", "_token": security.form_token(KEY)}, headers={"origin": base}
        )
    set_by = {**cookies(first), **cookies(entered), **cookies(theme)}
    assert set_by.keys() == {VISITOR, ACCESS, "tulving_theme_8321"}
    for line in set_by.values():
        attributes = {part.strip().lower() for part in line.split(";")[1:]}
        assert {"httponly", "samesite=lax", "path=/console"} <= attributes
        assert ("secure" in attributes) == (scheme == "https")
        assert not any(attribute.startswith("domain") for attribute in attributes)
    assert "max-age" not in set_by[ACCESS].lower()


async def test_a_token_is_sent_to_the_console_only(visitor):
    """A page of another origin can make a browser call the API, but not with this cookie."""
    path = next(
        each.http.split()[1] for each in OPERATIONS.values() if each.http.startswith("GET") and "{" not in each.http
    )
    answer = await visitor.web.get(path)
    assert answer.status_code == 401
    assert "cookie" not in answer.request.headers


def test_two_servers_on_one_machine_have_cookies_of_their_own():
    def named(host: str) -> str:
        scope = {"type": "http", "scheme": "http", "path": "/", "query_string": b"", "headers": [(b"host", host)]}
        return security._named(Request(scope), "access")

    assert len({named(b"localhost:8321"), named(b"localhost:8322"), named(b"memory.example.com")}) == 3


def test_a_long_message_fits_into_its_cookie():
    """What browsers keep of a cookie are 4096 bytes."""
    for text in ("🐘" * 5_000, "\\" * 5_000, '"\n' * 5_000, "é" * 5_000, "\x01" * 5_000):
        sealed = security.sealed(KEY, {"said": text[:MESSAGE], "undo": ("Undo", "/console/" + "x" * 200)})
        assert len(sealed) < 3_900
        assert security.unsealed(KEY, sealed)["said"] == text[:MESSAGE]


@pytest.mark.parametrize("broken", [None, "", ".", "x", "x.y", "é.ü", "e30=." + "0" * 64])
def test_a_message_that_was_made_elsewhere_is_not_shown(broken):
    assert security.unsealed(KEY, broken) is None
    assert security.unsealed("other", security.sealed(KEY, "said")) is None
