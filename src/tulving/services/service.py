"""What every verb stands on: the environment that `bootstrap` composed, the caller, and whose memory it is."""

import asyncio
import logging
import math
import struct
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, Self, TypeVar
from uuid import UUID

from tulving import storage
from tulving.config import MemoryModuleConfig
from tulving.domain import intake
from tulving.domain.events import Audit, Event
from tulving.domain.model import Item
from tulving.domain.scope import Bound, Caller, Filter, Owner
from tulving.domain.text import count_tokens, found_by, search_text
from tulving.errors import EmbedderUnavailable, InvalidInput
from tulving.ports import Clock, Embedder, Ids, Publisher
from tulving.services.references import References
from tulving.storage.connection import Connection, Finding
from tulving.storage.rows import IndexEntry

if TYPE_CHECKING:
    from tulving.storage.requests import Request

log = logging.getLogger("tulving")

SHORT_TEXT = 20_000
ABOUT_ONE = 1e-6
MAINTENANCE = "maintenance"
"""Who acts when nobody in particular does."""

P = ParamSpec("P")
T = TypeVar("T")


class Store(Protocol):
    """An engine: runs transaction functions and reads, on behalf of one tenant or (None) of the whole store."""

    async def write(self, tenant_id: str | None, transaction: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...

    async def read(self, tenant_id: str | None, query: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...

    async def reindex(
        self, method: str | None = None, *, only_outgrown: bool = False, progress: Any = None
    ) -> list[str]: ...

    async def identity(self) -> tuple[Any, ...]: ...

    async def health(self) -> list[Finding]: ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class Env:
    """All that the verbs use from outside. `embedding_version` is None while the store waits to be re-embedded;
    `embedder_failure` says why the embedder, ready as it was, could not embed the last time."""

    config: MemoryModuleConfig
    store: Store
    embedder: Embedder
    embedding_version: int | None
    clock: Clock
    ids: Ids
    references: References
    subscribers: list[tuple[str, Publisher]] = field(default_factory=list)
    tokens: Callable[[str], int] = count_tokens
    embedder_failure: str | None = None


class Service:
    """The base of all verbs. An instance is bound to one caller; `bind` makes another one beside it.

    `request` is what `requests.once` runs a verb under. It belongs to the instance and not to the context of the task,
    which tasks that a subscriber starts would inherit.
    """

    def __init__(self, env: Env, caller: Caller, bound: Bound | None = None, request: "Request | None" = None) -> None:
        self._env = env
        self.caller = caller
        self.bound = bound or Bound()
        self._request = request

    def bind(
        self,
        *,
        caller: Caller | None = None,
        user_id: str | None = None,
        household_id: str | None = None,
        persona_id: str | None = None,
        project: str | None = None,
        scope: str | None = None,
        idempotency_key: str | None = None,
    ) -> Self:
        """The same store for another caller, or for one user, household, persona, project or scope only; or under an
        idempotency key, for one call that may be repeated."""
        caller = caller or self.caller
        if idempotency_key is not None:
            caller = replace(caller, idempotency_key=idempotency_key)
        owner = Owner(
            self.bound.owner.user_id if user_id is None else user_id,
            self.bound.owner.household_id if household_id is None else household_id,
            self.bound.owner.persona_id if persona_id is None else persona_id,
        )
        bound = Bound(
            owner,
            intake.optional_name("project", project) or self.bound.project,
            intake.optional_name("scope", scope) or self.bound.scope,
        )
        return type(self)(self._env, caller, bound)

    def subscribe(self, publisher: Publisher) -> None:
        """Be told of every change to this tenant's memory made through this process, after it is committed."""
        self._env.subscribers.append((self.caller.tenant_id, publisher))

    async def settle(self) -> None:
        """Wait until the references of what was answered so far are counted, which nobody has to do."""
        await self._env.references.settle()

    @property
    def warning(self) -> str | None:
        """What a person should know about this memory now: that it finds by keyword only, and why."""
        return self._env.embedder.unready() or self._env.embedder_failure

    def _audit(self, now: datetime) -> Audit:
        return Audit(self.caller, now, self._env.ids)

    def _audit_of(self, now: datetime, run_id: UUID) -> Callable[[str], Audit]:
        """For work on the whole store: each tenant's events are its own."""
        audits: dict[str, Audit] = {}

        def audit_of(tenant_id: str) -> Audit:
            if tenant_id not in audits:
                caller = Caller(tenant_id, MAINTENANCE, self.caller.request_id)
                audits[tenant_id] = Audit(caller, now, self._env.ids, run_id)
            return audits[tenant_id]

        return audit_of

    def _filter(
        self,
        *,
        scope: str | None = None,
        type: str | None = None,
        project: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        tags: Sequence[str] | None = None,
        state: str | None = None,
    ) -> Filter:
        since, until = intake.moment("since", since), intake.moment("until", until)
        if since and until and since >= until:
            raise InvalidInput("until", "is not after since", "a later time")
        return Filter(
            scope=self.bound.scope or intake.optional_name("scope", scope),
            owner=self.bound.owner,
            type=intake.optional_name("type", type),
            project=self.bound.project or intake.optional_name("project", project),
            since=since,
            until=until,
            tags=intake.tags(tags),
            state=state,
        )

    def _content(self, value: object) -> str:
        return intake.content(value, most=self._env.config.max_content_characters)

    def _owned(self) -> dict[str, str | None]:
        """The columns that say whose a new memory is."""
        owner = self.bound.owner
        return {
            "owner": owner.key,
            "user_id": owner.user_id,
            "household_id": owner.household_id,
            "persona_id": owner.persona_id,
        }

    async def _write(
        self, transaction: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a transaction. Its arguments are checked by type, so that a memory is reached by a checked address."""
        return await self._env.store.write(self.caller.tenant_id, transaction, *args, **kwargs)

    async def _write_once(
        self,
        answer: Callable[[T], Any],
        transaction: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The transaction of a verb under `requests.once`. `answer` makes of its result what the verb will answer, and
        may refuse it by raising: that is kept beside the change, in case it is asked for again."""
        request = self._request
        if request is None:
            return await self._write(transaction, *args, **kwargs)

        def change(conn: Connection) -> T:
            return transaction(conn, *args, **kwargs)

        return await self._write(storage.requests.once, request, change, answer)

    async def _read(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._env.store.read(self.caller.tenant_id, query, *args, **kwargs)

    async def _write_all(
        self, transaction: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """A write that concerns the whole store, whoever asks for it."""
        return await self._env.store.write(None, transaction, *args, **kwargs)

    async def _read_all(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._env.store.read(None, query, *args, **kwargs)

    def _publish(self, events: Sequence[Event]) -> None:
        """Tell subscribers. The change is committed: one of them failing is its own affair, and logged."""
        for tenant_id, publisher in self._env.subscribers:
            if theirs := [event for event in events if event.tenant_id == tenant_id]:
                try:
                    publisher(theirs)
                except Exception:
                    log.exception("a subscriber failed on %d events", len(theirs))

    async def _index(self, items: Sequence[Item], version: int | None = None) -> list[IndexEntry]:
        """What the memories are found by, made outside any transaction.

        While the embedder is not ready, or fails, they are stored without a vector and get it later.
        """
        texts = [found_by(item) for item in items]
        worded = _worded(texts) if _short(texts) else await asyncio.to_thread(_worded, texts)
        version = version or self._env.embedding_version
        vectors: Sequence[bytes | None] = [None] * len(texts)
        if texts and version is not None and not self._env.embedder.unready():
            try:
                vectors = [pack(vector, self._env.embedder.dimension) for vector in await self._vectors(texts)]
            except EmbedderUnavailable as error:
                log.warning("stored without vectors for now: %s", error)
        return [
            IndexEntry(text, vector, None if vector is None else version)
            for text, vector in zip(worded, vectors, strict=True)
        ]

    async def _vectors(self, texts: Sequence[str]) -> list[list[float]]:
        embedder = self._env.embedder
        try:
            if embedder.light and _short(texts):
                vectors = embedder.embed_batch(texts)
            else:
                vectors = await asyncio.to_thread(embedder.embed_batch, texts)
        except EmbedderUnavailable as error:
            self._env.embedder_failure = f"found by keyword only, since the embedder failed: {error}"
            raise
        self._env.embedder_failure = None
        if not isinstance(vectors, Sized) or len(vectors) != len(texts):
            problem = f"the embedder {embedder.model} did not give one vector for each of {len(texts)} texts"
            raise InvalidInput("embedding", problem)
        return vectors


def _short(texts: Sequence[str]) -> bool:
    """Whether texts are worked on faster than a thread is found for them."""
    return sum(map(len, texts)) <= SHORT_TEXT


def _worded(texts: Sequence[str]) -> list[str]:
    return [search_text(text) for text in texts]


def pack(vector: Sequence[float], dimension: int) -> bytes:
    """A vector as little-endian 32-bit floats, of length 1 if it has any; another dimension, or a value that is no
    number, is refused."""
    if not isinstance(vector, Sized) or len(vector) != dimension:
        size = f"{len(vector)} dimensions" if isinstance(vector, Sized) else f"the type {type(vector).__name__}"
        raise InvalidInput("embedding", f"has {size}", f"{dimension} numbers, as recorded for this store")
    try:
        return struct.pack(f"<{dimension}f", *unit(vector))
    except (struct.error, TypeError, ValueError, OverflowError) as error:
        raise InvalidInput("embedding", f"is not a list of finite numbers ({error})", "finite numbers") from error


def unit(vector: Sequence[float]) -> Sequence[float]:
    """The direction of a vector, which is all that counts: engines differ on very short and very long ones."""
    length = math.hypot(*vector)
    if not math.isfinite(length):
        raise ValueError("one of them is not finite, or they are too large")
    if not length or abs(length - 1) < ABOUT_ONE:
        return vector
    return [number / length for number in vector]
