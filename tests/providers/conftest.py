from collections.abc import Iterator

import pytest
from model_server import ModelServer

from tulving import embedders


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(embedders, "_engines", {})
    server = ModelServer()
    yield server
    server.over.set()
    server.stop()
