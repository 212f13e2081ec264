from collections.abc import Iterator

import pytest
from model_server import ModelServer

from tulving import bootstrap


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(bootstrap, "_engines", {})
    server = ModelServer()
    yield server
    server.over.set()
    server.stop()
