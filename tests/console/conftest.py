"""What tests of the console share: a visitor without scripts, and one with a browser.

A test that takes `browser` runs in one event loop with all others that do, since they share the browser, and in one
process of pytest-xdist. It talks to a `tulving serve` of its own process, in a tenant of its own.
"""

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from console_parts import WIDE, Browser, Service, Visitor, application_of, chromium, flags, serving
from http_parts import new_token
from playwright.async_api import Browser as Chromium
from playwright.async_api import async_playwright, expect
from starlette.applications import Starlette

from tulving import Memory, open_administration
from tulving.domain.access import ALL_RIGHTS
from tulving.interfaces import console

REQUIRED = "TULVING_TEST_BROWSER"


@pytest.hookimpl(tryfirst=True)  # before xdist looks for the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "chromium_process" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture
async def app(memory: Memory) -> AsyncIterator[Starlette]:
    """The application with its API and its console, in this process, on the memory of the test."""
    async with application_of(memory) as made:
        yield made


@pytest.fixture
async def stranger(app: Starlette) -> AsyncIterator[Visitor]:
    """A visitor without scripts who has not logged in."""
    visitor = Visitor(app)
    yield visitor
    await visitor.web.aclose()


@pytest.fixture
async def visitor(entered: Callable[..., Awaitable[Visitor]]) -> Visitor:
    """A visitor without scripts who has logged in, with every right."""
    return await entered(*ALL_RIGHTS)


@pytest.fixture
async def entered(app: Starlette, memory: Memory) -> AsyncIterator[Callable[..., Awaitable[Visitor]]]:
    """Further visitors: `await entered("read", "write", tenant="other")`."""
    async with AsyncExitStack() as visitors:

        async def enter(*rights: str, tenant: str = memory.caller.tenant_id, name: str = "Vera") -> Visitor:
            secret = await new_token(memory, tenant, name=name, rights=rights)
            visitor = Visitor(app)
            visitors.push_async_callback(visitor.web.aclose)
            return await visitor.log_in(secret)

        yield enter


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium_process() -> AsyncIterator[Chromium]:
    """The browser of this machine, for all tests."""
    if (found := chromium()) is None:
        if os.environ.get(REQUIRED) == "required":
            pytest.fail(f"there is no Chromium in PATH, and {REQUIRED} requires one")
        pytest.skip("there is no Chromium in PATH (Debian: apt install chromium)")
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=found, args=flags())
        yield running
        await running.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def service(
    engine: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Service]:
    """`tulving serve`, one for each engine."""
    folder = tmp_path_factory.mktemp("service")
    home = str(folder / "home")
    if engine == "sqlite":
        url = str(folder / "memory.db")
        shutil.copy(request.getfixturevalue("sqlite_template"), url)
    else:
        url = request.getfixturevalue("postgres_stores").take()
    with serving(folder, TULVING_URL=url, TULVING_HOME=home, TULVING_EMBEDDER="hashing") as link:
        base, key = link.split(console.PATH)[0], link.split("key=")[1]
        async with open_administration(url, embedder="hashing") as administration:
            yield Service(base, key, administration)
    if engine == "postgres":
        request.getfixturevalue("postgres_stores").give_back(url)


@pytest.fixture
def tenant(service: Service) -> str:
    """Whose memory the browser of a test shows: one that only this test uses, unless its module shares one."""
    return service.new_tenant()


@pytest_asyncio.fixture(loop_scope="session")
async def browser(chromium_process: Chromium, service: Service, tenant: str) -> AsyncIterator[Browser]:
    """A person with a real browser, logged in with every right to a tenant; no page is open yet."""
    secret = await service.token(tenant)
    context = await chromium_process.new_context(viewport=WIDE, reduced_motion="reduce", locale="en-GB")
    try:
        made = Browser(service, context, await context.new_page(), tenant, secret)
        made.page.set_default_timeout(10_000)
        expect.set_options(timeout=10_000)
        await made.enter()
        yield made
        made.check()
    finally:
        await context.close()
