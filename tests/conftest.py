"""What most tests stand on: a memory in a new file, a clock that stands still, ids that count."""

import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from platformdirs import user_cache_dir

from tulving import Memory, open_memory
from tulving.config import MemoryModuleConfig
from tulving.providers import weights
from tulving.providers.minilm import MiniLm
from tulving.testing import ManualClock, SequentialIds, WordEmbedder


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


@pytest.fixture
async def memory(
    path: Path, clock: ManualClock, embedder: WordEmbedder, config: MemoryModuleConfig
) -> AsyncIterator[Memory]:
    async with open_memory(path, config=config, embedder=embedder, clock=clock, ids=SequentialIds()) as memory:
        yield memory


@pytest.fixture
def sql(path: Path, memory: Memory):
    """Look into (or meddle with) the file behind the memory's back."""

    def run(statement: str, *parameters: Any) -> list[dict[str, Any]]:
        raw = sqlite3.connect(path, isolation_level=None, timeout=30)
        raw.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in raw.execute(statement, parameters).fetchall()]
        finally:
            raw.close()

    return run
