"""The composition root: settings become an environment, an environment becomes a memory.

The only module that names adapters, reads the system clock and draws random numbers.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import UUID

from tulving.config import MemoryModuleConfig, data_directory, find_database, load_config
from tulving.domain.scope import Caller, Owner
from tulving.domain.text import count_tokens
from tulving.errors import ConfigError
from tulving.ports import Clock, Embedder, Ids
from tulving.providers import get_embedding_engine
from tulving.services.memory import Memory
from tulving.services.service import Bound, Env, Store, log


def utc_now() -> datetime:
    return datetime.now(UTC)


def uuid7() -> UUID:
    """A time-ordered id (RFC 9562): 48 bits of milliseconds, then random bits."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    return UUID(int=value & ~(0x3 << 62) | 0x2 << 62)


@asynccontextmanager
async def open_memory(
    url: str | Path | None = None,
    *,
    tenant: str | None = None,
    actor: str | None = None,
    config: MemoryModuleConfig | None = None,
    embedder: str | Embedder | None = None,
    clock: Clock = utc_now,
    ids: Ids = uuid7,
    tokens: Callable[[str], int] = count_tokens,
    background: bool = True,
    may_reembed: bool = False,
) -> AsyncIterator[Memory]:
    """Open the memory at a URL or path, else the configured one, else that of the project or the user.

    `embedder` is a name or an object of your own. With `background`, memories that were stored before the embedder
    was ready get their vectors while you work. `may_reembed` opens a store of another embedder, to convert it.
    """
    config = config or load_config()
    if embedder is None or isinstance(embedder, str):
        embedder = choose_embedder(config, embedder)
    caller = Caller(config.tenant if tenant is None else tenant, actor or config.actor)
    bound = Bound(Owner(config.user_id, config.household_id, config.persona_id), config.project, config.scope)
    store = await asyncio.to_thread(open_store, str(url) if url is not None else config.url, config)
    helper: asyncio.Task[int] | None = None
    try:
        version = await adopt(store, embedder, clock, may_reembed)
        memory = Memory(Env(config, store, embedder, version, clock, ids, tokens=tokens), caller, bound)
        if background and not embedder.unready() and await memory.count_pending():
            helper = asyncio.create_task(memory.embed_pending())
            helper.add_done_callback(_log_failure)
        yield memory
    finally:
        if helper is not None:
            helper.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await helper
        await store.close()


def choose_embedder(config: MemoryModuleConfig, name: str | None = None) -> Embedder:
    """The embedder of a name, else the configured one."""
    name = name or config.embedder
    if name == "hashing":
        return get_embedding_engine(name, dimension=config.dimension or 256)
    return get_embedding_engine(name, home=data_directory())


def install_weights(source: Path | None = None, progress: Callable[[str, int, int], None] | None = None) -> Path:
    """Put the default embedder's weights where they are looked for; done at once when they are there."""
    from tulving.providers import weights

    home = data_directory()
    found = weights.find(home)
    if source is None and found is not None and found != weights.directory(home):
        return found
    return weights.install(home, source, progress)


def open_store(url: str | None, config: MemoryModuleConfig) -> Store:
    """The engine that a URL names."""
    from tulving.storage.sqlite import SqliteStore

    path = database_path(url)
    return SqliteStore(path, busy_timeout=config.busy_timeout, cache_bytes=config.vector_cache_mb * 1024 * 1024)


def database_path(url: str | None) -> Path:
    """The file of a `sqlite:///` URL or a plain path; without either, the project's or the user's."""
    if url is None:
        return find_database(Path.cwd())
    if "://" not in url:
        return Path(url).expanduser()
    parts = urlsplit(url)
    if parts.scheme != "sqlite":
        raise ConfigError("url", f"the scheme {parts.scheme!r:.40} is not supported", "sqlite:///path/to/memory.db")
    path = unquote(parts.path[1:])
    if parts.netloc or not path or path == ":memory:":
        raise ConfigError("url", "does not name a file", "sqlite:///path/to/memory.db")
    return Path(path)


async def adopt(store: Store, embedder: Embedder, clock: Clock, may_differ: bool) -> int | None:
    """The store's version of this embedder, recorded if the store is new."""
    from tulving.storage import maintenance

    active = await store.read(None, maintenance.active_version)
    adopting = store.write if active is None else store.read
    return await adopting(None, maintenance.adopt_version, embedder, clock(), may_differ)


def _log_failure(task: asyncio.Task[int]) -> None:
    if not task.cancelled() and (error := task.exception()):
        log.error("memories are still waiting for their vectors: %s", error)
