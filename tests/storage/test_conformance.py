"""The shipped contract of an engine, on ours."""

from collections.abc import Callable

import pytest

from tulving.bootstrap import open_store
from tulving.config import MemoryModuleConfig

pytest.register_assert_rewrite("tulving.testing.conformance")
from tulving.testing.conformance import NewStore, StoreConformance  # noqa: E402


class TestStores(StoreConformance):
    @pytest.fixture
    def new_store(self, new_url: Callable[[], str], config: MemoryModuleConfig) -> NewStore:
        return lambda: open_store(new_url(), config)
