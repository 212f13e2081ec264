"""What most tests stand on: a new memory on each engine, a clock that stands still, ids that count."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from platformdirs import user_cache_dir

from tulving import Memory, open_memory
from tulving.bootstrap import is_postgres
from tulving.config import MemoryModuleConfig
from tulving.providers import weights
from tulving.providers.minilm import MiniLm
from tulving.storage import sqlite_values
from tulving.testing import ManualClock, SequentialIds, WordEmbedder
from tulving.testing.postgres import Server, open_server

ENGINES = ("sqlite", "postgres")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test whose memory may be on any engine runs on each; one that takes the `path` of a file, on SQLite only."""
    if "engine" in metafunc.fixturenames:
        fixed = "path" in metafunc.fixturenames
        metafunc.parametrize("engine", ENGINES[:1] if fixed else ENGINES, scope="session")


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test sees the settings it makes itself, whatever is set where it runs."""
    for name in os.environ:
        if name.startswith("TULVING_") and not name.startswith("TULVING_TEST_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def minilm_home() -> Path:
    """A home with the real weights: downloaded at the first run, kept for the next ones."""
    home = Path(os.environ.get("TULVING_TEST_WEIGHTS_HOME") or user_cache_dir("tulving-tests"))
    weights.install(home)
    return home


@pytest.fixture(scope="session")
def minilm(minilm_home: Path) -> MiniLm:
    return MiniLm(minilm_home)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def config() -> MemoryModuleConfig:
    return MemoryModuleConfig()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A real PostgreSQL with pgvector, for all tests of this process."""
    with open_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres: Server) -> Iterator[str]:
    """A database with our schema and nothing in it. To be copied, never opened."""
    url = asyncio.run(_new_schema(postgres))
    yield url
    asyncio.run(postgres.drop_database(url))


async def _new_schema(postgres: Server) -> str:
    import asyncpg

    from tulving.storage.postgres_schema import prepare

    url = await postgres.create_database()
    raw = await asyncpg.connect(url)
    await prepare(raw)
    await raw.close()
    return url


@pytest.fixture
def new_url(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Where a new store may be opened; another one each time."""
    made: list[str] = []

    def new() -> str:
        if engine == "sqlite":
            made.append(str(tmp_path / ("memory.db" if not made else f"memory{len(made)}.db")))
        else:
            server, template = (request.getfixturevalue(name) for name in ("postgres", "postgres_template"))
            made.append(_in_thread(server.create_database(template=template)))
        return made[-1]

    yield new
    if engine == "postgres":
        server = request.getfixturevalue("postgres")
        for url in made:
            _in_thread(server.drop_database(url))


def _in_thread(coroutine: Any) -> Any:
    """A coroutine's result, whether or not a loop runs here."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    """Where the memory of a test is."""
    return new_url()


@pytest.fixture
async def memory(
    url: str, clock: ManualClock, embedder: WordEmbedder, config: MemoryModuleConfig
) -> AsyncIterator[Memory]:
    async with open_memory(url, config=config, embedder=embedder, clock=clock, ids=SequentialIds()) as memory:
        yield memory


@pytest.fixture
def sql(url: str, memory: Memory) -> Callable[..., list[dict[str, Any]]]:
    """Look into (or meddle with) the database behind the memory's back."""
    return partial(run_sql, url)


def run_sql(url: str, statement: str, *parameters: Any) -> list[dict[str, Any]]:
    """A statement on either engine, past the memory. Parameters are `?`; values are Python's, on both the same."""
    if is_postgres(url):
        return _in_thread(_fetch(url, statement, parameters))
    raw = sqlite3.connect(url, isolation_level=None, timeout=30)
    try:
        given = sqlite_values.encoded({str(at): value for at, value in enumerate(parameters)})
        cursor = raw.execute(statement, tuple(given.values()))
        columns = sqlite_values.columns(name for name, *_ in cursor.description or ())
        return [sqlite_values.decoded(columns, row) for row in cursor.fetchall()]
    finally:
        raw.close()


async def _fetch(url: str, statement: str, parameters: tuple[Any, ...]) -> list[dict[str, Any]]:
    import asyncpg

    from tulving.storage.postgres_values import decoded

    head, *rest = statement.split("?")
    numbered = head + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))
    raw = await asyncpg.connect(url)
    try:
        return [decoded(row) for row in await raw.fetch(numbered, *parameters)]
    finally:
        await raw.close()
