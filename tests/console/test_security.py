"""What a hostile page, form or request may try against the console."""

import re

import pytest
from console_parts import BASE, KEY, Visitor
from http_parts import new_token

from tulving.domain.access import ALL_RIGHTS
from tulving.interfaces.console import security
from tulving.interfaces.console.guard import LARGEST_LOGIN, Guard
from tulving.interfaces.console.navigation import NAVIGATION, all_pages
from tulving.interfaces.console.presentation import STATIC
from tulving.interfaces.console.visit import LARGEST_FORM

pytestmark = pytest.mark.usefixtures("path")  # nothing here depends on the engine

POLICY = {"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"}


def assert_protected(visitor: Visitor) -> None:
    headers = visitor.response.headers
    assert set(headers["content-security-policy"].split("; ")) >= POLICY
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "server" not in headers


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/console", 200),
        ("GET", "/console/", 200),
        ("HEAD", "/console", 200),
        ("GET", "/console/nowhere", 404),
        ("POST", "/console/nowhere", 403),
        ("PUT", "/console", 405),
        ("DELETE", "/console/nowhere", 405),
        ("OPTIONS", "/console/login", 405),
        ("BREW", "/console/login", 405),
        ("GET", "/console/static/none.js", 404),
        ("GET", "/console/static", 404),
        ("GET", "/console/static/", 404),
        ("GET", "/console/static/vendor", 404),
        ("POST", "/console/static/console.css", 405),
    ],
)
async def test_every_answer_has_the_headers_and_none_is_kept(visitor, method, path, status):
    await visitor.send(method, path)
    assert visitor.status == status
    assert_protected(visitor)
    assert visitor.response.headers["cache-control"] == "no-store"
    assert "Traceback" not in visitor.page


async def test_head_answers_like_get_without_a_body(visitor):
    await visitor.send("HEAD", "/console")
    assert visitor.page == ""


async def test_refusals_and_redirects_have_the_headers_too(stranger):
    for path in ("/console", "/console/nowhere", "/console/login?key=wrong"):
        await stranger.send("GET", path, follow_redirects=False)
        assert stranger.status in (303, 401)
        assert_protected(stranger)
        assert stranger.response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("file", [each.relative_to(STATIC).as_posix() for each in STATIC.rglob("*") if each.is_file()])
async def test_files_have_the_headers_and_may_be_kept(stranger, file):
    await stranger.send("GET", f"/console/static/{file}?v=1")
    assert stranger.status == 200
    assert_protected(stranger)
    assert "immutable" in stranger.response.headers["cache-control"]
    await stranger.send("GET", f"/console/static/{file}")
    assert stranger.response.headers["cache-control"] == "no-cache"
    tag = stranger.response.headers["etag"]
    await stranger.send("GET", f"/console/static/{file}", headers={"if-none-match": tag})
    assert stranger.status == 304


@pytest.mark.parametrize(
    "path",
    [
        "../door.py",
        "..%2fdoor.py",
        "%2e%2e/door.py",
        "%2e%2e%2f%2e%2e%2fdoor.py",
        "..\\door.py",
        "..%5cdoor.py",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "//etc/passwd",
        "....//door.py",
        "vendor/../../door.py",
        "vendor/%2e%2e/%2e%2e/door.py",
        "console.css%00.js",
        "%00",
        "%ff%fe",
        "a" * 5_000,
        ".",
        "CON",
    ],
)
async def test_no_path_leads_out_of_the_folder_of_files(stranger, path):
    await stranger.send("GET", f"{BASE}/console/static/{path}")
    assert stranger.status in (303, 404) or stranger.path.startswith("/console/login")
    assert "class Door" not in stranger.page
    assert "root:" not in stranger.page


