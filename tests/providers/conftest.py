import os
from pathlib import Path

import pytest
from platformdirs import user_cache_dir

from tulving.providers import weights
from tulving.providers.minilm import MiniLm


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TULVING_HOME", "TULVING_WEIGHTS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def minilm_home() -> Path:
    """A home with the real weights: downloaded at the first run, kept for the next ones."""
    home = Path(os.environ.get("TULVING_TEST_WEIGHTS_HOME") or user_cache_dir("tulving-tests"))
    weights.install(home)
    return home


@pytest.fixture(scope="session")
def minilm(minilm_home: Path) -> MiniLm:
    return MiniLm(minilm_home)
