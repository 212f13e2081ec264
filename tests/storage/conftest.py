"""Fixtures of the storage tests: new stores without the cost of making them, and processes that may be killed."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fault_parts import DIMENSION, Children, opened
from postgres_server import Server
from postgres_stores import Stores
from raw_sql import in_thread

from tulving.storage.sqlite.database import prepare
from tulving.testing import ManualClock, WordEmbedder


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that was just created. To be copied, never opened."""
    path = tmp_path_factory.mktemp("empty") / "memory.db"
    prepare(path, 30.0)
    return path


@pytest.fixture
def new_store(tmp_path: Path, empty_store: Path) -> Path:
    """A new store of the test's own."""
    return Path(shutil.copyfile(empty_store, tmp_path / "memory.db"))


@pytest.fixture(scope="session")
def opened_template(postgres: Server, postgres_template: str) -> Iterator[str]:
    """A database that was opened once with the embedder of these tests, whose dimension its tables now have."""

    async def open_once() -> str:
        url = await postgres.create_database(template=postgres_template)
        async with opened(url, clock=ManualClock()):
            return url

    url = in_thread(open_once())
    yield url
    in_thread(postgres.drop_database(url))


@pytest.fixture
def new_database(postgres: Server) -> Iterator[Callable[..., str]]:
    """Makes databases on PostgreSQL, gone after the test: empty ones, or copies."""
    made: list[str] = []

    def new(template: str | None = None) -> str:
        made.append(in_thread(postgres.create_database(template=template)))
        return made[-1]

    yield new
    for url in made:
        in_thread(postgres.drop_database(url))


@pytest.fixture(scope="session")
def opened_stores(postgres: Server, postgres_template: str) -> Iterator[Stores]:
    """Empty stores whose vectors have the dimension of the embedder of these tests."""
    stores = Stores(postgres, postgres_template, WordEmbedder(DIMENSION))
    yield stores
    stores.close()


@pytest.fixture
def postgres_url(opened_stores: Stores) -> Iterator[str]:
    """An empty store of the test's own, on PostgreSQL only."""
    url = opened_stores.take()
    yield url
    opened_stores.give_back(url)


@pytest.fixture
def url(engine: str, request: pytest.FixtureRequest) -> str:
    """A new store of the test's own, on each engine."""
    return str(request.getfixturevalue("new_store" if engine == "sqlite" else "postgres_url"))


@pytest.fixture(scope="session")
def children() -> Iterator[Children]:
    server = Children()
    yield server
    server.close()
