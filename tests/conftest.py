"""What most tests stand on: a new memory on each engine, a clock that stands still, ids that count."""

import gc
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import language_model
import pytest
from platformdirs import user_cache_dir
from postgres_server import Server, open_server
from postgres_stores import Stores
from raw_sql import in_thread, run_sql

from tulving import Memory, open_memory
from tulving.providers import weights
from tulving.providers.minilm import MiniLm
from tulving.settings import MemoryModuleConfig
from tulving.storage.postgres.schema import prepare
from tulving.storage.sqlite.store import SqliteStore
from tulving.testing import ManualClock, SequentialIds, WordEmbedder

ENGINES = ("sqlite", "postgres")

# Whatever is set where the tests run: compiling everything takes a third of the time of a process that a test starts.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A hundred thousand modules, tests and parameters live until the end: to look for garbage among them again and again
# takes half the time in which they are collected, and a sixth of that of the tests.
gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


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


@pytest.fixture(scope="session")
def language_model_url() -> Iterator[str]:
    """Where a real, very small language model is served. It reads about 100 tokens a second. A module that uses it has
    `pytestmark = pytest.mark.xdist_group("language-model")`, so that one process of the tests serves one model."""
    with pytest.MonkeyPatch.context() as environment, language_model.serve() as url:
        environment.setenv("no_proxy", "127.0.0.1")
        yield url


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
def pg_trgm(postgres: Server) -> bool:
    """Whether the server offers it."""
    return bool(run_sql(postgres.url("postgres"), "SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm'"))


@pytest.fixture
def fuzzy(request: pytest.FixtureRequest) -> None:
    """For tests of names that are only similar: PostgreSQL finds them with pg_trgm, where it is."""
    on_postgres = "engine" not in request.fixturenames or request.getfixturevalue("engine") == "postgres"
    if on_postgres and not request.getfixturevalue("pg_trgm"):
        pytest.skip("this server has no pg_trgm")


@pytest.fixture(scope="session")
def postgres_template(postgres: Server) -> Iterator[str]:
    """A database with our schema and nothing in it. To be copied, never opened."""
    url = in_thread(_new_schema(postgres))
    yield url
    in_thread(postgres.drop_database(url))


async def _new_schema(postgres: Server) -> str:
    url = await postgres.create_database()
    raw = await asyncpg.connect(url)
    await prepare(raw)
    await raw.close()
    return url


@pytest.fixture(scope="session")
def postgres_stores(postgres: Server, postgres_template: str) -> Iterator[Stores]:
    """Empty stores whose vectors have the dimension of the tests' embedder."""
    stores = Stores(postgres, postgres_template, WordEmbedder())
    yield stores
    stores.close()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with our schema and nothing in it: copying it takes a fifth of the time of making another."""
    path = tmp_path_factory.mktemp("template") / "memory.db"
    in_thread(SqliteStore(path, busy_timeout=30, cache_bytes=1_000_000).close())
    return path


@pytest.fixture
def new_url(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Where a new store may be opened; another one each time."""
    made: list[str] = []

    def new() -> str:
        if engine == "sqlite":
            made.append(str(tmp_path / ("memory.db" if not made else f"memory{len(made)}.db")))
            shutil.copy(request.getfixturevalue("sqlite_template"), made[-1])
        else:
            made.append(request.getfixturevalue("postgres_stores").take())
        return made[-1]

    yield new
    if engine == "postgres":
        for url in made:
            request.getfixturevalue("postgres_stores").give_back(url)


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    """Where the memory of a test is."""
    return new_url()


@pytest.fixture
async def memory(
    url: str, clock: ManualClock, embedder: WordEmbedder, config: MemoryModuleConfig
) -> AsyncIterator[Memory]:
    """Nothing works in its background, where it would draw ids and fill in vectors while a test looks."""
    ids = SequentialIds()
    async with open_memory(url, config=config, embedder=embedder, clock=clock, ids=ids, background=False) as memory:
        yield memory


@pytest.fixture
def sql(url: str, memory: Memory) -> Callable[..., list[dict[str, Any]]]:
    """Look into (or meddle with) the database behind the memory's back."""
    return partial(run_sql, url)
