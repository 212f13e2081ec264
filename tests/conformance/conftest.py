"""The contract of an engine, as tests: each says one thing that every store must do, on SQLite and on PostgreSQL."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from conformance_parts import NOW, Opened, run

from tulving.bootstrap import open_store
from tulving.settings import MemoryModuleConfig
from tulving.storage import embeddings
from tulving.testing import WordEmbedder


@pytest.fixture
def opened(new_url: Callable[[], str], config: MemoryModuleConfig) -> Iterator[Callable[[], Opened]]:
    """Opens new, empty stores for vectors of four dimensions, and closes them at the end."""
    with asyncio.Runner() as runner:
        made: list[Opened] = []

        def new() -> Opened:
            made.append(Opened(runner, run(runner, open_store(new_url(), config))))
            assert made[-1].write(embeddings.adopt_version, WordEmbedder(4), NOW, on_behalf=None) == 1
            return made[-1]

        yield new
        for each in made:
            run(runner, each.store.close())


@pytest.fixture
def store(opened: Callable[[], Opened]) -> Opened:
    return opened()
