"""The memory of the folder that a hook runs in, opened for one event."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from tulving.bootstrap import migrate_store, open_memory, utc_now
from tulving.config import find_project, load_config
from tulving.embedders import choose_embedder
from tulving.errors import EmbedderUnavailable, InvalidInput, StoreUnavailable
from tulving.interfaces.hosts import project_memory, transcripts
from tulving.interfaces.hosts.project_memory import Part
from tulving.location import is_postgres
from tulving.ports import Embedder, Measurable
from tulving.settings import BridgeConfig, MemoryModuleConfig, RerankerConfig

HURRIED: dict[str, Any] = {"background": False, "may_reembed": True, "create": "never"}


class Unloaded:
    """An embedder that is not asked: loading a model, or waiting for a server, takes longer than a host may wait. What
    it would have found by meaning is found by keyword, or not."""

    light = True

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.model, self.version, self.dimension = embedder.model, embedder.version, embedder.dimension

    def unready(self) -> str:
        return "a hook has no time for the embedder"

    def embed(self, text: str | None) -> list[float]:
        raise EmbedderUnavailable(self.unready())

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        raise EmbedderUnavailable(self.unready())

    def measure(self, recorded: int | None) -> None:
        if isinstance(self._embedder, Measurable):
            self._embedder.measure(recorded)
            self.dimension = self._embedder.dimension


async def recollect(host: str, moment: Literal["start", "prompt"], told: Mapping[str, Any]) -> str | None:
    """What the host's session is to be given, if there is anything."""
    config, part = _settings()
    wanted = config.hooks.context if moment == "start" else config.hooks.recall
    if not wanted or not (is_postgres(config.url) or await _is_there(config)):
        return None
    embedder = choose_embedder(config)
    # Nothing that could ask a server, and nothing that works beside the answer.
    config = replace(config, reranker=RerankerConfig(), bridge=BridgeConfig())
    session = project_memory.session_id(host, told.get("session_id"))
    given = embedder if embedder.light else Unloaded(embedder)
    async with open_memory(config=config, actor=host, embedder=given, **HURRIED) as memory:
        if moment == "start":
            return await project_memory.project_context(memory, part, utc_now(), config.hooks.token_budget)
        return await project_memory.fitting(memory, part, told["prompt"], session, config.hooks.token_budget // 2)


async def keep(host: str, told: Mapping[str, Any]) -> Iterable[InvalidInput]:
    """Store what was said in a session, as far as it is not stored yet; returns what was refused."""
    config, part = _settings()
    path = told.get("transcript_path")
    if not config.hooks.record or not isinstance(path, str) or not path:
        return ()
    said = transcripts.read(host, Path(path).expanduser())
    if not said:
        return ()
    session = project_memory.session_id(host, told.get("session_id"))
    create = "file" if config.url is None else "never"
    async with open_memory(config=config, actor=host, background=False, create=create) as memory:
        return await project_memory.record(memory, host, part, session, said)


def _settings() -> tuple[MemoryModuleConfig, Part]:
    """The settings of this folder, and which part of the memory belongs to it."""
    config = load_config()
    if config.project is not None:
        return config, Part(config.project)
    if config.url is None and find_project().database is not None:
        return config, Part(None, own=True)
    return config, Part(project_memory.project_name(Path.cwd()))


async def _is_there(config: MemoryModuleConfig) -> bool:
    """Whether there is a file. One of an older version is not opened: bringing it up to date begins with a copy of it,
    for which there is no time."""
    schema = await migrate_store(config.url, config, dry_run=True)
    if schema.before is not None and schema.applied:
        raise StoreUnavailable("the store has to be brought up to date: run `tulving migrate`")
    return schema.before is not None