async def test_an_answer_that_breaks_off_is_not_begun_anew():
    async def breaks_off(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("broken")

    sent = []

    async def send(message):
        sent.append(message["type"])

    with pytest.raises(RuntimeError, match="broken"):
        await Guard(breaks_off)({"type": "http", "method": "GET", "path": "/", "headers": []}, None, send)
    assert sent == ["http.response.start"]


def test_the_policy_needs_no_inline_script_or_style():
    for name in sorted((STATIC.parent / "templates").glob("*.html")):
        text = name.read_text()
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|hx-on|hx-vals=.js:|\|\s*safe\b", text), name
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text)), name
        assert "autoescape false" not in text, name


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"_token": ""},
        {"_token": "0" * 64},
        {"_token": security.form_token("tulving_somebody-else")},
        {"_token": "é\ud800".encode("utf-8", "surrogatepass")},
        {"_token": security.form_token(KEY).upper()},
    ],
)
async def test_a_form_that_was_not_made_for_this_visitor_is_refused(stranger, broken):
    await stranger.log_in(KEY)
    await stranger.send("POST", "/console/theme", data=broken | {"theme": "dark"})
    assert stranger.status == 403
    assert "out of date" in stranger.text
    assert "tulving_theme_8321" not in stranger.web.cookies


async def test_a_token_of_another_visitor_is_of_no_use(entered):
    first, second = await entered("read"), await entered("read")
    theirs = next(each["value"] for each in first.tree.all("input") if each["name"] == "_token")
    await second.send("POST", "/console/theme", data={"theme": "dark", "_token": theirs})
    assert second.status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense"])
async def test_a_good_token_sent_from_another_site_is_refused(stranger, site):
    await stranger.log_in(KEY)
    form = {"theme": "dark", "_token": security.form_token(KEY)}
    await stranger.send("POST", "/console/theme", data=form, headers={"sec-fetch-site": site})
    assert stranger.status == 403
    await stranger.send("POST", "/console/theme", data=form, headers={"sec-fetch-site": "same-origin"})
    assert stranger.status == 200


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "multipart/form-data", "", "a/b; charset=\xff"])
async def test_a_body_of_another_type_is_no_form(stranger, kind):
    await stranger.log_in(KEY)
    token = security.form_token(KEY)
    for content in (b'{"_token": "%s"}' % token.encode(), f"_token={token}&theme=dark".encode(), b"\xff\x00"):
        await stranger.send("POST", "/console/theme", content=content, headers={"content-type": kind.encode("latin-1")})
        assert stranger.status in (400, 403)
        assert_protected(stranger)


async def test_files_are_not_taken(stranger):
    await stranger.log_in(KEY)
    files = {"theme": ("x.txt", b"dark", "text/plain")}
    await stranger.send("POST", "/console/theme", data={"_token": security.form_token(KEY)}, files=files)
    assert stranger.status == 400
    assert "tulving_theme_8321" not in stranger.web.cookies


@pytest.mark.parametrize("path", ["/console/theme", "/console/login"])
async def test_a_form_that_is_too_large_is_refused(stranger, path):
    if path != "/console/login":
        await stranger.log_in(KEY)
    kind = {"content-type": "application/x-www-form-urlencoded"}

    async def endless():
        while True:
            yield b"a" * 1_000_000

    most = LARGEST_LOGIN if path == security.LOGIN else LARGEST_FORM
    await stranger.send("POST", path, content=b"a=" + b"x" * most, headers=kind)
    assert stranger.status == 413
    assert_protected(stranger)
    await stranger.send("POST", path, content=endless(), headers=kind)
    assert stranger.status == 413
    await stranger.send("POST", path, content=b"a=&" * 2_000, headers=kind)
    assert stranger.status == 400
    assert_protected(stranger)


async def test_a_form_is_as_large_as_the_token_of_the_visitor_allows(stranger, memory):
    await stranger.log_in(await new_token(memory, rights=ALL_RIGHTS, largest_body=2_000))
    for size, status in ((1_000, 403), (2_000, 413)):
        await stranger.send("POST", "/console/facts", data={"content": "x" * size})
        assert stranger.status == status
        assert_protected(stranger)


