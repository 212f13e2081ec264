"""The base of every verb: the environment that `bootstrap` composed, the caller, and what it is bound to."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, Self, TypeVar
from uuid import UUID

from tulving import storage
from tulving.domain import intake
from tulving.domain.events import Audit, AuditOf, Event
from tulving.domain.model import Kind, MemoryId, NewEpisode, NewFact, NewRule
from tulving.domain.scope import Bound, Caller, Filter, Owner
from tulving.domain.screening import Screen
from tulving.domain.text import content_hash, count_tokens
from tulving.errors import InvalidInput
from tulving.ports import UNOBSERVED, Clock, Embedder, Ids, Observer, Publisher, Store
from tulving.services.embedding import Embedding
from tulving.services.model import LanguageModel
from tulving.services.references import References
from tulving.services.reranking import Reranking
from tulving.services.streams import Streams
from tulving.settings import MemoryModuleConfig
from tulving.storage.connection import Connection

if TYPE_CHECKING:
    from tulving.storage.names import KnownNames
    from tulving.storage.requests import Request

log = logging.getLogger("tulving")

MAINTENANCE = "maintenance"
"""The actor of work on all tenants."""
AGENT = "agent"
"""The agent of a caller that names none and has no actor."""

Progress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""
NamedProgress = Callable[[int, int, str], None]
"""Called with how much is done, of how much, and of what."""
PAGE_SIZES = intake.Between(1, 1000)
"""The limits that a page may have."""
UserId = Annotated[str | None, "Whose memory; as bound to the connection if left out"]
HouseholdId = Annotated[str | None, "Of which household"]
PersonaId = Annotated[str | None, "Of which persona"]
PageCursor = Annotated[str | None, "The next_cursor of the previous page"]
UnchangedSince = Annotated[datetime | None, "The updated_at that you have read: refused if it was changed since"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Subscribers:
    """The subscribers to changes, each to those of one tenant or of all."""

    def __init__(self) -> None:
        self._publishers: list[tuple[str | None, Publisher]] = []

    def add(self, tenant_id: str | None, publisher: Publisher) -> Callable[[], None]:
        """Subscribe to the changes of a tenant, or (None) of all; returns what ends this."""
        entry = tenant_id, publisher
        self._publishers.append(entry)
        return lambda: self._publishers.remove(entry)

    def publish(self, events: Sequence[Event]) -> None:
        """Notify the subscribers. The change is already committed, so an error in a subscriber is only logged."""
        for tenant_id, publisher in tuple(self._publishers):
            if theirs := [event for event in events if tenant_id in (None, event.tenant_id)]:
                try:
                    publisher(theirs)
                except Exception:
                    log.exception("a subscriber failed on %d events", len(theirs))


@dataclass(slots=True)
class Env:
    """The dependencies of the verbs."""

    config: MemoryModuleConfig
    store: Store
    embedding: Embedding
    clock: Clock
    ids: Ids
    references: References
    streams: Streams
    new_secret: Callable[[], str]
    """Generates the secret of an access token."""
    names: "KnownNames" = field(default_factory=lambda: storage.names.KnownNames())
    subscribers: Subscribers = field(default_factory=Subscribers)
    tokens: Callable[[str], int] = count_tokens
    reranker: Reranking | None = None
    model: LanguageModel | None = None
    observer: Observer = UNOBSERVED
    closing: AsyncExitStack = field(default_factory=AsyncExitStack)
    """What ends all this, the last part first."""
    closing_turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    job_requested: asyncio.Event = field(default_factory=asyncio.Event)
    screen: Screen = field(init=False)

    def __post_init__(self) -> None:
        self.screen = Screen(self.config.secrets.policy, self.config.secrets.allow)

    @property
    def embedder(self) -> Embedder:
        return self.embedding.embedder


@dataclass(slots=True)
class CurrentSession:
    """The session that a connection is in, if any, and how often each tool was called since it began."""

    id: UUID | None = None
    calls: Counter[str] = field(default_factory=Counter)


class Service:
    """The base of all verbs. An instance is bound to one caller; `bind` returns another instance.

    `session` is shared by the instances that are one connection. `request` is the idempotent request under which
    `requests.once` runs a verb. It is kept on the instance and not in a context variable, which tasks started by a
    subscriber would inherit.
    """

    caller: Caller
    """On whose behalf it acts."""
    bound: Bound
    """What it is restricted to."""

    def __init__(
        self,
        env: Env,
        caller: Caller,
        bound: Bound | None = None,
        request: "Request | None" = None,
        session: CurrentSession | None = None,
    ) -> None:
        self._env = env
        self.caller = caller
        self.bound = bound or Bound()
        self._request = request
        self._session = session or CurrentSession()

    def bind(
        self,
        *,
        caller: Caller | None = None,
        user_id: str | None = None,
        household_id: str | None = None,
        persona_id: str | None = None,
        project: str | None = None,
        scope: str | None = None,
        session_id: MemoryId | None = None,
        idempotency_key: str | None = None,
    ) -> Self:
        """The same store for another caller, or restricted to one user, household, persona, project or scope; or for
        the memories of one session; or with an idempotency key, for one call that may be repeated.

        Only the latter stays in the current session, which belongs to one caller and owner."""
        elsewhere = any(part is not None for part in (caller, user_id, household_id, persona_id, project, scope))
        session = CurrentSession() if elsewhere else self._session
        if session_id is not None:
            session = CurrentSession(intake.memory_id("session_id", session_id))
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
        return type(self)(self._env, caller, bound, session=session)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of tenant {self.caller.tenant_id!r}>"

    @property
    def session_id(self) -> UUID | None:
        """The current session: memories that are stored without another session id carry this one."""
        return self._session.id

    def _within(
        self,
        user_id: str | None = None,
        household_id: str | None = None,
        persona_id: str | None = None,
        of_a_user: bool = False,
    ) -> Self:
        """This connection, narrowed to an owner that a caller names. It never gets beyond what it is bound to."""
        mine = self.bound.owner
        named = Owner(user_id, household_id, persona_id)
        for name in ("user_id", "household_id", "persona_id"):
            bound, given = getattr(mine, name), getattr(named, name)
            if bound is None:
                mine = replace(mine, **{name: given})
            elif given not in (None, bound):
                raise InvalidInput(name, "is not the one that this connection is bound to", "the bound one, or none")
        if of_a_user and mine.user_id is None:
            raise InvalidInput("user_id", "is missing", "whose memory it is, given here or bound to the connection")
        return type(self)(self._env, self.caller, replace(self.bound, owner=mine), self._request, self._session)

    @property
    def warning(self) -> str | None:
        """What users should know about this memory now: that it searches by keyword only, and why."""
        return self._env.embedding.warning

    @property
    def config(self) -> MemoryModuleConfig:
        """The settings of this memory."""
        return self._env.config

    def observed(self, operation: str) -> AbstractContextManager[Any]:
        """A context manager around the call of an operation, for the observer of this memory."""
        return self._env.observer.during("operation", operation=operation, tenant=self.caller.tenant_id)

    @property
    def _tenant_id(self) -> str | None:
        """Whose rows the verbs work on; None means all tenants'."""
        return self.caller.tenant_id

    def count_call(self, tool: str) -> None:
        """Count a tool call that a surface makes: a session knows how many there were since it began."""
        self._session.calls[tool] += 1

    def _agent(self, butler: object) -> str:
        """The agent that a caller names, or itself."""
        return intake.name("butler", self.caller.actor or AGENT if butler is None else butler)

    def _audit(self, now: datetime) -> Audit:
        return Audit(self.caller, now, self._env.ids)

    def _actor(self, tenant_id: str) -> Caller:
        """On whose behalf the rows of a tenant are changed."""
        return self.caller

    def _audit_of(self) -> AuditOf:
        """For work in several batches, which is one run. Its id is drawn when there is something to record."""
        now, run_id = self._env.clock(), cache(self._env.ids)
        return cache(lambda tenant_id: Audit(self._actor(tenant_id), now, self._env.ids, run_id()))

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
        as_of: datetime | None = None,
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
            as_of=intake.moment("as_of", as_of),
        )

    def _content(self, value: object) -> str:
        return intake.content(value, most=self._env.config.max_content_characters)

    def _common(self, offer: NewEpisode | NewFact | NewRule, id_: UUID, now: datetime) -> dict[str, Any]:
        """The columns of a new memory that all kinds have."""
        owner, content = self.bound.owner, self._content(offer.content)
        return {
            "tenant_id": self.caller.tenant_id,
            "id": id_,
            "content": content,
            "owner": owner.key,
            "user_id": owner.user_id,
            "household_id": owner.household_id,
            "persona_id": owner.persona_id,
            "project": self.bound.project or intake.optional_name("project", offer.project),
            "session_id": intake.optional_id("session_id", offer.session_id) or self._session.id,
            "tags": intake.tags(offer.tags),
            "metadata": intake.metadata(offer.metadata),
            "content_hash": content_hash(content),
            "accessed_at": now,
            "created_at": now,
            "updated_at": now,
        }

    async def _write(
        self, transaction: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a transaction. Its arguments are type-checked, so that memories are only reached by checked addresses."""
        return await self._env.store.write(self._tenant_id, transaction, *args, **kwargs)

    async def _write_once(self, change: Callable[[Connection], T]) -> T:
        """The transaction of a verb under `requests.once`. Its result is the verb's answer, which is committed with the
        change if there is an idempotency key."""
        if self._request is None:
            return await self._write(change)
        return await self._write(storage.requests.once, self._request, change)

    async def _store_once(
        self,
        of: Callable[[R], T],
        transaction: Callable[Concatenate[Connection, P], R],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The same for a transaction that a store may execute together with others, as long as its answer need not be
        committed with it. `of` makes the verb's answer of the result."""
        if self._request is None:
            return of(await self._write(transaction, *args, **kwargs))
        return await self._write_once(lambda conn: of(transaction(conn, *args, **kwargs)))

    async def _store(self, kind: Kind, rows: storage.items.Offers, answer: T) -> T:
        """Store new episodes or rules, whose answer is known beforehand."""
        if not rows:
            return answer
        return await self._store_once(lambda _: answer, storage.items.store, kind, rows, self.bound)

    async def _read(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._env.store.read(self._tenant_id, query, *args, **kwargs)

    async def close(self) -> None:
        """Finish what was begun and close the store, also for the memories that were bound from this one. A second time
        does nothing."""
        async with self._env.closing_turn:
            await self._env.closing.aclose()
