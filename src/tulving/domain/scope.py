"""The caller, the owner of a memory, and which part of it a connection reaches."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol
from uuid import UUID

from tulving.domain.intake import identifier
from tulving.domain.model import KIND_OF, Episode, Fact, Item, Kind

GLOBAL = "global"
"""The scope of facts and rules that are readable from every scope."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """The language model tokens that a caller may spend per day (None: only the tenant's limit applies), and the name
    under which they are counted."""

    spender: str
    tokens_per_day: int | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes the call. Comes from authentication or the local owner, never from a verb's argument.

    `request_id` is a label in the audit events. With an `idempotency_key` a repeated call takes effect once. A
    caller over a network may have an `allowance` of its own.
    """

    tenant_id: str = "default"
    actor: str | None = None
    request_id: str | None = None
    idempotency_key: str | None = None
    allowance: Allowance | None = None

    def __post_init__(self) -> None:
        identifier("tenant_id", self.tenant_id, most=200)
        for name in ("actor", "request_id", "idempotency_key"):
            if getattr(self, name) is not None:
                identifier(name, getattr(self, name), most=200)


class Owned(Protocol):
    """What belongs to an owner: a memory, or the run of a model over someone's episodes."""

    @property
    def user_id(self) -> str | None: ...
    @property
    def household_id(self) -> str | None: ...
    @property
    def persona_id(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose memory it is inside a tenant. An unset part means that it is not restricted."""

    user_id: str | None = None
    household_id: str | None = None
    persona_id: str | None = None

    def __post_init__(self) -> None:
        for name in ("user_id", "household_id", "persona_id"):
            if getattr(self, name) is not None:
                identifier(name, getattr(self, name), most=200)

    @property
    def key(self) -> str:
        """The owner as one string for unique keys; empty if nothing is set. Length prefixes keep it unambiguous."""
        parts = (self.household_id, self.user_id, self.persona_id)
        if not any(parts):
            return ""
        return "|".join(f"{len(part)}:{part}" if part else "" for part in parts)

    def covers(self, item: Owned) -> bool:
        """Whether something of an owner matches every part that is set."""
        parts = ("user_id", "household_id", "persona_id")
        return all(getattr(self, part) in (None, getattr(item, part)) for part in parts)


@dataclass(frozen=True, slots=True)
class Bound:
    """What a connection is bound to: it stores memories with these values, and reads only memories that have them.

    The scope of an episode is its butler. `filters.reach` says the same as `covers` in SQL.
    """

    owner: Owner = field(default_factory=Owner)
    project: str | None = None
    scope: str | None = None

    @property
    def everything(self) -> bool:
        """Whether the connection reaches the whole tenant."""
        return not self.owner.key and self.project is None and self.scope is None

    def covers(self, item: Item) -> bool:
        """Whether a memory may be read and marked. Global facts and rules are included."""
        shared = not isinstance(item, Episode) and item.scope == GLOBAL
        return self._matches(item) and (shared or self.scope in (None, scope_of(item)))

    def may_change(self, item: Item) -> bool:
        """Whether a memory may be edited, forgotten and deleted. A global one belongs to the other scopes too."""
        return self._matches(item) and self.scope in (None, scope_of(item))

    def _matches(self, item: Item) -> bool:
        return self.owner.covers(item) and self.project in (None, item.project)


def scope_of(item: Item) -> str:
    """The namespace of a memory."""
    return item.butler if isinstance(item, Episode) else item.scope


@dataclass(frozen=True, slots=True)
class Address:
    """Identifies one memory. Made only after checking that the caller may reach it (`Items._address`), so that storage
    functions can't be passed an unchecked id."""

    tenant_id: str
    kind: Kind
    id: UUID


def address_of(item: Item) -> Address:
    """The address of a memory that has been read."""
    return Address(item.tenant_id, KIND_OF[type(item)], item.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(Bound):
    """Which live memories of the caller's tenant a read may return.

    `as_of` asks for what held at that moment instead of now, or with the state `any` for all that had begun by then;
    never for what was forgotten. `unfaded` leaves out facts and rules that are fading now, or due to fade. `beside`
    leaves only the other unkeyed facts of the same owner, scope and project as that fact. `archived` lets archived
    episodes through. `keyed` and `entity_id` concern facts only.
    """

    type: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    tags: Sequence[str] = ()
    state: str | None = None
    as_of: datetime | None = None
    unfaded: bool = False
    beside: Fact | None = None
    archived: bool = False
    session_id: UUID | None = None
    source: str | None = None
    keyed: bool | None = None
    entity_id: UUID | None = None