@pytest.mark.parametrize("number", ["9" * 5_000, "9" * 30, "-1", "x", "%20"])
async def test_no_number_in_an_address_breaks_a_page(visitor, memory, number, caplog):
    fact = await memory.store_fact("Mira", "home", "Porto")
    await visitor.open("/console")
    token = next(each["content"] for each in visitor.tree.all("meta") if each["name"] == "form-token")
    at = f"/console/memory/fact/{fact.id}/restore/{number}"
    for method, statuses in (("GET", (404, 405)), ("POST", (404, 422))):
        await visitor.send(method, at, data={"_token": token})
        assert visitor.status in statuses
    assert not caplog.records


async def test_a_line_break_in_an_address_is_no_way_around_a_route(stranger):
    for path in ("/console/x%0Ay", "/console%0A", "/console/login%0A"):
        await stranger.send("GET", path)
        assert stranger.status == 404
        assert stranger.last.headers["x-content-type-options"] == "nosniff"
        assert stranger.last.headers["content-type"].startswith("text/plain")


async def test_the_log_of_a_failure_does_not_say_what_was_asked_for(caplog):
    async def fails(scope, receive, send):
        raise RuntimeError("broken")

    async def send(message):
        pass

    await Guard(fails)({"type": "http", "method": "GET", "path": "/console/canary", "headers": []}, None, send)
    assert caplog.records and "canary" not in caplog.text


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:9", "localhost.evil.example:8321", "", "a b"])
async def test_another_host_name_is_not_answered(visitor, host):
    """A page that makes its own name point here (DNS rebinding) learns nothing."""
    await visitor.send("GET", "/console", headers={"host": host})
    assert visitor.status == 421
    assert "Overview" not in visitor.page


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "", "http://localhost.evil.example:8321"])
async def test_another_origin_is_not_answered(visitor, origin):
    token = next(each["value"] for each in visitor.tree.all("input") if each["name"] == "_token")
    await visitor.send("POST", "/console/theme", data={"theme": "dark", "_token": token}, headers={"origin": origin})
    assert visitor.status == 403
    assert "tulving_theme_8321" not in visitor.web.cookies


@pytest.mark.parametrize("after", ["//evil.example", "https://evil.example/console", "/v1/facts", "/console/../v1", ""])
async def test_a_form_leads_to_no_other_place(stranger, after):
    await stranger.log_in(KEY)
    form = {"theme": "dark", "_token": security.form_token(KEY), "next": after}
    await stranger.send("POST", "/console/theme", data=form, follow_redirects=False)
    assert stranger.response.headers["location"] == "/console"


async def test_the_way_back_is_never_to_another_site(stranger):
    await stranger.log_in(KEY)
    form = {"_ask": "Really?", "_token": security.form_token(KEY)}
    for came_from, back in (
        ("https://evil.example/console/facts", "/console/facts"),
        ("https://evil.example/", "/console"),
        ("https://evil.example//evil.example", "/console"),
        ("javascript:alert(1)", "/console"),
    ):
        await stranger.send("POST", "/console/facts", data=form, headers={"referer": came_from})
        assert stranger.links("No, go back") == [back], came_from


@pytest.mark.parametrize("right", ALL_RIGHTS)
async def test_a_page_opens_only_with_its_right(entered, right):
    """And its entry in the navigation is shown to those only who may open it."""
    has = {"read", right}
    visitor = await entered(*has)
    paths = [each.path for links in NAVIGATION.values() for each in links]
    for wanted in all_pages():
        if "{" in wanted.path or "GET" not in wanted.methods:
            continue
        path = f"/console{wanted.path}".rstrip("/")
        await visitor.open(path)
        assert visitor.status == (200 if wanted.right in has else 403), path
        links = [each["href"] for each in visitor.tree.one("nav").all("a")]
        if path in paths:
            assert (path in links) == (wanted.right in has)
        if wanted.right not in has:
            assert wanted.right in visitor.text
