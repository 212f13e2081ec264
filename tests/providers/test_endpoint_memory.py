"""A memory whose embedder is behind an endpoint, which comes and goes."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from folders import trust_folder
from model_server import ModelServer

from tulving import MemoryModuleConfig, open_administration, open_memory
from tulving.config import load_config, parse
from tulving.embedders import choose_embedder
from tulving.errors import EmbedderMismatch, EmbedderUnavailable
from tulving.providers import json_endpoint


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed endpoint is asked again at once."""
    monkeypatch.setattr(json_endpoint, "PAUSE", 0.0)
    monkeypatch.setattr(json_endpoint, "FIRST_WAIT", 0.001)


@pytest.fixture
def settings(server: ModelServer) -> Callable[..., MemoryModuleConfig]:
    def settings(dimension: int | None = None, **more: Any) -> MemoryModuleConfig:
        endpoint = {"url": server.url, "model": "words", "retries": 1, **more}
        return parse({"embedder": "endpoint", "dimension": dimension, "endpoint": endpoint})

    return settings


async def test_memories_are_embedded_once_it_is_back(
    server: ModelServer, settings: Callable[..., MemoryModuleConfig], url: str
) -> None:
    async with open_memory(url, config=settings(), background=False) as memory:
        await memory.store_fact(subject="Mira", predicate="pet", content="a grey cat")
        found = await memory.search("cat", mode="semantic")
        assert [hit.item.content for hit in found.hits] == ["a grey cat"]
        assert memory.warning is None

        server.stop()
        stored = await memory.store_fact(subject="Mira", predicate="drink", content="green tea")
        assert stored.outcome == "stored"
        assert "can't be reached" in str(memory.warning)
        found = await memory.search("green tea")
        assert found.mode == "keyword"
        assert "searched by keyword only" in str(found.warning)
        assert [hit.item.content for hit in found.hits] == ["green tea"]
        health = await memory.health()
        assert (health.ok, health.pending) == (False, 1)

        server.start()
        async with open_administration(url, config=settings()) as administration:
            assert await administration.embed_pending() == 1
        found = await memory.search("green tea", mode="semantic")
        assert (found.hits[0].item.content, found.warning, memory.warning) == ("green tea", None, None)
        assert (await memory.health()).ok


async def test_a_store_opens_without_the_endpoint(
    server: ModelServer,
    settings: Callable[..., MemoryModuleConfig],
    new_url: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its dimension was recorded, or is set; only a new store without either must ask."""
    known = new_url()
    async with open_memory(known, config=settings(), background=False):
        assert len(server.requests) == 1
    monkeypatch.setattr("tulving.embedders._engines", {})  # as in another process
    server.stop()
    with pytest.raises(EmbedderUnavailable, match="start it, or set `dimension`"):
        async with open_memory(new_url(), config=settings(), background=False):
            pass
    async with open_memory(new_url(), config=settings(dimension=16), background=False) as memory:
        assert memory._env.embedder.dimension == 16
    async with open_memory(known, config=settings(), background=False) as memory:
        assert memory._env.embedder.dimension == 32
        await memory.store_fact(subject="Mira", predicate="pet", content="a cat")
        assert (await memory.health()).pending == 1
    assert len(server.requests) == 1
    server.start()


async def test_another_model_is_another_embedder(
    server: ModelServer, settings: Callable[..., MemoryModuleConfig], url: str
) -> None:
    async with open_memory(url, config=settings(), background=False) as memory:
        await memory.store_fact(subject="Mira", predicate="pet", content="a cat")
    with pytest.raises(EmbedderMismatch, match="words endpoint"):
        async with open_memory(url, config=settings(model="better"), background=False):
            pass
    async with open_administration(url, config=settings(model="better", dimension=8), may_reembed=True) as store:
        assert await store.reembed() == 1
    async with open_memory(url, config=settings(model="better", dimension=8), background=False) as memory:
        assert len((await memory.search("cat", mode="semantic")).hits) == 1


async def test_queries_have_their_own_prefix(
    server: ModelServer, settings: Callable[..., MemoryModuleConfig], path: Path
) -> None:
    config = settings(query_prefix="query: ", document_prefix="passage: ")
    async with open_memory(path, config=config, background=False) as memory:
        await memory.store_fact(subject="Mira", predicate="pet", content="a cat")
        await memory.search("cat")
    sent = [request.body["input"][0] for request in server.requests]
    assert [text.partition(" ")[0] for text in sent] == ["passage:", "passage:", "query:"]


def test_one_endpoint_is_shared(settings: Callable[..., MemoryModuleConfig]) -> None:
    assert choose_embedder(settings()) is choose_embedder(settings())
    assert choose_embedder(settings()) is not choose_embedder(settings(timeout=5))


def test_an_untrusted_file_sends_nothing_anywhere(tmp_path: Path) -> None:
    (tmp_path / "tulving.toml").write_text(
        'embedder = "endpoint"\n[endpoint]\nurl = "http://evil"\n[reranker]\nurl = "http://evil"\n'
        '[onnx]\nfolder = "/evil"\n[retrieval]\ndefault_limit = 5\n'
    )
    environ = {"TULVING_HOME": str(tmp_path / "home")}
    config = load_config(tmp_path, environ)
    default = MemoryModuleConfig()
    assert (config.endpoint, config.reranker, config.onnx) == (default.endpoint, default.reranker, default.onnx)
    assert config.retrieval.default_limit == 5
    trust_folder(tmp_path, environ)
    assert load_config(tmp_path, environ).reranker.url == "http://evil"


def test_the_commands(server: ModelServer, tmp_path: Path) -> None:
    environ = {
        "HOME": str(tmp_path),
        "TULVING_HOME": str(tmp_path / "home"),
        "TULVING_EMBEDDER": "endpoint",
        "TULVING_ENDPOINT__URL": server.url,
        "TULVING_ENDPOINT__MODEL": "words",
        "TULVING_ENDPOINT__KEY_VARIABLE": "MODEL_KEY",
        "TULVING_RERANKER__URL": server.url,
        "TULVING_RERANKER__MODEL": "cross",
        "PYTHONPATH": ":".join(sys.path),
    }
    key = "sk-very-secret-0123456789"

    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tulving", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, cwd=tmp_path, env={**environ, **more}
        )

    done = run("--verbose", "init", MODEL_KEY=key)
    assert (done.returncode, "endpoint, with nothing to install" in done.stdout) == (0, True), done
    said = [done.stdout, done.stderr]
    done = run("--verbose", "config", "--json", MODEL_KEY=key)
    assert json.loads(done.stdout)["embedder"] == "ready"
    said += [done.stdout, done.stderr]
    done = run("--verbose", "health", MODEL_KEY=key)
    assert (done.returncode, "reranker" in done.stdout) == (0, True), done
    said += [done.stdout, done.stderr]
    done = run("init", "--mcp", "cursor", "--print", MODEL_KEY=key)
    assert json.loads(done.stdout[done.stdout.index("{") :])["mcpServers"]["tulving"]["env"] == {
        name: value for name, value in environ.items() if name.startswith("TULVING_")
    }
    assert key not in "".join([*said, done.stdout, done.stderr])
    done = run("health")
    assert (done.returncode, "MODEL_KEY, which is not set" in done.stdout) == (1, True), done
    done = run("health", TULVING_ENDPOINT__URL="")
    assert (done.returncode, "endpoint.url: is not set" in done.stderr) == (2, True), done
