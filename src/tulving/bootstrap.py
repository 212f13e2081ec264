"""The composition root: builds the environment from the settings, and the memory from the environment.

The only module that names adapters, reads the system clock and generates random numbers.
"""

import asyncio
import io
import os
import random
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tulving import extras
from tulving.config import own_config
from tulving.domain.access import SECRET_PREFIX
from tulving.domain.events import Audit, AuditOf
from tulving.domain.scope import Bound, Caller, Owner
from tulving.domain.text import count_tokens
from tulving.embedders import choose_embedder
from tulving.errors import InvalidInput
from tulving.location import Create, database_path, is_postgres, new_file, no_memory, store_name
from tulving.opening import Opening, taking
from tulving.ports import UNOBSERVED, Clock, Embedder, Ids, Llm, Measurable, Observer, Reranker, Store
from tulving.services.administration import Administration
from tulving.services.bridge import Bridge
from tulving.services.embedding import Embedding
from tulving.services.memory import Memory
from tulving.services.model import LanguageModel
from tulving.services.references import References
from tulving.services.reranking import Reranking
from tulving.services.service import MAINTENANCE, Env, log
from tulving.services.streams import Streams
from tulving.services.tokens import Authentication
from tulving.settings import MemoryModuleConfig
from tulving.storage.backpressure import BoundedWrites
from tulving.storage.observed import ObservedStore
from tulving.workers.background import tend
from tulving.workers.jobs import JOBS, Job
from tulving.workers.schedule import Schedule, UncancellableWrites
from tulving.workers.scheduler import Scheduler

if TYPE_CHECKING:
    import asyncpg

    from tulving.services.copying import Copied
    from tulving.services.service import NamedProgress
    from tulving.storage.sqlite.backup import Copy, Restored


def utc_now() -> datetime:
    return datetime.now(UTC)


IDS_AT_ONCE = 256


