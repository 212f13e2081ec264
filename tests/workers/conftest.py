"""Workers in processes of their own, which may be stopped and killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from worker_parts import Workers


@pytest.fixture
def workers(url: str, tmp_path: Path) -> Iterator[Workers]:
    workers = Workers(url, tmp_path / "said.jsonl")
    yield workers
    workers.close()
