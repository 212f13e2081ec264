"""Who asks, whose memory it is, and which part of it is meant."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from tulving.domain.intake import identifier
from tulving.domain.model import KIND_OF, Episode, Item, Kind

GLOBAL = "global"
"""The scope of facts and rules that every scope may read."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. Comes from authentication or the local owner, never from a verb's argument.

    `request_id` is a label in the audit events. Under an `idempotency_key` the same call of a verb is done once.
    """

    tenant_id: str = "default"
    actor: str | None = None
    request_id: str | None = None
    idempotency_key: str | None = None

    def __post_init__(self) -> None:
        identifier("tenant_id", self.tenant_id, most=200)
        for name in ("actor", "request_id", "idempotency_key"):
            if getattr(self, name) is not None:
                identifier(name, getattr(self, name), most=200)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose memory it is inside a tenant. Unset parts mean: nobody's in particular."""

    user_id: str | None = None
    household_id: str | None = None
    persona_id: str | None = None

    def __post_init__(self) -> None:
        for name in ("user_id", "household_id", "persona_id"):
            if getattr(self, name) is not None:
                identifier(name, getattr(self, name), most=200)

    @property
    def key(self) -> str:
        """One text for the unique keys; '' when nothing is set. A length before each part keeps it unambiguous."""
        parts = (self.household_id, self.user_id, self.persona_id)
        if not any(parts):
            return ""
        return "|".join(f"{len(part)}:{part}" if part else "" for part in parts)

    def covers(self, item: Item) -> bool:
        """Whether a memory has every part that is set here."""
        parts = ("user_id", "household_id", "persona_id")
        return all(getattr(self, part) in (None, getattr(item, part)) for part in parts)


@dataclass(frozen=True, slots=True)
class Bound:
    """What a connection is bound to: these values are given to what it stores and demanded of what it reads.

    The scope of an episode is its butler. `filters.reach` says the same as `covers` in SQL.
    """

    owner: Owner = field(default_factory=Owner)
    project: str | None = None
    scope: str | None = None

    @property
    def everything(self) -> bool:
        """Whether it reaches the whole tenant."""
        return not self.owner.key and self.project is None and self.scope is None

    def covers(self, item: Item) -> bool:
        """Whether a memory may be read, and judged by use. Facts and rules may also be global."""
        shared = not isinstance(item, Episode) and item.scope == GLOBAL
        return self._matches(item) and (shared or self.scope in (None, scope_of(item)))

    def may_change(self, item: Item) -> bool:
        """Whether a memory may be edited, forgotten and deleted: what is global belongs to the other scopes too."""
        return self._matches(item) and self.scope in (None, scope_of(item))

    def _matches(self, item: Item) -> bool:
        return self.owner.covers(item) and self.project in (None, item.project)


def scope_of(item: Item) -> str:
    """The namespace of a memory."""
    return item.butler if isinstance(item, Episode) else item.scope


@dataclass(frozen=True, slots=True)
class Address:
    """Where one memory is. Made by the check that its caller may reach it (`Items._address`), so that a storage
    function which takes one can't be given an unchecked id."""

    tenant_id: str
    kind: Kind
    id: UUID


def address_of(item: Item) -> Address:
    """The address of a memory that was read."""
    return Address(item.tenant_id, KIND_OF[type(item)], item.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(Bound):
    """Which memories a read may return, beside those of the caller's tenant that are alive.

    `unfaded` leaves out facts and rules that are fading, or should be by now.
    """

    type: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    tags: Sequence[str] = ()
    state: str | None = None
    unfaded: bool = False
