"""What tests of the surfaces share: an environment of their own, and ways to run a command or a server in it."""

import io
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from http_parts import SOURCE, Served, started
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tulving.interfaces.traces import Traces
from tulving.location import is_postgres
from tulving.storage.sqlite import database

NO_PARAMETERS = SimpleNamespace(params={})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Which protocol a client speaks does not depend on the engine: the older one is spoken on SQLite only."""
    older = {"mode": "legacy", "engine": "postgres"}.items()
    left_out = [item for item in items if older <= getattr(item, "callspec", NO_PARAMETERS).params.items()]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str


@pytest.fixture
def environ(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An own home, an own store (there, but empty) and an embedder without weights, for this process and those it
    starts."""
    if not is_postgres(url):
        database.prepare(Path(url), busy_timeout=30)
    for name in [name for name in os.environ if name.startswith("TULVING_")]:
        monkeypatch.delenv(name)
    values = {
        "TULVING_URL": url,
        "TULVING_HOME": str(tmp_path / "home"),
        "TULVING_EMBEDDER": "hashing",
        "PYTHONPATH": SOURCE,
        "NO_COLOR": "1",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return values


@pytest.fixture
def cli(environ: dict[str, str], capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Ran]]:
    """Run a command in this process."""
    from tulving.interfaces.cli import log, run

    level = log.level

    def run_command(*arguments: str) -> Ran:
        code = run(arguments)
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    yield run_command
    log.setLevel(level)


@pytest.fixture
def process(environ: dict[str, str]) -> Callable[..., Ran]:
    """Run a command as a process of its own, as a person does."""

    def run_process(*arguments: str, stdin: str = "", **changed: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "tulving", *arguments],
            input=stdin,
            env=os.environ | changed,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run_process


@pytest.fixture
def connect(environ: dict[str, str]) -> Callable[..., AbstractAsyncContextManager[Any]]:
    """Connect a real MCP client to a real server process."""
    from mcp import Client, StdioServerParameters

    @asynccontextmanager
    async def client(mode: str = "auto", sampling_callback: Any = None, **changed: str) -> AsyncIterator[Any]:
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "tulving", "mcp"], env=environ | changed, cwd=Path.cwd()
        )
        async with Client(server, mode=mode, sampling_callback=sampling_callback) as connected:
            yield connected

    return client


@pytest.fixture
def server(environ: dict[str, str]) -> Iterator[Callable[..., Served]]:
    """Start a server on a free port, in which a process may have so many files open."""
    with ExitStack() as running:

        def start(*options: str, address: str = "127.0.0.1:0", files: int = 512, **changed: str) -> Served:
            arguments = "mcp", "--http", address, *options
            return running.enter_context(started(*arguments, environ=os.environ | changed, files=files))

        yield start


@pytest.fixture
def token(environ: dict[str, str]) -> Callable[..., dict[str, Any]]:
    """Create a token as a person does, in this process."""
    from tulving.interfaces.cli import log, run

    level = log.level

    def create(tenant: str = "default", *options: str) -> dict[str, Any]:
        said = io.StringIO()
        with ThreadPoolExecutor(1) as beside, redirect_stdout(said):  # a loop may run in our own thread
            code = beside.submit(run, ["--tenant", tenant, "token", "create", "--json", *options]).result()
        log.setLevel(level)
        assert code == 0, said.getvalue()
        return json.loads(said.getvalue())

    return create


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def traces(exporter: InMemorySpanExporter) -> Traces:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Traces(provider)
