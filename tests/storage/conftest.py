"""Fixtures of the storage tests: new files without the cost of making them, and processes that may be killed."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_parts import Children

from tulving.storage.sqlite_file import prepare


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
def children() -> Iterator[Children]:
    server = Children()
    yield server
    server.close()