class TimeOrderedIds:
    """Ids in the order in which they are drawn (RFC 9562, version 7, monotonic): 48 bits of milliseconds, then 74
    random bits, which count upwards within a millisecond. So memories that are stored together keep their order."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()
        self._random = io.BytesIO()
        os.register_at_fork(after_in_child=self._forget)

    def __call__(self) -> UUID:
        with self._lock:
            if not (random := self._random.read(10)):
                # Drawn in blocks: each system call lets another thread of the process run first.
                self._random = io.BytesIO(os.urandom(10 * IDS_AT_ONCE))
                random = self._random.read(10)
            fresh = (time.time_ns() // 1_000_000 & (1 << 48) - 1) << 74 | int.from_bytes(random) >> 6
            self._last = fresh if fresh >> 74 > self._last >> 74 else self._last + 1 + (fresh & 0xFFFF_FFFF)
            high, low = self._last >> 62, self._last & (1 << 62) - 1
        return UUID(int=high >> 12 << 80 | 0x7 << 76 | (high & 0xFFF) << 64 | 0x2 << 62 | low)

    def _forget(self) -> None:
        """A child process must not draw what its parent draws."""
        self._random = io.BytesIO()


uuid7 = TimeOrderedIds()


async def _open(
    url: "str | Path | asyncpg.Pool | None" = None,
    *,
    tenant: str | None = None,
    actor: str | None = None,
    config: MemoryModuleConfig | None = None,
    embedder: str | Embedder | None = None,
    reranker: Reranker | None = None,
    llm: Llm | None = None,
    clock: Clock = utc_now,
    ids: Ids = uuid7,
    tokens: Callable[[str], int] = count_tokens,
    observer: Observer = UNOBSERVED,
    background: bool = True,
    may_reembed: bool = False,
    create: Create = "file",
) -> Memory:
    config = config or own_config()
    if embedder is None or isinstance(embedder, str):
        embedder = choose_embedder(config, embedder)
    caller = Caller(config.tenant if tenant is None else tenant, actor or config.actor)
    bound = Bound(Owner(config.user_id, config.household_id, config.persona_id), config.project, config.scope)
    reranker = reranker or choose_reranker(config)
    reranking = Reranking(reranker, config.reranker.depth) if reranker else None
    llm = llm or choose_llm(config)
    retries, most = config.llm.retries, config.llm.max_output_tokens
    asked = {"retries": retries, "max_tokens": most, "jitter": random.random, "observer": observer}
    model = LanguageModel(llm, **asked) if llm else None
    engine = await open_store(config.url if url is None else url, config, create, observer=observer)
    by_itself: AuditOf = lambda tenant_id: Audit(Caller(tenant_id, MAINTENANCE), clock(), ids)  # noqa: E731
    store: Any = BoundedWrites(engine, time.monotonic, by_itself, **asdict(config.writes))
    if observer is not UNOBSERVED:
        store = ObservedStore(store, observer)
    references, streams = References(store), Streams(engine)
    async with AsyncExitStack() as parts:
        for part in (store, references, streams):
            parts.push_async_callback(part.close)
        await store.begin()
        version = await adopt(store, embedder, clock, may_reembed)
        embedding = Embedding(embedder, version, config.query_cache, observer)
        given = {"tokens": tokens, "reranker": reranking, "model": model, "observer": observer}
        env = Env(config, store, embedding, clock, ids, references, streams, new_secret, **given)
        engine.publish = env.subscribers.publish
        if background and config.schedule.background:
            schedule = Schedule(store, clock, new_holder(), config.schedule, observer)
            helper = asyncio.create_task(tend(Administration(env, caller), schedule))
            helper.add_done_callback(_log_failure)
            parts.push_async_callback(_end, helper)
        if config.bridge.enabled:
            bridge = Bridge(env, caller)
            await bridge.begin_bridge()
            if background and config.schedule.background:
                streams.start(bridge.carry_on())
        env.closing = parts.pop_all()
        return Memory(env, caller, bound)


@taking(_open)
def open_memory(*args: Any, **options: Any) -> Opening[Memory]:
    """Open the memory at a URL or path, else the configured one, else that of the project or the user.

    Either `memory = await open_memory(...)`, closed by `await memory.close()`, or `async with open_memory(...) as
    memory:`, which closes it at the end of the block.

    A missing store is created, but not its folder: a mistyped path is an error unless `create` is "folders".

    A host may pass the asyncpg pool of its own PostgreSQL database instead; the pool is left open.

    `embedder` is a name or an object of your own; `reranker` and `llm` are such objects, instead of the configured
    ones; an `observer` measures what is done (`ports.Observer`). With `background`, unless the
    settings disable it, memories that were stored before the embedder was ready get their vectors in the background,
    and due jobs are run. `may_reembed` also opens a store with vectors of another embedder, to convert it.
    """
    return Opening("open_memory", lambda: _open(*args, **options))


async def _end(helper: asyncio.Task[None]) -> None:
    helper.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await helper


@taking(open_memory)
def open_administration(*args: Any, **options: Any) -> Opening[Administration]:
    """Open the administration of a whole store, with the arguments of `open_memory`, without background work."""

    async def administration() -> Administration:
        memory = await open_memory(*args, **{"background": False, **options})
        return Administration(memory._env, memory.caller)

    return Opening("open_administration", administration)


@dataclass(frozen=True, slots=True)
class Served:
    """What a network server needs: the memory, the authentication of callers, and the administration of the store."""

    memory: Memory
    authentication: Authentication
    administration: Administration


@asynccontextmanager
async def open_served(config: MemoryModuleConfig, observer: Observer = UNOBSERVED) -> AsyncIterator[Served]:
    """Open the configured memory for a network server."""
    async with open_memory(config=config, observer=observer) as memory:
        env, caller = memory._env, memory.caller
        yield Served(memory, Authentication(env, caller), Administration(env, caller))


def choose_reranker(config: MemoryModuleConfig) -> Reranker | None:
    """The configured reranker, if any."""
    if not config.reranker.url:
        return None
    from tulving.providers.rerank_endpoint import RerankEndpoint

    settings = asdict(config.reranker)
    del settings["depth"]
    return RerankEndpoint(**settings)


def choose_llm(config: MemoryModuleConfig) -> Llm | None:
    """The configured language model, if any."""
    chosen = config.llm
    if not chosen.chosen:
        return None
    given: dict[str, Any] = {"key_variable": chosen.key_variable, "timeout": chosen.timeout}
    if chosen.command:
        from tulving.providers.command import Command

        return Command(chosen.command, **given)
    given |= {"url": chosen.url, "model": chosen.model, "stream": chosen.stream}
    if chosen.dialect == "anthropic":
        from tulving.providers.anthropic import Anthropic

        return Anthropic(**given)
    from tulving.providers.chat_endpoint import ChatEndpoint

    return ChatEndpoint(**given)


async def open_store(
    url: Any, config: MemoryModuleConfig, create: Create = "file", field: str = "url", observer: Observer = UNOBSERVED
) -> Store:
    """The engine for a URL, or for a host's asyncpg pool."""
    if url is None or isinstance(url, str | Path):
        if is_postgres(place := str(url) if url is not None else None):
            if create == "never" and (await migrate_store(place, config, dry_run=True)).before is None:
                raise no_memory(field, place)
            return await _pools().open_postgres(str(place), config.postgres)
        new_file(place, create, field)
        from tulving.storage.sqlite.store import SqliteStore

        return await asyncio.to_thread(
            SqliteStore,
            database_path(place),
            busy_timeout=config.busy_timeout,
            cache_bytes=config.vector_cache_mb * 1024 * 1024,
            vectors=config.vectors,
            observer=observer,
        )
    return await _pools().borrow_postgres(url, config.postgres)


def _pools():
    """The module that opens PostgreSQL."""
    extras.require("postgres", "a store on PostgreSQL")
    from tulving.storage.postgres import pool

    return pool


@dataclass(frozen=True, slots=True)
class Migration:
    """The schema revision before, and the revisions that were applied, or would be in a dry run."""

    before: str | None
    applied: tuple[str, ...]


async def migrate_store(
    url: str | None, config: MemoryModuleConfig, *, dry_run: bool = False, roles: tuple[str, str] | None = None
) -> Migration:
    """Bring a store's schema up to date. On PostgreSQL, `roles` (of the service and of maintenance) enables row-level
    security: the roles are created, and the service sees one tenant at a time."""
    if not is_postgres(url):
        if roles is not None:
            raise InvalidInput("row_security", "is for PostgreSQL: a file belongs to its owner", "a postgresql:// URL")
        if not dry_run:
            new_file(url, "never")
        from tulving.storage.sqlite import database

        return Migration(*await asyncio.to_thread(database.migrate, database_path(url), config.busy_timeout, dry_run))
    pool = _pools()
    before, applied = await pool.migrate(str(url), config.postgres, dry_run, roles)
    if not dry_run:
        store = await pool.open_postgres(str(url), config.postgres)
        try:
            # The service may lack the owner's rights and could not set the dimension of the vectors later.
            await adopt(store, choose_embedder(config), utc_now, may_differ=True)
        finally:
            await store.close()
    return Migration(before, applied)


async def adopt(store: Store, embedder: Embedder, clock: Clock, may_differ: bool) -> int | None:
    """The number of this embedder's version in the store; it is recorded if the store is new."""
    from tulving.storage import embeddings

    active = await store.read(None, embeddings.active_version)
    if isinstance(embedder, Measurable):
        ours = active if active and (active["model"], active["version"]) == (embedder.model, embedder.version) else {}
        await asyncio.to_thread(embedder.measure, ours.get("dimension"))
    adopting = store.write if active is None else store.read
    return await adopting(None, embeddings.adopt_version, embedder, clock(), may_differ)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        log.error("background work on the store failed: %s", error)


def new_holder() -> str:
    """A unique name for the holder of a lease: host, process id and a random suffix."""
    return f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"


def new_secret() -> str:
    """The secret of an access token: 256 random bits."""
    return SECRET_PREFIX + secrets.token_urlsafe(32)


@asynccontextmanager
async def open_scheduler(
    config: MemoryModuleConfig | None = None,
    *,
    clock: Clock = utc_now,
    jobs: Mapping[str, Job] = JOBS,
    embedder: str | Embedder | None = None,
    observer: Observer = UNOBSERVED,
) -> AsyncIterator[Scheduler]:
    """The jobs of the configured store, to be run, dry-run or listed, without other background work."""
    config = config or own_config()
    parts: dict[str, Any] = {"clock": clock, "embedder": embedder, "observer": observer}
    async with open_memory(config=config, background=False, **parts) as memory:
        env = memory._env
        administration = Administration(replace(env, store=UncancellableWrites(env.store)), memory.caller)
        schedule = Schedule(env.store, clock, new_holder(), config.schedule, observer)
        yield Scheduler(schedule, administration, jobs)


def backup_store(
    config: MemoryModuleConfig, file: Path, *, force: bool = False, progress: Callable[[int, int], None] | None = None
) -> "Copy":
    """Copy the configured store to a file, even while it is in use; `progress` is told of the bytes."""
    from tulving.storage.sqlite import backup

    return backup.backup(_own_file("backup", config), file, config.busy_timeout, force, progress)


def restore_store(config: MemoryModuleConfig, file: Path, *, clock: Clock = utc_now) -> "Restored":
    """Replace the configured store by a backup, and keep the old one."""
    from tulving.storage.sqlite import backup

    return backup.restore(file, _own_file("restore", config), config.busy_timeout, clock())


def _own_file(verb: str, config: MemoryModuleConfig) -> Path:
    if is_postgres(config.url):
        tools = {"backup": "pg_dump --format=custom --file=FILE URL", "restore": "pg_restore --dbname=URL FILE"}
        raise InvalidInput(verb, "is for SQLite; PostgreSQL has its own tools", tools[verb])
    new_file(config.url, "never" if verb == "backup" else "file")
    return database_path(config.url)


async def copy_store(
    source: str,
    target: str,
    *,
    tenant: str | None = None,
    config: MemoryModuleConfig | None = None,
    clock: Clock = utc_now,
    ids: Ids = uuid7,
    verify_only: bool = False,
    progress: "NamedProgress | None" = None,
) -> "Copied":
    """Copy a memory, or one tenant's part of it, from one store to another of any engine, and compare the two.

    The source must exist. A missing target is created, unless `verify_only` just compares the two.
    """
    from tulving.services.copying import Copying

    config = config or own_config()
    if tenant is not None:
        tenant = Caller(tenant).tenant_id
    async with AsyncExitStack() as opened:
        ours = await open_store(source, config, "never", "source")
        opened.push_async_callback(ours.close)
        theirs = await open_store(target, config, "never" if verify_only else "file", "target")
        opened.push_async_callback(theirs.close)
        if await ours.identity() == await theirs.identity():
            raise InvalidInput("target", f"{store_name(target)} is the source itself", "another store")
        copying = Copying(ours, theirs, tenant, progress or (lambda done, total, what: None))
        return await copying.compare() if verify_only else await copying.copy(clock(), ids)
